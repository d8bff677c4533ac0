"""Synthetic sparse rows with the statistics of a real data set.

Features follow the Zipf-Mandelbrot law: the r-th most frequent one is drawn with a probability that is
proportional to (r + SHIFT) ** -EXPONENT. The two constants make 1 % and 10 % of KDD Cup 2010's rows (19.3M
rows, 30M features, 29 a row) touch the share of the features that SKCompress reports for it in section 7.2
(Fig. 10d): 1.77 % and 10 %; the law gives 1.8 % and 9.7 %. Values make each row a unit vector, as there.

Labels come from a planted sparse model: logistic noise for classes, Gaussian noise for numbers.
"""

import numpy as np
import scipy.sparse
import scipy.special

from sparse.rows import Block

EXPONENT, SHIFT = 1.2, 12.0
# Share of the features that the planted model uses, and the standard deviation of its scores.
PLANTED_SHARE, PLANTED_STRENGTH = 0.2, 4.0
NOISE = 1.0


class ZipfRows:
    """Generates rows, the same for the same seeds. Uses 8 bytes of memory per dimension."""

    def __init__(self, dimensions: int, mean_nonzeros: float, seed: int, *, classes: bool) -> None:
        """Draws the planted model.

        Args:
          dimensions: Number of features.
          mean_nonzeros: Features of a row, on average; at least 1.
          seed: Seed of the model and of the order of features by frequency.
          classes: Whether labels are -1 and 1; otherwise they are real numbers.

        Raises:
          ValueError: A number is out of range.
        """
        if not 1 <= dimensions < 2**31:
            raise ValueError(f"dimensions must be from 1 to 2^31 - 1, got {dimensions}")
        if mean_nonzeros < 1:
            raise ValueError(f"rows have at least one feature, got a mean of {mean_nonzeros}")
        rng = np.random.default_rng(seed)
        self._mean_nonzeros, self._classes = mean_nonzeros, classes
        self._dimensions = dimensions
        # Permute the features, so that adjacent numbers do not have similar frequencies.
        self._feature = rng.permutation(np.arange(dimensions, dtype=np.int32))
        used = rng.random(dimensions, np.float32) < PLANTED_SHARE
        deviation = PLANTED_STRENGTH / np.sqrt(PLANTED_SHARE)
        self._planted = np.where(used, rng.standard_normal(dimensions, np.float32) * deviation, 0)
        self._planted = self._planted.astype(np.float32)

    def draw(self, num_rows: int, seed: object) -> Block:
        """Returns rows and labels, determined by `seed`, an integer or several."""
        rng = np.random.default_rng(seed)
        lengths = 1 + rng.poisson(self._mean_nonzeros - 1, num_rows)
        splits = np.concatenate([[0], np.cumsum(lengths)])
        keys = self._feature[self._frequency_ranks(rng, splits[-1])]
        values = np.repeat(1 / np.sqrt(lengths), lengths).astype(np.float32)
        rows = scipy.sparse.csr_matrix((values, keys, splits), shape=(num_rows, self._dimensions))
        return rows, self._labels(rng, rows @ self._planted)

    def _frequency_ranks(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Inverts the distribution function of the law's density; int64 [count] in [0, dimensions)."""
        power = 1 - EXPONENT
        first, last = SHIFT**power, (self._dimensions + SHIFT) ** power
        drawn = (first + rng.random(count) * (last - first)) ** (1 / power) - SHIFT
        return np.clip(drawn.astype(np.int64), 0, self._dimensions - 1)

    def _labels(self, rng: np.random.Generator, scores: np.ndarray) -> np.ndarray:
        if self._classes:
            positive = rng.random(len(scores)) < scipy.special.expit(scores)
            return np.where(positive, 1, -1).astype(np.float32)
        return (scores + NOISE * rng.standard_normal(len(scores))).astype(np.float32)
