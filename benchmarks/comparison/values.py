"""Compares codecs of values alone, exact and lossy.

`encode` maps float32 [k] to bytes, `decode` (bytes, k) to float32 [k].
"""

import numpy as np
from measuring import seconds, with_policies

import tfcompress as tfc
from comparison import peers
from comparison.quantiles import kll_splits

BUCKETS = 256


def methods() -> list[peers.Method]:
    found = [of_codec(part) for entry in tfc.value_codecs() for part in with_policies(entry)]
    found.append(peers.Method("float16", "numpy", encode_half, decode_half))
    for each in peers.byte_compressors():
        found += [through(each), shuffled(each), half(each)]
    found.append(peers.Method("KLL buckets", "datasketches", encode_buckets, decode_buckets))
    return [method for method in found if method.package not in peers.missing()]


def of_codec(part: str) -> peers.Method:
    name = part.split(":")[0]
    return peers.Method(
        part,
        peers.OURS,
        lambda values: tfc.codecs.encode_values(part, values, None, len(values)),
        lambda data, k: tfc.codecs.decode_values(name, data, None, k),
    )


def encode_half(values: np.ndarray) -> bytes:
    return values.astype(np.float16).tobytes()


def decode_half(data: bytes, k: int) -> np.ndarray:
    return np.frombuffer(data, np.float16).astype(np.float32)


def through(compressor: peers.Method) -> peers.Method:
    return peers.Method(
        compressor.name,
        compressor.package,
        lambda values: compressor.encode(values.tobytes()),
        lambda data, k: np.frombuffer(compressor.decode(data), np.float32),
    )


def shuffled(compressor: peers.Method) -> peers.Method:
    """Returns a method that groups bytes by their position in the value, so that exponents are adjacent."""

    def encode(values: np.ndarray) -> bytes:
        return compressor.encode(values.view(np.uint8).reshape(-1, 4).T.tobytes())

    def decode(data: bytes, k: int) -> np.ndarray:
        planes = np.frombuffer(compressor.decode(data), np.uint8).reshape(4, k)
        return np.ascontiguousarray(planes.T).view(np.float32).ravel()

    return peers.Method(f"{compressor.name}, bytes shuffled", compressor.package, encode, decode)


def half(compressor: peers.Method) -> peers.Method:
    return peers.Method(
        f"float16, {compressor.name}",
        compressor.package,
        lambda values: compressor.encode(encode_half(values)),
        lambda data, k: decode_half(compressor.decode(data), k),
    )


def encode_buckets(values: np.ndarray) -> bytes:
    """Encodes as `quantile`: buckets of equal count by DataSketches, their means, and a byte per value."""
    codes = np.searchsorted(kll_splits(values, BUCKETS), values, side="right")
    counts = np.bincount(codes, minlength=BUCKETS).clip(min=1)
    means = np.bincount(codes, values, minlength=BUCKETS) / counts
    return means.astype(np.float32).tobytes() + codes.astype(np.uint8).tobytes()


def decode_buckets(data: bytes, k: int) -> np.ndarray:
    means = np.frombuffer(data, np.float32, BUCKETS)
    return means[np.frombuffer(data, np.uint8, k, means.nbytes)]


def measure(method: peers.Method, values: np.ndarray, budget: float) -> dict:
    data = method.encode(values)
    decoded = method.decode(data, len(values)).astype(np.float64)
    return {
        "bytes": len(data),
        "bits": 8 * len(data) / len(values),
        "error": float(np.linalg.norm(decoded - values) / np.linalg.norm(values.astype(np.float64))),
        "encode_m_per_s": len(values) / seconds(lambda: method.encode(values), budget) / 1e6,
        "decode_m_per_s": len(values) / seconds(lambda: method.decode(data, len(values)), budget) / 1e6,
    }
