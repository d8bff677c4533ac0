"""The joint sections of cc_ops/FORMAT.md in NumPy. Readers take (section, n, k, seed)."""

import numpy as np
from oracle_index import check_indices, read_delta_bytes
from oracle_wire import Reader, hash_key, hash_keys, num_bits_of, require


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
