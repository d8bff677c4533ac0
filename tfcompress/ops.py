"""The TensorFlow ops. The only module that loads the op library."""

import functools
import pathlib
from collections.abc import Sequence
from types import ModuleType

import tensorflow as tf


@functools.cache
def _library() -> ModuleType:
    path = pathlib.Path(__file__).with_name("_tfcompress_ops.so")
    if not path.exists():
        raise ImportError(
            "tfcompress was built without TensorFlow, so it has no TensorFlow ops. Install TensorFlow "
            "first, then: pip install --no-build-isolation --force-reinstall --no-deps tfcompress"
        )
    try:
        return tf.load_op_library(str(path))
    except tf.errors.NotFoundError as error:
        raise ImportError(
            f"the op library does not load into TensorFlow {tf.__version__}: it was built against "
            "another version. Reinstall tfcompress with --no-build-isolation --no-cache-dir."
        ) from error


def encode(
    gradient: tf.Tensor, slots: Sequence[tf.Variable], seed: tf.Tensor, spec: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """Compensates, selects and encodes a gradient, and updates its memory slots in place.

    Args:
      gradient: float32, float16 or bfloat16 of any shape, n elements.
      slots: The memory's float32 variables of n elements each, as many as the spec's memory has.
      seed: int64 scalar; travels in the frame.
      spec: The spec to apply.

    Returns:
      The frame, uint8 of data-dependent length, and the time it took in nanoseconds, int64 scalar.
    """
    return _library().tfcompress_encode(
        gradient=gradient, slots=[slot.handle for slot in slots], seed=seed, spec=spec
    )


def decode_sum(
    packets: tf.Tensor,
    num_ranks: tf.Tensor,
    scale: tf.Tensor,
    shapes: Sequence[tf.Tensor],
    dtypes: Sequence[tf.DType],
) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
    """Decodes the packets of all ranks and sums them in rank order.

    Args:
      packets: uint8, the packets of `num_ranks` ranks end to end, each one frame a tensor.
      num_ranks: int32 scalar.
      scale: float32 scalar that multiplies the sum.
      shapes: int64 shape of each tensor.
      dtypes: dtype of each tensor.

    Returns:
      The dense sums; the bytes of each tensor over all ranks, int64 [tensors]; and the time each took
      in nanoseconds, int64 [tensors].

    Raises:
      tf.errors.DataLossError: A frame is broken; names rank, tensor and reason.
    """
    return _library().tfcompress_decode_sum(
        packets=packets, num_ranks=num_ranks, scale=scale, shapes=shapes, dtypes=dtypes
    )
