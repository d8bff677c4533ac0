"""The index sections `rle` and `huffman` of cc_ops/FORMAT.md in NumPy."""

import struct

import numpy as np
from oracle_deltas import check_indices
from oracle_entropy import (
    canonical_words,
    decoded_words,
    huffman_lengths,
    read_code_blocks,
    read_rice,
    rice,
    write_code_blocks,
)
from oracle_wire import Reader, require


def runs_of(indices) -> np.ndarray:
    """One row a run of ones: the zeros before it, and its own length."""
    indices = np.asarray(indices, np.int64)
    first = np.flatnonzero(np.diff(indices, prepend=-2) > 1)
    starts, ends = indices[first], indices[np.append(first[1:], indices.size) - 1] + 1
    return np.stack([starts - np.append(0, ends[:-1]), ends - starts], axis=1)


def write_rle(indices, n: int) -> bytes:
    if not len(indices):
        return b""
    coded = runs_of(indices) - 1
    coded[0, 0] += 1
    r = [min(range(32), key=lambda r, x=x: int((x >> r).sum()) + r * x.size) for x in coded.T]
    items = [rice(zeros, r[0]) + rice(ones, r[1]) for zeros, ones in coded.tolist()]
    return struct.pack("<IBB", len(items), *r) + write_code_blocks(items)


def read_rle(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
    reader = Reader(section)
    if k == 0:
        reader.end()
        return np.zeros(0, np.int64)
    num_runs, zero_bits, one_bits = reader.u32(), reader.u8(), reader.u8()
    require(1 <= num_runs <= k and zero_bits <= 31 and one_bits <= 31, "runs or parameters out of range")
    coded = read_code_blocks(
        reader, num_runs, lambda bits: (read_rice(bits, zero_bits), read_rice(bits, one_bits))
    )
    reader.end()
    runs = [(zeros + (i > 0), ones + 1) for i, (zeros, ones) in enumerate(coded)]
    require(sum(ones for _, ones in runs) == k, "the ones do not sum to k")
    ends = np.cumsum(np.sum(runs, axis=1))
    require(ends[-1] <= n, "a run reaches n")
    return np.concatenate([np.arange(end - ones, end) for end, (_, ones) in zip(ends, runs, strict=True)])


def bytes_below(n: int) -> list[int]:
    """How often each byte occurs in the 4 n bytes of 0, 1, ..., n - 1."""
    counts = [0] * 256
    for unit in (1, 2**8, 2**16, 2**24):
        rounds, rest = divmod(n, 256 * unit)
        for byte in range(256):
            counts[byte] += rounds * unit + min(unit, max(0, rest - byte * unit))
    return counts


def index_words(n: int) -> dict[int, str]:
    return canonical_words(huffman_lengths(bytes_below(n)))


def write_huffman(indices, n: int) -> bytes:
    words = index_words(n)
    return write_code_blocks(
        ["".join(words[byte] for byte in int(index).to_bytes(4, "little")) for index in indices]
    )


def read_huffman(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
    reader = Reader(section)
    symbols = decoded_words(index_words(n))
    indices = read_code_blocks(reader, k, lambda bits: bytes(bits.word(symbols) for _ in range(4)))
    reader.end()
    return check_indices(np.frombuffer(b"".join(indices), "<u4").astype(np.int64), n)
