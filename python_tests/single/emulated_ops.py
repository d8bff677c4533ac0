"""A pytest plugin: the ops with their kernels for GPUs, over the emulator, on TensorFlow's CPU device.

`--first-parameters` runs each test with the first of its sets of parameters only.
"""

import os

import tensorflow as tf

from tfcompress import ops

_library = tf.load_op_library(os.environ["TFC_EMULATED_OPS"])
ops._library = lambda: _library


def pytest_addoption(parser):
    parser.addoption("--first-parameters", action="store_true")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--first-parameters"):
        first = {item.nodeid.split("[")[0]: item for item in reversed(items)}
        config.hook.pytest_deselected(items=[item for item in items if item not in first.values()])
        items[:] = reversed(first.values())
