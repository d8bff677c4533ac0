"""What sparsifiers select, in NumPy: dense float32 in, ascending indices out."""

import math

import numpy as np
from oracle_wire import hash_key, num_bits_of


def share_of(n: int, ratio: float) -> int:
    """`ratio * n`, halves up, at least one where there is one."""
    return min(n, max(1, math.floor(ratio * n + 0.5)))


def select_nonzero(dense: np.ndarray) -> np.ndarray:
    return np.flatnonzero(dense)


def select_threshold(dense: np.ndarray, tau: float) -> np.ndarray:
    return np.flatnonzero(np.abs(dense) >= np.float32(tau))


def select_topk(dense: np.ndarray, count: int) -> np.ndarray:
    """The `count` largest magnitudes, ties by lower index."""
    return np.sort(np.argsort(-np.abs(dense), kind="stable")[:count])


def permute(x: int, n: int, seed: int) -> int:
    """The image of x under the permutation of "Seeded supports" in cc_ops/FORMAT.md."""
    low_bits = num_bits_of(n) // 2
    low_size, high_size = 2**low_bits, 2 ** (num_bits_of(n) - low_bits)
    while True:
        high, low = divmod(x, low_size)
        for r in (0, 2, 4):
            high ^= (hash_key(low, seed + r) >> 32) % high_size
            low ^= (hash_key(high, seed + r + 1) >> 32) % low_size
        x = high * low_size + low
        if x < n:
            return x


def seeded_support(n: int, k: int, seed: int) -> np.ndarray:
    """What `randomk` selects, and what the seed in a frame says."""
    return np.array(sorted(permute(x, n, seed) for x in range(k)), np.int64)


def select(part: str, dense: np.ndarray, seed: int = 0) -> np.ndarray:
    """What this part of a spec selects."""
    name, _, parameters = part.partition(":")
    if name in ("dense", "nonzero"):
        return np.arange(dense.size) if name == "dense" else select_nonzero(dense)
    argument = float(parameters.split("=")[1])
    if name == "threshold":
        return select_threshold(dense, argument)
    count = share_of(dense.size, argument)
    return seeded_support(dense.size, count, seed) if name == "randomk" else select_topk(dense, count)
