"""The shard route: each rank sums a shard of all gradients, and sends the encoded sum to all ranks.

All gradients of a step, end to end, are cut into one shard a rank. A rank encodes what lies in the shards of
others, an all-to-all moves it, the owner of a shard adds its own part, which was never encoded, and encodes
the sum; an all-gather moves the sums. Bytes and decoding of a rank stay as they are, however many ranks there
are. The slot of a residual holds what either encoding left out: cc_ops/core/pieces.h has the arithmetic.
"""

import dataclasses
import functools
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import clock, ops
from tfcompress.devices import HOST
from tfcompress.routes.base import Context, Counts, Member, Outcome, num_elements, num_packet_bytes, seeds_of
from tfcompress.routes.memory import settle
from tfcompress.wire import allgather_bytes

# Shards begin at multiples of so many elements, which blocks of codecs divide.
_SHARD_ELEMENTS = 1024


@dataclasses.dataclass(frozen=True)
class _Encoded:
    """What encoding gave for one gradient.

    Attributes:
      frames: uint8.
      num_bytes: int64 [ranks], of the frames for each rank; None for a sum.
      sent_elements: int64 scalar.
      nanoseconds: int64 scalar.
      slots: The memory's, after it.
    """

    frames: tf.Tensor
    num_bytes: tf.Tensor | None
    sent_elements: tf.Tensor
    nanoseconds: tf.Tensor
    slots: list[tf.Tensor]


@dataclasses.dataclass(frozen=True)
class _Decoded:
    """Sums, float32, and of each its bytes and nanoseconds, int64, and whether it was finite: [tensors]."""

    sums: list[tf.Tensor]
    num_bytes: tf.Tensor
    nanoseconds: tf.Tensor
    finite: tf.Tensor


def exchange(context: Context, members: Sequence[Member], gradients: Sequence[tf.Tensor]) -> Outcome:
    """Sums gradients shard by shard.

    Args:
      context: The step.
      members: What is known of each gradient.
      gradients: The local ones, dense.

    Raises:
      tf.errors.DataLossError: A frame is broken; names rank, tensor and reason. On every rank, whichever
        noticed; no memory has changed.
    """
    ranks = context.ranks
    with tf.device(HOST):
        size, own = ranks.size_tensor(), ranks.position_tensor()
        cuts = _cuts(gradients, size)
        seeds = seeds_of(context, members)
    vectors = [tf.cast(gradient, tf.float32) for gradient in gradients]
    pieces = [
        _Encoded(*ops.encode_pieces(vector, member.slots, cuts[i], own, seed, member.spec))
        for i, (vector, member, seed) in enumerate(zip(vectors, members, seeds, strict=True))
    ]
    with tf.device(HOST):
        splits = tf.cast(tf.add_n([each.num_bytes for each in pieces]), tf.int32)
    with tf.device(context.packets):
        packet = tf.concat([each.frames for each in pieces], axis=0)
        received, to_owners = clock.timed(
            packet, lambda packet: ranks.alltoall_packet(packet, splits, f"{context.name}_pieces")
        )
    with tf.device(HOST):
        sizes = cuts[:, own + 1] - cuts[:, own]
        own_pieces = [(cuts[i, own], ~seed) for i, seed in enumerate(seeds)]
    *summed, error = ops.sum_pieces(received, size, own, sizes, len(members))
    others = _Decoded(*summed)
    sums = [
        _encode_sum(member, vector, piece, other, *own_piece)
        for member, vector, piece, other, own_piece in zip(
            members, vectors, pieces, others.sums, own_pieces, strict=True
        )
    ]
    with tf.device(HOST):
        failed = tf.size(error) > 0
    with tf.device(context.packets):
        frames = tf.concat([each.frames for each in sums], axis=0)
        packet = tf.cond(failed, lambda: error, lambda: frames)
        gathered, to_all = clock.timed(
            packet, functools.partial(ranks.allgather_packet, name=f"{context.name}_sums")
        )
    with tf.device(HOST):
        shapes = [tf.shape(gradient, out_type=tf.int64) for gradient in gradients]
        scale = context.scale()
    totals = _Decoded(*ops.decode_pieces(gathered, scale, cuts, shapes))
    updates = [
        update
        for member, encoded in zip(members, sums, strict=True)
        for update in zip(member.slots, encoded.slots, strict=True)
    ]
    return Outcome(
        [
            tf.cast(tf.ensure_shape(total, gradient.shape), gradient.dtype)
            for total, gradient in zip(totals.sums, gradients, strict=True)
        ],
        _count(pieces, others, sums, totals, context.packets),
        to_owners + to_all,
        tf.reduce_all(totals.finite),
        functools.partial(settle, updates=updates),
    )


def _cuts(gradients: Sequence[tf.Tensor], num_ranks: tf.Tensor) -> tf.Tensor:
    """Where each rank's piece of each gradient begins and ends: int64 [gradients, ranks + 1]."""
    sizes = tf.stack([num_elements(gradient) for gradient in gradients])
    begins = tf.cumsum(sizes, exclusive=True)
    total, num_shards = tf.reduce_sum(sizes), tf.cast(num_ranks, tf.int64)
    shard = -(-total // (num_shards * _SHARD_ELEMENTS)) * _SHARD_ELEMENTS
    ends = shard * tf.range(num_shards + 1)
    return tf.clip_by_value(ends[tf.newaxis] - begins[:, tf.newaxis], 0, sizes[:, tf.newaxis])


def _encode_sum(
    member: Member, vector: tf.Tensor, piece: _Encoded, others: tf.Tensor, begin: tf.Tensor, seed: tf.Tensor
) -> _Encoded:
    frame, *rest = ops.encode_sum(vector, piece.slots, others, begin, seed, member.spec_of_sums)
    return _Encoded(frame, None, *rest)


def _count(
    pieces: Sequence[_Encoded], others: _Decoded, sums: Sequence[_Encoded], totals: _Decoded, device: str
) -> Counts:
    """Counts both hops of each gradient."""

    def both(name: str) -> tf.Tensor:
        return tf.stack([getattr(a, name) + getattr(b, name) for a, b in zip(pieces, sums, strict=True)])

    with tf.device(HOST):
        to_owners = tf.stack([tf.reduce_sum(each.num_bytes) for each in pieces])
        to_all = tf.stack([num_packet_bytes(each.frames, device) for each in sums])
        return Counts(
            to_owners + to_all,
            to_owners + others.num_bytes + allgather_bytes(to_all, totals.num_bytes),
            both("nanoseconds"),
            others.nanoseconds + totals.nanoseconds,
            both("sent_elements"),
        )
