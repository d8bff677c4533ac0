"""Lets a tuner decide the stages of a running step: times steps, and agrees on times with other ranks."""

import math
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfcompress import clock
from tfcompress.comm import Ranks
from tfcompress.devices import HOST
from tfcompress.routes.base import call_python
from tfcompress.state import make_variable
from tfcompress.tuner import Tuner

# What is decided where there is no tuner: the plan's stage, for ever.
_PLANNED = -1, 1 << 62


class Trials:
    """A tuner inside the step, in eager mode and in graphs alike.

    Attributes:
      tuner: What decides; None after `stop`.
    """

    def __init__(self, tuner: Tuner, ranks: Ranks) -> None:
        """Takes what decides, and the ranks that must decide alike."""
        self.tuner: Tuner | None = tuner
        self._ranks = ranks
        # The stage of the present step, and how many steps follow before the tuner is asked again: Python in
        # every step would cost a short one several per cent.
        with tf.init_scope(), tf.device(HOST):
            self._present = make_variable(np.zeros(2, np.int64))
            self._ended = make_variable(np.float64(time.time()))

    def stop(self) -> None:
        """Leaves the stages to the plan, also in steps that are traced already."""
        self.tuner = None
        self._present.assign([0, 0])

    def begin(self, planned: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the stage of the step that begins, int64 scalar, and whether it is timed, bool scalar.

        Args:
          planned: The stage where there is no tuner any more.
          name: Prefix of the collectives' names, equal on all ranks.
        """
        with tf.device(HOST):
            before = self._present.read_value()
            present = tf.cond(before[1] > 0, lambda: before - [0, 1], lambda: self._ask(name))
            self._present.assign(present)
            stage, num_left = tf.unstack(present)
            return tf.where(stage < 0, planned, stage), num_left <= 0

    def end(self, is_timed: tf.Tensor, results: Sequence[tf.Tensor | tf.IndexedSlices]) -> None:
        """Takes the time of a step: from the results of the one before until its own are there.

        A begin would say less: an executor of one thread may come to it when half of the step is done.
        """
        with tf.device(HOST):
            before, now = self._ended.read_value(), clock.time_after(results)
            self._ended.assign(now)
            tf.cond(
                is_timed,
                lambda: call_python(self._observe, [now - before], [tf.int64], [[]])[0],
                lambda: tf.constant(0, tf.int64),
            )

    def _ask(self, name: str) -> tf.Tensor:
        """Returns the stage that the tuner decides on, and how many steps follow this one: int64 [2]."""
        [offered] = call_python(self._offered, [], [tf.float64], [[]])
        agreed = tf.cond(
            tf.math.is_nan(offered),
            lambda: offered,
            lambda: self._ranks.largest(offered, f"{name}_seconds"),
        )
        return call_python(self._next_steps, [agreed], [tf.int64], [[2]])[0]

    def _offered(self) -> np.float64:
        return np.float64(self.tuner.offered() if self.tuner else math.nan)

    def _next_steps(self, agreed: float) -> np.ndarray:
        stage, number = self.tuner.next_steps(float(agreed)) if self.tuner else _PLANNED
        return np.array([stage, number - 1], np.int64)

    def _observe(self, seconds: float) -> np.int64:
        if self.tuner:
            self.tuner.observe(float(seconds))
        return np.int64(0)
