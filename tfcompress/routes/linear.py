"""The linear route: an all-reduce sums the payloads that linear codecs make of gradients.

Gradients of one codec are one vector: the largest elements may all be in one of them (Sketched-SGD,
Algorithm 3). The traffic of a rank does not depend on the number of ranks.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfcompress import _core, clock, comm, ops
from tfcompress.devices import HOST
from tfcompress.notices import warn_once
from tfcompress.route import facts_of, has_smaller_payload, payload_elements
from tfcompress.routes.base import (
    Context,
    Counts,
    Member,
    Outcome,
    all_finite,
    allreduce_wire_bytes,
    join,
    poisoned,
)
from tfcompress.routes.memory import compensate, rounding, settle

# Elements of a payload that say at which step its rank is.
MARKS = 8
# So many steps in a row differ in their marks; a prime, because checkpoints are made at round ones.
_MARK_PERIOD = 251


@dataclasses.dataclass(frozen=True)
class _Recovered:
    """What is applied.

    Attributes:
      flat: float32 [n], the sum or mean; NaN everywhere if a rank's gradients were not finite.
      indices: int64, ascending, of the elements that were taken out of the memories; None: all.
      nanoseconds: int64 scalar.
      communication_nanoseconds: int64 scalar, of the second round.
    """

    flat: tf.Tensor
    indices: tf.Tensor | None
    nanoseconds: tf.Tensor
    communication_nanoseconds: tf.Tensor


def exchange(context: Context, members: Sequence[Member], gradients: Sequence[tf.Tensor]) -> Outcome:
    """Sums gradients of linear codecs over all ranks, or averages them.

    Args:
      context: The step.
      members: What is known of each gradient.
      gradients: The local ones.

    Raises:
      ValueError: A shape is not known.
      tf.errors.InvalidArgumentError: Ranks are at different steps.
    """
    return by_codec(_exchange_codec, context, members, gradients)


def by_codec(
    exchange_codec: Callable[[Context, int, Sequence[Member], Sequence[tf.Tensor]], Outcome],
    context: Context,
    members: Sequence[Member],
    gradients: Sequence[tf.Tensor],
) -> Outcome:
    """Exchanges the gradients of each codec together.

    Args:
      exchange_codec: Does so for one codec: takes the step, the codec's number, and its gradients.
      context: The step.
      members: What is known of each gradient.
      gradients: The local ones.

    Raises:
      ValueError: A shape is not known.
    """
    groups: dict[tuple, list[int]] = {}
    for i, member in enumerate(members):
        if not member.shape.is_fully_defined():
            raise ValueError(
                f"gradient '{member.name}' has the unknown shape {member.shape}, which "
                f"'{member.route.spec}' needs to know"
            )
        groups.setdefault((member.route.spec, member.route.seed, member.route.wire_dtype), []).append(i)
    return join(
        {
            tuple(group): exchange_codec(
                context, number, [members[i] for i in group], [gradients[i] for i in group]
            )
            for number, group in enumerate(groups.values())
        }
    )


def reduce_payload(
    context: Context, op: str, wire_dtype: str | None, payload: tf.Tensor, label: str
) -> tf.Tensor:
    """Sums or averages a float32 vector over the ranks of a step.

    Args:
      context: The step.
      op: comm.AVERAGE or comm.SUM.
      wire_dtype: In which it travels.
      payload: This rank's.
      label: Tells the vectors of a step apart.
    """
    # Where the payload is float32, predivision can only round, and nothing overflows.
    factor = context.options.gradient_predivide_factor if wire_dtype == "float16" else 1.0
    return context.ranks.allreduce([payload], op, f"{context.name}_{label}", factor, [wire_dtype])[0]


def shared_seed(member: Member, number: int, step: tf.Tensor) -> tf.Tensor:
    """Returns a seed that differs between steps and codecs, and not between ranks: int64 scalar."""
    lane = (member.route.seed * 0x9E37 + number) % (1 << 31)
    with tf.device(HOST):
        return step * tf.constant(1 << 32, tf.int64) + lane


def bounds_of(members: Sequence[Member]) -> list[tuple[int, int]]:
    """Returns where each gradient begins and ends in the vector of all of them."""
    ends = np.cumsum([member.shape.num_elements() for member in members]).tolist()
    return list(itertools.pairwise([0, *ends]))


def _exchange_codec(
    context: Context, number: int, members: Sequence[Member], gradients: Sequence[tf.Tensor]
) -> Outcome:
    compensated = [compensate(member, gradient) for member, gradient in zip(members, gradients, strict=True)]
    vectors = [tf.cast(vector, tf.float32) for vector, _ in compensated]
    seed, bounds = shared_seed(members[0], number, context.step), bounds_of(members)
    num_elements = bounds[-1][1]
    payload, encode_time = _encode(members, vectors, seed, num_elements)
    reduce = functools.partial(reduce_payload, context, context.options.op, members[0].route.wire_dtype)
    summed, elapsed = _timed(payload, functools.partial(reduce, label=f"payload_{number}"))
    if _is_whole(members, num_elements):
        zero = tf.constant(0, tf.int64)
        recovered = _Recovered(poisoned(summed, all_finite(summed)), None, zero, zero)
    else:
        _check_marks(summed[-MARKS:], context.weight())
        second_round = functools.partial(reduce, label=f"values_{number}")
        recovered = _recover(members[0].route.spec, vectors, seed, summed[:-MARKS], second_round)
    return Outcome(
        [
            tf.cast(tf.reshape(recovered.flat[begin:end], member.shape), member.dtype)
            for member, (begin, end) in zip(members, bounds, strict=True)
        ],
        _count(members, bounds, encode_time, recovered.nanoseconds, context.ranks),
        elapsed + recovered.communication_nanoseconds,
        tf.math.is_finite(recovered.flat[0]) if num_elements else tf.constant(True),
        functools.partial(_commit, members, [slots for _, slots in compensated], bounds, recovered.indices),
    )


def _timed(vector: tf.Tensor, reduce: Callable[[tf.Tensor], tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a sum over ranks, and its nanoseconds; unlike that of `clock.timed`, it waits for no clock.

    Clocks run in the order of the program, so it would begin after all collectives before it.
    """
    start = clock.time_after([vector])
    total, end = clock.stamped(reduce(vector))
    return total, clock.nanoseconds_between(start, end)


