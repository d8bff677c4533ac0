"""The summed exchange: what linear codecs make of gradients, in all-reduces.

Gradients of one codec are one vector: the largest elements may all be in one of them (Sketched-SGD,
Algorithm 3). The traffic of a rank does not depend on the number of ranks.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfcompress import _core, clock, exchange, ops
from tfcompress.exchange import Ranks
from tfcompress.packet import Exchanged, num_bytes
from tfcompress.tensors import Tensor

# Seeds, marks and sizes are made there, also where gradients, and what encodes them, are on a GPU.
_HOST = "CPU:0"

# Elements of a payload that say at which step its rank is.
MARKS = 8
# So many steps in a row differ in their marks; a prime, because checkpoints are made at round ones.
_TOLD_APART = 251


@dataclasses.dataclass(frozen=True)
class Encoded:
    """The gradients of one codec before they are summed.

    Attributes:
      tensors: What is known of each.
      vectors: What each has to send, memory included: float32, of the gradients' shapes; NaN where the
        gradient is not finite.
      new_slots: What the slots of each become, before what is applied is taken out of them.
      payload: float32 [size + MARKS], with the marks of the step at its end.
      seed: int64 scalar.
      nanoseconds: int64 scalar.
    """

    tensors: Sequence[Tensor]
    vectors: list[tf.Tensor]
    new_slots: list[list[tf.Tensor]]
    payload: tf.Tensor
    seed: tf.Tensor
    nanoseconds: tf.Tensor

    @property
    def spec(self) -> str:
        """The linear spec of all of them."""
        return self.tensors[0].spec

    @functools.cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """Where each tensor begins and ends in the vector."""
        return list(
            itertools.pairwise([0, *np.cumsum([t.shape.num_elements() for t in self.tensors]).tolist()])
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


@dataclasses.dataclass(frozen=True)
class Finished:
    """What a sum of payloads became.

    Attributes:
      gradients: The reduced ones.
      rows: For each, bytes sent and received, nanoseconds of encoding and of decoding, elements and
        sent elements: int64 scalars. Each gradient has a share of what is counted for all of them.
      communication_nanoseconds: int64 scalar, of the second round.
      finite: bool scalar, whether all gradients of all ranks were.
      commit: Lets the memories have the step, if the bool scalar that it is called with is true.
    """

    gradients: list[tf.Tensor]
    rows: list[list[tf.Tensor]]
    communication_nanoseconds: tf.Tensor
    finite: tf.Tensor
    commit: Callable[[tf.Tensor], None]


def exchange_payloads(
    ranks: Ranks,
    name: str,
    op: str,
    step: tf.Tensor,
    tensors: Sequence[Tensor],
    gradients: Sequence[tf.Tensor],
) -> Exchanged:
    """Sums gradients of linear codecs over all ranks, or averages them.

    Args:
      ranks: Who exchanges.
      name: Of the collectives.
      op: exchange.AVERAGE or SUM.
      step: int64 scalar, different at every step and equal on all ranks.
      tensors: What is known of each gradient.
      gradients: The local ones.
    """
    results: list = [None] * len(tensors)
    columns: list = [None] * len(tensors)
    all_finished: list[Finished] = []
    elapsed = tf.constant(0, tf.int64)
    for number, positions in enumerate(_groups(tensors)):
        group = [tensors[i] for i in positions]
        encoded = encode(group, [gradients[i] for i in positions], shared_seed(group[0], number, step))
        reduce = functools.partial(_reduce, ranks, name, op, group[0].compressor.payload_dtype)
        start = clock.time_after([encoded.payload])
        summed, end = clock.stamped(reduce(encoded.payload, label=f"payload_{number}"))
        elapsed += clock.nanoseconds_between(start, end)
        weight = tf.constant(1.0) if op == exchange.AVERAGE else tf.cast(ranks.size_tensor(), tf.float32)
        finished = finish(encoded, summed, weight, functools.partial(reduce, label=f"values_{number}"))
        all_finished.append(finished)
        elapsed += finished.communication_nanoseconds
        for i, total, row in zip(positions, finished.gradients, finished.rows, strict=True):
            results[i] = total
            columns[i] = [num_bytes(gradients[i]), *row]

    def commit(succeeded: tf.Tensor) -> None:
        for finished in all_finished:
            finished.commit(succeeded)

    columns = [tf.stack(column) for column in zip(*columns, strict=True)]
    finite = tf.reduce_all(tf.stack([finished.finite for finished in all_finished]))
    return Exchanged(results, columns, elapsed, tf.zeros([2], tf.int64), finite, commit)


def _reduce(ranks: Ranks, name: str, op: str, wire_dtype: str, payload: tf.Tensor, label: str) -> tf.Tensor:
    return ranks.allreduce([payload], op, 1.0, [wire_dtype], f"{name}_{label}")[0]


def _groups(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Positions of tensors that are one vector, of each codec."""
    groups: dict[tuple, list[int]] = {}
    for i, tensor in enumerate(tensors):
        key = (tensor.spec, tensor.compressor.seed, tensor.compressor.payload_dtype)
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def shared_seed(tensor: Tensor, number: int, step: tf.Tensor) -> tf.Tensor:
    """Returns a seed that differs between steps and codecs, and not between ranks: int64 scalar."""
    lane = (tensor.compressor.seed * 0x9E37 + number) % (1 << 31)
    with tf.device(_HOST):
        return step * tf.constant(1 << 32, tf.int64) + lane


