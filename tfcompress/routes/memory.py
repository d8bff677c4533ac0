"""What routes do with the memories of gradients: add them, and settle them when the step has ended."""

from collections.abc import Sequence

import tensorflow as tf

from tfcompress import ops
from tfcompress.routes.base import Member


def compensate(
    member: Member, gradient: tf.Tensor | tf.IndexedSlices
) -> tuple[tf.Tensor | tf.IndexedSlices, list[tf.Tensor]]:
    """Returns the vector to send, and the slots after the step.

    The vector is NaN everywhere where the gradient is not finite. What is sent is still in the slots.
    """
    if not member.slots:
        return gradient, []
    new_slots, finite = ops.compensate(gradient, member.slots, member.spec)
    new_slots = [tf.reshape(slot, member.shape) for slot in new_slots]
    vector = tf.cond(finite, lambda: new_slots[0], lambda: tf.fill(member.shape, float("nan")))
    return vector, new_slots


def rounding(member: Member, values: tf.Tensor) -> tf.Tensor:
    """Returns what the dtype on the wire cannot hold of float32 values that are sent."""
    if member.route.wire_dtype is None:
        return tf.zeros_like(values)
    return values - tf.cast(tf.cast(values, member.route.wire_dtype), tf.float32)


def settle(
    succeeded: tf.Tensor,
    updates: Sequence[tuple[tf.Variable, tf.Tensor]] = (),
    undo: Sequence[tuple[tf.Variable, tf.IndexedSlices]] = (),
) -> None:
    """Changes the memories, or leaves them as they were before the step.

    Args:
      succeeded: bool scalar, whether the step has.
      updates: Slots, and what they become then.
      undo: Slots that encoding has changed in place, and their rows before, which are put back otherwise.
    """
    if not updates and not undo:
        return

    def take() -> tf.Tensor:
        for slot, value in updates:
            slot.assign(tf.reshape(value, slot.shape), read_value=False)
        return tf.constant(True)

    def put_back() -> tf.Tensor:
        done: list = []
        for slot, rows in reversed(undo):  # A later encoding may have changed the same rows.
            with tf.control_dependencies(done):
                done = [slot.scatter_update(rows)]
        return tf.constant(False)

    tf.cond(succeeded, take, put_back)
