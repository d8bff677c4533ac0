"""PowerSGD (NeurIPS 2019, Algorithms 1 and 2) in NumPy and double precision, for all ranks."""

import numpy as np


def step(gradients, residuals, right):
    """One step of error feedback for one matrix.

    Args:
      gradients: One [rows, columns] for each rank.
      residuals: As many.
      right: [columns, rank], any multiple of the columns of the last step's.

    Returns:
      The mean approximation that all ranks apply; the residuals; and the mean right factor.
    """
    compensated = [np.float64(g) + e for g, e in zip(gradients, residuals, strict=True)]
    left = np.mean([m @ (right / np.linalg.norm(right, axis=0)) for m in compensated], axis=0)
    left, _ = np.linalg.qr(left)
    right = np.mean([m.T @ left for m in compensated], axis=0)
    decoded = left @ right.T
    return decoded, [m - decoded for m in compensated], right
