"""Two levels: the ranks of a host sum gradients among each other, hosts exchange the sums compressed.

Each rank of a host owns a part of every gradient. It gets that part from the others of its host,
uncompressed, adds them up, and exchanges the sum with the ranks that own the same part on other hosts, by
whatever route it has; an all-gather within the host then moves the results. A link between hosts carries one
encoded gradient of each host and not one of each rank. What an encoding left out is in the memory of the
part's owner.
"""

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from tfcompress import clock, comm
from tfcompress.devices import HOST
from tfcompress.levels import Levels
from tfcompress.parts import Part
from tfcompress.route import COMPRESSED_DTYPES
from tfcompress.routes.base import (
    Context,
    Counts,
    Member,
    Outcome,
    join,
    poisoned,
)

# What sends gradients on their routes among the ranks of a context.
Send = Callable[[Context, Sequence[Member], Sequence[tf.Tensor | tf.IndexedSlices]], Outcome]


def exchange(
    context: Context,
    levels: Levels,
    members: Sequence[Member],
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
    send: Send,
) -> Outcome:
    """Exchanges dense gradients in two levels, and all others among all ranks.

    Args:
      context: The step.
      levels: The ranks of this host, and those across hosts.
      members: What is known of each gradient; slots have the shape of this rank's part.
      gradients: The local ones.
      send: Exchanges gradients among the ranks of a context.

    Raises:
      tf.errors.DataLossError: A frame is broken. On the ranks that have got it: the others of their hosts
        wait for them, and end with Horovod's error when they do.
    """
    dense = tuple(i for i, member in enumerate(members) if _is_cut(member))
    others = tuple(i for i in range(len(members)) if i not in dense)
    outcomes = {}
    if others:
        outcomes[others] = send(context, [members[i] for i in others], [gradients[i] for i in others])
    if dense:
        chosen = [members[i] for i in dense], [gradients[i] for i in dense]
        outcomes[dense] = _exchange_parts(context, levels, *chosen, send)
    return join(outcomes)


def _is_cut(member: Member) -> bool:
    """Whether a gradient is dense, of a shape that is known beforehand, and made of floats."""
    return not member.is_table and member.shape.is_fully_defined() and member.dtype.name in COMPRESSED_DTYPES


def _exchange_parts(
    context: Context, levels: Levels, members: Sequence[Member], gradients: Sequence[tf.Tensor], send: Send
) -> Outcome:
    part = Part.owned_by(levels.inside)
    cuts = [part.cuts(member.shape.as_list()) for member in members]
    mine = [i for i, each in enumerate(cuts) if each[part.position] < each[part.position + 1]]
    with tf.device(HOST):
        sums, to_owners = _sum_inside(context, levels, part, cuts, gradients)
        owned = [_part_of(members[i], part) for i in mine]
        parts = [tf.reshape(sums[i], own.shape) for i, own in zip(mine, owned, strict=True)]
        across = dataclasses.replace(
            context, ranks=levels.across, name=f"{context.name}_across", packets=HOST
        )
        sent = send(across, owned, parts) if mine else _nothing()
        results, finite, to_all = _gather_inside(context, levels, cuts, members, mine, sent)
        counts = _placed(sent.counts, mine, len(gradients))
    return Outcome(
        [
            tf.cast(tf.reshape(result, member.shape), member.dtype)
            for result, member in zip(results, members, strict=True)
        ],
        counts,
        to_owners + sent.communication_nanoseconds + to_all,
        finite,
        sent.commit,
        sent.padding,
    )


def _part_of(member: Member, part: Part) -> Member:
    shape = tf.TensorShape(part.shape_of(member.shape.as_list()))
    return dataclasses.replace(member, shape=shape, dtype=tf.float32)


def _sum_inside(
    context: Context,
    levels: Levels,
    part: Part,
    cuts: Sequence[Sequence[int]],
    gradients: Sequence[tf.Tensor],
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Returns the host's sums of this rank's part of each gradient, float32 vectors; and the nanoseconds."""
    vectors = [tf.reshape(tf.cast(gradient, tf.float32), [-1]) for gradient in gradients]
    sizes = _sizes(cuts)
    packet = tf.concat(
        [
            vector[each[i] : each[i + 1]]
            for i in range(part.count)
            for vector, each in zip(vectors, cuts, strict=True)
        ],
        axis=0,
    )
    splits = tf.constant([sum(each) for each in sizes], tf.int32)
    received, elapsed = clock.timed(
        packet, lambda packet: levels.inside.alltoall_packet(packet, splits, f"{context.name}_inside")
    )
    own = sizes[part.position]
    total = tf.add_n(tf.split(received, [sum(own)] * part.count))
    return tf.split(total, own), elapsed


def _gather_inside(
    context: Context,
    levels: Levels,
    cuts: Sequence[Sequence[int]],
    members: Sequence[Member],
    mine: Sequence[int],
    sent: Outcome,
) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
    """Returns all results as float32 vectors, whether all ranks' gradients were finite, and the nanoseconds.

    Each rank of the host has its part of the result, and knows what the owners of the same part found.
    """
    sizes = _sizes(cuts)
    # Hosts have averaged their sums.
    factor = 1.0 / len(sizes) if context.options.op == comm.AVERAGE else 1.0
    own = [tf.reshape(gradient, [-1]) * factor for gradient in sent.gradients]
    packet = tf.concat([*own, tf.cast(sent.finite, tf.float32)[tf.newaxis]], axis=0)
    gathered, elapsed = clock.timed(
        packet, lambda packet: levels.inside.allgather_packet(packet, f"{context.name}_back")
    )
    pieces = tf.split(gathered, [size for each in sizes for size in (*each, 1)])
    ranks = [pieces[i : i + len(cuts) + 1] for i in range(0, len(pieces), len(cuts) + 1)]
    finite = tf.reduce_all(tf.concat([each[-1] for each in ranks], axis=0) > 0)
    results = []
    for i, member in enumerate(members):
        found = [each[i] for each, counted in zip(ranks, sizes, strict=True) if counted[i]]
        result = tf.concat(found, axis=0) if found else tf.zeros([0])
        if member.route.carries_frames and found:  # They are NaN in all places of a part, or in none.
            ends = tf.stack([each[0] for each in found])
            result = poisoned(result, tf.reduce_all(tf.math.is_finite(ends)))
        results.append(result)
    return results, finite, elapsed


def _sizes(cuts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Returns the elements of each gradient that each rank of the host owns: [ranks][gradients]."""
    return [[each[i + 1] - each[i] for each in cuts] for i in range(len(cuts[0]) - 1)]


def _nothing() -> Outcome:
    """What a rank has exchanged that owns no part of any gradient: there are fewer rows than ranks."""
    none, zero = tf.zeros([0], tf.int64), tf.constant(0, tf.int64)
    counts = Counts(*[none] * len(dataclasses.fields(Counts)))
    return Outcome([], counts, zero, tf.constant(True), lambda succeeded: None)


def _placed(counts: Counts, mine: Sequence[int], num_gradients: int) -> Counts:
    """Returns what this rank moved between hosts of all gradients, of which it owns parts of `mine`."""
    positions = tf.constant(mine, tf.int32, [len(mine), 1])
    return Counts(*[tf.scatter_nd(positions, column, [num_gradients]) for column in counts.columns()])
