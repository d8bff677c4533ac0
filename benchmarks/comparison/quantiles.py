"""Compares split points of buckets of equal count, which quantile quantizers need.

Measured on the magnitudes of all nonzero elements. Our codec does not return its split points, so its time is
that of the whole codec: splits, the bucket of every value, means, packing.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from measuring import seconds

import tfcompress as tfc
from comparison import peers

BUCKETS = 256
# Sizes of the sketches: the library's default, and one that is about as accurate as our sample.
DEFAULT_K, LARGE_K = 200, 1024


@dataclasses.dataclass(frozen=True)
class QuantileMethod:
    """`run` is timed; `splits` yields the split points, ascending; both take the values."""

    name: str
    package: str
    run: Callable[[np.ndarray], object]
    splits: Callable[[np.ndarray], np.ndarray]
    whole: bool = False


def methods() -> list[QuantileMethod]:
    found = [QuantileMethod("quantile, all of the codec", peers.OURS, encode, our_splits, whole=True)]
    for k in (DEFAULT_K, LARGE_K):
        found.append(of_sketch(f"KLL, k = {k}", lambda values, k=k: kll_splits(values, BUCKETS, k)))
    found.append(of_sketch("classic quantiles, k = 128", classic_splits))
    found.append(QuantileMethod("np.quantile", "numpy", numpy_splits, numpy_splits))
    return [method for method in found if method.package not in peers.missing()]


def of_sketch(name: str, splits: Callable[[np.ndarray], np.ndarray]) -> QuantileMethod:
    return QuantileMethod(name, "datasketches", splits, splits)


def inner_ranks(buckets: int) -> np.ndarray:
    return np.arange(1, buckets) / buckets


def kll_splits(values: np.ndarray, buckets: int, k: int = LARGE_K) -> np.ndarray:
    import datasketches

    sketch = datasketches.kll_floats_sketch(k)
    sketch.update(values)
    return np.unique(np.float32(sketch.get_quantiles(inner_ranks(buckets))))


def classic_splits(values: np.ndarray) -> np.ndarray:
    import datasketches

    sketch = datasketches.quantiles_floats_sketch(128)
    sketch.update(values)
    return np.unique(np.float32(sketch.get_quantiles(inner_ranks(BUCKETS))))


def numpy_splits(values: np.ndarray) -> np.ndarray:
    return np.unique(np.quantile(values, inner_ranks(BUCKETS)))


def encode(values: np.ndarray) -> bytes:
    return tfc.codecs.encode_values(f"quantile:buckets={BUCKETS}", values, None, len(values))


def our_splits(values: np.ndarray) -> np.ndarray:
    """The least value of every bucket but the first: buckets have means of their own."""
    decoded = tfc.codecs.decode_values("quantile", encode(values), None, len(values))
    order = np.argsort(values)
    return values[order][1:][np.diff(decoded[order]) != 0]


def rank_error(values: np.ndarray, splits: np.ndarray) -> float:
    """Returns the largest distance of a wanted rank from the ranks of the nearest split point.

    A value that repeats has all ranks from the share below it to the share not above it.
    """
    ordered, wanted = np.sort(values), inner_ranks(BUCKETS)[:, np.newaxis]
    low, high = (np.searchsorted(ordered, splits, side) / len(values) for side in ("left", "right"))
    return float(np.maximum(np.maximum(low - wanted, wanted - high), 0).min(axis=1).max())


def measure(method: QuantileMethod, values: np.ndarray, budget: float) -> dict:
    splits, took = method.splits(values), seconds(lambda: method.run(values), budget)
    return {
        "values": len(values),
        "buckets": len(splits) + 1,
        "rank_error": rank_error(values, splits),
        "encodes_too": method.whole,
        "milliseconds": 1e3 * took,
        "m_per_s": len(values) / took / 1e6,
    }