def encode(tensors: Sequence[Tensor], gradients: Sequence[tf.Tensor], seed: tf.Tensor) -> Encoded:
    """Makes the payload of gradients of one linear codec.

    Args:
      tensors: What is known of each gradient, of one spec.
      gradients: Of fully known shapes.
      seed: int64 scalar, equal on all ranks.

    Raises:
      ValueError: A shape is not known.
    """
    spec = tensors[0].spec
    for tensor in tensors:
        if not tensor.shape.is_fully_defined():
            raise ValueError(
                f"gradient '{tensor.name}' has the unknown shape {tensor.shape}, which '{spec}' needs to know"
            )
    compensated = [_compensate(tensor, gradient) for tensor, gradient in zip(tensors, gradients, strict=True)]
    vectors = [vector for vector, _ in compensated]
    encoded = Encoded(tensors, vectors, [slots for _, slots in compensated], None, seed, None)
    if encoded.is_whole:
        return dataclasses.replace(encoded, payload=_flat(vectors), nanoseconds=tf.constant(0, tf.int64))
    payload, nanoseconds = ops.linear_encode(vectors, seed, spec)
    marked = tf.concat([payload, _marks(seed)], axis=0)
    return dataclasses.replace(encoded, payload=marked, nanoseconds=nanoseconds)


