"""Codecs of keys alone: ascending numbers of elements or rows.

`encode` maps (keys, n) to (bytes, the keys that `decode` yields), `decode` (bytes, n, number of keys that it
yields) to the keys.
"""

import array

import numpy as np
from measuring import seconds, with_policies

import tfcompress as tfc
from comparison import peers
from comparison.gradients import Rows
from tfcompress.measure import entropy_bits

FALSE_POSITIVE_RATE = 0.001  # The default of our Bloom filter.
# The policies of our Bloom filter have the same bytes: measure p0, which loses nothing, and the default, p2.
POLICIES = ("bloom:policy=p0", "bloom:policy=p2")


def methods() -> list[peers.Method]:
    found = [
        of_codec(part) for entry in tfc.index_codecs() for part in with_policies(entry) if is_shown(part)
    ]
    for each in peers.byte_compressors():
        found += [of_keys(each), of_gaps(each)]
    found.append(peers.Method("pyroaring", "pyroaring", encode_roaring, decode_roaring))
    found.append(peers.Method("rbloom", "rbloom", encode_rbloom, decode_rbloom))
    return [method for method in found if method.package not in peers.missing()]


def is_shown(part: str) -> bool:
    return not part.startswith("bloom:") or part in POLICIES


def of_codec(part: str) -> peers.Method:
    def decode(data: bytes, n: int, count: int) -> np.ndarray:
        return tfc.codecs.decode_indices(part.split(":")[0], data, n, count)

    return peers.Method(part, peers.OURS, lambda keys, n: tfc.codecs.encode_indices(part, keys, n), decode)


def of_keys(compressor: peers.Method) -> peers.Method:
    """Returns a method that compresses the raw keys as bytes."""
    return peers.Method(
        compressor.name,
        compressor.package,
        lambda keys, n: (compressor.encode(keys.tobytes()), keys),
        lambda data, n, count: np.frombuffer(compressor.decode(data), np.uint32),
    )


def of_gaps(compressor: peers.Method) -> peers.Method:
    """Returns a method that compresses the gaps between keys as bytes."""

    def encode(keys: np.ndarray, n: int) -> tuple[bytes, np.ndarray]:
        return compressor.encode(np.diff(keys, prepend=np.uint32(0)).tobytes()), keys

    def decode(data: bytes, n: int, count: int) -> np.ndarray:
        return np.cumsum(np.frombuffer(compressor.decode(data), np.uint32), dtype=np.uint32)

    return peers.Method(f"{compressor.name} of gaps", compressor.package, encode, decode)


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


def measure(method: peers.Method, rows: Rows, budget: float) -> dict:
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
