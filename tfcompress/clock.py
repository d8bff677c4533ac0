"""Times inside a training step, in eager mode and in graphs alike."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfcompress.devices import HOST


def time_after(tensors: Sequence[tf.Tensor | tf.IndexedSlices]) -> tf.Tensor:
    """Returns the time, float64 seconds, when all of `tensors` are computed.

    Within a tf.function, TensorFlow takes all such times in the order of the program. Take few: one
    behind every gradient would hold back the backward pass.
    """
    # In a branch a tensor of the outer graph is no control input, and the time would be that of the branch's
    # begin, before the tensor is there: what reads it is one.
    with tf.control_dependencies([tf.identity(tensor) for tensor in tensors]), tf.device(HOST):
        return tf.timestamp()


def stamped(tensor: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a tensor and the time when it is computed; what reads the one returned comes after that time.

    Otherwise a graph on few threads may do what follows before it takes the time.
    """
    time = time_after([tensor])
    with tf.control_dependencies([time]):
        return tf.identity(tensor), time


def timed(packet: tf.Tensor, send: Callable[[tf.Tensor], tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what `send` makes of a packet, and the nanoseconds that it took once the packet was made."""
    start = time_after([packet])
    with tf.control_dependencies([start]):
        result, end = stamped(send(packet))
    return result, nanoseconds_between(start, end)


def nanoseconds_between(start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
    """Returns the difference of two times, int64 nanoseconds; never negative, even if the clock was set."""
    with tf.device(HOST):
        return tf.cast(tf.maximum(end - start, 0.0) * 1e9, tf.int64)
