"""Times of a step: what they come after."""

import time

import numpy as np
import pytest
import tensorflow as tf

from tfcompress import clock


@pytest.mark.parametrize("in_branch", [False, True])
def test_times_come_after_tensors_of_outer_graphs_too(in_branch):
    """A step of a schedule or of `auto` is a branch, and gradients come from outside."""

    def slow(x):
        time.sleep(0.3)
        return np.float64(time.time()) + x

    @tf.function
    def run(x, branch):
        ended = tf.numpy_function(slow, [x], tf.float64, stateful=False)

        def timed():
            return clock.time_after([ended]), tf.identity(ended)

        if in_branch:
            return tf.switch_case(branch, [timed, lambda: (x, x)])
        return timed()

    taken, ended = run(tf.constant(0.0, tf.float64), tf.constant(0))
    assert taken >= ended - 1e-5
