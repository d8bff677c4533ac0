"""What sparsifiers select, in NumPy: dense float32 in, ascending indices out."""

import numpy as np


def select_nonzero(dense: np.ndarray) -> np.ndarray:
    return np.flatnonzero(dense)


def select_threshold(dense: np.ndarray, tau: float) -> np.ndarray:
    return np.flatnonzero(np.abs(dense) >= np.float32(tau))


def select_topk(dense: np.ndarray, count: int) -> np.ndarray:
    """The `count` largest magnitudes, ties by lower index."""
    return np.sort(np.argsort(-np.abs(dense), kind="stable")[:count])
