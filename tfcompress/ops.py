"""The TensorFlow ops. The only module that loads the op library."""

import functools
from collections.abc import Sequence
from types import ModuleType

import tensorflow as tf

from tfcompress import cuda, devices, notices, op_library


@functools.cache
def _library() -> ModuleType:
    path = op_library.find(tf.__version__)
    try:
        with devices.told_to_kernels():
            library = tf.load_op_library(str(path))
    except tf.errors.NotFoundError as error:
        raise ImportError(
            f"{path.name}, built for TensorFlow {op_library.built_for(path)}, does not load into TensorFlow "
            f"{tf.__version__}: {error.message}. Build tfcompress for this one: {op_library.BUILD_COMMAND}"
        ) from error
    if tf.config.get_visible_devices("GPU") and not cuda.is_built():
        notices.tell(
            "there is a GPU, but no kernels for GPUs were built, as in wheels: gradients are copied to the "
            "CPU and encoded there. docs/cuda.md says how to build with nvcc (TFC_WITH_CUDA=ON)"
        )
    return library


def encode(
    gradient: tf.Tensor, slots: Sequence[tf.Tensor | tf.Variable], seed: tf.Tensor, spec: str | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Compensates, selects and encodes a gradient.

    Args:
      gradient: float32, float16 or bfloat16 of any shape, n elements.
      slots: The memory's float32 vectors of n elements each, as many as the spec's memory has.
      seed: int64 scalar; travels in the frame.
      spec: The spec to apply, a string scalar; may change from step to step.

    Returns:
      The frame, uint8 of data-dependent length; the number of elements in it and the time it took in
      nanoseconds, int64 scalars; and what the slots become when the step has succeeded on all ranks.

    Raises:
      tf.errors.InvalidArgumentError: The spec is not one, or the slots are not its memory's.
    """
    return _library().tfcompress_encode(
        gradient=gradient,
        slots=[tf.convert_to_tensor(slot) for slot in slots],
        seed=seed,
        spec=spec,
    )


def decode_sum(
    packets: tf.Tensor,
    num_ranks: tf.Tensor,
    scale: tf.Tensor,
    shapes: Sequence[tf.Tensor],
    dtypes: Sequence[tf.DType],
    positions: Sequence[int] | None = None,
    num_frames: int | None = None,
) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor, tf.Tensor]:
    """Decodes the packets of all ranks and sums them in rank order.

    Args:
      packets: uint8, the packets of `num_ranks` ranks end to end, each with one frame a tensor.
      num_ranks: int32 scalar.
      scale: float32 scalar that multiplies the sum.
      shapes: int64 shape of each tensor.
      dtypes: dtype of each tensor.
      positions: Where the tensors' frames stand in each packet, ascending; None for the first ones.
      num_frames: Frames in each packet, of which the others are left alone; None for one a tensor.

    Returns:
      The dense sums; the bytes of each tensor over all ranks, int64 [tensors]; the time each took in
      nanoseconds, int64 [tensors]; and whether each was finite on every rank, bool [tensors].

    Raises:
      tf.errors.DataLossError: A frame is broken; names rank, tensor and reason.
    """
    return _library().tfcompress_decode_sum(
        packets=packets,
        num_ranks=num_ranks,
        scale=scale,
        shapes=shapes,
        dtypes=dtypes,
        positions=positions or [],
        num_frames=num_frames or 0,
    )


def encode_pieces(
    gradient: tf.Tensor,
    slots: Sequence[tf.Tensor | tf.Variable],
    cuts: tf.Tensor,
    own: tf.Tensor,
    seed: tf.Tensor,
    spec: str | tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Compensates a gradient, and encodes the pieces of it that other ranks sum.

    Args:
      gradient: float32 of any shape, n elements.
      slots: The memory's float32 vectors of n elements each.
      cuts: int64 [ranks + 1], ascending from 0 to n: piece r is elements [cuts[r], cuts[r + 1]).
      own: int32 scalar, the piece that this rank sums.
      seed: int64 scalar; travels in the frames.
      spec: The spec to apply, a string scalar.

    Returns:
      The frames of the other pieces in order, uint8; the bytes of each piece's, int64 [ranks]; the number of
      elements in them and the time in nanoseconds, int64 scalars; and the slots, which in the own piece have
      the compensated gradient.

    Raises:
      tf.errors.InvalidArgumentError: The spec is not one, or slots or cuts are not the gradient's.
    """
    return _library().tfcompress_encode_pieces(
        gradient=gradient,
        slots=[tf.convert_to_tensor(slot) for slot in slots],
        cuts=cuts,
        own=own,
        seed=seed,
        spec=spec,
    )


def sum_pieces(
    packets: tf.Tensor, num_ranks: tf.Tensor, own: tf.Tensor, sizes: tf.Tensor, num_tensors: int
) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Sums what the other ranks sent of this rank's pieces, in rank order.

    Args:
      packets: uint8, the packets of the other ranks end to end, each with the frames of the pieces that have
        elements.
      num_ranks: int32 scalar, this rank counted.
      own: int32 scalar, this rank.
      sizes: int64 [tensors], elements of this rank's piece of each tensor.
      num_tensors: The number of tensors.

    Returns:
      The sums, float32 vectors; bytes and nanoseconds of each tensor, int64 [tensors]; whether each was
      finite, bool [tensors]; and uint8, empty, or where a frame is broken what to send to all ranks instead
      of the sums, which `decode_pieces` raises.
    """
    return _library().tfcompress_sum_pieces(
        packets=packets, num_ranks=num_ranks, own=own, sizes=sizes, N=num_tensors
    )


def encode_sum(
    gradient: tf.Tensor,
    slots: Sequence[tf.Tensor],
    others: tf.Tensor,
    begin: tf.Tensor,
    seed: tf.Tensor,
    spec: str | tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Adds this rank's own part of its piece to what the others sent, and encodes the sum.

    Args:
      gradient: float32; read where there is no memory.
      slots: float32, what `encode_pieces` returned.
      others: float32 vector that `sum_pieces` returned.
      begin: int64 scalar, where the piece begins.
      seed: int64 scalar; travels in the frame.
      spec: The spec to apply, a string scalar.

    Returns:
      The frame, uint8, empty where the piece is; the number of elements in it and the time in nanoseconds,
      int64 scalars; and the slots, with what the frame leaves out of the sum.
    """
    return _library().tfcompress_encode_sum(
        own=list(slots) or [gradient],
        others=others,
        begin=begin,
        seed=seed,
        spec=spec,
        num_slots=len(slots),
    )


def decode_pieces(
    packets: tf.Tensor, scale: tf.Tensor, cuts: tf.Tensor, shapes: Sequence[tf.Tensor]
) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor, tf.Tensor]:
    """Decodes the sums that all ranks made of their pieces.

    Args:
      packets: uint8, for each rank the frames of its pieces of all tensors.
      scale: float32 scalar that multiplies the sums.
      cuts: int64 [tensors, ranks + 1].
      shapes: int64 shape of each tensor.

    Returns:
      The sums, float32; bytes and nanoseconds of each, int64 [tensors]; and whether each was finite on every
      rank, bool [tensors].

    Raises:
      tf.errors.DataLossError: A frame is broken; names rank, tensor and reason.
    """
    return _library().tfcompress_decode_pieces(packets=packets, scale=scale, cuts=cuts, shapes=shapes)


