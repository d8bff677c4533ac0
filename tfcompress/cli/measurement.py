"""Measures one spec on one tensor, and sums measurements over tensors."""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from tfcompress.cli.coding import Coding
from tfcompress.measure import best_seconds, entropy_bits, squared_norm


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Sums over one or several tensors.

    Attributes:
      n: Elements.
      k: Decoded elements.
      num_bytes: Everything that a rank sends.
      index_bytes: Index sections.
      value_bytes: Value sections, sections of joint codecs, payloads.
      num_indices: Elements with indices in index sections.
      num_values: Elements with values in value sections.
      limit_bits: Entropy limit of the index sections.
      squared_norm: Squared norm of the tensors.
      squared_error: Squared norm of the decoding errors.
      encode_seconds: Best time of encoding.
      decode_seconds: Best time of decoding.
    """

    n: int
    k: int
    num_bytes: int
    index_bytes: int
    value_bytes: int
    num_indices: int
    num_values: int
    limit_bits: float
    squared_norm: float
    squared_error: float
    encode_seconds: float
    decode_seconds: float

    def as_dict(self) -> dict[str, float | None]:
        """Returns the numbers to report, None where there are none."""
        dense_bytes = 4 * self.n
        return {
            "n": self.n,
            "k": self.k,
            "dense_bytes": dense_bytes,
            "num_bytes": self.num_bytes,
            "ratio": dense_bytes / self.num_bytes,
            "index_bytes": self.index_bytes,
            "value_bytes": self.value_bytes,
            "bits_per_index": _quotient(8 * self.index_bytes, self.num_indices),
            "entropy_limit_bits": _quotient(self.limit_bits, self.num_indices),
            "bits_per_value": _quotient(8 * self.value_bytes, self.num_values),
            "bits_per_element": _quotient(8 * (self.index_bytes + self.value_bytes), self.k),
            "relative_error": _relative(self.squared_error, self.squared_norm),
            "encode_ms": 1e3 * self.encode_seconds,
            "decode_ms": 1e3 * self.decode_seconds,
        }


def measure(coding: Coding, values: np.ndarray, repeats: int) -> Measurement:
    """Encodes and decodes a tensor, several times each.

    Args:
      coding: The coding of the tensor.
      values: The tensor that it encodes, float32 [n].
      repeats: Runs of encoding and of decoding.
    """
    coding.reset()
    encoded = coding.encode()
    decoded = coding.decode(encoded)
    sizes = coding.sizes(encoded)
    limit = sizes.num_indices * entropy_bits(values.size, sizes.num_indices) if sizes.num_indices else 0.0
    return Measurement(
        n=values.size,
        **dataclasses.asdict(sizes),
        limit_bits=limit,
        squared_norm=squared_norm(values),
        squared_error=squared_norm(decoded.astype(np.float64) - values),
        encode_seconds=best_seconds(coding.encode, repeats=repeats, prepare=coding.reset),
        decode_seconds=best_seconds(lambda: coding.decode(encoded), repeats=repeats),
    )


def total(measurements: Iterable[Measurement]) -> Measurement:
    """Returns the sum of the measurements; errors and norms are summed as squares."""
    return Measurement(*map(sum, zip(*map(dataclasses.astuple, measurements), strict=True)))


def _quotient(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


def _relative(squared_error: float, squared_norm: float) -> float | None:
    """Returns ||decoded - x|| / ||x||, which is 0 for exact codecs even if x is 0."""
    if squared_error == 0:
        return 0.0
    ratio = _quotient(squared_error, squared_norm)
    return None if ratio is None or not math.isfinite(ratio) else math.sqrt(ratio)
