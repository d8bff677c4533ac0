"""The index sections of cc_ops/FORMAT.md in NumPy.

Readers take (section, n, k, seed); writers return the section.
"""

import math
import struct

import numpy as np
from oracle_wire import Random, Reader, hash_keys, pack, require


def check_indices(indices: np.ndarray, n: int) -> np.ndarray:
    require((np.diff(indices) > 0).all(), "indices do not increase")
    require(indices.size == 0 or (indices[0] >= 0 and indices[-1] < n), "an index reaches n")
    return indices


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


DELTA_BLOCK = 65536


def read_delta_bytes(reader: Reader, k: int) -> np.ndarray:
    num_bytes = reader.packed(2, k, zero_tail=True) + 1
    payload = np.frombuffer(reader.take(int(num_bytes.sum())), np.uint8).astype(np.int64)
    starts = np.cumsum(num_bytes) - num_bytes
    deltas = np.zeros(k, np.int64)
    for byte in range(4):
        has = num_bytes > byte
        deltas[has] += payload[starts[has] + byte] << (8 * byte)
    keys = [np.cumsum(deltas[at : at + DELTA_BLOCK]) for at in range(0, k, DELTA_BLOCK)]
    return np.concatenate([np.zeros(0, np.int64), *keys])


def write_delta_bytes(keys, extra_bytes: int = 0) -> bytes:
    """Codes ascending keys; with up to `extra_bytes` more bytes a delta than the encoder's fewest."""
    keys = np.asarray(keys, np.int64)
    deltas = np.diff(keys, prepend=0)
    deltas[::DELTA_BLOCK] = keys[::DELTA_BLOCK]
    num_bytes = [min(4, max(1, -(-int(delta).bit_length() // 8)) + extra_bytes) for delta in deltas]
    payload = b"".join(int(d).to_bytes(size, "little") for d, size in zip(deltas, num_bytes, strict=True))
    return pack(np.array(num_bytes, np.int64) - 1, 2) + payload


def read_delta_binary(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
    reader = Reader(section)
    keys = read_delta_bytes(reader, k)
    reader.end()
    return check_indices(keys, n)


def write_delta_binary(indices, n: int) -> bytes:
    return write_delta_bytes(indices)


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


INDEX_READERS = {1: read_raw_indices, 2: read_bitmap, 3: read_delta_binary, 4: read_bloom}
INDEX_IDS = {"raw": 1, "bitmap": 2, "delta_binary": 3, "bloom": 4}
# Of those whose bytes the page determines and that lose nothing.
INDEX_WRITERS = {
    "raw": write_raw_indices,
    "bitmap": write_bitmap,
    "delta_binary": write_delta_binary,
}
