"""The index sections of cc_ops/FORMAT.md in NumPy.

Readers take (section, n, k, seed); writers return the section.
"""

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
from oracle_wire import Random, Reader, hash_keys, pack, require


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


def read_delta_binary(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
    reader = Reader(section)
    keys = read_delta_bytes(reader, k)
    reader.end()
    return check_indices(keys, n)


def write_delta_binary(indices, n: int) -> bytes:
    return write_delta_bytes(indices)


def read_delta_adaptive(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
    reader = Reader(section)
    keys = read_adaptive_deltas(reader, k)
    reader.end()
    return check_indices(keys, n)


def write_delta_adaptive(indices, n: int) -> bytes:
    return write_adaptive_deltas(indices)


def read_delta_flag(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
    reader = Reader(section)
    keys = read_flagged_deltas(reader, k)
    reader.end()
    return check_indices(keys, n)


def write_delta_flag(indices, n: int, flag_bits: int = 2) -> bytes:
    return write_flagged_deltas(indices, flag_bits)


POLICIES = ["naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost"]


def bloom_positions(keys, num_hashes: int, num_bits: int, seed: int) -> np.ndarray:
    """The probes of each key, one row a key."""
    hashes = hash_keys(keys, seed)
    low, high = hashes & np.uint64(0xFFFFFFFF), (hashes >> np.uint64(32)) | np.uint64(1)
    probes = low[:, None] + np.arange(num_hashes, dtype=np.uint64) * high[:, None]
    return (((probes & np.uint64(0xFFFFFFFF)) * np.uint64(num_bits)) >> np.uint64(32)).astype(np.int64)


def select_p1(positives: list[int], k: int, seed: int) -> list[int]:
    random, taken = Random(seed), []
    for i, key in enumerate(positives):
        if len(taken) < k and random.below(len(positives) - i) < k - len(taken):
            taken.append(key)
    return taken


def select_p2(positives: list[int], k: int, seed: int, probes: np.ndarray) -> list[int]:
    conflicts: dict[int, list[int]] = {}
    for key, row in zip(positives, probes.tolist(), strict=True):
        for j in set(row):
            conflicts.setdefault(j, []).append(key)
    alone = sorted({keys[0] for keys in conflicts.values() if len(keys) == 1})
    taken = set(alone[:k])
    order = sorted(conflicts, key=lambda j: (min(len(conflicts[j]), 255), j))
    first = frozenset(taken)
    sets = [[key for key in conflicts[j] if key not in first] for j in order]
    random = Random(seed)
    while len(taken) < k:
        require(any(sets), "fewer positives than k")
        for items in sets:
            while items and len(taken) < k:
                at = random.below(len(items))
                key, items[at] = items[at], items[-1]
                items.pop()
                if key not in taken:
                    taken.add(key)
                    break
    return sorted(taken)


def bloom_select(policy: str, positives, k: int, seed: int, probes: np.ndarray) -> np.ndarray:
    """What receivers decode; `probes` are those of the positives."""
    count = len(positives)
    require(k == count if policy == "p0" else k <= count, "the positives do not fit k")
    keys = [int(key) for key in positives]
    if policy == "p1":
        keys = select_p1(keys, k, seed)
    elif policy == "p2":
        keys = select_p2(keys, k, seed, probes)
    else:
        at = {"middle": (count - k) // 2, "rightmost": count - k}.get(policy, 0)
        keys = keys[at : at + k]
    return np.array(keys, np.int64)


def read_bloom(section: bytes, n: int, k: int, seed: int) -> np.ndarray:
    reader = Reader(section)
    policy, num_hashes, num_bits = reader.u8(), reader.u8(), reader.u32()
    require(policy < len(POLICIES) and 1 <= num_hashes <= 32 and num_bits >= 1, "filter out of range")
    bits = reader.packed(1, num_bits, zero_tail=True)
    reader.end()
    require(bits.sum() <= k * num_hashes, "more bits than k keys set")
    # Halvings of a rate round to its hashes; one bit more or less is rounding of floats.
    halving = k / math.log(2)
    require(num_bits - 1 <= math.ceil(halving * (num_hashes + 0.5)), "more bits than any rate asks for")
    least = 0 if num_hashes == 1 or POLICIES[policy] == "p0" else min(halving * (num_hashes - 0.5), 2**32 - 1)
    require(num_bits + 1 >= least, "fewer bits than any rate asks for")
    probes = bloom_positions(np.arange(n), num_hashes, num_bits, seed)
    positives = np.flatnonzero((bits[probes] == 1).all(axis=1))
    return bloom_select(POLICIES[policy], positives, k, seed, probes[positives])


def write_bloom(indices, n: int, seed: int, policy: str, fpr: float) -> tuple[bytes, np.ndarray]:
    """Returns the section and the indices that receivers decode."""
    bits_per_key = math.log2(1 / fpr)
    num_bits = min(2**32 - 1, max(1, math.ceil(len(indices) * bits_per_key / math.log(2))))
    num_hashes = max(1, round(bits_per_key))
    bits = np.zeros(num_bits, np.int64)
    bits[bloom_positions(indices, num_hashes, num_bits, seed)] = 1
    section = struct.pack("<BBI", POLICIES.index(policy), num_hashes, num_bits) + pack(bits, 1)
    probes = bloom_positions(np.arange(n), num_hashes, num_bits, seed)
    positives = np.flatnonzero((bits[probes] == 1).all(axis=1))
    k = len(positives) if policy == "p0" else len(indices)
    return section, bloom_select(policy, positives, k, seed, probes[positives])


INDEX_IDS = {
    "raw": 1,
    "bitmap": 2,
    "delta_binary": 3,
    "bloom": 4,
    "rle": 5,
    "huffman": 6,
    "delta_adaptive": 7,
    "delta_flag": 8,
    "rowcol": 9,
}
INDEX_READERS = {
    1: read_raw_indices,
    2: read_bitmap,
    3: read_delta_binary,
    4: read_bloom,
    5: read_rle,
    6: read_huffman,
    7: read_delta_adaptive,
    8: read_delta_flag,
    9: read_rowcol,
}
# Of those whose bytes the page determines and that lose nothing.
INDEX_WRITERS = {
    "raw": write_raw_indices,
    "bitmap": write_bitmap,
    "delta_binary": write_delta_binary,
    "rle": write_rle,
    "huffman": write_huffman,
    "delta_adaptive": write_delta_adaptive,
    "delta_flag": write_delta_flag,
    "rowcol": write_rowcol,
}
