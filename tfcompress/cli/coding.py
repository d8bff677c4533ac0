"""Encodes, decodes and counts one tensor under one spec, as a frame or as a summed payload."""

import dataclasses
import inspect
import math
from typing import Any, Protocol

import numpy as np

import tfcompress as tfc


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Bytes of one encoded tensor.

    Attributes:
      num_bytes: Everything that a rank sends, headers included.
      k: Decoded elements.
      index_bytes: The index section; 0 if there is none.
      value_bytes: The value section, also of a joint codec, or the payload with the second round.
      num_indices: Elements with indices in an index section: k or 0.
      num_values: Elements with values in a value section: k or 0.
    """

    num_bytes: int
    k: int
    index_bytes: int
    value_bytes: int
    num_indices: int = 0
    num_values: int = 0


class Coding(Protocol):
    """The operations that `bench` measures."""

    def reset(self) -> None:
        """Resets the memory to its state before the first step."""

    def encode(self) -> bytes | np.ndarray:
        """Returns what a rank sends."""

    def decode(self, encoded: Any) -> np.ndarray:
        """Returns the dense float32 vector that receivers decode from one rank."""

    def sizes(self, encoded: Any) -> Sizes:
        """Counts what a rank sends."""


def preset_names() -> list[str]:
    """Returns the names of all presets."""
    classes = inspect.getmro(tfc.Compression)
    return [name for cls in classes for name in vars(cls) if not name.startswith("_")]


def named(text: str) -> Any:
    """Returns what `tfc.make_compressor` makes of a preset or spec on the command line.

    Raises:
      SystemExit: It is neither.
    """
    try:
        return tfc.make_compressor(text)
    except ValueError as error:
        raise SystemExit(str(error)) from error


def make_coding(values: np.ndarray, shape: tuple[int, ...], spec: str, seed: int, num_threads: int) -> Coding:
    """Returns the coding of a float32 tensor under a spec.

    Args:
      values: float32 [n], finite.
      shape: The tensor's.
      spec: The canonical spec.
      seed: Seed of random codecs.
      num_threads: Number of threads; 0 means one per core.
    """
    rank = tfc.describe_spec(spec).get("rank", 0)
    rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    if rank and rank * (rows + columns) < values.size:
        return FactorsCoding(values.reshape(rows, columns), rank, seed, num_threads)
    coding = SummedCoding if is_summed(spec) else FrameCoding
    return coding(values, spec, seed, num_threads)


def is_summed(spec: str) -> bool:
    """Returns whether an all-reduce sums what the spec makes of a gradient."""
    return tfc.describe_spec(spec)["linear"]


def joins_arrays(spec: str) -> bool:
    """Returns whether the spec codes all arrays as one vector."""
    return is_summed(spec) and not tfc.describe_spec(spec)["rank"]


class FrameCoding:
    """Codes as `tfc.encode`, with memory slots that stay allocated, as in training."""

    def __init__(self, values: np.ndarray, spec: str, seed: int, num_threads: int) -> None:
        self._values, self._spec = values, spec
        self._num_threads = num_threads
        slots = [np.zeros_like(values) for _ in range(tfc.describe_spec(spec)["num_slots"])]
        self._options: dict[str, Any] = {"seed": seed, "slots": slots, "num_threads": num_threads}

    def reset(self) -> None:
        """See `Coding`."""
        for slot in self._options["slots"]:
            slot.fill(0)

    def encode(self) -> bytes:
        """See `Coding`."""
        return tfc.encode(self._values, self._spec, **self._options)

    def decode(self, encoded: bytes) -> np.ndarray:
        """See `Coding`."""
        return tfc.decode(encoded, num_threads=self._num_threads)

    def sizes(self, encoded: bytes) -> Sizes:
        """See `Coding`."""
        [frame] = tfc.inspect(encoded)
        k = frame["k"]
        return Sizes(
            num_bytes=frame["num_bytes"],
            k=k,
            index_bytes=frame["index_bytes"],
            value_bytes=frame["value_bytes"],
            num_indices=k if frame["index"] else 0,
            num_values=k if frame["value"] else 0,
        )


class SummedCoding:
    """Codes the payload that an all-reduce would sum, on a single rank, without the memory of the spec.

    If the sum gives only estimates, a second round sums the exact values of the candidates, and the
    largest of them are kept.
    """

    def __init__(self, values: np.ndarray, spec: str, seed: int, num_threads: int) -> None:
        self._values, self._spec = values, spec
        self._options = {"seed": seed, "num_threads": num_threads}
        self._is_exact = tfc.describe_spec(spec)["exact"]
        self._counts = tfc.codecs.linear_sizes(spec, values.size)

    def reset(self) -> None:
        """See `Coding`."""

    def encode(self) -> np.ndarray:
        """See `Coding`."""
        return tfc.codecs.linear_encode(self._values, self._spec, **self._options)

    def decode(self, encoded: np.ndarray) -> np.ndarray:
        """See `Coding`."""
        indices, values = tfc.codecs.linear_recover(encoded, self._values.size, self._spec, **self._options)
        if not self._is_exact:
            values = self._values[indices]
            largest = np.argpartition(np.abs(values), -self._counts["kept"])[-self._counts["kept"] :]
            indices, values = indices[largest], values[largest]
        decoded = np.zeros_like(self._values)
        decoded[indices] = values
        return decoded

    def sizes(self, encoded: np.ndarray) -> Sizes:
        """See `Coding`."""
        second_round = 0 if self._is_exact else self._counts["candidates"]
        num_bytes = encoded.itemsize * (encoded.size + second_round)
        return Sizes(num_bytes, k=self._counts["kept"], index_bytes=0, value_bytes=num_bytes)


class FactorsCoding:
    """Codes the low-rank factors of a matrix that two all-reduces would sum, on a single rank.

    As at the first step: directions are random, and there is no memory.
    """

    def __init__(self, matrix: np.ndarray, rank: int, seed: int, num_threads: int) -> None:
        self._matrix, self._rank, self._seed = matrix, rank, seed
        self._num_threads = num_threads

    def reset(self) -> None:
        """See `Coding`."""

    def encode(self) -> np.ndarray:
        """See `Coding`."""
        start = np.zeros(self._rank * self._matrix.shape[1], np.float32)
        left = tfc.codecs.low_rank_left(self._matrix, start, self._rank, self._seed, self._num_threads)
        return np.concatenate(tfc.codecs.low_rank_right(self._matrix, left, self._rank, self._num_threads))

    def decode(self, encoded: np.ndarray) -> np.ndarray:
        """See `Coding`."""
        left, right = np.split(encoded, [self._rank * self._matrix.shape[0]])
        decoded = tfc.codecs.low_rank_decode(self._matrix, left, right, self._rank, self._num_threads)
        return decoded.reshape(-1)

    def sizes(self, encoded: np.ndarray) -> Sizes:
        """See `Coding`."""
        return Sizes(encoded.nbytes, k=self._matrix.size, index_bytes=0, value_bytes=encoded.nbytes)
