"""Where statistics are found: optimizers, tapes, models and compressors."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfcompress.accuracy import warn_of_loss
from tfcompress.checkpoint import find_state
from tfcompress.policy import Compressor
from tfcompress.statistics import Stats, merge, users_of
from tfcompress.step_state import StepState
from tfcompress.tape import DistributedGradientTape, states_of


def stats(source: Any, residual_norms: bool = True, planned_steps: int | None = None) -> Stats:
    """Returns what an optimizer, tape, model or compressor has sent so far on this rank.

    Args:
      source: What `tfc.DistributedOptimizer` or `tfc.DistributedGradientTape` returned, a Keras
        LossScaleOptimizer around it; a Keras model, for its optimizer and for tapes that were made inside a
        function; or a compressor, for all optimizers and tapes that use it, stock Horovod's included. Tensors
        that Horovod's all-reduce carried uncompressed count with their full size.
      residual_norms: Whether to read all residuals for their norms (default). Without, the call reads three
        small variables and can be made at every step.
      planned_steps: How many steps (of `tfc.LocalSteps`: rounds) training will have when it ends, for the
        warning that they are too few (default: not known); without a reading of the residuals there is none.

    Warns:
      AccuracyWarning: On rank 0, once for each optimizer or tape, where residuals were read: the compression
        keeps more back than training bears (`TensorStats.compression_error` above 0.9875), or for too long
        (fewer than 20 planned steps for each of `TensorStats.delay_steps`).

    Returns:
      The statistics; `str` of them is a table, `summary()` one line, `since(earlier)` a difference.

    Raises:
      TypeError: `source` is none of these.
    """
    holders = _holders(source)
    counted = merge([holder.stats() for holder in holders])
    if not residual_norms:
        return counted
    warn_of_loss(holders, counted, planned_steps)
    return dataclasses.replace(counted, residual_norms=_norms(counted.slots))


def _holders(source: Any) -> list[Any]:
    if isinstance(source, Compressor):
        return users_of(source)
    if hasattr(source, "trainable_variables") and hasattr(source, "train_step"):
        return [
            *(_states_in(getattr(source, "optimizer", None)) or ()),
            *states_of(source.trainable_variables),
        ]
    states = _states_in(source)
    if states is None:
        raise TypeError(
            f"no statistics in a {type(source).__name__}: pass what tfc.DistributedOptimizer or "
            "tfc.DistributedGradientTape returned, a Keras model, or a compressor"
        )
    return states


def _states_in(source: Any) -> list[StepState] | None:
    """Returns what an optimizer or tape keeps, nothing of a tape before its first step; None for others."""
    state = find_state(source)
    if state is not None:
        return [state]
    return [] if isinstance(source, DistributedGradientTape) else None


def _norms(slots: Sequence[Sequence[tf.Variable]]) -> np.ndarray:
    """Euclidean norm of each tensor's residual, its first slot; float64 [tensors]."""
    # One pass, no temporary of the slot's size. NaN stays with its tensor, and with the total.
    halves = [sum((tf.cast(tf.nn.l2_loss(slot), tf.float64) for slot in owned[:1]), 0.0) for owned in slots]
    return np.sqrt(2.0 * np.asarray(halves, np.float64))
