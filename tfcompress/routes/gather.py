"""The gather route: the frames of all compressed gradients of a step travel in one all-gather."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import clock, ops
from tfcompress.comm import Ranks
from tfcompress.routes.base import (
    HOST,
    Context,
    Counts,
    Member,
    Outcome,
    dense_wire_bytes,
    gather_wire_bytes,
    num_bytes,
    num_elements,
    seeds_of,
)

# In a frame's header (FORMAT.md, "Frame"): the kind of support, and the number of elements or rows.
_SUPPORT, _COUNT, _HEADER_BYTES = 7, slice(16, 20), 20
_ROWS = 4

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
      width: Elements of a row of the table, an int or an int64 scalar; 1 of a dense gradient.
      updates: Slots of a dense gradient and what they become if the step succeeds.
      undo: Slots of a table, and the rows to put back if it does not.
    """

    frame: tf.Tensor
    nanoseconds: tf.Tensor
    width: tf.Tensor | int
    updates: list[tuple[tf.Variable, tf.Tensor]]
    undo: list[tuple[tf.Variable, tf.IndexedSlices]]


@dataclasses.dataclass(frozen=True)
class _Decoded:
    """The sum of one gradient; its bytes over all ranks, nanoseconds and whether it was finite: scalars."""

    total: tf.Tensor | tf.IndexedSlices
    num_bytes: tf.Tensor
    nanoseconds: tf.Tensor
    finite: tf.Tensor


def exchange(
    context: Context, members: Sequence[Member], gradients: Sequence[tf.Tensor | tf.IndexedSlices]
) -> Outcome:
    """Encodes gradients, gathers all ranks' packets, and sums them.

    Args:
      context: The step.
      members: What is known of each gradient.
      gradients: The local ones.

    Raises:
      tf.errors.DataLossError: A frame is broken; names rank, tensor and reason. No memory has changed
        but the residual rows of tables.
    """
    with tf.device(HOST):
        seeds = seeds_of(context, members)
    encoded = [_encode(*arguments) for arguments in zip(members, gradients, seeds, strict=True)]
    with tf.device(HOST):
        packet = _pad(tf.concat([each.frame for each in encoded], axis=0))
        packets, elapsed = clock.timed(
            packet, functools.partial(context.ranks.allgather_packet, name=context.name)
        )
    decoded = _decode(packets, context.ranks.size_tensor(), context.scale(), gradients)
    counts = _count(context.ranks, gradients, encoded, decoded)
    sent, gathered = (tf.size(each, out_type=tf.int64) for each in (packet, packets))
    frames = tf.reduce_sum(tf.stack([counts.payload_bytes, counts.wire_bytes]), axis=1)
    return Outcome(
        [each.total for each in decoded],
        counts,
        elapsed,
        tf.stack([sent, gather_wire_bytes(sent, gathered)]) - frames,
        tf.reduce_all(tf.stack([each.finite for each in decoded])),
        functools.partial(_commit, encoded),
    )