def encode_rows(
    values: tf.Tensor,
    indices: tf.Tensor,
    num_rows: tf.Tensor,
    residual: Sequence[tf.Variable],
    seed: tf.Tensor,
    spec: str | tf.Tensor,
    row_sparsifier: str = "dense",
    num_owners: int | tf.Tensor = 1,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Merges, compensates, chooses and encodes some rows of a table (`tf.IndexedSlices`).

    Makes a frame for each owner: row r belongs to owner r % num_owners. Takes time and memory of the order of
    the rows, never of the table. The spec's memory and sparsifier are not used.

    Args:
      values: float32, float16 or bfloat16 [m, ...], one slice an index.
      indices: int32 or int64 [m], the row of each slice; slices of the same row are summed.
      num_rows: int64 scalar, rows of the table.
      residual: No variable, or one: float32 of `num_rows` rows, updated in place with what is left out.
      seed: int64 scalar; travels in the frame.
      spec: The spec whose codecs to apply, a string scalar.
      row_sparsifier: A sparsifier of a spec, such as "topk:ratio=0.1", that chooses among the touched
        rows by their Euclidean norms; "dense" for all.
      num_owners: int32 scalar, at least 1.

    Returns:
      The frames, uint8 of data-dependent length; the time they took in nanoseconds, int64 scalar; the bytes
      of each, int64 [owners]; and the elements in them, int64 scalar.

    Raises:
      tf.errors.InvalidArgumentError: An index is outside the table, a spec is not one or codes dense
        tensors only (threelc), the residual is of another size, or there is no owner.
    """
    return _library().tfcompress_encode_rows(
        values=values,
        indices=indices,
        num_rows=num_rows,
        num_owners=num_owners,
        residual=[variable.handle for variable in residual],
        seed=seed,
        spec=spec,
        row_sparsifier=row_sparsifier,
    )


def decode_rows(
    packets: tf.Tensor,
    num_ranks: tf.Tensor,
    scale: tf.Tensor,
    num_rows: tf.Tensor,
    row_shape: tf.Tensor,
    dtype: tf.DType,
    position: int = 0,
    num_frames: int = 1,
    tells_errors: bool = False,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Decodes one table's rows from the packets of all ranks and sums them in rank order.

    Args:
      packets: uint8, the packets of `num_ranks` ranks end to end.
      num_ranks: int32 scalar.
      scale: float32 scalar that multiplies the sums.
      num_rows: int64 scalar, rows of the table.
      row_shape: int64 shape of a row.
      dtype: dtype of the table's gradient.
      position: Where the table's frame stands in each packet.
      num_frames: Frames in each packet, of which the others are left alone.
      tells_errors: Whether to return what is wrong with packets that only this rank has, instead of failing.

    Returns:
      The rows that any rank sent, ascending int64 [rows]; their sums, `dtype` [rows, row_shape...], NaN
      where any rank's gradient was not finite (of row 0 where no row was sent); the bytes of the
      table's frames over all ranks, int64 scalar; the time it took in nanoseconds, int64 scalar;
      whether it was finite on every rank, bool scalar; and the error, uint8, empty if there is none, which
      this op, given it for a packet, fails with on every rank.

    Raises:
      tf.errors.DataLossError: A frame is broken; names rank, position and reason.
    """
    return _library().tfcompress_decode_rows(
        packets=packets,
        num_ranks=num_ranks,
        scale=scale,
        num_rows=num_rows,
        row_shape=row_shape,
        T=dtype,
        position=position,
        num_frames=num_frames,
        tells_errors=tells_errors,
    )


def compensate(
    gradient: tf.Tensor, slots: Sequence[tf.Tensor | tf.Variable], spec: str | tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Adds what earlier steps left out to a gradient: the memory of a spec, alone.

    Args:
      gradient: float32, float16 or bfloat16 of any shape, n elements.
      slots: The memory's float32 vectors of n elements each, as many as the spec's memory has: none for
        `none`, the residual for `residual`, residual and velocity for `momentum`.
      spec: The spec, linear or framed, a string scalar, such as "momentum:rate=0.9|count_sketch".

    Returns:
      The slots after the step, as if nothing were sent, of which the first is the vector to send (with
      memory `none` there are no slots: send the gradient itself); and whether that vector is finite, bool
      scalar. Where it is not, the slots come back as they were, bit for bit.

    Raises:
      tf.errors.InvalidArgumentError: The spec is not one, or the slots are not its memory's.
    """
    return _library().tfcompress_compensate(
        gradient=gradient, slots=[tf.convert_to_tensor(slot) for slot in slots], spec=spec
    )


def linear_encode(
    tensors: Sequence[tf.Tensor], seed: tf.Tensor, spec: str | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Encodes tensors into one payload that may be summed over ranks (Sketched-SGD 5.1, lines 7 and 8).

    The tensors are encoded as one vector of n elements, laid end to end, without a copy that does so.

    Args:
      tensors: float32 of any shapes, at least one, together less than 2^31 elements.
      seed: int64 scalar, the same on all ranks of a step.
      spec: The linear spec, a string scalar; its memory is not used.

    Returns:
      The payload, float32 [size] where the spec and n determine the size (all NaN where an element is NaN
      or Inf), and the time it took in nanoseconds, int64 scalar.

    Raises:
      tf.errors.InvalidArgumentError: The spec is not a linear one, or there are too many elements.
    """
    return _library().tfcompress_linear_encode(dense=list(tensors), seed=seed, spec=spec)


def linear_recover(
    summed: tf.Tensor, n: tf.Tensor, seed: tf.Tensor, spec: str | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Recovers elements of a sum of vectors from the sum of their payloads (Sketched-SGD 5.1, line 9).

    Args:
      summed: float32 [size], the sum (or mean) over ranks of what `linear_encode` gave.
      n: int64 scalar, elements of the vector.
      seed: int64 scalar, that of `linear_encode`.
      spec: The linear spec, that of `linear_encode`.

    Returns:
      Ascending indices, int64 [c]; their values in the sum (or mean), float32 [c], exact or estimated as
      `describe_spec` says, all NaN where `summed` is not finite; and the time it took in nanoseconds, int64
      scalar. Equal sums give equal bits on every rank.

    Raises:
      tf.errors.InvalidArgumentError: The spec is not a linear one, or `summed` is of another size than
        `linear_encode` makes for n elements.
    """
    return _library().tfcompress_linear_recover(summed=summed, n=n, seed=seed, spec=spec)


def low_rank_left(
    matrices: Sequence[tf.Tensor],
    last_right: Sequence[tf.Tensor | tf.Variable],
    seed: tf.Tensor,
    rank: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Multiplies matrices by the right factors of the last step (PowerSGD, Algorithm 1, line 3).

    Args:
      matrices: float32, at least one, of at least two dimensions: rows of the last one.
      last_right: float32 [rank, columns] for each; vectors of zeros are drawn at random.
      seed: int64 scalar, the same on all ranks of a step.
      rank: Vectors of a factor.

    Returns:
      The left factors, [rank, rows] of each matrix, end to end, float32 [size], not finite where the matrix
      is not; and the time it took in nanoseconds, int64 scalar.

    Raises:
      tf.errors.InvalidArgumentError: A matrix has fewer dimensions, or a factor has another size.
    """
    return _library().tfcompress_low_rank_left(
        matrices=list(matrices),
        last_right=[tf.convert_to_tensor(factor) for factor in last_right],
        seed=seed,
        rank=rank,
    )


def low_rank_right(
    matrices: Sequence[tf.Tensor], summed_left: tf.Tensor, rank: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Makes left factors orthonormal, and multiplies matrices by them (PowerSGD, Algorithm 1, lines 5 and 6).

    Args:
      matrices: As given to `low_rank_left`.
      summed_left: The mean, or any multiple of it, over ranks of what that returned.
      rank: Vectors of a factor.

    Returns:
      The orthonormal left factors, of the size of `summed_left`, equal on every rank; the right factors,
      [rank, columns] of each matrix, end to end, float32 [size], all NaN if `summed_left` is not finite; and
      the time it took in nanoseconds, int64 scalar.

    Raises:
      tf.errors.InvalidArgumentError: `summed_left` is of another size than `low_rank_left` makes.
    """
    return _library().tfcompress_low_rank_right(matrices=list(matrices), summed_left=summed_left, rank=rank)


def low_rank_decode(
    matrices: Sequence[tf.Tensor],
    left: tf.Tensor,
    right: tf.Tensor,
    scale: tf.Tensor,
    rank: int,
    keeps_residuals: bool = True,
) -> tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor, tf.Tensor]:
    """Multiplies out the factors, and takes the product out of the matrices (Algorithm 1, lines 8 and 9).

    Args:
      matrices: As given to `low_rank_left`.
      left: What `low_rank_right` returned.
      right: The mean over ranks of what that returned.
      scale: float32 scalar that multiplies the decoded matrices, and not what is taken out.
      rank: Vectors of a factor.
      keeps_residuals: Whether to return what is left of the matrices.

    Returns:
      The decoded matrices, equal on every rank, all NaN if they are not finite; what is left of the matrices,
      an empty list unless asked for; whether everything is finite, bool scalar; and the time it took in
      nanoseconds, int64 scalar.

    Raises:
      tf.errors.InvalidArgumentError: Factors are of another size.
    """
    return _library().tfcompress_low_rank_decode(
        matrices=list(matrices),
        left=left,
        right=right,
        scale=scale,
        rank=rank,
        num_residuals=len(matrices) if keeps_residuals else 0,
    )


def select_largest(values: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Finds the elements of largest magnitude, exactly.

    Args:
      values: float32 [c].
      count: int64 scalar, at most c.

    Returns:
      Their positions, ascending int64 [count]; ties go to the smaller position.

    Raises:
      tf.errors.InvalidArgumentError: `count` is negative or above c.
    """
    return _library().tfcompress_select_largest(values=values, count=count)
