"""Compares whole messages: keys and values together, as one rank sends them.

`encode` maps Rows to bytes, `decode` (bytes, the rows sent, for their sizes) to Rows.
"""

import struct

import numpy as np
from measuring import seconds

import tfcompress as tfc
from comparison import keys, peers, values
from comparison.gradients import Rows, at_keys, relative_error

# Specs whose codecs alone are used for rows: keys and values are selected already.
EXACT = (
    "delta_binary|raw",
    "delta_adaptive|raw",
    "rle|raw",
    "huffman|raw",
    "bloom:policy=p0|raw",
    "delta_adaptive|deflate:shuffle=1",
    "rowcol|lossless",
)
LOSSY = (
    "delta_adaptive|fp16",
    "delta_adaptive|quantile",
    "delta_adaptive|qsgd",
    "delta_adaptive|dexp",
    "delta_adaptive|poly",
    "delta_adaptive|ternary",
    "delta_adaptive|sign",
    "delta_flag|log",
    "rowcol|ecsq",
    "bloom:policy=p2|raw",
    "sketchml",
    "skcompress",
)
# Pairs of other packages' codecs, for keys and for values.
PEERS = (
    ("pyroaring", "raw"),
    ("rbloom", "raw"),
    ("zstd-3 of gaps", "zstd-3, bytes shuffled"),
    ("zstd-19 of gaps", "zstd-19, bytes shuffled"),
    ("pyroaring", "float16"),
    ("zstd-3 of gaps", "float16, zstd-3"),
    ("pyroaring", "KLL buckets"),
    ("zstd-3 of gaps", "KLL buckets"),
)
_LENGTH = struct.Struct("<I")


def methods() -> list[peers.Method]:
    found = [of_spec(spec) for spec in (*EXACT, *LOSSY)]
    found += [of_pairs(compressor) for compressor in peers.byte_compressors()]
    of_keys = {method.name: method for method in keys.methods()}
    of_values = {method.name: method for method in values.methods()}
    return found + [
        both(of_keys[first], of_values[second])
        for first, second in PEERS
        if first in of_keys and second in of_values
    ]


def of_spec(spec: str) -> peers.Method:
    """Returns a method that makes frames of this package, with headers and checksums, on one thread."""
    spec = f"nonzero|{spec}"

    def encode(rows: Rows) -> bytes:
        sizes = (rows.num_rows, rows.width)
        return tfc.codecs.encode_rows(rows.values.ravel(), "float32", rows.ids, *sizes, spec, num_threads=1)

    def decode(data: bytes, sent: Rows) -> Rows:
        sizes = (sent.num_rows, sent.width)
        ids, found, _ = tfc.codecs.decode_rows(data, 1, 1.0, *sizes, "float32", num_threads=1)
        return Rows(sent.num_rows, ids.astype(np.uint32), np.reshape(found, (-1, sent.width)))

    return peers.Method(spec.removeprefix("nonzero|"), peers.OURS, encode, decode)


def of_pairs(compressor: peers.Method) -> peers.Method:
    """Returns a method that compresses all raw keys, then all raw values, as bytes."""

    def encode(rows: Rows) -> bytes:
        return compressor.encode(rows.keys.tobytes() + rows.values.tobytes())

    def decode(data: bytes, sent: Rows) -> Rows:
        words = np.frombuffer(compressor.decode(data), np.uint32)
        k = len(words) // (1 + sent.width)
        return Rows(sent.num_rows, words[:k], words[k:].view(np.float32).reshape(k, sent.width))

    return peers.Method(f"{compressor.name} of raw pairs", compressor.package, encode, decode)


def both(of_keys: peers.Method, of_values: peers.Method) -> peers.Method:
    """Returns a method that joins a codec of keys and one of values, with two lengths in front."""

    def encode(rows: Rows) -> bytes:
        head, sent = of_keys.encode(rows.keys, rows.num_rows)
        # A Bloom filter adds keys: zeros for these keep the decoded gradient correct.
        found = rows.values if sent is rows.keys else at_keys(rows, sent)
        return _LENGTH.pack(len(head)) + _LENGTH.pack(len(sent)) + head + of_values.encode(found.ravel())

    def decode(data: bytes, sent: Rows) -> Rows:
        (size,), (k,) = _LENGTH.unpack_from(data), _LENGTH.unpack_from(data, _LENGTH.size)
        begin = 2 * _LENGTH.size
        found = of_keys.decode(data[begin : begin + size], sent.num_rows, k)
        decoded = of_values.decode(data[begin + size :], k * sent.width)
        return Rows(sent.num_rows, found, decoded.reshape(k, sent.width))

    packages = dict.fromkeys(p for p in (of_keys.package, of_values.package) if p != peers.OURS)
    return peers.Method(f"{of_keys.name} + {of_values.name}", ", ".join(packages), encode, decode)


def raw(rows: Rows) -> int:
    """Returns the number of 32-bit words of the raw keys and values."""
    return len(rows.keys) * (1 + rows.width)


def measure(method: peers.Method, rows: Rows, budget: float) -> dict:
    data = method.encode(rows)
    encode = seconds(lambda: method.encode(rows), budget)
    decode = seconds(lambda: method.decode(data, rows), budget)
    return {
        "bytes": len(data),
        "raw_bytes": 4 * raw(rows),
        "error": relative_error(rows, method.decode(data, rows)),
        "encode_m_per_s": raw(rows) / encode / 1e6,
        "decode_m_per_s": raw(rows) / decode / 1e6,
    }
