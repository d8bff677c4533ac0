"""Frames of arrays that lie on a GPU: CuPy's, PyTorch's, Numba's, by `__cuda_array_interface__`.

The bytes are those of `tfcompress.encode` for the same seed (docs/cuda.md). Every call allocates the memory
that it needs on the GPU and frees it: training goes through the TensorFlow ops, which take TensorFlow's.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tfcompress import catalogue, errors

try:
    from tfcompress import _cuda
except ImportError as error:
    _cuda, _reason = None, error

_KINDS = ("memories", "sparsifiers", "index_codecs", "value_codecs", "joint_codecs")


def is_built() -> bool:
    """Returns whether this installation was built with CUDA."""
    return _cuda is not None


def is_available() -> bool:
    """Returns whether `encode` and `decode_sum` can work: there is no `obstacle`."""
    return not obstacle()


def obstacle() -> str:
    """Returns why `encode` and `decode_sum` cannot work on this machine, and what to do; "" if they can.

    The same keeps TensorFlow's ops on the CPU: built without CUDA, a driver that is missing or older than the
    CUDA of the build, or no GPU.
    """
    if _cuda is None:
        return (
            "tfcompress was built without CUDA: install nvcc 11.8 or newer, then build it again with "
            f"`TFC_WITH_CUDA=ON pip install --no-build-isolation .` ({_reason})"
        )
    return _cuda.obstacle()


def parts() -> dict[str, dict[str, str]]:
    """Returns what of a spec has a variant for GPUs; needs neither CUDA nor a GPU.

    Returns:
      For memories, sparsifiers, index_codecs, value_codecs and joint_codecs: the names of those that have
      one, each with "yes", or with the choices that have one.
    """
    entries = {kind: getattr(catalogue, kind)() for kind in _KINDS}
    return {kind: {e.name: e.device for e in entries[kind] if e.device} for kind in _KINDS}


def encode(
    array: object,
    spec: str,
    seed: int = 0,
    slots: Sequence[object] = (),
    dtype: str | None = None,
    stream: Any = None,
) -> bytes:
    """Encodes one tensor on the GPU as a frame (FORMAT.md).

    Args:
      array: Any C-contiguous array of float32 or float16 on a GPU. A tensor with NaN or Inf becomes a frame
        that decodes to NaN everywhere.
      spec: What to apply, of the `parts` that have a variant for GPUs.
      seed: Seed of the codecs that use randomness; travels in the frame.
      slots: The memory's vectors, float32 arrays of as many elements on the same GPU, updated in place: for
        `residual`, the residual; none for a spec without a memory (default).
      dtype: What the elements are, where the array's own type does not tell: "bfloat16" for an array of
        two-byte integers, such as PyTorch's `tensor.view(torch.int16)`.
      stream: Where to put the work: an object with `ptr` (CuPy) or `cuda_stream` (PyTorch), or a number as
        in the interface, after which arrays that name no stream are complete. None (default) takes the stream
        that the array names, or the default stream, and waits for the whole GPU where an array cannot name
        one, as PyTorch's. Waits for the streams that arrays name, and returns when the work is done.

    Returns:
      The frame: header, sections and checksum.

    Raises:
      TypeError: An argument is no array on a GPU.
      ValueError: The spec is not one, has a part without a variant, which the message names, or would take
        more memory on the GPU than is allowed (docs/cuda.md); or an array is of another type or size, not
        contiguous, read-only, or on the host.
      RuntimeError: Built without CUDA, no GPU, or CUDA failed.
    """
    return _module().encode(array, spec, seed, list(slots), dtype or "", _stream_number(stream))


@errors.translated()
def decode_sum(
    packets: bytes,
    out: object,
    num_ranks: int = 1,
    scale: float = 1.0,
    dtype: str | None = None,
    stream: Any = None,
) -> None:
    """Decodes the frames of all ranks on the GPU, and sums them in the order of the ranks.

    Args:
      packets: Bytes or another buffer on the host: the frame of each rank, end to end. Where `out` is a
        list, the packet of each rank: one frame for each array, in their order.
      out: An array on a GPU as `encode` takes, or a list of some on the same GPU: overwritten with scale *
        the sum over ranks; NaN everywhere where any rank's tensor was not finite.
      num_ranks: At least 1.
      scale: 1 / num_ranks makes the mean.
      dtype: As for `encode`.
      stream: As for `encode`.

    Raises:
      DataLossError: The bytes are not such packets, naming rank and tensor; the content of `out` is then
        unspecified.
      TypeError: `out` is no array on a GPU.
      ValueError: A frame has a codec without a variant for GPUs; or an array is not what it should be.
      RuntimeError: Built without CUDA, no GPU, or CUDA failed.
    """
    arrays = list(out) if isinstance(out, list | tuple) else [out]
    if not arrays:
        raise ValueError("out must be an array, or a list of at least one")
    _module().decode_sum(packets, arrays, num_ranks, scale, dtype or "", _stream_number(stream))


def _module() -> ModuleType:
    if reason := obstacle():
        raise RuntimeError(reason)
    return _cuda


def _stream_number(stream: Any) -> int | None:
    """A stream as `__cuda_array_interface__` numbers them: 1 and 2 are the default ones, others pointers."""
    for attribute in ("ptr", "cuda_stream"):
        if hasattr(stream, attribute):
            return getattr(stream, attribute) or 1  # Theirs is 0 for the legacy default stream.
    return stream
