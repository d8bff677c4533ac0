"""Lets a tuner decide the stages of a running step: times steps, and agrees on times with other ranks."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfcompress import clock
from tfcompress.comm import Ranks
from tfcompress.tuner import Tuner


class Trials:
    """A tuner inside the step, in eager mode and in graphs alike.

    Attributes:
      tuner: What decides; None after `stop`.
    """

    def __init__(self, tuner: Tuner, ranks: Ranks) -> None:
        """Takes what decides, and the ranks that must decide alike."""
        self.tuner: Tuner | None = tuner
        self._ranks = ranks

    def stop(self) -> None:
        """Leaves the stages to the plan, also in steps that are traced already."""
        self.tuner = None

    def begin(self, planned: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the stage of the step that begins, int64 scalar, and the time, float64 scalar.

        Args:
          planned: The stage where there is no tuner any more.
          name: Prefix of the collectives' names, equal on all ranks.
        """
        offered = _call(lambda _: self._offered(), tf.constant(0.0, tf.float64), tf.float64)
        agreed = tf.cond(
            tf.math.is_nan(offered),
            lambda: offered,
            lambda: self._ranks.largest(offered, f"{name}_seconds"),
        )
        stage = _call(self._next_stage, agreed, tf.int64)
        return tf.where(stage < 0, planned, stage), clock.time_after([stage])

    def end(self, start: tf.Tensor, results: Sequence[tf.Tensor | tf.IndexedSlices]) -> None:
        """Takes the time of a step from `start` until its results are there."""
        _call(self._observe, clock.time_after(results) - start, tf.int64)

    def _offered(self) -> np.float64:
        return np.float64(self.tuner.offered() if self.tuner else math.nan)

    def _next_stage(self, agreed: float) -> np.int64:
        return np.int64(self.tuner.next_stage(float(agreed)) if self.tuner else -1)

    def _observe(self, seconds: float) -> np.int64:
        if self.tuner:
            self.tuner.observe(float(seconds))
        return np.int64(0)


def _call(function: object, argument: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Calls a Python function on a scalar when the step runs; returns its scalar."""
    return tf.ensure_shape(tf.numpy_function(function, [argument], dtype), [])
