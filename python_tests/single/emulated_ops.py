"""A pytest plugin: the ops with their kernels for GPUs, over the emulator, on TensorFlow's CPU device."""

import os

import tensorflow as tf

from tfcompress import ops

# The emulator has one thread of its own making at a time.
tf.config.threading.set_inter_op_parallelism_threads(1)
_library = tf.load_op_library(os.environ["TFC_EMULATED_OPS"])
ops._library = lambda: _library
