"""The all-reduce route: Horovod sums gradients as they are, or in half precision."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import clock, comm, ops
from tfcompress.routes.base import (
    Context,
    Counts,
    Member,
    Outcome,
    all_finite,
    allreduce_wire_bytes,
    dense_wire_bytes,
    num_bytes,
    num_elements,
)
from tfcompress.wire import allgather_bytes


def exchange(
    context: Context, members: Sequence[Member], gradients: Sequence[tf.Tensor | tf.IndexedSlices]
) -> Outcome:
    """Sums or averages gradients by Horovod's own all-reduce. A memory sends all that it holds.

    Args:
      context: The step.
      members: What is known of each gradient.
      gradients: The local ones, of any dtype that Horovod carries.
    """
    compensated = [compensate(each, gradient) for each, gradient in zip(members, gradients, strict=True)]
    sent = [vector for vector, _ in compensated]
    wires = [member.route.wire_dtype for member in members]
    # Nothing waits for this time: each reduction starts as soon as its gradient is there.
    start = clock.time_after(sent)
    totals = context.ranks.allreduce(
        sent, context.op, context.predivide_factor, wires, context.name, context.num_groups
    )
    elapsed = clock.nanoseconds_between(start, clock.time_after(totals))
    finite = tf.constant(True)
    if context.has_memory:  # Otherwise nobody asks, and the pass is spared.
        finite = tf.reduce_all(tf.stack([all_finite(each) for each in totals]))
    reduced = [
        tf.cast(total, gradient.dtype) if isinstance(total, tf.Tensor) else total
        for total, gradient in zip(totals, gradients, strict=True)
    ]
    return Outcome(
        reduced,
        _count(context, gradients, sent, wires, totals),
        elapsed,
        tf.zeros([2], tf.int64),
        finite,
        functools.partial(_commit, members, [slots for _, slots in compensated]),
    )


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


def apply_alone(member: Member, gradient: tf.Tensor) -> tf.Tensor:
    """Applies gradient and memory on one rank alone, as if everything were sent."""
    vector, new_slots = compensate(member, gradient)
    _commit(
        [member], [[tf.zeros_like(new_slots[0]), *new_slots[1:]]], all_finite(vector), keeps_rounding=False
    )
    return tf.cast(vector, gradient.dtype)


def _commit(
    members: Sequence[Member],
    all_slots: Sequence[list[tf.Tensor]],
    succeeded: tf.Tensor,
    keeps_rounding: bool = True,
) -> None:
    """Everything was sent: of the residual its rounding stays; nothing is stale, and a velocity stays."""
    updates: list[tuple[tf.Variable, tf.Tensor]] = []
    for member, slots in zip(members, all_slots, strict=True):
        if slots:
            left = rounding(member, slots[0]) if keeps_rounding else slots[0]
            updates += zip(member.slots, [left, *slots[1:]], strict=True)
    assign_if(succeeded, updates)


def assign_if(succeeded: tf.Tensor, updates: Sequence[tuple[tf.Variable, tf.Tensor]]) -> None:
    """Assigns new values to slots if a bool scalar is true."""
    if not updates:
        return

    def assign() -> tf.Tensor:
        for slot, value in updates:
            slot.assign(tf.reshape(value, slot.shape), read_value=False)
        return tf.constant(True)

    tf.cond(succeeded, assign, lambda: tf.constant(False))


def _count(
    context: Context,
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
    sent: Sequence[tf.Tensor | tf.IndexedSlices],
    wires: Sequence[str | None],
    totals: Sequence[tf.Tensor | tf.IndexedSlices],
) -> Counts:
    carried = [_carried_bytes(vector, wire) for vector, wire in zip(sent, wires, strict=True)]
    # Rows of IndexedSlices are gathered.
    wire_bytes = [
        allgather_bytes(own, num_bytes(total))
        if isinstance(total, tf.IndexedSlices)
        else allreduce_wire_bytes(own, context.ranks)
        for total, own in zip(totals, carried, strict=True)
    ]
    dense = tf.stack([num_bytes(gradient) for gradient in gradients])
    elements = tf.stack([num_elements(gradient) for gradient in gradients])
    zeros = tf.zeros_like(dense)
    return Counts(
        dense,
        dense_wire_bytes(gradients, context.ranks),
        tf.stack(carried),
        tf.stack(wire_bytes),
        zeros,
        zeros,
        elements,
        elements,
    )


def _carried_bytes(vector: tf.Tensor | tf.IndexedSlices, wire_dtype: str | None) -> tf.Tensor:
    """The bytes of what travels, int64 scalar."""
    if isinstance(vector, tf.IndexedSlices):
        return num_bytes(vector)
    return tf.size(vector, out_type=tf.int64) * comm.transport_dtype(vector.dtype, wire_dtype).size
