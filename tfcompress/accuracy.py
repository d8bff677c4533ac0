"""The warning that a compression keeps so much back that training loses accuracy."""

import weakref
from collections.abc import Iterable

from tfcompress import comm
from tfcompress.notices import warn
from tfcompress.statistics import Stats, TensorStats

# Above it a step sends less than 1 - 0.9875^2 = 2.5 % of the energy, which costs accuracy
# (docs/convergence.md, "How much may wait"). Top-k of 1 % stays below: in the worst case all elements grow
# alike, and those that have waited longest have 3 %.
LARGEST_SAFE_ERROR = 0.9875

_warned: "weakref.WeakSet[object]" = weakref.WeakSet()


class AccuracyWarning(UserWarning):
    """A compression keeps back so much of the gradients that accuracy is likely to be lost."""


def warn_if_too_much_waits(holders: Iterable[object], stats: Stats) -> None:
    """Warns on rank 0, once for each holder of statistics, naming the variable of the largest error.

    Does nothing collective.

    Args:
      holders: What the statistics are of.
      stats: Their sum.
    """
    unsafe = [tensor for tensor in stats.tensors if (tensor.compression_error or 0.0) > LARGEST_SAFE_ERROR]
    if unsafe and comm.leads() and not _warned.issuperset(holders):
        _warned.update(holders)
        worst = max(unsafe, key=lambda each: each.compression_error or 0.0)
        warn(_describe(worst, len(unsafe)), AccuracyWarning)


def _describe(worst: TensorStats, number: int) -> str:
    others = f" (and {number - 1} more)" if number > 1 else ""
    return (
        f"{worst.name}{others}: the compression error is {worst.compression_error:.4f} (safe: below "
        f"{LARGEST_SAFE_ERROR}), the residual {worst.residual_ratio:.3g} times the gradient, and an element "
        f"waits some {worst.delay_steps:.0f} steps, which is likely to cost accuracy. Send more elements in "
        "a step (a larger ratio, a lower threshold), begin with tfc.Schedule.warmup, or use "
        "tfc.Compression.sparse()"
    )
