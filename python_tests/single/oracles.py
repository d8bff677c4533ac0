"""The wire format a second time, in NumPy, written from cc_ops/FORMAT.md and not from the C++.

Readers of everything, and writers where FORMAT.md determines the bytes. Short and slow on purpose: what
this file says should be checkable against the page by eye. Headings of FORMAT.md stand above its parts.
"""

import math
import struct

import numpy as np


class FormatError(ValueError):
    """The bytes are not what FORMAT.md describes."""


def require(condition, message: str) -> None:
    if not condition:
        raise FormatError(message)


class Reader:
    """Takes fields off the front of a section."""

    def __init__(self, data: bytes):
        self.data = bytes(data)
        self.at = 0

    def take(self, num_bytes: int) -> bytes:
        require(self.at + num_bytes <= len(self.data), "section too short")
        self.at += num_bytes
        return self.data[self.at - num_bytes : self.at]

    def u8(self) -> int:
        return self.take(1)[0]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def array(self, dtype: str, count: int) -> np.ndarray:
        values = np.frombuffer(self.take(count * np.dtype(dtype).itemsize), dtype)
        require(values.dtype.kind != "f" or np.isfinite(values).all(), "a float is not finite")
        return values

    def packed(self, num_bits: int, count: int, zero_tail: bool = False) -> np.ndarray:
        data = np.frombuffer(self.take(-(-count * num_bits // 8)), np.uint8)
        bits = np.unpackbits(data, bitorder="little")
        require(not zero_tail or not bits[count * num_bits :].any(), "a bit after the last is set")
        bits = bits[: count * num_bits].reshape(count, num_bits).astype(np.int64)
        return (bits << np.arange(num_bits)).sum(axis=1)

    def end(self) -> None:
        require(self.at == len(self.data), "section too long")


def pack(numbers, num_bits: int) -> bytes:
    numbers = np.asarray(numbers, np.int64)
    bits = (numbers[:, None] >> np.arange(num_bits)) & 1
    return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes()


def num_bits_of(count: int) -> int:
    """bits(q): ceil(log2 q), 0 for q <= 1."""
    return max(0, count - 1).bit_length()


# Frame

HEADER = struct.Struct("<4sBBBBIIIBBHIIQ")  # Without the checksum, which the u32 after it is.
HEADER_FIELDS = (
    "magic version flags dtype support num_bytes n k index_id value_id reserved "
    "num_index_bytes num_value_bytes seed"
).split()
HEADER_BYTES = HEADER.size + 4
DTYPE_IDS = {"float32": 1, "float16": 2, "bfloat16": 3}
FROM_INDEX_SECTION, EVERYTHING, JOINT = 0, 1, 2


def _crc_table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [(crc >> 1) ^ (0x82F63B78 if crc & 1 else 0) for crc in table]
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) as in RFC 3720: reflected, all ones before and after."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def write_frame(header: dict, index_section: bytes = b"", value_section: bytes = b"") -> bytes:
    """Lays out a frame; fields that the sections and the page determine are filled in."""
    fields = {
        "magic": b"TFCF",
        "version": 1,
        "flags": 0,
        "index_id": 0,
        "value_id": 0,
        "reserved": 0,
        "num_bytes": HEADER_BYTES + len(index_section) + len(value_section),
        "num_index_bytes": len(index_section),
        "num_value_bytes": len(value_section),
        **header,
    }
    head = HEADER.pack(*(fields[name] for name in HEADER_FIELDS))
    sections = index_section + value_section
    return head + struct.pack("<I", crc32c(head + sections)) + sections


def read_header(frame: bytes) -> dict:
    reader = Reader(frame)
    header = dict(zip(HEADER_FIELDS, HEADER.unpack(reader.take(HEADER.size)), strict=True))
    header["checksum"] = reader.u32()
    return header


def read_frame(frame: bytes) -> tuple[dict, np.ndarray | None, np.ndarray | None]:
    """Reads one whole frame: (header, indices, float32 values), no arrays where it is not finite."""
    header = read_header(frame)
    n, k = header["n"], header["k"]
    require(header["magic"] == b"TFCF" and header["version"] == 1, "not a frame")
    require(header["flags"] <= 1 and header["reserved"] == 0, "reserved bits are set")
    require(header["dtype"] in DTYPE_IDS.values() and header["support"] <= 2, "unknown dtype or support")
    require(header["num_bytes"] == len(frame) < 2**31 and k <= n < 2**31, "sizes out of range")
    require(header["checksum"] == crc32c(frame[:40] + frame[44:]), "checksum")
    index_section = frame[HEADER_BYTES : HEADER_BYTES + header["num_index_bytes"]]
    value_section = frame[HEADER_BYTES + header["num_index_bytes"] :]
    require(len(value_section) == header["num_value_bytes"], "sections do not fill the frame")
    if header["support"] != FROM_INDEX_SECTION:
        require(header["index_id"] == 0 and not index_section, "an index section nobody reads")
    require(header["support"] != EVERYTHING or header["flags"] or k == n, "everything is k = n")
    if header["flags"]:
        require(not index_section and not value_section, "a non-finite frame has no sections")
        return header, None, None
    if k == 0:
        require(not index_section and not value_section, "k = 0 has no sections")
        return header, np.zeros(0, np.int64), np.zeros(0, np.float32)
    readers = JOINT_READERS if header["support"] == JOINT else VALUE_READERS
    require(header["value_id"] in readers, "unknown value or joint codec")
    if header["support"] == JOINT:
        indices, values = JOINT_READERS[header["value_id"]](value_section, n, k, header["seed"])
    else:
        values = VALUE_READERS[header["value_id"]](value_section, k)
        indices = np.arange(n)
        if header["support"] == FROM_INDEX_SECTION:
            require(header["index_id"] in INDEX_READERS, "unknown index codec")
            indices = INDEX_READERS[header["index_id"]](index_section, n, k, header["seed"])
    return header, indices, values


def decode_sum(packets: list[list[bytes]], scale: float) -> list[np.ndarray]:
    """The float32 sums over ranks of the frames of each tensor, each element times the scale."""
    sums = []
    for frames in zip(*packets, strict=True):
        total = np.zeros(read_header(frames[0])["n"], np.float32)
        for frame in frames:
            _, indices, values = read_frame(frame)
            if indices is None:
                total[:] = np.nan
            else:
                total[indices] += np.float32(scale) * values
        sums.append(total)
    return sums


# Hashing

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hash_key(key: int, seed: int) -> int:
    return mix64((key * GOLDEN + mix64((seed + GOLDEN) & MASK)) & MASK)


def hash_keys(keys, seed: int) -> np.ndarray:
    """`hash_key` of every key; uint64 arithmetic of arrays wraps."""
    x = np.asarray(keys).astype(np.uint64) * np.uint64(GOLDEN)
    x = x + np.full_like(x, mix64((seed + GOLDEN) & MASK))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Random:
    """The generator of "Hashing"."""

    def __init__(self, seed: int):
        self.state = seed

    def next32(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return mix64(self.state) >> 32

    def below(self, bound: int) -> int:
        return self.next32() * bound >> 32


# Index sections: readers take (section, n, k, seed); writers return the section


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


# Value sections: readers take (section, k)


def read_raw_values(section: bytes, k: int) -> np.ndarray:
    reader = Reader(section)
    values = reader.array("<f4", k)
    reader.end()
    return values


def write_raw_values(values) -> bytes:
    return np.asarray(values, "<f4").tobytes()


def read_fp16(section: bytes, k: int) -> np.ndarray:
    reader = Reader(section)
    values = reader.array("<f2", k).astype(np.float32)
    reader.end()
    return values


def write_fp16(values) -> bytes:
    return np.clip(np.asarray(values, np.float32), -65504, 65504).astype("<f2").tobytes()


def read_bf16(section: bytes, k: int) -> np.ndarray:
    reader = Reader(section)
    values = (reader.array("<u2", k).astype(np.uint32) << 16).view(np.float32)
    require(np.isfinite(values).all(), "a float is not finite")
    reader.end()
    return values


def write_bf16(values) -> bytes:
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # Half of the last bit, less a bit for even.
    infinite = (rounded & 0x7FFF) == 0x7F80
    return np.where(infinite, rounded - 1, rounded).astype("<u2").tobytes()


def parse_quantile(section: bytes, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (means, codes)."""
    reader = Reader(section)
    q = reader.u32()
    require(q <= min(k, 65536) and (q == 0) == (k == 0), "number of buckets")
    means = reader.array("<f4", q)
    codes = reader.packed(num_bits_of(q), k)
    reader.end()
    require((codes < q).all(), "a code is not a bucket")
    return means, codes


def read_quantile(section: bytes, k: int) -> np.ndarray:
    means, codes = parse_quantile(section, k)
    return means[codes]


def deterministic_exp(x: np.ndarray) -> np.ndarray:
    """E: e^x of core/exp.h; NumPy's multiplications and additions are not fused."""
    x = np.clip(np.asarray(x, np.float64), -87.0, 87.0)
    shift = float.fromhex("0x1.8p52")
    n = (x * float.fromhex("0x1.71547652b82fep0") + shift) - shift
    high, low = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
    r = (x - n * high) - n * low
    p = np.full_like(x, 1.0 / math.factorial(12))
    for i in range(11, -1, -1):
        p = p * r + 1.0 / math.factorial(i)
    return np.ldexp(p, n.astype(np.int64))


def dexp_curve(m: int, a, b, c, d, least, largest) -> np.ndarray:
    """The float32 magnitudes of ranks 0 to m - 1 of a part."""
    a, b, c, d, top = (np.float64(x) for x in (a, b, c, d, largest))
    h = 1.0 / (m - 1) if m > 1 else 0.0
    i = np.arange(m)
    s = i // 64 * 64
    y = np.zeros(m)
    for scale, rate in ((a, b), (c, d)):
        block = (top * scale) * deterministic_exp(rate * (s * h))
        y = y + block * deterministic_exp(rate * ((i - s) * h))
    y = np.clip(y, 0.0, top).astype(np.float32)
    y[y < np.finfo(np.float32).tiny] = 0
    return np.clip(y, np.float32(least), np.float32(largest))


def parse_dexp(section: bytes, k: int) -> tuple[list[dict], np.ndarray]:
    """Returns the two parts, {count, a, b, c, d, least, largest} each, and the ranks."""
    reader = Reader(section)
    parts = []
    for _ in range(2):
        part = {"count": reader.u32()}
        if part["count"]:
            part |= zip("a b c d least largest".split(), reader.array("<f4", 6), strict=True)
            require(not np.signbit(part["least"]) and not np.signbit(part["largest"]), "a sign bit")
            require(part["least"] <= part["largest"], "least above largest")
        parts.append(part)
    require(parts[0]["count"] + parts[1]["count"] == k, "the parts do not sum to k")
    ranks = reader.packed(num_bits_of(k), k)
    reader.end()
    require((ranks < k).all(), "a rank is not below k")
    return parts, ranks


def read_dexp(section: bytes, k: int) -> np.ndarray:
    parts, ranks = parse_dexp(section, k)
    curves = [np.zeros(0, np.float32)]
    for part, sign in zip(parts, (np.float32(1), np.float32(-1)), strict=True):
        if part["count"]:
            curves.append(sign * dexp_curve(part["count"], *list(part.values())[1:]))
    return np.concatenate(curves)[ranks]


def dexp_ranks(values: np.ndarray) -> np.ndarray:
    """The ranks that the encoder writes: they do not depend on the fit."""
    positions = np.arange(values.size)
    order = np.lexsort((positions, -np.abs(values), values < 0))
    ranks = np.empty(values.size, np.int64)
    ranks[order] = positions
    return ranks


VALUE_READERS = {1: read_raw_values, 2: read_fp16, 3: read_bf16, 4: read_quantile, 5: read_dexp}


# Joint sections: readers take (section, n, k, seed)


def sketch_columns(keys, row: int, num_columns: int, sketch_seed: int) -> np.ndarray:
    hashes = hash_keys(keys, hash_key(row, sketch_seed)) >> np.uint64(32)
    return ((hashes * np.uint64(num_columns)) >> np.uint64(32)).astype(np.int64)


def parse_sketchml(section: bytes, n: int, k: int, seed: int) -> dict:
    """Returns {rows, groups, signs}; a sign is {means, width, groups}; a group {first, keys, cells, seed}."""
    reader = Reader(section)
    rows, groups = reader.u32(), reader.u32()
    require(1 <= rows <= 8 and 1 <= groups <= 256, "rows or groups out of range")
    signs = []
    for sign in range(2):
        q = reader.u32()
        require(q <= min(k, 32768), "too many buckets")
        means = reader.array("<f4", q)
        require(not np.signbit(means).any(), "a mean has a sign bit")
        width = -(-q // groups)
        parsed = []
        for g in range(-(-q // width) if q else 0):
            body = Reader(reader.take(reader.u32()))
            num_keys, num_columns = body.u32(), body.u32()
            require(1 <= num_columns <= num_keys <= k, "keys or columns out of range")
            keys = check_indices(read_delta_bytes(body, num_keys), n)
            v = min(width, q - g * width)
            cells = body.packed(num_bits_of(v), rows * num_columns).reshape(rows, num_columns)
            body.end()
            require((cells < v).all(), "a cell is not a bucket of the group")
            sketch_seed = hash_key(256 * sign + g, seed)
            parsed.append({"first": g * width, "keys": keys, "cells": cells, "seed": sketch_seed})
        signs.append({"means": means, "width": width, "groups": parsed})
    reader.end()
    keys = [group["keys"] for sign in signs for group in sign["groups"]]
    keys = np.concatenate([np.zeros(0, np.int64), *keys])
    require(keys.size == k and np.unique(keys).size == k, "keys are missing, or in two groups")
    return {"rows": rows, "groups": groups, "signs": signs}


def query_sketchml(section: bytes, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (indices, sign 0 or 1 of each, bucket of each), in the order of indices."""
    parsed = parse_sketchml(section, n, k, seed)
    parts = [np.zeros((3, 0), np.int64)]
    for sign, side in enumerate(parsed["signs"]):
        for group in side["groups"]:
            keys, cells = group["keys"], group["cells"]
            answers = [
                cells[row, sketch_columns(keys, row, cells.shape[1], group["seed"])]
                for row in range(parsed["rows"])
            ]
            bucket = group["first"] + np.max(answers, axis=0)
            parts.append(np.stack([keys, np.full_like(keys, sign), bucket]))
    parts = np.concatenate(parts, axis=1)
    return tuple(parts[:, np.argsort(parts[0])])


def read_sketchml(section: bytes, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    parsed = parse_sketchml(section, n, k, seed)
    indices, signs, buckets = query_sketchml(section, n, k, seed)
    values = np.zeros(k, np.float32)
    for sign, factor in enumerate((np.float32(1), np.float32(-1))):
        values[signs == sign] = factor * parsed["signs"][sign]["means"][buckets[signs == sign]]
    return indices, values


JOINT_READERS = {1: read_sketchml}


# Sparsifiers: dense float32 in, ascending indices out


def select_nonzero(dense: np.ndarray) -> np.ndarray:
    return np.flatnonzero(dense)


def select_threshold(dense: np.ndarray, tau: float) -> np.ndarray:
    return np.flatnonzero(np.abs(dense) >= np.float32(tau))


def select_topk(dense: np.ndarray, count: int) -> np.ndarray:
    """The `count` largest magnitudes, ties by lower index."""
    return np.sort(np.argsort(-np.abs(dense), kind="stable")[:count])
