"""The custom route: what codecs in Python make of all gradients of a step travels in one all-gather."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import clock
from tfcompress.custom_packets import CustomPackets
from tfcompress.devices import HOST
from tfcompress.routes.base import (
    Context,
    Counts,
    Member,
    Outcome,
    call_python,
    num_elements,
    poisoned,
    seeds_of,
)
from tfcompress.routes.memory import compensate, settle
from tfcompress.wire import allgather_bytes


def exchange(context: Context, members: Sequence[Member], gradients: Sequence[tf.Tensor]) -> Outcome:
    """Encodes gradients, gathers all ranks' packets, and sums them in float32 in rank order.

    Args:
      context: The step.
      members: What is known of each gradient.
      gradients: The local ones.

    Raises:
      ValueError, or tf.errors.InvalidArgumentError in a graph: A packet is broken, or a codec decodes to
        another shape; no memory has changed.
    """
    compensated = [compensate(member, gradient) for member, gradient in zip(members, gradients, strict=True)]
    codecs = [member.route.codec for member in members if member.route.codec]  # All of them have one.
    packets = CustomPackets(codecs, [member.name for member in members])
    count, ranks = len(members), context.ranks
    with tf.device(HOST):
        vectors = [tf.cast(vector, tf.float32) for vector, _ in compensated]
        seeds = tf.stack(seeds_of(context, members))
        packet, lengths, encode_times = call_python(
            packets.encode, [seeds, *vectors], [tf.uint8, tf.int64, tf.int64], [[None], [count], [count]]
        )
        gather = functools.partial(ranks.allgather_packet, name=f"{context.name}_custom")
        gathered, elapsed = clock.timed(packet, gather)
        shapes = [vector.shape for vector in vectors]
        *both, all_lengths, decode_times, finite = call_python(
            packets.decode,
            [gathered, seeds, ranks.position_tensor(), ranks.size_tensor(), *map(tf.shape, vectors)],
            [tf.float32] * (2 * count) + [tf.int64, tf.int64, tf.bool],
            [*shapes, *shapes, [count], [count], []],
        )
        sums, own = both[:count], both[count:]
        reduced = [
            tf.cast(poisoned(total * context.scale(), finite), gradient.dtype)
            for total, gradient in zip(sums, gradients, strict=True)
        ]
        wire = allgather_bytes(lengths, all_lengths)
        header = tf.constant(packets.header_bytes, tf.int64)
        headers = allgather_bytes(header, header * tf.cast(ranks.size_tensor(), tf.int64))
        elements = tf.stack([num_elements(gradient) for gradient in gradients])
    return Outcome(
        reduced,
        Counts(lengths, wire, encode_times, decode_times, elements),
        elapsed,
        finite,
        functools.partial(_commit, members, [slots for _, slots in compensated], own),
        tf.stack([header, headers]),
    )


def _commit(
    members: Sequence[Member],
    all_slots: Sequence[list[tf.Tensor]],
    own: Sequence[tf.Tensor],
    succeeded: tf.Tensor,
) -> None:
    """Takes what was sent out of the residuals, if the step has succeeded."""
    settle(
        succeeded,
        [
            (member.slots[0], slots[0] - sent)
            for member, slots, sent in zip(members, all_slots, own, strict=True)
            if slots
        ],
    )
