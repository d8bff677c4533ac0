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
from tfcompress.notices import warn_once
from tfcompress.routes.allreduce import assign_if, compensate, rounding
from tfcompress.routes.base import (
    HOST,
    Context,
    Counts,
    Member,
    Outcome,
    allreduce_wire_bytes,
    dense_wire_bytes,
    join,
    num_bytes,
    poisoned,
)

# Elements of a payload that say at which step its rank is.
MARKS = 8
# So many steps in a row differ in their marks; a prime, because checkpoints are made at round ones.
_MARK_PERIOD = 251


@dataclasses.dataclass(frozen=True)
class Encoded:
    """The gradients of one codec before they are summed.

    Attributes:
      members: What is known of each.
      vectors: What each has to send, memory included: float32, of the gradients' shapes; NaN where the
        gradient is not finite.
      new_slots: What the slots of each become, before what is applied is taken out of them.
      payload: float32 [size + MARKS], with the marks of the step at its end.
      seed: int64 scalar.
      nanoseconds: int64 scalar.
    """

    members: Sequence[Member]
    vectors: list[tf.Tensor]
    new_slots: list[list[tf.Tensor]]
    payload: tf.Tensor
    seed: tf.Tensor
    nanoseconds: tf.Tensor

    @property
    def spec(self) -> str:
        """The linear spec of all of them."""
        return self.members[0].route.spec

    @functools.cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """Where each tensor begins and ends in the vector."""
        return list(
            itertools.pairwise(
                [0, *np.cumsum([member.shape.num_elements() for member in self.members]).tolist()]
            )
        )

    @property
    def num_elements(self) -> int:
        """Elements of the vector."""
        return self.bounds[-1][1]

    @property
    def num_kept(self) -> int:
        """How many elements a step applies."""
        return (
            self.num_elements if self.is_whole else _core.linear_sizes(self.spec, self.num_elements)["kept"]
        )

    @property
    def is_whole(self) -> bool:
        """Whether the vector travels as it is, because the sums would not be smaller."""
        sizes = _core.linear_sizes(self.spec, self.num_elements)
        second_round = 0 if _core.describe_spec(self.spec)["exact"] else sizes["candidates"]
        return sizes["payload"] + second_round >= self.num_elements


@dataclasses.dataclass(frozen=True)
class _Recovered:
    """What is applied.

    Attributes:
      flat: float32 [n], the sum or mean; NaN everywhere if a rank's gradients were not finite.
      indices: int64, ascending, of the elements that were taken out of the memories; None: all.
      second_round: float32 elements that were summed to get exact values.
      nanoseconds: int64 scalar.
      communication_nanoseconds: int64 scalar, of the second round.
    """

    flat: tf.Tensor
    indices: tf.Tensor | None
    second_round: int
    nanoseconds: tf.Tensor
    communication_nanoseconds: tf.Tensor


def exchange(context: Context, members: Sequence[Member], gradients: Sequence[tf.Tensor]) -> Outcome:
    """Sums gradients of linear codecs over all ranks, or averages them.

    Args:
      context: The step.
      members: What is known of each gradient.
      gradients: The local ones.
    """
    outcomes = {}
    for number, positions in enumerate(groups_of(members)):
        group = [members[i] for i in positions]
        encoded = encode(
            group, [gradients[i] for i in positions], shared_seed(group[0], number, context.step)
        )
        reduce = functools.partial(reduce_payload, context, context.op, group[0].route.wire_dtype)
        start = clock.time_after([encoded.payload])
        summed, end = clock.stamped(reduce(encoded.payload, label=f"payload_{number}"))
        weight = tf.constant(1.0) if context.op == comm.AVERAGE else context.ranks.number()
        outcome = finish(
            encoded, summed, weight, functools.partial(reduce, label=f"values_{number}"), context.ranks
        )
        elapsed = outcome.communication_nanoseconds + clock.nanoseconds_between(start, end)
        outcomes[tuple(positions)] = dataclasses.replace(outcome, communication_nanoseconds=elapsed)
    return join(outcomes)


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
    factor = context.predivide_factor if wire_dtype == "float16" else 1.0
    return context.ranks.allreduce([payload], op, factor, [wire_dtype], f"{context.name}_{label}")[0]


