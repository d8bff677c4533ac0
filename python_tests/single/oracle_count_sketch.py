""" "Linear payloads" of cc_ops/FORMAT.md in NumPy: what is summed, and what is recovered from a sum."""

import math

import numpy as np
from oracle_sparsify import seeded_support, select_topk, share_of
from oracle_wire import hash_key, hash_keys

BLOCK_CELLS = 65536
LANES = 8
FILL = 1000


def flush(values: np.ndarray) -> np.ndarray:
    """float32 values with +0 for subnormal ones and zeros."""
    return np.where(np.abs(values) < np.float32(2.0**-126), np.float32(0), values)


def cells_of(n: int, rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The column and the sign, -1 or +1, of each element in each row: int64 and float32 [rows, n]."""
    hashes = np.stack([hash_keys(np.arange(n), hash_key(row, seed)) for row in range(rows)])
    wide = (hashes >> np.uint64(32)) * np.uint64(columns)
    negative = (hashes & np.uint64(1)).astype(bool)
    return (wide >> np.uint64(32)).astype(np.int64), np.where(negative, -1, 1).astype(np.float32)


def insert(x: np.ndarray, rows: int, columns: int, seed: int) -> np.ndarray:
    """The table, float32 [rows, columns], of a finite float32 vector."""
    largest = np.abs(x).max(initial=0).astype(np.float32)
    unit = 2.0 ** (int(largest.view(np.uint32) >> 23) + x.size.bit_length() - 189)
    terms = np.trunc(flush(x).astype(np.float64) / unit).astype(np.int64)
    sums = np.zeros((rows, columns), np.int64)
    column, sign = cells_of(x.size, rows, columns, seed)
    for row in range(rows):
        np.add.at(sums[row], column[row], sign[row].astype(np.int64) * terms)
    with np.errstate(over="ignore"):
        return flush((sums.astype(np.float32).astype(np.float64) * unit).astype(np.float32))


def estimate(table: np.ndarray, n: int, seed: int) -> np.ndarray:
    """The estimates of all elements, float32 [n]."""
    rows, columns = table.shape
    column, sign = cells_of(n, rows, columns, seed)
    values = sign * np.take_along_axis(table, column, axis=1)
    # -0 before +0: ordered by value, then by sign.
    order = np.lexsort((~np.signbit(values), values), axis=0)
    return np.take_along_axis(values, order, axis=0)[rows // 2]


def squared_norm(table: np.ndarray) -> float:
    """The median over rows of sums of squares, in the order that the page gives."""
    return sorted(_sum_of_squares(row) for row in table)[len(table) // 2]


def _sum_of_squares(row: np.ndarray) -> float:
    total = 0.0
    for begin in range(0, row.size, BLOCK_CELLS):
        squares = flush(row[begin : begin + BLOCK_CELLS]).astype(np.float64) ** 2
        block = 0.0
        for lane in range(LANES):
            lane_sum = 0.0
            for square in squares[lane::LANES]:
                lane_sum += float(square)
            block += lane_sum
        total += block
    return total


def recover_top(table: np.ndarray, n: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices of the largest estimates, ascending, and these."""
    estimates = estimate(table, n, seed)
    indices = select_topk(estimates, min(count, n))
    return indices, estimates[indices]


def recover_heavymix(table: np.ndarray, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Heavy elements filled up at random (Sketched-SGD, Algorithm 1)."""
    estimates = estimate(table, n, seed)
    count = min(n, k)
    squares = flush(estimates).astype(np.float64) ** 2
    heavy = np.flatnonzero((squares >= squared_norm(table) / k) & (estimates != 0))
    if heavy.size > count:
        heavy = select_topk(estimates, count)
    others = np.setdiff1d(np.arange(n), heavy)
    if heavy.size < count:
        chosen = seeded_support(others.size, count - heavy.size, hash_key(FILL, seed))
        heavy = np.sort(np.concatenate([heavy, others[chosen]]))
    return heavy, estimates[heavy]


def encode_randomk(x: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """The payload of `shared_randomk`."""
    return x[seeded_support(x.size, share_of(x.size, ratio), seed)] if x.size else x


def tail_bound(rows: int) -> float:
    """The probability that most of `rows` rows miss, each with 1/3: a median over them then may."""
    most = range((rows + 1) // 2, rows + 1)
    return sum(math.comb(rows, j) * 2 ** (rows - j) for j in most) / 3**rows
