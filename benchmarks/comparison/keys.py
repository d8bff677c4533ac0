"""Codecs of keys alone: ascending numbers of elements or rows."""

import array
import dataclasses
from collections.abc import Callable

import numpy as np
from measuring import seconds, with_policies

import tfcompress as tfc
from comparison import peers
from comparison.gradients import Rows
from tfcompress.measure import entropy_bits

FALSE_POSITIVE_RATE = 0.001  # The default of our Bloom filter.
# The policies of our Bloom filter have the same bytes: measure p0, which loses nothing, and the default, p2.
POLICIES = ("bloom:policy=p0", "bloom:policy=p2")


@dataclasses.dataclass(frozen=True)
class KeyMethod:
    """A codec of keys.

    Attributes:
      name: Name of the method.
      package: The package that it is from.
      encode: Maps (keys, n) to (bytes, the keys that `decode` yields).
      decode: Maps (bytes, n, number of keys that it yields) to the keys.
    """

    name: str
    package: str
    encode: Callable[[np.ndarray, int], tuple[bytes, np.ndarray]]
    decode: Callable[[bytes, int, int], np.ndarray]


def methods() -> list[KeyMethod]:
    found = [
        of_codec(part) for entry in tfc.index_codecs() for part in with_policies(entry) if is_shown(part)
    ]
    for each in peers.byte_compressors():
        found += [of_keys(each), of_gaps(each)]
    found.append(KeyMethod("pyroaring", "pyroaring", encode_roaring, decode_roaring))
    found.append(KeyMethod("rbloom", "rbloom", encode_rbloom, decode_rbloom))
    return [method for method in found if method.package not in peers.missing()]


def is_shown(part: str) -> bool:
    return not part.startswith("bloom:") or part in POLICIES


def of_codec(part: str) -> KeyMethod:
    def decode(data: bytes, n: int, count: int) -> np.ndarray:
        return tfc.codecs.decode_indices(part.split(":")[0], data, n, count)

    return KeyMethod(part, peers.OURS, lambda keys, n: tfc.codecs.encode_indices(part, keys, n), decode)


def of_keys(compressor: peers.ByteCompressor) -> KeyMethod:
    """Returns a method that compresses the raw keys as bytes."""
    return KeyMethod(
        compressor.name,
        compressor.package,
        lambda keys, n: (compressor.compress(keys.tobytes()), keys),
        lambda data, n, count: np.frombuffer(compressor.decompress(data), np.uint32),
    )


def of_gaps(compressor: peers.ByteCompressor) -> KeyMethod:
    """Returns a method that compresses the gaps between keys as bytes."""

    def encode(keys: np.ndarray, n: int) -> tuple[bytes, np.ndarray]:
        return compressor.compress(np.diff(keys, prepend=np.uint32(0)).tobytes()), keys

    def decode(data: bytes, n: int, count: int) -> np.ndarray:
        return np.cumsum(np.frombuffer(compressor.decompress(data), np.uint32), dtype=np.uint32)

    return KeyMethod(f"{compressor.name} of gaps", compressor.package, encode, decode)


def encode_roaring(keys: np.ndarray, n: int) -> tuple[bytes, np.ndarray]:
    import pyroaring

    # pyroaring reads an array.array as a buffer, but a NumPy array element by element.
    bitmap = pyroaring.BitMap(array.array("I", keys.tobytes()))
    bitmap.run_optimize()
    return bitmap.serialize(), keys


def decode_roaring(data: bytes, n: int, count: int) -> np.ndarray:
    import pyroaring

    return np.frombuffer(pyroaring.BitMap.deserialize(data).to_array(), np.uint32)


def encode_rbloom(keys: np.ndarray, n: int) -> tuple[bytes, np.ndarray]:
    import rbloom

    # A filter with Python's own hash cannot be saved; the hash of an int is the int.
    bloom = rbloom.Bloom(len(keys), FALSE_POSITIVE_RATE, int)
    bloom.update(keys.tolist())
    return bloom.save_bytes(), positives(bloom, n)


def decode_rbloom(data: bytes, n: int, count: int) -> np.ndarray:
    import rbloom

    return positives(rbloom.Bloom.load_bytes(data, int), n)


def positives(bloom: object, n: int) -> np.ndarray:
    """Returns all positives of a filter, which is queried for one element at a time."""
    return np.fromiter(filter(bloom.__contains__, range(n)), np.uint32)


def raw(rows: Rows) -> int:
    """Returns the number of 32-bit words of the raw keys."""
    return len(rows.keys)


def measure(method: KeyMethod, rows: Rows, budget: float) -> dict:
    keys, n = rows.keys, rows.num_rows
    data, decoded = method.encode(keys, n)
    encode = seconds(lambda: method.encode(keys, n), budget)
    decode = seconds(lambda: method.decode(data, n, len(decoded)), budget)
    return {
        "bytes": len(data),
        "bits": 8 * len(data) / len(keys),
        "limit_bits": entropy_bits(n, len(keys)),
        "keys_decoded": len(decoded),
        "keys_lost": int(np.setdiff1d(keys, method.decode(data, n, len(decoded)), assume_unique=True).size),
        "encode_m_per_s": len(keys) / encode / 1e6,
        "decode_m_per_s": len(keys) / decode / 1e6,
    }