def groups_of(members: Sequence[Member]) -> list[list[int]]:
    """Returns the positions of gradients that are coded together, of each codec."""
    groups: dict[tuple, list[int]] = {}
    for i, member in enumerate(members):
        groups.setdefault((member.route.spec, member.route.seed, member.route.wire_dtype), []).append(i)
    return list(groups.values())


def shared_seed(member: Member, number: int, step: tf.Tensor) -> tf.Tensor:
    """Returns a seed that differs between steps and codecs, and not between ranks: int64 scalar."""
    lane = (member.route.seed * 0x9E37 + number) % (1 << 31)
    with tf.device(HOST):
        return step * tf.constant(1 << 32, tf.int64) + lane


def check_shapes(members: Sequence[Member]) -> None:
    """Raises ValueError where the shape of a gradient is not known."""
    for member in members:
        if not member.shape.is_fully_defined():
            raise ValueError(
                f"gradient '{member.name}' has the unknown shape {member.shape}, which "
                f"'{member.route.spec}' needs to know"
            )


def encode(members: Sequence[Member], gradients: Sequence[tf.Tensor], seed: tf.Tensor) -> Encoded:
    """Makes the payload of gradients of one linear codec.

    Args:
      members: What is known of each gradient, of one spec.
      gradients: Of fully known shapes.
      seed: int64 scalar, equal on all ranks.

    Raises:
      ValueError: A shape is not known.
    """
    spec = members[0].route.spec
    check_shapes(members)
    compensated = [compensate(member, gradient) for member, gradient in zip(members, gradients, strict=True)]
    vectors = [tf.cast(vector, tf.float32) for vector, _ in compensated]
    encoded = Encoded(members, vectors, [slots for _, slots in compensated], None, seed, None)
    if encoded.is_whole:
        warn_once(
            f"'{spec}' saves nothing on {encoded.num_elements} elements, fewer than it would send: they "
            "travel uncompressed. Choose a smaller sketch, or another preset"
        )
        return dataclasses.replace(encoded, payload=_flat(vectors), nanoseconds=tf.constant(0, tf.int64))
    payload, nanoseconds = ops.linear_encode(vectors, seed, spec)
    marked = tf.concat([payload, _marks(seed)], axis=0)
    return dataclasses.replace(encoded, payload=marked, nanoseconds=nanoseconds)


