"""The gather route: the frames of all compressed gradients of a step travel in one all-gather."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import clock, ops
from tfcompress.devices import HOST
from tfcompress.routes import rows
from tfcompress.routes.base import Context, Counts, Member, Outcome, num_packet_bytes, seeds_of
from tfcompress.routes.memory import settle
from tfcompress.wire import allgather_bytes

# Packets up to this size are padded, to multiples of a 16th of the next lower power of two, within limits.
# A length that changes makes Horovod negotiate again, for about 1.5 kB and 30 packets; beyond 128 KiB lengths
# change by more than what is worth padding (docs/design.md has the measurement). Where packets are on a GPU,
# cc_ops/cuda/header_finder.cu expects fewer than 4096 zeros.
_PADDED_BYTES = 128 * 1024
_SMALLEST_QUANTUM, _LARGEST_QUANTUM = 64, 2048


@dataclasses.dataclass(frozen=True)
class _Encoded:
    """What encoding one dense gradient gave.

    Attributes:
      frames: uint8, one frame.
      sent_elements: int64 scalar.
      nanoseconds: int64 scalar.
      updates: Slots, and what they become if the step succeeds.
    """

    frames: tf.Tensor
    sent_elements: tf.Tensor
    nanoseconds: tf.Tensor
    updates: list[tuple[tf.Variable, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class _Decoded:
    """The sum of a dense gradient; bytes over all ranks, nanoseconds and whether it was finite: scalars."""

    total: tf.Tensor
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
    # Rows are encoded and decoded on the host.
    device = context.packets if any(isinstance(each, tf.Tensor) for each in gradients) else HOST
    with tf.device(HOST):
        payload = tf.stack([_length(each, device) for each in encoded])
        padding = _padding(tf.reduce_sum(payload))
    with tf.device(device):
        zeros = tf.zeros([padding], tf.uint8)
        packet = tf.concat([*(each.frames for each in encoded), zeros], axis=0)
        packets, elapsed = clock.timed(
            packet, functools.partial(context.ranks.allgather_packet, name=context.name)
        )
    decoded = _decode(packets, context.ranks.size_tensor(), context.scale(), gradients)
    counts = _count(payload, encoded, decoded)
    sent, gathered = (num_packet_bytes(each, device) for each in (packet, packets))
    frames = tf.reduce_sum(tf.stack([counts.payload_bytes, counts.wire_bytes]), axis=1)
    return Outcome(
        [each.total for each in decoded],
        counts,
        elapsed,
        tf.reduce_all(tf.stack([each.finite for each in decoded])),
        functools.partial(
            settle,
            updates=[update for each in encoded if isinstance(each, _Encoded) for update in each.updates],
            undo=[item for each in encoded if isinstance(each, rows.Encoded) for item in each.undo],
        ),
        tf.stack([sent, allgather_bytes(sent, gathered)]) - frames,
    )


def _length(encoded: _Encoded | rows.Encoded, device: str) -> tf.Tensor:
    """Returns the bytes of frames, int64 scalar."""
    if isinstance(encoded, rows.Encoded):
        return tf.reduce_sum(encoded.num_bytes)
    return num_packet_bytes(encoded.frames, device)


def _padding(length: tf.Tensor) -> tf.Tensor:
    """Returns how many zeros make of a packet one of a length that changes seldom: int64 scalar."""
    power = tf.bitwise.left_shift(
        tf.constant(1, tf.int64), tf.cast(tf.math.log(tf.cast(length, tf.float64)) / math.log(2.0), tf.int64)
    )
    quantum = tf.clip_by_value(power // 16, _SMALLEST_QUANTUM, _LARGEST_QUANTUM)
    return tf.where(length < _PADDED_BYTES, -length % quantum, tf.constant(0, tf.int64))


def _encode(
    member: Member, gradient: tf.Tensor | tf.IndexedSlices, seed: tf.Tensor
) -> _Encoded | rows.Encoded:
    if isinstance(gradient, tf.IndexedSlices):
        return rows.encode(member, gradient, seed, member.spec, member.route.row_sparsifier)
    frame, num_sent, nanoseconds, new_slots = ops.encode(gradient, member.slots, seed, member.spec)
    return _Encoded(frame, num_sent, nanoseconds, list(zip(member.slots, new_slots, strict=True)))


def _decode(
    packets: tf.Tensor,
    num_ranks: tf.Tensor,
    scale: tf.Tensor,
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
) -> list[_Decoded | rows.Decoded]:
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
        columns = zip(positions, dense, sums, *map(tf.unstack, measured), strict=True)
        for i, gradient, total, num_bytes, nanoseconds, finite in columns:
            results[i] = _Decoded(tf.ensure_shape(total, gradient.shape), num_bytes, nanoseconds, finite)
    for i, gradient in enumerate(gradients):
        if isinstance(gradient, tf.IndexedSlices):
            results[i] = rows.decode(packets, num_ranks, scale, gradient, i, len(gradients))
    return results


def _count(
    payload: tf.Tensor,
    encoded: Sequence[_Encoded | rows.Encoded],
    decoded: Sequence[_Decoded | rows.Decoded],
) -> Counts:
    return Counts(
        payload,
        allgather_bytes(payload, tf.stack([each.num_bytes for each in decoded])),
        tf.stack([each.nanoseconds for each in encoded]),
        tf.stack([each.nanoseconds for each in decoded]),
        tf.stack([each.sent_elements for each in encoded]),
    )
