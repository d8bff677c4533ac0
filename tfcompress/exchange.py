"""Moves packets between ranks. With the adapter, the only module that imports Horovod."""

import functools
from collections.abc import Sequence
from types import ModuleType

import numpy as np
import tensorflow as tf

AVERAGE = "average"
SUM = "sum"


@functools.cache
def _horovod() -> ModuleType:
    try:
        import horovod.tensorflow as hvd
    except ImportError as error:
        raise ImportError(
            "training on several ranks needs Horovod with TensorFlow support, which is not installed "
            f"or does not load ({error}). The codecs work without it; the project's scripts/ build it."
        ) from error
    return hvd


def size() -> int:
    """Returns the number of ranks.

    Raises:
      ImportError: Horovod is not installed.
      RuntimeError: `hvd.init()` has not been called.
    """
    hvd = _horovod()
    if not hvd.is_initialized():
        raise RuntimeError("Horovod is not initialised: call hvd.init() before the first step")
    return hvd.size()


def rank() -> int:
    """Returns this process's rank, in [0, size())."""
    return _horovod().rank()


def reduction(op: object) -> str:
    """Returns AVERAGE or SUM for a Horovod reduction op, one of these words, or None (average).

    Raises:
      ValueError: Another reduction: compressed gradients can be summed and averaged only.
    """
    if op is None or op == AVERAGE:
        return AVERAGE
    if op == SUM:
        return SUM
    if not isinstance(op, str):
        hvd = _horovod()
        if op == hvd.Average:
            return AVERAGE
        if op == hvd.Sum:
            return SUM
    raise ValueError(
        f"op must be hvd.Average or hvd.Sum, got {op!r}: minima, maxima, products and Adasum of "
        "compressed gradients are not defined"
    )


def allgather_packet(packet: tf.Tensor, name: str) -> tf.Tensor:
    """Concatenates the packets of all ranks in rank order.

    Args:
      packet: uint8, of any length on each rank.
      name: Equal on all ranks and unique among pending collectives.
    """
    # Horovod's elastic mode recognises failures by this prefix of the op's name.
    gathered = _horovod().allgather(packet, name=f"HorovodAllgather_{name}", ignore_name_scope=True)
    return tf.stop_gradient(gathered)


def transport_dtype(dtype: tf.DType, wire_dtype: str | None) -> tf.DType:
    """Returns the dtype in which Horovod's all-reduce carries a dense tensor of `dtype`.

    Args:
      dtype: The tensor's.
      wire_dtype: What floating-point tensors are cast to, or None.
    """
    if dtype.is_floating and wire_dtype is not None:
        return tf.as_dtype(wire_dtype)
    return tf.float32 if dtype == tf.bfloat16 else dtype  # Horovod has no bfloat16.


def allreduce(
    tensors: Sequence[tf.Tensor | tf.IndexedSlices],
    op: str,
    predivide_factor: float,
    wire_dtype: str | None,
    name: str,
) -> list[tf.Tensor | tf.IndexedSlices]:
    """Sums or averages tensors by Horovod's own all-reduce, uncompressed but for `wire_dtype`.

    IndexedSlices travel as Horovod carries them: by all-gather of rows. Complex tensors, which Horovod
    does not know, travel as pairs of reals; bfloat16 as float32.

    Args:
      tensors: Any dtypes that Horovod carries.
      op: AVERAGE or SUM.
      predivide_factor: Splits the division of an average: 1/f before the sum, f/size after it.
      wire_dtype: dtype that floating-point tensors are cast to for the transport, or None.
      name: Equal on all ranks and unique among pending collectives.
    """
    hvd = _horovod()
    return [
        _allreduce_one(hvd, tensor, op, predivide_factor, wire_dtype, f"{name}_{i}")
        for i, tensor in enumerate(tensors)
    ]


def _allreduce_one(
    hvd: ModuleType,
    tensor: tf.Tensor | tf.IndexedSlices,
    op: str,
    predivide_factor: float,
    wire_dtype: str | None,
    name: str,
) -> tf.Tensor | tf.IndexedSlices:
    hvd_op = hvd.Average if op == AVERAGE else hvd.Sum
    if isinstance(tensor, tf.IndexedSlices):
        return hvd.allreduce(tensor, op=hvd_op, name=name)
    dtype = tensor.dtype
    if dtype.is_complex:
        pair = tf.stack([tf.math.real(tensor), tf.math.imag(tensor)])
        pair = _allreduce_one(hvd, pair, op, predivide_factor, None, name)
        return tf.complex(pair[0], pair[1])
    tensor = tf.cast(tensor, transport_dtype(dtype, wire_dtype))
    factors = {}
    if predivide_factor != 1.0:
        factors = {"prescale_factor": 1 / predivide_factor, "postscale_factor": predivide_factor}
    reduced = hvd.allreduce(
        tensor, op=hvd_op, name=f"HorovodAllreduce_{name}", ignore_name_scope=True, **factors
    )
    return tf.cast(reduced, dtype)


def gather_messages(message: bytes) -> list[bytes]:
    """Returns every rank's message, in rank order. Runs eagerly, also while a function is traced."""
    framed = np.frombuffer(len(message).to_bytes(8, "little") + message, np.uint8)
    with tf.init_scope():
        gathered = _horovod().allgather(tf.constant(framed)).numpy().tobytes()
    messages = []
    while gathered:
        end = 8 + int.from_bytes(gathered[:8], "little")
        messages.append(gathered[8:end])
        gathered = gathered[end:]
    return messages


def broadcast_variables(variables: Sequence[tf.Variable], root_rank: int) -> None:
    """Overwrites variables on all ranks with those of `root_rank`."""
    _horovod().broadcast_variables(list(variables), root_rank=root_rank)
