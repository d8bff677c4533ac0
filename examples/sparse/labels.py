"""Converts class labels to -1 and 1, as in Table 2 of SKCompress."""

from collections.abc import Sequence

import numpy as np


def signs(labels: np.ndarray) -> np.ndarray:
    """Returns float32 -1 or 1 for labels that are -1 and 1, or 0 and 1.

    Raises:
      ValueError: Another label is among them.
    """
    strange = labels[~np.isin(labels, (-1, 0, 1))]
    if strange.size:
        raise ValueError(
            f"expected labels -1, 0 and 1, got {strange[0]:g}: name the labels of the positive class with "
            "--positive, or choose --model linear"
        )
    return np.where(labels > 0, 1, -1).astype(np.float32)


def one_against_rest(labels: np.ndarray, positive: Sequence[float]) -> np.ndarray:
    """Returns float32 1 for the labels in `positive` and -1 for all others."""
    return np.where(np.isin(labels, positive), 1, -1).astype(np.float32)


def first_half(labels: np.ndarray) -> list[float]:
    """Returns the smaller half of the labels that occur: the default of the positive class."""
    classes = np.unique(labels)
    return classes[: len(classes) // 2].tolist()
