"""The low-rank route: two all-reduces sum the factors of all matrices (PowerSGD, NeurIPS 2019, Algorithm 1).

The second one needs the result of the first: all left factors travel as one vector, then all right factors.
The traffic of a rank does not depend on the number of ranks.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import clock, comm, ops
from tfcompress.devices import HOST
from tfcompress.route import factor_elements
from tfcompress.routes.base import Context, Counts, Member, Outcome, allreduce_wire_bytes
from tfcompress.routes.linear import bounds_of, by_codec, reduce_payload, shared_seed, shares
from tfcompress.routes.memory import compensate, settle


def exchange(context: Context, members: Sequence[Member], gradients: Sequence[tf.Tensor]) -> Outcome:
    """Sums low-rank approximations of gradients over all ranks, or averages them.

    Every rank takes the mean approximation out of its own matrix, whatever the factors are: over all ranks,
    gradients and residuals before are what is applied and the residuals after.

    Args:
      context: The step.
      members: What is known of each gradient.
      gradients: The local ones, of at least two dimensions.

    Raises:
      ValueError: A shape is not known.
    """
    return by_codec(_exchange_codec, context, members, gradients)


def _exchange_codec(
    context: Context, number: int, members: Sequence[Member], gradients: Sequence[tf.Tensor]
) -> Outcome:
    route = members[0].route
    reduce = functools.partial(reduce_payload, context, comm.AVERAGE, route.wire_dtype)
    compensated = [compensate(each, gradient) for each, gradient in zip(members, gradients, strict=True)]
    matrices = [tf.cast(vector, tf.float32) for vector, _ in compensated]
    new_slots = [slots for _, slots in compensated]

    left, left_time = ops.low_rank_left(
        matrices, _last_factors(members), shared_seed(members[0], number, context.step), route.rank
    )
    left, left_elapsed = clock.timed(left, functools.partial(reduce, label=f"left_{number}"))
    left, right, right_time = ops.low_rank_right(matrices, left, route.rank)
    right, right_elapsed = clock.timed(right, functools.partial(reduce, label=f"right_{number}"))
    decoded, residuals, finite, decode_time = ops.low_rank_decode(
        matrices, left, right, context.weight(), route.rank, keeps_residuals=any(new_slots)
    )
    reduced = [tf.cast(each, member.dtype) for each, member in zip(decoded, members, strict=True)]
    return Outcome(
        reduced,
        _count(members, left_time + right_time, decode_time, context.ranks),
        left_elapsed + right_elapsed,
        finite,
        functools.partial(_commit, members, residuals, new_slots, right),
    )


def _last_factors(members: Sequence[Member]) -> list[tf.Tensor | tf.Variable]:
    """The right factors that a step begins with: zeros, for random ones, where none is kept."""
    return [
        tf.zeros([member.route.rank, member.shape[-1]]) if member.factor is None else member.factor
        for member in members
    ]


def _commit(
    members: Sequence[Member],
    residuals: Sequence[tf.Tensor],
    new_slots: Sequence[list[tf.Tensor]],
    right: tf.Tensor,
    succeeded: tf.Tensor,
) -> None:
    """Keeps what is left of the matrices, and the right factors, if the step has succeeded.

    A velocity stays: no element of it was sent by itself.
    """
    updates: list[tuple[tf.Variable, tf.Tensor]] = []
    for member, residual, slots in zip(members, residuals or members, new_slots, strict=True):
        if slots:
            updates += zip(member.slots, [residual, *slots[1:]], strict=True)
    if members[0].factor is not None:
        sizes = [member.route.rank * member.shape[-1] for member in members]
        updates += zip([member.factor for member in members], tf.split(right, sizes), strict=True)
    settle(succeeded, updates)


def _count(
    members: Sequence[Member], encode_time: tf.Tensor, decode_time: tf.Tensor, ranks: comm.Ranks
) -> Counts:
    """Counts the factors of each gradient, and its share of the time by elements."""
    rank, width = members[0].route.rank, tf.as_dtype(members[0].route.wire_dtype).size
    sent = [factor_elements(member.shape.as_list(), rank) for member in members]
    bounds = bounds_of(members)
    with tf.device(HOST):
        payload = tf.constant([width * each for each in sent], tf.int64)
        return Counts(
            payload,
            allreduce_wire_bytes(payload, ranks),
            shares(encode_time, bounds),
            shares(decode_time, bounds),
            tf.constant(sent, tf.int64),
        )
