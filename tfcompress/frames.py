"""Frames at the NumPy level: encode, decode and look at the bytes of one tensor."""

from collections.abc import Sequence

import numpy as np

from tfcompress import _core, errors

FORMAT_VERSION: int = _core.FORMAT_VERSION
"""Version of the frames that are encoded here, and the only one that is decoded (FORMAT.md)."""


def encode(
    array: np.ndarray,
    spec: str,
    seed: int = 0,
    *,
    slots: Sequence[np.ndarray] | None = None,
    num_threads: int = 0,
) -> bytes:
    """Encodes one tensor as a frame (FORMAT.md).

    Args:
      array: float32, float16 or bfloat16 of any shape; read in C order. A tensor with NaN or Inf
        becomes a frame that decodes to NaN everywhere. `rowcol`, `ecsq` and
        `lossless` use rows of its last dimension.
      spec: What to apply, such as "topk:ratio=0.01|delta_binary|raw".
      seed: Seed of the codecs that use randomness; travels in the frame.
      slots: The vectors of the spec's memory, float32 [elements] each, updated in place: for `residual`, the
        residual. None (default): the memory starts empty and is forgotten.
      num_threads: 0 (default) takes as many as there are cores.

    Returns:
      The frame: header, sections and checksum.

    Raises:
      ValueError: The spec is not one, naming the known parts; or the dtype is not supported.
    """
    array = np.asarray(array)
    name = array.dtype.name
    if name not in ("float32", "float16", "bfloat16") or not array.dtype.isnative:
        raise ValueError(
            "only float32, float16 and bfloat16 arrays are compressed, in this machine's byte order: got "
            f"{array.dtype}"
        )
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat if name == "float32" else flat.view(np.uint16)
    if slots is None:
        slots = [np.zeros(flat.size, np.float32) for _ in range(_core.describe_spec(spec)["num_slots"])]
    width = array.shape[-1] if array.ndim > 1 else 0
    return _core.encode(bits, name, spec, seed=seed, slots=list(slots), num_threads=num_threads, width=width)


@errors.translated()
def decode(data: bytes, *, num_threads: int = 0) -> np.ndarray:
    """Decodes one frame.

    Args:
      data: What `encode` returned, on this machine or another.
      num_threads: 0 (default) takes as many as there are cores.

    Returns:
      The dense tensor, one-dimensional, with the dtype that was encoded. Elements that were not sent
      are zero.

    Raises:
      DataLossError: The bytes are not one whole frame, zeros after it aside, were changed, or come from
        another version; or they claim more elements than any tensor of so few bytes (FORMAT.md).
    """
    frames = _core.decode(data, num_threads=num_threads)
    if len(frames) != 1:
        raise _core.DataLossError(f"expected one frame, found {len(frames)}")
    name, array = frames[0]
    if name == "float32":
        return array
    if name == "float16":
        return array.view(np.float16)
    import ml_dtypes  # Comes with TensorFlow; NumPy itself has no bfloat16.

    return array.view(ml_dtypes.bfloat16)


@errors.translated()
def inspect(data: bytes) -> list[dict]:
    """Describes the frames of a packet without decoding their values.

    Args:
      data: One frame, or several end to end, and the zeros that pad a packet.

    Returns:
      One dictionary a frame: num_bytes, header_bytes, index_bytes and value_bytes (bytes), n and k
      (elements; rows of a table where `support` is "rows"), width (elements of a row, or None), dtype,
      support, nonfinite, index, value and joint (codec names or None), seed, version, checksum_ok.

    Raises:
      DataLossError: A header is broken, or bytes are missing.
    """
    return _core.inspect(data)
