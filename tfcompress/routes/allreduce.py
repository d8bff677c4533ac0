"""The all-reduce route: Horovod sums gradients as they are, or in half precision."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import clock, comm
from tfcompress.routes.base import (
    Context,
    Counts,
    Member,
    Outcome,
    all_finite,
    allreduce_wire_bytes,
    num_bytes,
    num_elements,
)
from tfcompress.routes.memory import compensate, rounding, settle
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
    options = context.options
    totals = context.ranks.allreduce(
        sent, options.op, context.name, options.gradient_predivide_factor, wires, options.num_groups
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
        finite,
        functools.partial(_commit, members, [slots for _, slots in compensated]),
    )


def apply_alone(member: Member, gradient: tf.Tensor) -> tf.Tensor:
    """Applies gradient and memory on one rank alone, as if everything were sent."""
    vector, new_slots = compensate(member, gradient)
    emptied = [tf.zeros_like(new_slots[0]), *new_slots[1:]]
    settle(all_finite(vector), list(zip(member.slots, emptied, strict=True)))
    return tf.cast(vector, gradient.dtype)


def _commit(members: Sequence[Member], all_slots: Sequence[list[tf.Tensor]], succeeded: tf.Tensor) -> None:
    """Everything was sent: of the residual its rounding stays; nothing is stale, and a velocity stays."""
    updates: list[tuple[tf.Variable, tf.Tensor]] = []
    for member, slots in zip(members, all_slots, strict=True):
        if slots:
            updates += zip(member.slots, [rounding(member, slots[0]), *slots[1:]], strict=True)
    settle(succeeded, updates)


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
    elements = tf.stack([num_elements(gradient) for gradient in gradients])
    zeros = tf.zeros_like(elements)
    return Counts(tf.stack(carried), tf.stack(wire_bytes), zeros, zeros, elements)


def _carried_bytes(vector: tf.Tensor | tf.IndexedSlices, wire_dtype: str | None) -> tf.Tensor:
    """The bytes of what travels, int64 scalar."""
    if isinstance(vector, tf.IndexedSlices):
        return num_bytes(vector)
    return tf.size(vector, out_type=tf.int64) * comm.transport_dtype(vector.dtype, wire_dtype).size
