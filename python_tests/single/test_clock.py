"""Times of a step: what they come after."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from tfcompress import clock


@pytest.mark.parametrize("in_branch", [False, True])
def test_times_come_after_tensors_of_outer_graphs_too(in_branch, monkeypatch):
    """A step of a schedule or of `auto` is a branch, and gradients come from outside."""
    is_taken = threading.Event()

    def take():
        is_taken.set()
        return np.float64(0)

    def slow(x):
        """Gives a time that does not wait for this tensor the chance to be taken before it."""
        return x + is_taken.wait(0.3)

    monkeypatch.setattr(tf, "timestamp", lambda: tf.numpy_function(take, [], tf.float64))

    @tf.function
    def run(x, branch):
        was_early = tf.numpy_function(slow, [x], tf.float64, stateful=False)

        def timed():
            return clock.time_after([was_early]), tf.identity(was_early)

        if in_branch:
            return tf.switch_case(branch, [timed, lambda: (x, x)])
        return timed()

    _, was_early = run(tf.constant(0.0, tf.float64), tf.constant(0))
    assert is_taken.is_set() and not was_early
