"""`minmax` of cc_ops/FORMAT.md in NumPy."""

import numpy as np
from oracle_joint import sketch_columns
from oracle_wire import Reader, hash_key, num_bits_of, require


def parse_minmax(section: bytes, k: int) -> tuple[int, np.ndarray, list[dict]]:
    """Returns (rows, sign 0 or 1 of each value, two sketches {means, cells})."""
    reader = Reader(section)
    rows = reader.u32()
    require(1 <= rows <= 8, "rows out of range")
    signs = reader.packed(1, k, zero_tail=True)
    sketches = []
    for sign in range(2):
        count = np.count_nonzero(signs == sign)
        q = reader.u32()
        require(q <= min(count, 32768) and (q == 0) == (count == 0), "number of buckets")
        means, cells = reader.array("<f4", q), np.zeros((rows, 0), np.int64)
        require(not np.signbit(means).any(), "a mean has a sign bit")
        if q:
            num_columns = reader.u32()
            require(1 <= num_columns <= count, "columns out of range")
            cells = reader.packed(num_bits_of(q), rows * num_columns).reshape(rows, num_columns)
            require((cells < q).all(), "a cell is not a bucket")
        sketches.append({"means": means, "cells": cells})
    reader.end()
    return rows, signs, sketches


def columns_of(keys, sign: int, rows: int, num_columns: int, seed: int) -> np.ndarray:
    """The column of each key in each row."""
    return np.stack([sketch_columns(keys, row, num_columns, hash_key(sign, seed)) for row in range(rows)])


def query_minmax(section: bytes, k: int, indices=None, seed=0) -> tuple[np.ndarray, np.ndarray]:
    """Returns (sign, bucket) of each value."""
    rows, signs, sketches = parse_minmax(section, k)
    keys = np.arange(k) if indices is None else np.asarray(indices)
    buckets = np.zeros(k, np.int64)
    for sign, sketch in enumerate(sketches):
        mine, cells = signs == sign, sketch["cells"]
        if mine.any():
            columns = columns_of(keys[mine], sign, rows, cells.shape[1], seed)
            buckets[mine] = np.take_along_axis(cells, columns, axis=1).max(axis=0)
    return signs, buckets


def read_minmax(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    _, _, sketches = parse_minmax(section, k)
    signs, buckets = query_minmax(section, k, indices, seed)
    values = np.zeros(k, np.float32)
    for sign, factor in enumerate((np.float32(1), np.float32(-1))):
        values[signs == sign] = factor * sketches[sign]["means"][buckets[signs == sign]]
    return values
