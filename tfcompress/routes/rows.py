"""Rows of tables (IndexedSlices) in frames: encoding and decoding."""

import dataclasses

import tensorflow as tf

from tfcompress import ops
from tfcompress.routes.base import Member


@dataclasses.dataclass(frozen=True)
class Encoded:
    """What encoding gave for one table.

    Attributes:
      frames: uint8, one frame for each owner.
      num_bytes: int64 [owners], of each frame.
      sent_elements: int64 scalar.
      nanoseconds: int64 scalar.
      undo: The residual, which encoding updates in place, and the rows to put back; nothing without one.
    """

    frames: tf.Tensor
    num_bytes: tf.Tensor
    sent_elements: tf.Tensor
    nanoseconds: tf.Tensor
    undo: list[tuple[tf.Variable, tf.IndexedSlices]]


@dataclasses.dataclass(frozen=True)
class Decoded:
    """The sum of one table's rows.

    Attributes:
      total: Rows that any rank sent.
      num_bytes: int64 scalar, of the frames of all ranks.
      nanoseconds: int64 scalar.
      finite: bool scalar.
      error: uint8, empty unless errors are told instead of raised.
    """

    total: tf.IndexedSlices
    num_bytes: tf.Tensor
    nanoseconds: tf.Tensor
    finite: tf.Tensor
    error: tf.Tensor


def encode(
    member: Member,
    gradient: tf.IndexedSlices,
    seed: tf.Tensor,
    spec: tf.Tensor,
    row_sparsifier: str,
    num_owners: int | tf.Tensor = 1,
) -> Encoded:
    """Encodes rows, a frame for each owner; see `ops.encode_rows`."""
    touched, _ = tf.unique(gradient.indices)
    undo = [(slot, tf.IndexedSlices(tf.gather(slot, touched), touched)) for slot in member.slots]
    with tf.control_dependencies([slices.values for _, slices in undo]):
        frames, nanoseconds, num_bytes, sent_elements = ops.encode_rows(
            gradient.values,
            gradient.indices,
            tf.cast(gradient.dense_shape[0], tf.int64),
            member.slots,
            seed,
            spec,
            row_sparsifier,
            num_owners,
        )
    return Encoded(frames, num_bytes, sent_elements, nanoseconds, undo)


def decode(
    packets: tf.Tensor,
    num_ranks: tf.Tensor,
    scale: tf.Tensor,
    gradient: tf.IndexedSlices,
    position: int,
    num_frames: int,
    tells_errors: bool = False,
) -> Decoded:
    """Sums the rows of the table that `gradient` is of; see `ops.decode_rows`."""
    shape = tf.cast(gradient.dense_shape, tf.int64)
    rows, values, *measured = ops.decode_rows(
        packets, num_ranks, scale, shape[0], shape[1:], gradient.dtype, position, num_frames, tells_errors
    )
    values = tf.ensure_shape(values, tf.TensorShape([None]).concatenate(gradient.values.shape[1:]))
    total = tf.IndexedSlices(values, tf.cast(rows, gradient.indices.dtype), gradient.dense_shape)
    return Decoded(total, *measured)


def cast(gradient: tf.IndexedSlices, dtype: tf.DType) -> tf.IndexedSlices:
    """Returns slices with values of another dtype."""
    return tf.IndexedSlices(tf.cast(gradient.values, dtype), gradient.indices, gradient.dense_shape)


def smaller_form(
    total: tf.IndexedSlices, gradient: tf.IndexedSlices, num_ranks: tf.Tensor
) -> tf.Tensor | tf.IndexedSlices:
    """Returns the dense tensor where the ranks' rows together are known to be as many as the table's."""
    num_slices, ranks = gradient.values.shape[0], tf.get_static_value(num_ranks)
    num_rows = gradient.shape[0] if gradient.shape.rank else None
    if None in (num_slices, ranks, num_rows) or num_slices * ranks < num_rows:
        return total
    return tf.ensure_shape(tf.convert_to_tensor(total), gradient.shape)


def apply_alone(member: Member, gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Applies rows and their residual on one rank alone, as if all were sent."""
    [slot] = member.slots
    touched, positions = tf.unique(gradient.indices)
    values = tf.cast(gradient.values, tf.float32)
    applied = tf.math.unsorted_segment_sum(values, positions, tf.size(touched)) + tf.gather(slot, touched)
    finite = tf.reduce_all(tf.math.is_finite(applied))
    kept = tf.where(finite, tf.zeros_like(applied), tf.gather(slot, touched))
    slot.scatter_update(tf.IndexedSlices(kept, touched))
    return tf.IndexedSlices(tf.cast(applied, gradient.dtype), touched, gradient.dense_shape)