def _is_whole(members: Sequence[Member], num_elements: int) -> bool:
    """Whether the vector travels as it is, because the sums would not be smaller."""
    return not has_smaller_payload(members[0].route.spec, num_elements)


def _encode(
    members: Sequence[Member], vectors: Sequence[tf.Tensor], seed: tf.Tensor, num_elements: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what is summed, float32, the marks of the step at its end; and the nanoseconds."""
    spec = members[0].route.spec
    if _is_whole(members, num_elements):
        warn_once(
            f"'{spec}' saves nothing on {num_elements} elements, fewer than it would send: they "
            "travel uncompressed. Choose a smaller sketch, or another preset"
        )
        return _flat(vectors), tf.constant(0, tf.int64)
    payload, nanoseconds = ops.linear_encode(vectors, seed, spec)
    return tf.concat([payload, _marks(seed)], axis=0), nanoseconds


def _marks(seed: tf.Tensor) -> tf.Tensor:
    """Ones and minus ones that tell steps from each other; float32 [MARKS].

    The sum over ranks is that of ones alone exactly where all of them agree, and every rank sees it.
    """
    with tf.device(HOST):
        step = tf.math.floormod(seed // (1 << 32), _MARK_PERIOD)
        bits = tf.bitwise.right_shift(step, tf.range(MARKS, dtype=tf.int64)) & 1
        return tf.cast(1 - 2 * bits, tf.float32)


def _check_marks(marks: tf.Tensor, weight: tf.Tensor) -> None:
    """Frames carry their seeds; payloads of different ones would add up to nonsense."""
    tf.debugging.assert_near(
        tf.abs(marks),
        weight,
        rtol=1e-3,
        atol=0.0,
        message="ranks are at different steps of training, so their payloads do not add up: restore the same "
        "checkpoint on all of them",
    )


def _recover(
    spec: str,
    vectors: Sequence[tf.Tensor],
    seed: tf.Tensor,
    summed: tf.Tensor,
    reduce: Callable[[tf.Tensor], tf.Tensor],
) -> _Recovered:
    """Recovers the sum or mean of gradients from that of their payloads.

    Args:
      spec: The codec's.
      vectors: This rank's gradients, memory included, for exact values.
      seed: int64 scalar, equal on all ranks.
      summed: The payloads' sum or mean.
      reduce: Sums or averages another float32 vector over ranks: the second round.
    """
    n = sum(vector.shape.num_elements() for vector in vectors)
    num_kept = _core.linear_sizes(spec, n)["kept"]
    with tf.device(HOST):
        size, shape = tf.constant(n, tf.int64), tf.constant([n], tf.int64)
    indices, values, nanoseconds = ops.linear_recover(summed, size, seed, spec)
    finite = all_finite(values)
    elapsed = tf.constant(0, tf.int64)
    if not facts_of(spec)["exact"]:
        values, elapsed = _timed(tf.gather(_flat(vectors), indices), reduce)
        finite &= all_finite(values)
        with tf.device(HOST):
            largest = tf.constant(num_kept, tf.int64)
        kept = ops.select_largest(values, largest)
        indices, values = tf.gather(indices, kept), tf.gather(values, kept)
    flat = tf.scatter_nd(indices[:, tf.newaxis], values, shape)
    flat = tf.ensure_shape(poisoned(flat, finite), [n])
    return _Recovered(flat, None if num_kept >= n else indices, nanoseconds, elapsed)


def _flat(vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(vector, [-1]) for vector in vectors], axis=0)


def _commit(
    members: Sequence[Member],
    all_slots: Sequence[list[tf.Tensor]],
    bounds: Sequence[tuple[int, int]],
    indices: tf.Tensor | None,
    succeeded: tf.Tensor,
) -> None:
    """Takes what was sent out of the memories, if the step has succeeded."""
    if not any(all_slots):
        return
    updates = [
        update
        for member, slots, own in zip(members, all_slots, _sent(indices, bounds), strict=True)
        if slots
        for update in zip(member.slots, _cleared(member, slots, own), strict=True)
    ]
    settle(succeeded, updates)


def _sent(indices: tf.Tensor | None, bounds: Sequence[tuple[int, int]]) -> list[tf.Tensor | None]:
    """Of `indices`, which ascend, those of each tensor, from its first element; None for all."""
    if indices is None:
        return [None] * len(bounds)
    begins = [begin for begin, _ in bounds]
    found = tf.searchsorted(indices, tf.constant([*begins, bounds[-1][1]], tf.int64))
    # One copy from where the gradients lie, not one for each tensor.
    with tf.device(HOST):
        places = tf.unstack(tf.identity(found))
    return [
        indices[place:next_place] - begin
        for place, next_place, begin in zip(places[:-1], places[1:], begins, strict=True)
    ]


def _cleared(member: Member, slots: Sequence[tf.Tensor], sent: tf.Tensor | None) -> list[tf.Tensor]:
    """The slots of one gradient without what was sent: of the residual its rounding stays.

    Where everything was sent nothing is stale, and the velocity stays.
    """
    residual, *velocities = slots
    if sent is None:
        return [rounding(member, residual), *velocities]
    local = sent[:, tf.newaxis]

    def replaced(slot: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.tensor_scatter_nd_update(tf.reshape(slot, [-1]), local, values), slot.shape)

    left = rounding(member, tf.gather_nd(tf.reshape(residual, [-1]), local))
    zeros = tf.zeros_like(left)
    return [replaced(residual, left), *(replaced(velocity, zeros) for velocity in velocities)]


def _count(
    members: Sequence[Member],
    bounds: Sequence[tuple[int, int]],
    encode_time: tf.Tensor,
    decode_time: tf.Tensor,
    ranks: comm.Ranks,
) -> Counts:
    """Gives each gradient its share, by elements, of what is counted for all of them."""
    route, n = members[0].route, bounds[-1][1]
    if _is_whole(members, n):
        carried = num_kept = n
    else:
        carried = payload_elements(route.spec, n) + MARKS
        num_kept = _core.linear_sizes(route.spec, n)["kept"]
    with tf.device(HOST):
        payload = shares(carried * tf.as_dtype(route.wire_dtype).size, bounds)
        return Counts(
            payload,
            allreduce_wire_bytes(payload, ranks),
            shares(encode_time, bounds),
            shares(decode_time, bounds),
            shares(num_kept, bounds),
        )


def shares(total: int | tf.Tensor, bounds: Sequence[tuple[int, int]]) -> tf.Tensor:
    """Returns the parts of a total that gradients have by their elements, which add up to it: int64."""
    size = max(bounds[-1][1], 1)
    return tf.stack([tf.cast(total * end // size - total * begin // size, tf.int64) for begin, end in bounds])