def _marks(seed: tf.Tensor) -> tf.Tensor:
    """Ones and minus ones that tell steps from each other; float32 [MARKS].

    The sum over ranks is that of ones alone exactly where all of them agree, and every rank sees it.
    """
    with tf.device(HOST):
        step = tf.math.floormod(seed // (1 << 32), _MARK_PERIOD)
        bits = tf.bitwise.right_shift(step, tf.range(MARKS, dtype=tf.int64)) & 1
        return tf.cast(1 - 2 * bits, tf.float32)


def finish(
    encoded: Encoded,
    summed: tf.Tensor,
    weight: tf.Tensor,
    reduce: Callable[[tf.Tensor], tf.Tensor],
    ranks: comm.Ranks,
) -> Outcome:
    """Recovers the gradients from the sum of the payloads.

    Args:
      encoded: This rank's.
      summed: The sum of all ranks' payloads, or their mean.
      weight: float32 scalar, what the sum or mean of a one on each rank is.
      reduce: Sums another float32 vector over ranks, scaled alike: the second round.
      ranks: Who exchanges.

    Raises:
      tf.errors.InvalidArgumentError: Ranks are at different steps.
    """
    if encoded.is_whole:
        recovered = _whole(summed)
    else:
        _check_marks(summed[-MARKS:], weight)
        recovered = _recover(encoded, summed[:-MARKS], reduce)
    finite = tf.math.is_finite(recovered.flat[0]) if encoded.num_elements else tf.constant(True)
    gradients = [
        tf.cast(tf.reshape(recovered.flat[begin:end], member.shape), member.dtype)
        for member, (begin, end) in zip(encoded.members, encoded.bounds, strict=True)
    ]
    return Outcome(
        gradients,
        _count(encoded, recovered, gradients, ranks),
        recovered.communication_nanoseconds,
        tf.zeros([2], tf.int64),
        finite,
        functools.partial(_commit, encoded, recovered.indices),
    )


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


def _whole(summed: tf.Tensor) -> _Recovered:
    zero = tf.constant(0, tf.int64)
    return _Recovered(poisoned(summed, _all_finite(summed)), None, 0, zero, zero)


def _recover(encoded: Encoded, summed: tf.Tensor, reduce: Callable[[tf.Tensor], tf.Tensor]) -> _Recovered:
    n = encoded.num_elements
    sizes = _core.linear_sizes(encoded.spec, n)
    with tf.device(HOST):
        size, num_kept = tf.constant(n, tf.int64), tf.constant(sizes["kept"], tf.int64)
        shape = tf.constant([n], tf.int64)
    indices, values, nanoseconds = ops.linear_recover(summed, size, encoded.seed, encoded.spec)
    finite = _all_finite(values)
    second_round, elapsed = 0, tf.constant(0, tf.int64)
    if not _core.describe_spec(encoded.spec)["exact"]:
        own = tf.gather(_flat(encoded.vectors), indices)
        start = clock.time_after([own])
        values, end = clock.stamped(reduce(own))
        elapsed = clock.nanoseconds_between(start, end)
        finite &= _all_finite(values)
        kept = ops.select_largest(values, num_kept)
        indices, values = tf.gather(indices, kept), tf.gather(values, kept)
        second_round = sizes["candidates"]
    flat = tf.scatter_nd(indices[:, tf.newaxis], values, shape)
    everything = sizes["kept"] >= n
    flat = tf.ensure_shape(poisoned(flat, finite), [n])
    return _Recovered(flat, None if everything else indices, second_round, nanoseconds, elapsed)


def _all_finite(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(tf.math.is_finite(values))


def _flat(vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(vector, [-1]) for vector in vectors], axis=0)


def _commit(encoded: Encoded, indices: tf.Tensor | None, succeeded: tf.Tensor) -> None:
    """Takes what was sent out of the memories, if the step has succeeded."""
    if not any(encoded.new_slots):
        return
    sent = _sent(indices, encoded.bounds)
    updates = [
        update
        for member, slots, own in zip(encoded.members, encoded.new_slots, sent, strict=True)
        if slots
        for update in zip(member.slots, _cleared(member, slots, own), strict=True)
    ]
    assign_if(succeeded, updates)


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
    encoded: Encoded, recovered: _Recovered, gradients: Sequence[tf.Tensor], ranks: comm.Ranks
) -> Counts:
    """Gives each gradient its share, by elements, of what is counted for all of them."""
    n = encoded.num_elements
    size = n if encoded.is_whole else _core.linear_sizes(encoded.spec, n)["payload"] + MARKS
    width = tf.as_dtype(encoded.members[0].route.wire_dtype).size
    payload_bytes = (size + recovered.second_round) * width

    def shares(total: int | tf.Tensor) -> tf.Tensor:
        return tf.stack([tf.cast(share(total, begin, end, n), tf.int64) for begin, end in encoded.bounds])

    with tf.device(HOST):
        payload = shares(payload_bytes)
        return Counts(
            tf.stack([num_bytes(gradient) for gradient in gradients]),
            dense_wire_bytes(gradients, ranks),
            payload,
            allreduce_wire_bytes(payload, ranks),
            shares(encoded.nanoseconds),
            shares(recovered.nanoseconds),
            tf.constant([end - begin for begin, end in encoded.bounds], tf.int64),
            shares(encoded.num_kept),
        )


def share(total: int | tf.Tensor, begin: int, end: int, size: int) -> int | tf.Tensor:
    """Returns the part of a total that elements [begin, end) of `size` have; the parts add up to it."""
    return total * end // max(size, 1) - total * begin // max(size, 1)