def _marks(seed: tf.Tensor) -> tf.Tensor:
    """Ones and minus ones that tell steps from each other; float32 [MARKS].

    The sum over ranks is that of ones alone exactly where all of them agree, and every rank sees it.
    """
    with tf.device(_HOST):
        step = tf.math.floormod(seed // (1 << 32), _TOLD_APART)
        bits = tf.bitwise.right_shift(step, tf.range(MARKS, dtype=tf.int64)) & 1
        return tf.cast(1 - 2 * bits, tf.float32)


def _compensate(tensor: Tensor, gradient: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Returns what is to be sent, and the slots after the step."""
    if not tensor.slots:
        return tf.cast(gradient, tf.float32), []
    new_slots, finite = ops.compensate(gradient, tensor.slots, tensor.spec)
    new_slots = [tf.reshape(slot, tensor.shape) for slot in new_slots]
    nothing = functools.partial(tf.fill, tensor.shape, float("nan"))
    return tf.cond(finite, lambda: new_slots[0], nothing), new_slots


def finish(
    encoded: Encoded, summed: tf.Tensor, weight: tf.Tensor, reduce: Callable[[tf.Tensor], tf.Tensor]
) -> Finished:
    """Recovers the gradients from the sum of the payloads.

    Args:
      encoded: This rank's.
      summed: The sum of all ranks' payloads, or their mean.
      weight: float32 scalar, what the sum or mean of a one on each rank is.
      reduce: Sums another float32 vector over ranks, scaled alike: the second round.

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
        tf.cast(tf.reshape(recovered.flat[begin:end], tensor.shape), tensor.dtype)
        for tensor, (begin, end) in zip(encoded.tensors, encoded.bounds, strict=True)
    ]
    return Finished(
        gradients,
        _rows(encoded, recovered),
        recovered.communication_nanoseconds,
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
    return _Recovered(_poisoned(summed, _all_finite(summed)), None, 0, zero, zero)


def _recover(encoded: Encoded, summed: tf.Tensor, reduce: Callable[[tf.Tensor], tf.Tensor]) -> _Recovered:
    n = encoded.num_elements
    sizes = _core.linear_sizes(encoded.spec, n)
    with tf.device(_HOST):
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
    flat = tf.ensure_shape(_poisoned(flat, finite), [n])
    return _Recovered(flat, None if everything else indices, second_round, nanoseconds, elapsed)


def _all_finite(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(tf.math.is_finite(values))


def _poisoned(flat: tf.Tensor, finite: tf.Tensor) -> tf.Tensor:
    return tf.cond(finite, lambda: flat, lambda: tf.fill(tf.shape(flat), float("nan")))


def _flat(vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(vector, [-1]) for vector in vectors], axis=0)


def _commit(encoded: Encoded, indices: tf.Tensor | None, finite: tf.Tensor) -> None:
    """Takes what was sent out of the memories, if the step has succeeded."""
    if not any(encoded.new_slots):
        return

    def take() -> tf.Tensor:
        sent = _sent(indices, encoded.bounds)
        for tensor, slots, own in zip(encoded.tensors, encoded.new_slots, sent, strict=True):
            if slots:
                for slot, value in zip(tensor.slots, _cleared(tensor, slots, own), strict=True):
                    slot.assign(value, read_value=False)
        return tf.constant(True)

    tf.cond(finite, take, lambda: tf.constant(False))


def _sent(indices: tf.Tensor | None, bounds: Sequence[tuple[int, int]]) -> list[tf.Tensor | None]:
    """Of `indices`, which ascend, those of each tensor, from its first element; None for all."""
    if indices is None:
        return [None] * len(bounds)
    begins = [begin for begin, _ in bounds]
    found = tf.searchsorted(indices, tf.constant([*begins, bounds[-1][1]], tf.int64))
    # One copy from where the gradients lie, not one for each tensor.
    with tf.device(_HOST):
        places = tf.unstack(tf.identity(found))
    return [
        indices[place:next_place] - begin
        for place, next_place, begin in zip(places[:-1], places[1:], begins, strict=True)
    ]


def _cleared(tensor: Tensor, slots: Sequence[tf.Tensor], sent: tf.Tensor | None) -> list[tf.Tensor]:
    """The slots of one tensor without what was sent: of the residual its rounding stays.

    Where everything was sent nothing is stale, and the velocity stays.
    """
    residual, *velocities = slots
    if sent is None:
        return [_rounding(tensor, residual), *velocities]
    local = sent[:, tf.newaxis]

    def replaced(slot: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.tensor_scatter_nd_update(tf.reshape(slot, [-1]), local, values), slot.shape)

    left = _rounding(tensor, tf.gather_nd(tf.reshape(residual, [-1]), local))
    zeros = tf.zeros_like(left)
    return [replaced(residual, left), *(replaced(velocity, zeros) for velocity in velocities)]


def _rounding(tensor: Tensor, values: tf.Tensor) -> tf.Tensor:
    """What the payload's dtype cannot hold of values that are sent."""
    return values - tf.cast(tf.cast(values, tensor.compressor.payload_dtype), tf.float32)


def _rows(encoded: Encoded, recovered: _Recovered) -> list[list[tf.Tensor]]:
    """What `Finished.rows` has."""
    n = encoded.num_elements
    size = n if encoded.is_whole else _core.linear_sizes(encoded.spec, n)["payload"] + MARKS
    width = tf.as_dtype(encoded.tensors[0].compressor.payload_dtype).size
    sent_bytes = (size + recovered.second_round) * width
    rows = []
    with tf.device(_HOST):
        for begin, end in encoded.bounds:
            sent, kept = (
                tf.constant(_share(total, begin, end, n), tf.int64)
                for total in (sent_bytes, encoded.num_kept)
            )
            times = [_share(each, begin, end, n) for each in (encoded.nanoseconds, recovered.nanoseconds)]
            rows.append([sent, sent, *times, tf.constant(end - begin, tf.int64), kept])
    return rows


def _share(total: int | tf.Tensor, begin: int, end: int, size: int) -> int | tf.Tensor:
    """The part of a total that elements [begin, end) of `size` have; the parts add up to it."""
    return total * end // max(size, 1) - total * begin // max(size, 1)
