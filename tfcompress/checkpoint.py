"""Residuals in checkpoints, whatever the number of ranks before and after.

What training will still apply of what was not sent is the mean of the ranks' residuals. So the mean is
what is saved, and what every rank starts with again: that sum is conserved exactly. Where gradients are
summed, so are residuals, and every rank starts with its part.

A Keras file has them among its assets, where Keras without this package does not look.
"""

import functools
import io
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfcompress.keras_objects import innermost, read_assets
from tfcompress.notices import warn
from tfcompress.schedule import Schedule
from tfcompress.step_state import StepState

_FILE, _STEPS = "tfcompress_residuals.npz", "steps"
_NOT_PREPARED = (
    "the residuals are not in this checkpoint: each rank has its own, and only all ranks together know "
    "their mean. Call tfc.prepare_checkpoint(optimizer) on every rank before one of them saves, or give "
    "tfc.callbacks.PrepareCheckpoint() to fit on every rank, ahead of ModelCheckpoint"
)


def prepare_checkpoint(optimizer: Any) -> None:
    """Averages the residuals over all ranks, so that any rank can save before the next step.

    Every rank must call it: it is one all-reduce of the residuals. Saving needs no other collective.

    Args:
      optimizer: What `tfc.DistributedOptimizer` returned, or a LossScaleOptimizer around it.

    Raises:
      TypeError: `optimizer` is neither.
    """
    state_of(optimizer).prepare_memories()


def state_of(optimizer: Any) -> StepState:
    """Returns what the step of a wrapped optimizer keeps, also of one inside a LossScaleOptimizer.

    Raises:
      TypeError: There is none.
    """
    state = find_state(optimizer)
    if state is None:
        raise TypeError(f"expected what tfc.DistributedOptimizer returned, got a {type(optimizer).__name__}")
    return state


def find_state(optimizer: Any) -> StepState | None:
    """Returns what the step of a wrapped optimizer keeps, as `state_of`; None for another optimizer."""
    for candidate in (optimizer, innermost(optimizer)):
        step = getattr(candidate, "_tfcompress_step", None)
        if step is not None:
            return step.state
    return None


def save_assets(state: StepState, folder: str) -> None:
    """Writes the residuals into a folder that Keras puts into its file."""
    data = serialize(state)
    if data:
        pathlib.Path(folder, _FILE).write_bytes(data)


def load_assets(state: StepState, filepath: Any) -> None:
    """Restores the residuals from a file that Keras wrote, if it has any."""
    for data in read_assets(filepath, _FILE):
        deserialize(state, data)


def serialize(state: StepState) -> bytes:
    """Returns the number of steps and the mean residuals as bytes; nothing where no step needs them."""
    memories = state.pending()
    if memories is None:
        warn(_NOT_PREPARED)
        memories = {}
    elif not memories and not isinstance(state.plan, Schedule):
        return b""
    file = io.BytesIO()
    # Names of parameters have slashes, which the names of a zip archive's files must not begin with.
    arrays: dict[str, Any] = {f"of:{name}": values for name, values in memories.items()}
    np.savez(file, **{_STEPS: np.int64(state.steps()), **arrays})
    return file.getvalue()


def deserialize(state: StepState, data: bytes) -> None:
    """Restores what `serialize` returned.

    Raises:
      ValueError: It is of another model.
    """
    if not data:
        return
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        memories = {name.removeprefix("of:"): arrays[name] for name in arrays.files if name != _STEPS}
        state.resume_pending(int(arrays[_STEPS]), memories)


class SavedBytes(tf.train.experimental.PythonState):
    """What `tf.train.Checkpoint` saves and restores as bytes."""

    def __init__(self, save: Callable[[], bytes], restore: Callable[[bytes], None]) -> None:
        """Takes what returns the bytes that a checkpoint holds, and what restores them."""
        self._save = save
        self._restore = restore

    def serialize(self) -> bytes:
        """Returns what the checkpoint holds."""
        return self._save()

    def deserialize(self, string_value: bytes) -> None:
        """Restores what the checkpoint held."""
        self._restore(string_value)


def saved_memories(state: StepState) -> SavedBytes:
    """Returns the residuals as `tf.train.Checkpoint` sees them."""
    return SavedBytes(functools.partial(serialize, state), functools.partial(deserialize, state))
