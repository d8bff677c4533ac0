"""The index sections of cc_ops/FORMAT.md in NumPy.

Readers take (section, n, k, seed); writers return the section.
"""

import collections
import math
import struct

import numpy as np
from oracle_deltas import (
    check_indices,
    read_adaptive_deltas,
    read_delta_bytes,
    read_flagged_deltas,
    write_adaptive_deltas,
    write_delta_bytes,
    write_flagged_deltas,
)
from oracle_index_entropy import read_huffman, read_rle, write_huffman, write_rle
from oracle_rowcol import read_rowcol, write_rowcol
from oracle_wire import GOLDEN, Reader, hash_keys, mix64_all, pack, require


def read_raw_indices(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
    reader = Reader(section)
    indices = reader.array("<u4", k).astype(np.int64)
    reader.end()
    return check_indices(indices, n)


def write_raw_indices(indices, n: int) -> bytes:
    return np.asarray(indices, "<u4").tobytes()


def read_bitmap(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
    reader = Reader(section)
    indices = np.flatnonzero(reader.packed(1, n, zero_tail=True))
    reader.end()
    require(indices.size == k, "other than k bits are set")
    return indices


def write_bitmap(indices, n: int) -> bytes:
    return pack(np.isin(np.arange(n), indices), 1)


def of_keys(read_keys, write_keys):
    """Returns the reader and the writer of sections that are ascending keys alone."""

    def read(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
        reader = Reader(section)
        keys = read_keys(reader, k)
        reader.end()
        return check_indices(keys, n)

    def write(indices, n: int, *parameters) -> bytes:
        return write_keys(indices, *parameters)

    return read, write


read_delta_binary, write_delta_binary = of_keys(read_delta_bytes, write_delta_bytes)
read_delta_adaptive, write_delta_adaptive = of_keys(read_adaptive_deltas, write_adaptive_deltas)
read_delta_flag, write_delta_flag = of_keys(read_flagged_deltas, write_flagged_deltas)


POLICIES = ["naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost"]


def bloom_positions(keys, num_hashes: int, num_bits: int, seed: int) -> np.ndarray:
    """The probes of each key, one row a key."""
    keys = np.asarray(keys, np.int64)
    hashes = hash_keys(keys // 64, seed)
    probes = np.arange(num_hashes, dtype=np.uint64)
    pairs = mix64_all(hashes[:, None] + probes // np.uint64(2) * np.uint64(2) * np.uint64(GOLDEN))
    halves = pairs >> probes % np.uint64(2) * np.uint64(32) & np.uint64(0xFFFFFFFF)
    starts = halves * np.uint64(num_bits) >> np.uint64(32)
    return (starts.astype(np.int64) + keys[:, None] % 64) % num_bits


def p1_priorities(positives: np.ndarray, seed: int) -> np.ndarray:
    return 1 + (hash_keys(positives, seed) >> np.uint64(34)).astype(np.int64)


def p2_priorities(positives: np.ndarray, seed: int, probes: np.ndarray) -> np.ndarray:
    sizes = collections.Counter(probes.ravel().tolist())
    certain = [any(sizes[bit] == 1 for bit in row) for row in probes.tolist()]
    explained = set(probes[certain].ravel().tolist())
    evidence = [
        16383 if is_certain else sum(512 // min(sizes[bit], 255) for bit in row if bit not in explained)
        for row, is_certain in zip(probes.tolist(), certain, strict=True)
    ]
    random = (hash_keys(positives, seed) >> np.uint64(48)).astype(np.int64)
    return 65536 * (16 + np.array(evidence, np.int64)) + random


def bloom_select(policy: str, positives, k: int, seed: int, probes: np.ndarray) -> np.ndarray:
    """What receivers decode; `probes` are those of the positives."""
    count = len(positives)
    require(k == count if policy == "p0" else k <= count, "the positives do not fit k")
    if policy in ("p1", "p2"):
        priorities = (
            p1_priorities(positives, seed) if policy == "p1" else p2_priorities(positives, seed, probes)
        )
        ranks = np.sort(np.argsort(-priorities, kind="stable")[:k])
    else:
        at = {"middle": (count - k) // 2, "rightmost": count - k}.get(policy, 0)
        ranks = slice(at, at + k)
    return np.asarray(positives, np.int64)[ranks]


def read_bloom(section: bytes, n: int, k: int, seed: int) -> np.ndarray:
    reader = Reader(section)
    policy, num_hashes, num_bits = reader.u8(), reader.u8(), reader.u32()
    require(policy < len(POLICIES) and 1 <= num_hashes <= 32 and num_bits >= 64, "filter out of range")
    bits = reader.packed(1, num_bits, zero_tail=True)
    reader.end()
    require(bits.sum() <= k * num_hashes, "more bits than k keys set")
    # Halvings of a rate round to its hashes; one bit more or less is rounding of floats.
    halving = k / math.log(2)
    most = max(64, 1 + math.ceil(halving * (num_hashes + 0.5)))
    require(num_bits <= most, "more bits than any rate asks for")
    least = 0 if num_hashes == 1 or POLICIES[policy] == "p0" else min(halving * (num_hashes - 0.5), 2**32 - 1)
    require(num_bits + 1 >= least, "fewer bits than any rate asks for")
    probes = bloom_positions(np.arange(n), num_hashes, num_bits, seed)
    positives = np.flatnonzero((bits[probes] == 1).all(axis=1))
    return bloom_select(POLICIES[policy], positives, k, seed, probes[positives])


def write_bloom(indices, n: int, seed: int, policy: str, fpr: float) -> tuple[bytes, np.ndarray]:
    """Returns the section and the indices that receivers decode."""
    bits_per_key = math.log2(1 / fpr)
    num_bits = min(2**32 - 1, max(64, math.ceil(len(indices) * bits_per_key / math.log(2))))
    num_hashes = max(1, round(bits_per_key))
    bits = np.zeros(num_bits, np.int64)
    bits[bloom_positions(indices, num_hashes, num_bits, seed)] = 1
    section = struct.pack("<BBI", POLICIES.index(policy), num_hashes, num_bits) + pack(bits, 1)
    probes = bloom_positions(np.arange(n), num_hashes, num_bits, seed)
    positives = np.flatnonzero((bits[probes] == 1).all(axis=1))
    k = len(positives) if policy == "p0" else len(indices)
    return section, bloom_select(policy, positives, k, seed, probes[positives])


# Name, id, reader, and the writer of those whose bytes the page determines and that lose nothing.
INDEX_CODECS = [
    ("raw", 1, read_raw_indices, write_raw_indices),
    ("bitmap", 2, read_bitmap, write_bitmap),
    ("delta_binary", 3, read_delta_binary, write_delta_binary),
    ("rle", 5, read_rle, write_rle),
    ("huffman", 6, read_huffman, write_huffman),
    ("delta_adaptive", 7, read_delta_adaptive, write_delta_adaptive),
    ("delta_flag", 8, read_delta_flag, write_delta_flag),
    ("rowcol", 11, read_rowcol, write_rowcol),
    ("bloom", 10, read_bloom, None),
]
INDEX_IDS = {name: id_ for name, id_, _, _ in INDEX_CODECS}
INDEX_READERS = {id_: read for _, id_, read, _ in INDEX_CODECS}
INDEX_WRITERS = {name: write for name, _, _, write in INDEX_CODECS if write}
# What tests of whole frames take.
INDEX_PARTS = [*INDEX_WRITERS, *(f"bloom:policy={policy},fpr=0.1" for policy in POLICIES)]
