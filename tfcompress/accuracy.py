"""The warning that training loses accuracy: a compression keeps too much back, or for too long."""

import math
import weakref
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import comm
from tfcompress.auto import Auto
from tfcompress.notices import warn, warn_once
from tfcompress.plan import Given, stages_of
from tfcompress.route import facts_of
from tfcompress.statistics import Stats, TensorStats

# Above it a step sends less than 1 - 0.9875^2 = 2.5 % of the energy, which costs accuracy
# (docs/convergence.md, "How much may wait"). Top-k of 1 % stays below: in the worst case all elements grow
# alike, and those that have waited longest have 3 %.
LARGEST_SAFE_ERROR = 0.9875
# Training that has fewer steps than so many times those that an element waits lost accuracy
# (docs/no_loss.md, "How long is long enough").
LEAST_DELAYS = 20
# What keeps less back than this for long, such as elements that are zero for long, is not told.
LEAST_TOLD_ERROR = 0.5

_told_of_error: "weakref.WeakSet[object]" = weakref.WeakSet()
_told_of_end: "weakref.WeakSet[object]" = weakref.WeakSet()


class AccuracyWarning(UserWarning):
    """A compression keeps so much of the gradients back, or for so long, that accuracy is likely lost."""


def warn_of_loss(holders: Sequence[object], stats: Stats, planned_steps: int | None = None) -> None:
    """Warns on rank 0, once of each reason and for each holder, where training is likely to lose accuracy.

    Does nothing collective.

    Args:
      holders: What the statistics are of.
      stats: Their sum.
      planned_steps: How many steps training will have when it ends, if that is known.
    """
    if not comm.leads():
        return
    reasons = (_told_of_error, _too_much_waits(stats)), (_told_of_end, _too_few_steps(stats, planned_steps))
    for told, message in reasons:
        if message and not told.issuperset(holders):
            told.update(holders)
            warn(message, AccuracyWarning)


def warn_of_dense_table(plan: Given, name: str, gradient: tf.Tensor) -> None:
    """Warns on rank 0, once, where a table whose gradient was made dense is likely to lose accuracy.

    Elements of rows that few batches touch are sent long after their gradients, and the velocity of what is
    sent is forgotten (docs/no_loss.md, "Five times as long").

    Args:
      plan: What is applied; `auto` is not warned of, which may send every element.
      name: The table's.
      gradient: The dense one.
    """
    if not comm.leads() or isinstance(plan, Auto):
        return
    compressors = [policy.compressor_for(name) for policy in stages_of(plan)[1]]
    shape = tuple(gradient.shape)
    specs = [facts_of(each.route(name, gradient.dtype.name, shape).spec) for each in compressors]
    if any(spec["memory"].startswith("momentum") and not spec["everything"] for spec in specs):
        warn_once(
            f"sparse_as_dense=True makes the gradient of '{name}' a dense tensor, of which few elements are "
            "sent, and the memory has the momentum: training lost accuracy so. Leave it out, so that touched "
            "rows are sent, name the table in `exclude`, or send every element by tfc.Compression.int8() or "
            "int4()",
            AccuracyWarning,
        )


def _too_much_waits(stats: Stats) -> str:
    """Names the variable of the largest error, if that is not safe."""
    unsafe = [tensor for tensor in stats.tensors if (tensor.compression_error or 0.0) > LARGEST_SAFE_ERROR]
    if not unsafe:
        return ""
    return _describe(max(unsafe, key=lambda each: each.compression_error or 0.0), len(unsafe))


def _too_few_steps(stats: Stats, planned_steps: int | None) -> str:
    delay, error = stats.total.delay_steps, stats.total.compression_error
    if planned_steps is None or delay is None or error is None or not math.isfinite(delay):
        return ""
    needed = 10 * math.ceil(LEAST_DELAYS * delay / 10)
    if error < LEAST_TOLD_ERROR or planned_steps >= needed:
        return ""
    return (
        f"training is to end after {planned_steps:,} steps, and an element waits some {delay:.0f} from one "
        f"sending to the next: training of fewer than some {needed:,} steps lost accuracy so. "
        "Train longer, send more elements in a step by a larger ratio (tfc.Compression.sparse() sends a "
        "tenth), or all of them by tfc.Compression.int8() or int4()"
    )


def _describe(worst: TensorStats, number: int) -> str:
    others = f" (and {number - 1} more)" if number > 1 else ""
    return (
        f"{worst.name}{others}: the compression error is {worst.compression_error:.4f} (safe: below "
        f"{LARGEST_SAFE_ERROR}), the residual {worst.residual_ratio:.3g} times the gradient, and an element "
        f"waits some {worst.delay_steps:.0f} steps, which is likely to cost accuracy. Send more elements in "
        "a step (a larger ratio, a lower threshold), begin with tfc.Schedule.warmup, or use "
        "tfc.Compression.sparse()"
    )
