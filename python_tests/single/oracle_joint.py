"""The joint sections of cc_ops/FORMAT.md in NumPy.

Readers take (section, n, k, seed). SKETCH_BODIES has what differs between `sketchml` and `skcompress`.
"""

import functools
import itertools
import struct

import numpy as np
from oracle_deltas import (
    check_indices,
    read_adaptive_deltas,
    read_delta_bytes,
    write_adaptive_deltas,
    write_delta_bytes,
)
from oracle_entropy import (
    BitReader,
    canonical_words,
    decoded_words,
    huffman_lengths,
    read_lengths,
    to_bytes,
    write_lengths,
)
from oracle_wire import Reader, hash_key, hash_keys, num_bits_of, pack, require


def sketch_columns(keys, row: int, num_columns: int, sketch_seed: int) -> np.ndarray:
    hashes = hash_keys(keys, hash_key(row, sketch_seed)) >> np.uint64(32)
    return ((hashes * np.uint64(num_columns)) >> np.uint64(32)).astype(np.int64)


def read_sketchml_body(body: Reader, num_keys: int, num_cells: int, v: int) -> tuple:
    """Returns (keys, cells) of a group."""
    return read_delta_bytes(body, num_keys), body.packed(num_bits_of(v), num_cells)


def write_sketchml_body(keys, cells, v: int) -> bytes:
    return write_delta_bytes(keys) + pack(cells, num_bits_of(v))


def read_skcompress_body(body: Reader, num_keys: int, num_cells: int, v: int) -> tuple:
    keys, coding = read_adaptive_deltas(body, num_keys), body.u8()
    require(coding <= 1, "unknown coding of cells")
    if coding == 0:
        return keys, body.packed(num_bits_of(v), num_cells)
    symbols = decoded_words(canonical_words(read_lengths(body, v)))
    bits = BitReader(body)
    cells = [bits.word(symbols) for _ in range(num_cells)]
    bits.end()
    return keys, np.array(cells, np.int64)


def write_skcompress_body(keys, cells, v: int) -> bytes:
    lengths = huffman_lengths(np.bincount(cells, minlength=v))
    words = canonical_words(lengths)
    packed = pack(cells, num_bits_of(v))
    coded = write_lengths(lengths) + to_bytes("".join(words[cell] for cell in cells.tolist()))
    return write_adaptive_deltas(keys) + (b"\1" + coded if len(coded) < len(packed) else b"\0" + packed)


SKETCH_BODIES = {
    "sketchml": (read_sketchml_body, write_sketchml_body),
    "skcompress": (read_skcompress_body, write_skcompress_body),
}


def parse_sketch(codec: str, section: bytes, n: int, k: int, seed: int) -> dict:
    """Returns {rows, groups, signs}; a sign is {means, width, groups}; a group {first, keys, cells, v, seed}.

    `first` is the first bucket of the group, v its width.
    """
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
            v = min(width, q - g * width)
            keys, cells = SKETCH_BODIES[codec][0](body, num_keys, rows * num_columns, v)
            body.end()
            check_indices(keys, n)
            require((cells < v).all(), "a cell is not a bucket of the group")
            cells = cells.reshape(rows, num_columns)
            sketch_seed = hash_key(256 * sign + g, seed)
            parsed.append({"first": g * width, "keys": keys, "cells": cells, "v": v, "seed": sketch_seed})
        signs.append({"means": means, "width": width, "groups": parsed})
    reader.end()
    keys = [group["keys"] for sign in signs for group in sign["groups"]]
    keys = np.concatenate([np.zeros(0, np.int64), *keys])
    require(keys.size == k and np.unique(keys).size == k, "keys are missing, or in two groups")
    return {"rows": rows, "groups": groups, "signs": signs}


def write_sketch(codec: str, parsed: dict) -> bytes:
    """The section that an encoder writes for these buckets, keys and cells."""
    section = struct.pack("<II", parsed["rows"], parsed["groups"])
    for side in parsed["signs"]:
        section += struct.pack("<I", side["means"].size) + side["means"].tobytes()
        for group in side["groups"]:
            keys, cells = group["keys"], group["cells"]
            body = struct.pack("<II", keys.size, cells.shape[1])
            body += SKETCH_BODIES[codec][1](keys, cells.ravel(), group["v"])
            section += struct.pack("<I", len(body)) + body
    return section


def query_sketch(parsed: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (indices, sign 0 or 1 of each, bucket of each), in the order of indices."""
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


def read_sketch(codec: str, section: bytes, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    parsed = parse_sketch(codec, section, n, k, seed)
    indices, signs, buckets = query_sketch(parsed)
    values = np.zeros(k, np.float32)
    for sign, factor in enumerate((np.float32(1), np.float32(-1))):
        values[signs == sign] = factor * parsed["signs"][sign]["means"][buckets[signs == sign]]
    return indices, values


read_sketchml = functools.partial(read_sketch, "sketchml")
read_skcompress = functools.partial(read_sketch, "skcompress")


# 3LC

NO_TRITS = 121  # Five digits 1, for zeros.
TRIT_BLOCK = 65536


def read_threelc(section: bytes, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    reader = Reader(section)
    [scale] = reader.array("<f4", 1)
    require(not np.signbit(scale), "the scale has a sign bit")
    rest = np.frombuffer(reader.take(len(section) - 4), np.uint8).astype(np.int64)
    runs = np.where(rest > 242, rest - 241, 1)
    require(runs.sum() == -(-n // 5), "other than n elements")
    quartic = np.repeat(np.where(rest > 242, NO_TRITS, rest), runs)
    trits = (quartic[:, None] // [81, 27, 9, 3, 1] % 3).ravel() - 1
    require(not trits[n:].any(), "an element after the last")
    indices = np.flatnonzero(trits)
    require(indices.size == k, "other than k elements that are not zero")
    return indices, scale * trits[indices].astype(np.float32)


def threelc_trits(dense: np.ndarray, multiplier: float) -> tuple[np.float32, np.ndarray]:
    """The scale M and round(x / M)."""
    dense = np.where(np.abs(dense) < np.finfo(np.float32).tiny, 0, dense).astype(np.float64)
    scale = np.float32(min(multiplier * np.abs(dense).max(), np.finfo(np.float32).max))
    return scale, np.where(np.abs(dense) >= float(scale) / 2, np.sign(dense), 0).astype(np.int64)


def write_threelc(dense: np.ndarray, multiplier: float = 1.0) -> bytes:
    """Codes a tensor whose elements that were not selected are 0."""
    scale, trits = threelc_trits(dense, multiplier)
    digits = np.pad(trits, (0, -trits.size % 5)).reshape(-1, 5) + 1
    quartic = (digits @ [81, 27, 9, 3, 1]).tolist()
    section = bytearray(struct.pack("<f", scale))
    for block in range(0, len(quartic), TRIT_BLOCK):
        for byte, run in itertools.groupby(quartic[block : block + TRIT_BLOCK]):
            count = len(list(run))
            if byte == NO_TRITS:
                section += bytes([255]) * (count // 14)
                count %= 14
                section += bytes([241 + count] if count > 1 else [NO_TRITS] * count)
            else:
                section += bytes([byte]) * count
    return bytes(section)


JOINT_READERS = {1: read_sketchml, 2: read_skcompress, 3: read_threelc}
JOINT_IDS = {"sketchml": 1, "skcompress": 2, "threelc": 3}
