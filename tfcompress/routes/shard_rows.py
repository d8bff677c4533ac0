"""The shard route of tables: each rank sums the rows that it owns, and sends the encoded sums to all ranks.

Row r belongs to rank r % ranks: vocabularies are often sorted by frequency, so neighbours are touched alike.
A rank encodes its rows for their owners, an all-to-all moves them, an owner sums its rows of all ranks, its
own among them, and encodes the sum; an all-gather moves the sums. What the second encoding leaves out goes to
the owner's residual, which the first one used for the same rows, too. A row that all ranks touch travels to
its owner and back, and not to every rank.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import clock
from tfcompress.devices import HOST
from tfcompress.routes import rows
from tfcompress.routes.base import Context, Counts, Member, Outcome, seeds_of
from tfcompress.routes.memory import settle
from tfcompress.wire import allgather_bytes


def exchange(context: Context, members: Sequence[Member], gradients: Sequence[tf.IndexedSlices]) -> Outcome:
    """Sums rows at their owners.

    Args:
      context: The step.
      members: What is known of each gradient.
      gradients: The local ones.

    Raises:
      tf.errors.DataLossError: A frame is broken; names rank, tensor and reason. On every rank, whichever
        noticed; no memory has changed but the residual rows of tables.
    """
    ranks, num_tables = context.ranks, len(members)
    with tf.device(HOST):
        size, seeds = ranks.size_tensor(), seeds_of(context, members)
        slices = [rows.cast(gradient, tf.float32) for gradient in gradients]
        pieces = [
            rows.encode(member, each, seed, member.spec, member.route.row_sparsifier, size)
            for member, each, seed in zip(members, slices, seeds, strict=True)
        ]
        packet, splits = _by_owner(pieces)
        received, to_owners = clock.timed(
            packet, lambda packet: ranks.alltoall_packet(packet, splits, f"{context.name}_rows")
        )

        one = tf.constant(1.0)
        owned = [
            rows.decode(received, size, one, each, i, num_tables, tells_errors=True)
            for i, each in enumerate(slices)
        ]
        sums = [
            rows.encode(member, each.total, ~seed, member.spec_of_sums, "dense")
            for member, each, seed in zip(members, owned, seeds, strict=True)
        ]
        error = tf.concat([each.error for each in owned], axis=0)
        frames = tf.concat([each.frames for each in sums], axis=0)
        packet = tf.cond(tf.size(error) > 0, lambda: error, lambda: frames)
        gathered, to_all = clock.timed(
            packet, functools.partial(ranks.allgather_packet, name=f"{context.name}_row_sums")
        )
        totals = [
            rows.decode(gathered, size, context.scale(), each, i, num_tables) for i, each in enumerate(slices)
        ]
    return Outcome(
        [rows.cast(each.total, gradient.dtype) for each, gradient in zip(totals, gradients, strict=True)],
        _count(pieces, owned, sums, totals, ranks.position_tensor()),
        to_owners + to_all,
        tf.reduce_all(tf.stack([each.finite for each in totals])),
        functools.partial(settle, undo=[item for each in [*pieces, *sums] for item in each.undo]),
    )


def _by_owner(pieces: Sequence[rows.Encoded]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the frames of all tables for the first owner, then for the next; and bytes of each: int32."""
    splits = tf.cast(tf.add_n([each.num_bytes for each in pieces]), tf.int32)
    if len(pieces) == 1:
        return pieces[0].frames, splits
    of_tables = [tf.RaggedTensor.from_row_lengths(each.frames, each.num_bytes) for each in pieces]
    return tf.concat(of_tables, axis=1).flat_values, splits


def _count(
    pieces: Sequence[rows.Encoded],
    owned: Sequence[rows.Decoded],
    sums: Sequence[rows.Encoded],
    totals: Sequence[rows.Decoded],
    position: tf.Tensor,
) -> Counts:
    """Counts both hops of each gradient; what a rank sends itself does not travel."""

    def stacked(name: str, encodings: Sequence[rows.Encoded | rows.Decoded]) -> tf.Tensor:
        return tf.stack([getattr(each, name) for each in encodings])

    with tf.device(HOST):
        of_owners, to_all = stacked("num_bytes", pieces), tf.squeeze(stacked("num_bytes", sums), axis=1)
        own = of_owners[:, position]
        to_owners = tf.reduce_sum(of_owners, axis=1) - own
        from_others = stacked("num_bytes", owned) - own
        return Counts(
            to_owners + to_all,
            to_owners + from_others + allgather_bytes(to_all, stacked("num_bytes", totals)),
            stacked("nanoseconds", pieces) + stacked("nanoseconds", sums),
            stacked("nanoseconds", owned) + stacked("nanoseconds", totals),
            stacked("sent_elements", pieces) + stacked("sent_elements", sums),
        )
