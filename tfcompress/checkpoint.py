"""Saving and restoring residuals, whatever the number of ranks before and after.

What training will still apply of what was not sent is the mean of the ranks' residuals. So the mean is
what is saved, and what every rank starts with again: that sum is conserved exactly. Where gradients are
summed, so are residuals, and every rank starts with its part.
"""

import io
import warnings
from collections.abc import Mapping, MutableMapping

import numpy as np
import tensorflow as tf

from tfcompress.aggregator import GradientAggregator
from tfcompress.keras_objects import innermost

_KEY, _STEPS = "tfcompress_memory", "steps"
_NOT_PREPARED = (
    "the residuals are not in this checkpoint: each rank has its own, and only all ranks together know "
    "their mean. Call tfc.prepare_checkpoint(optimizer) on every rank before one of them saves, or give "
    "tfc.callbacks.PrepareCheckpoint() to fit on every rank, ahead of ModelCheckpoint"
)


def prepare_checkpoint(optimizer: object) -> None:
    """Averages the residuals over all ranks, so that any rank can save before the next step.

    Every rank must call it: it is one all-reduce of the residuals. Saving needs no other collective.

    Args:
      optimizer: What `tfc.DistributedOptimizer` returned, or a LossScaleOptimizer around it.

    Raises:
      TypeError: `optimizer` is neither.
    """
    aggregator_of(optimizer).prepare_memories()


def aggregator_of(optimizer: object) -> GradientAggregator:
    """Returns the aggregator of a wrapped optimizer, also of one inside a LossScaleOptimizer.

    Raises:
      TypeError: There is none.
    """
    aggregator = _find_aggregator(optimizer)
    if aggregator is None:
        raise TypeError(f"expected what tfc.DistributedOptimizer returned, got a {type(optimizer).__name__}")
    return aggregator


def is_distributed(optimizer: object) -> bool:
    """Whether `aggregator_of` finds one."""
    return _find_aggregator(optimizer) is not None


def _find_aggregator(optimizer: object) -> GradientAggregator | None:
    for candidate in (optimizer, innermost(optimizer)):
        aggregator = getattr(candidate, "_tfcompress_aggregator", None)
        if aggregator is not None:
            return aggregator
    return None


def put_memory(aggregator: GradientAggregator, store: MutableMapping) -> None:
    """Adds the residuals to what a Keras optimizer saves."""
    data = serialize(aggregator)
    if data:
        store[_KEY] = np.frombuffer(data, np.uint8)


def take_memory(aggregator: GradientAggregator, store: Mapping) -> dict:
    """Restores residuals from what a Keras optimizer loads, and returns the rest of it."""
    if _KEY in store.keys():
        deserialize(aggregator, np.asarray(store[_KEY]).tobytes())
    return {key: store[key] for key in store.keys() if key != _KEY}


def serialize(aggregator: GradientAggregator) -> bytes:
    """Returns the number of steps and the mean residuals as bytes; nothing where no step needs them."""
    memories = aggregator.pending()
    if memories is None:
        warnings.warn(_NOT_PREPARED, stacklevel=3)
        memories = {}
    elif not memories and not aggregator.tensors.has_schedule():
        return b""
    file = io.BytesIO()
    arrays = {str(number): values for number, values in memories.items()}
    np.savez(file, **{_STEPS: np.int64(aggregator.steps())}, **arrays)
    return file.getvalue()


def deserialize(aggregator: GradientAggregator, data: bytes) -> None:
    """Restores what `serialize` returned.

    Raises:
      ValueError: It is of another model.
    """
    if not data:
        return
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        memories = {int(number): arrays[number] for number in arrays.files if number != _STEPS}
        aggregator.resume_pending(int(arrays[_STEPS]), memories)


class MemoryState(tf.train.experimental.PythonState):
    """The residuals as `tf.train.Checkpoint` sees them."""

    def __init__(self, aggregator: GradientAggregator) -> None:
        """Takes the aggregator whose residuals are saved and restored."""
        self._aggregator = aggregator

    def serialize(self) -> bytes:
        """Returns what the checkpoint holds."""
        return serialize(self._aggregator)

    def deserialize(self, string_value: bytes) -> None:
        """Restores what the checkpoint held."""
        deserialize(self._aggregator, string_value)