def _pad(packet: tf.Tensor) -> tf.Tensor:
    """Appends zeros up to a length that changes seldom, or nothing."""
    length = tf.size(packet, out_type=tf.int64)
    power = tf.bitwise.left_shift(
        tf.constant(1, tf.int64), tf.cast(tf.math.log(tf.cast(length, tf.float64)) / math.log(2.0), tf.int64)
    )
    quantum = tf.clip_by_value(power // 16, _SMALLEST_QUANTUM, _LARGEST_QUANTUM)
    padding = tf.where(length < _PADDED_BYTES, -length % quantum, tf.constant(0, tf.int64))
    return tf.pad(packet, [[0, padding]])


def _encode(member: Member, gradient: tf.Tensor | tf.IndexedSlices, seed: tf.Tensor) -> _Encoded:
    if isinstance(gradient, tf.IndexedSlices):
        return _encode_rows(member, gradient, seed)
    frame, nanoseconds, new_slots = ops.encode(gradient, member.slots, seed, member.spec)
    return _Encoded(frame, nanoseconds, 1, list(zip(member.slots, new_slots, strict=True)), [])


def _encode_rows(member: Member, gradient: tf.IndexedSlices, seed: tf.Tensor) -> _Encoded:
    touched, _ = tf.unique(gradient.indices)
    undo = [(slot, tf.IndexedSlices(tf.gather(slot, touched), touched)) for slot in member.slots]
    with tf.control_dependencies([slices.values for _, slices in undo]):
        frame, nanoseconds = ops.encode_rows(
            gradient.values,
            gradient.indices,
            tf.cast(gradient.dense_shape[0], tf.int64),
            member.slots,
            seed,
            member.spec,
            member.route.row_sparsifier,
        )
    width = tf.reduce_prod(tf.cast(gradient.dense_shape[1:], tf.int64))
    return _Encoded(frame, nanoseconds, width, [], undo)


def _sent_elements(encoded: Sequence[_Encoded]) -> tf.Tensor:
    """Returns what each frame's header says, int64 [gradients]."""
    with tf.device(HOST):
        begin, length = tf.constant([0]), tf.constant([_HEADER_BYTES])
        headers = tf.stack([tf.slice(each.frame, begin, length) for each in encoded])
        counts = tf.cast(tf.bitcast(headers[:, _COUNT], tf.int32), tf.int64)
        widths = tf.cast(tf.stack([each.width for each in encoded]), tf.int64)
        return counts * tf.where(tf.equal(headers[:, _SUPPORT], _ROWS), widths, 1)


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
    return _Decoded(total, *measured)


def smaller_form(
    total: tf.IndexedSlices, gradient: tf.IndexedSlices, num_ranks: tf.Tensor
) -> tf.Tensor | tf.IndexedSlices:
    """Returns the dense tensor where the ranks' rows together are known to be as many as the table's."""
    num_slices, ranks = gradient.values.shape[0], tf.get_static_value(num_ranks)
    num_rows = gradient.shape[0] if gradient.shape.rank else None
    if None in (num_slices, ranks, num_rows) or num_slices * ranks < num_rows:
        return total
    return tf.ensure_shape(tf.convert_to_tensor(total), gradient.shape)


def apply_rows_alone(member: Member, gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Applies rows and their residual on one rank alone, as if all were sent."""
    [slot] = member.slots
    touched, positions = tf.unique(gradient.indices)
    values = tf.cast(gradient.values, tf.float32)
    applied = tf.math.unsorted_segment_sum(values, positions, tf.size(touched)) + tf.gather(slot, touched)
    finite = tf.reduce_all(tf.math.is_finite(applied))
    kept = tf.where(finite, tf.zeros_like(applied), tf.gather(slot, touched))
    slot.scatter_update(tf.IndexedSlices(kept, touched))
    return tf.IndexedSlices(tf.cast(applied, gradient.dtype), touched, gradient.dense_shape)


def _commit(encoded: Sequence[_Encoded], finite: tf.Tensor) -> None:
    """Updates the memories, or rolls back the residual rows of tables, updated in place by encoding."""
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


def _count(
    ranks: Ranks,
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
    encoded: Sequence[_Encoded],
    decoded: Sequence[_Decoded],
) -> Counts:
    payload = tf.stack([tf.size(each.frame, out_type=tf.int64) for each in encoded])
    return Counts(
        tf.stack([num_bytes(gradient) for gradient in gradients]),
        dense_wire_bytes(gradients, ranks),
        payload,
        gather_wire_bytes(payload, tf.stack([each.num_bytes for each in decoded])),
        tf.stack([each.nanoseconds for each in encoded]),
        tf.stack([each.nanoseconds for each in decoded]),
        tf.stack([num_elements(gradient) for gradient in gradients]),
        _sent_elements(encoded),
    )
