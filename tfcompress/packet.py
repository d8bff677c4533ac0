"""The packed exchange: every compressed gradient of a step in one all-gather."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from tfcompress import clock, exchange, ops
from tfcompress.exchange import Ranks
from tfcompress.statistics import COLUMNS
from tfcompress.tensors import Tensor

# In a frame's header (FORMAT.md, "Frame"): the kind of support, and the number of elements or rows.
_SUPPORT, _COUNT = 7, slice(16, 20)
_BYTES = ("sent_bytes", "received_bytes")
_ROWS = 4

# Packets, seeds and specs are made and read there, also where gradients, and what encodes them, are on a GPU.
_HOST = "CPU:0"

# Packets up to this size are padded, to multiples of a 16th of the next lower power of two, within limits.
# A length that changes makes Horovod negotiate again, for about 1.5 kB and 30 packets; beyond 128 KiB lengths
# change by more than what is worth padding (docs/design.md has the measurement).
_PADDED_BYTES = 128 * 1024
_SMALLEST_QUANTUM, _LARGEST_QUANTUM = 64, 2048


@dataclasses.dataclass(frozen=True)
class _Encoded:
    """What encoding one gradient gave.

    Attributes:
      frame: uint8.
      nanoseconds: int64 scalar.
      sent_elements: int64 scalar.
      updates: Slots of a dense gradient and what they become if the step succeeds.
      undo: Slots of a table, and the rows to put back if it does not.
    """

    frame: tf.Tensor
    nanoseconds: tf.Tensor
    sent_elements: tf.Tensor
    updates: list[tuple[tf.Variable, tf.Tensor]]
    undo: list[tuple[tf.Variable, tf.IndexedSlices]]


@dataclasses.dataclass(frozen=True)
class _Decoded:
    """The sum of one gradient; its bytes over all ranks, nanoseconds and whether it was finite: scalars."""

    total: tf.Tensor | tf.IndexedSlices
    num_bytes: tf.Tensor
    nanoseconds: tf.Tensor
    finite: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Exchanged:
    """What one exchange yields.

    Attributes:
      gradients: The reduced ones.
      columns: int64 [gradients] for each of `statistics.COLUMNS`.
      communication_nanoseconds: int64 scalar.
      padding: int64 [2], bytes sent and received besides the frames.
      finite: bool scalar, whether all gradients of all ranks were.
      commit: Lets the memories have the step, if the bool scalar that it is called with is true.
    """

    gradients: list[tf.Tensor | tf.IndexedSlices]
    columns: list[tf.Tensor]
    communication_nanoseconds: tf.Tensor
    padding: tf.Tensor
    finite: tf.Tensor
    commit: Callable[[tf.Tensor], None]


def exchange_packet(
    ranks: Ranks,
    name: str,
    scale: tf.Tensor,
    step: tf.Tensor,
    stage: tf.Tensor,
    tensors: Sequence[Tensor],
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
) -> Exchanged:
    """Encodes gradients, gathers all ranks' packets, and sums them.

    Args:
      ranks: Who exchanges.
      name: Of the collective.
      scale: float32 scalar that multiplies the sums.
      step: int64 scalar, different at every step.
      stage: int64 scalar, which of the tensors' specs to apply.
      tensors: What is known of each gradient; all have a spec.
      gradients: The local ones.

    Raises:
      tf.errors.DataLossError: A frame is broken; names rank, tensor and reason. No memory has changed
        but the residual rows of tables.
    """
    with tf.device(_HOST):
        seeds = [_seed(ranks, tensor, step) for tensor in tensors]
        specs = [tf.gather(tensor.stages, stage) for tensor in tensors]
    encoded = [_encode(*arguments) for arguments in zip(tensors, gradients, seeds, specs, strict=True)]
    with tf.device(_HOST):
        packet = _pad(tf.concat([each.frame for each in encoded], axis=0))
        start = clock.time_after([packet])
        with tf.control_dependencies([start]):
            packets, end = clock.stamped(ranks.allgather_packet(packet, name))
        elapsed = clock.nanoseconds_between(start, end)
    decoded = _decode(packets, ranks.size_tensor(), scale, gradients)
    finite = tf.reduce_all(tf.stack([each.finite for each in decoded]))
    columns = _columns(gradients, encoded, decoded)
    sent, gathered = (tf.size(each, out_type=tf.int64) for each in (packet, packets))
    frames_sent, frames_received = (tf.reduce_sum(columns[COLUMNS.index(c)]) for c in _BYTES)
    padding = tf.stack([sent - frames_sent, gathered - sent - frames_received])
    commit = functools.partial(_commit, encoded)
    return Exchanged([each.total for each in decoded], columns, elapsed, padding, finite, commit)


def _pad(packet: tf.Tensor) -> tf.Tensor:
    """Appends zeros up to a length that changes seldom, or nothing."""
    length = tf.size(packet)
    power = tf.bitwise.left_shift(
        1, tf.cast(tf.math.log(tf.cast(length, tf.float64)) / math.log(2.0), tf.int32)
    )
    quantum = tf.clip_by_value(power // 16, _SMALLEST_QUANTUM, _LARGEST_QUANTUM)
    padding = tf.where(length < _PADDED_BYTES, -length % quantum, 0)
    return tf.pad(packet, [[0, padding]])


def _seed(ranks: Ranks, tensor: Tensor, step: tf.Tensor) -> tf.Tensor:
    """Differs between steps, tensors and ranks; the core hashes it before it uses it."""
    lane = (tensor.compressor.seed * 0x9E37 + tensor.number) % (1 << 16)
    low = tf.cast(ranks.rank_tensor(), tf.int64) + (lane << 16)
    return step * tf.constant(1 << 32, tf.int64) + low


def _encode(
    tensor: Tensor, gradient: tf.Tensor | tf.IndexedSlices, seed: tf.Tensor, spec: tf.Tensor
) -> _Encoded:
    if isinstance(gradient, tf.IndexedSlices):
        return _encode_rows(tensor, gradient, seed, spec)
    frame, nanoseconds, new_slots = ops.encode(gradient, tensor.slots, seed, spec)
    updates = list(zip(tensor.slots, new_slots, strict=True))
    with tf.device(_HOST):
        sent_elements = _sent_elements(frame, 1)
    return _Encoded(frame, nanoseconds, sent_elements, updates, [])


def _encode_rows(tensor: Tensor, gradient: tf.IndexedSlices, seed: tf.Tensor, spec: tf.Tensor) -> _Encoded:
    touched, _ = tf.unique(gradient.indices)
    undo = [(slot, tf.IndexedSlices(tf.gather(slot, touched), touched)) for slot in tensor.slots]
    with tf.control_dependencies([slices.values for _, slices in undo]):
        frame, nanoseconds = ops.encode_rows(
            gradient.values,
            gradient.indices,
            tf.cast(gradient.dense_shape[0], tf.int64),
            tensor.slots,
            seed,
            spec,
            tensor.compressor.row_sparsifier,
        )
    width = tf.reduce_prod(tf.cast(gradient.dense_shape[1:], tf.int64))
    return _Encoded(frame, nanoseconds, _sent_elements(frame, width), [], undo)


def _sent_elements(frame: tf.Tensor, width: tf.Tensor | int) -> tf.Tensor:
    count = tf.cast(tf.bitcast(frame[_COUNT], tf.int32), tf.int64)
    return count * tf.where(tf.equal(frame[_SUPPORT], _ROWS), tf.cast(width, tf.int64), 1)


def _decode(
    packets: tf.Tensor,
    num_ranks: tf.Tensor,
    scale: tf.Tensor,
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
) -> list[_Decoded]:
    results: list = [None] * len(gradients)
    positions = [i for i, gradient in enumerate(gradients) if isinstance(gradient, tf.Tensor)]
    if positions:
        dense = [gradients[i] for i in positions]
        sums, *measured = ops.decode_sum(
            packets,
            num_ranks,
            scale,
            [tf.shape(gradient, out_type=tf.int64) for gradient in dense],
            [gradient.dtype for gradient in dense],
            positions,
            len(gradients),
        )
        rows = zip(positions, dense, sums, *map(tf.unstack, measured), strict=True)
        for i, gradient, total, num_bytes, nanoseconds, finite in rows:
            results[i] = _Decoded(tf.ensure_shape(total, gradient.shape), num_bytes, nanoseconds, finite)
    for i, gradient in enumerate(gradients):
        if isinstance(gradient, tf.IndexedSlices):
            results[i] = _decode_rows(packets, num_ranks, scale, gradient, i, len(gradients))
    return results


def _decode_rows(
    packets: tf.Tensor,
    num_ranks: tf.Tensor,
    scale: tf.Tensor,
    gradient: tf.IndexedSlices,
    position: int,
    num_frames: int,
) -> _Decoded:
    shape = tf.cast(gradient.dense_shape, tf.int64)
    rows, values, *measured = ops.decode_rows(
        packets, num_ranks, scale, shape[0], shape[1:], gradient.dtype, position, num_frames
    )
    values = tf.ensure_shape(values, tf.TensorShape([None]).concatenate(gradient.values.shape[1:]))
    total = tf.IndexedSlices(values, tf.cast(rows, gradient.indices.dtype), gradient.dense_shape)
    return _Decoded(_smaller_form(total, gradient, num_ranks), *measured)


def _smaller_form(
    total: tf.IndexedSlices, gradient: tf.IndexedSlices, num_ranks: tf.Tensor
) -> tf.Tensor | tf.IndexedSlices:
    """The dense tensor where the ranks' rows together are known to be as many as the table's."""
    num_slices, ranks = gradient.values.shape[0], tf.get_static_value(num_ranks)
    num_rows = gradient.shape[0] if gradient.shape.rank else None
    if None in (num_slices, ranks, num_rows) or num_slices * ranks < num_rows:
        return total
    return tf.ensure_shape(tf.convert_to_tensor(total), gradient.shape)


def _commit(encoded: Sequence[_Encoded], finite: tf.Tensor) -> None:
    """Lets the memories have the step, or takes it back."""
    updates = [update for each in encoded for update in each.updates]
    undo = [item for each in encoded for item in each.undo]
    if not updates and not undo:
        return

    def take() -> tf.Tensor:
        for slot, value in updates:
            slot.assign(tf.reshape(value, slot.shape), read_value=False)
        return tf.constant(True)

    def drop() -> tf.Tensor:
        for slot, rows in undo:
            slot.scatter_update(rows)
        return tf.constant(False)

    tf.cond(finite, take, drop)


def _columns(
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
    encoded: Sequence[_Encoded],
    decoded: Sequence[_Decoded],
) -> list[tf.Tensor]:
    sent = tf.stack([tf.size(each.frame, out_type=tf.int64) for each in encoded])
    return [
        tf.stack([num_bytes(gradient) for gradient in gradients]),
        sent,
        tf.stack([each.num_bytes for each in decoded]) - sent,
        tf.stack([each.nanoseconds for each in encoded]),
        tf.stack([each.nanoseconds for each in decoded]),
        tf.stack([num_elements(gradient) for gradient in gradients]),
        tf.stack([each.sent_elements for each in encoded]),
    ]


def num_bytes(gradient: tf.Tensor | tf.IndexedSlices, wire_dtype: str | None = None) -> tf.Tensor:
    """Returns the bytes of a gradient, int64 scalar; with `wire_dtype`, as all-reduce carries it."""
    if isinstance(gradient, tf.IndexedSlices):
        return num_bytes(gradient.values) + num_bytes(gradient.indices)
    width = exchange.transport_dtype(gradient.dtype, wire_dtype).size if wire_dtype else gradient.dtype.size
    return tf.size(gradient, out_type=tf.int64) * width


def num_elements(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """Returns the elements of a gradient, of a table those of its slices, int64 scalar."""
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return tf.size(values, out_type=tf.int64)
