"""Runs under `horovodrun -np N python -m pytest -x python_tests/parallel`, every rank the same
tests.

A rank that fails stops at once (-x), and horovodrun then ends the others: none waits for it.
"""

import logging
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

hvd.init()

# tf_keras instead of Keras 3 is chosen before TensorFlow is imported, so it has a run of its own.
_LEGACY = os.environ.get("TF_USE_LEGACY_KERAS") == "1" or tf.__version__.startswith("2.15.")
# Rewriting graphs costs more here than running them; runs of four ranks and jobs are with it.
if hvd.size() < 4:
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
collect_ignore = ["test_keras3.py"] if _LEGACY else ["test_tf_keras.py"]


@pytest.fixture(autouse=True, scope="session")
def _several_ranks():
    assert hvd.size() > 1, "start these tests with horovodrun -np 2 or more: one rank exchanges nothing"


@pytest.fixture
def some_ranks():
    """A process set of all ranks but the first."""
    process_set = hvd.add_process_set(range(1, hvd.size()))
    yield process_set
    hvd.remove_process_set(process_set)


@pytest.fixture
def folder(tmp_path):
    """One folder for all ranks: rank 0's."""
    name = np.frombuffer(str(tmp_path).encode().ljust(200), np.uint8)
    return pathlib.Path(hvd.broadcast(tf.constant(name), 0).numpy().tobytes().decode().strip())


@pytest.fixture(autouse=True)
def _autograph_has_nothing_to_say():
    """It reads what a program's tf.function calls, and warns of what it cannot."""
    messages, handler = [], logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    tf.get_logger().addHandler(handler)
    yield
    tf.get_logger().removeHandler(handler)
    assert not [message for message in messages if "AutoGraph could not" in message]


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that differs between ranks and is the same in every run."""
    return np.random.default_rng(100 + hvd.rank())


@pytest.fixture
def assert_same_on_all_ranks():
    """Returns a check that fails on every rank unless arrays are bit-identical on all."""

    def check(arrays):
        for array in arrays:
            bits = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
            gathered = hvd.allgather(tf.constant(bits[np.newaxis])).numpy()
            assert (gathered == gathered[0]).all(), "ranks hold different bits"

    return check
