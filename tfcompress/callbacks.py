"""Keras callbacks that work on Keras 3 and on tf_keras; Horovod's own do not work on Keras 3."""

import tensorflow as tf

from tfcompress import checkpoint, exchange
from tfcompress.tape import tf_variable

# What Horovod can broadcast. Others, such as the uint32 state of a Keras 3 seed generator, stay local.
_BROADCAST_DTYPES = ("float16", "float32", "float64", "int32", "int64", "bool", "uint8", "int8")


class BroadcastVariables(tf.keras.callbacks.Callback):
    """Starts all ranks from the same model and optimizer variables.

    Broadcasts before the first step, or after it where the model is built by its first batch. Residuals
    are not broadcast: each rank's is its own.
    """

    def __init__(self, root_rank: int = 0) -> None:
        """Takes the rank whose variables all others get."""
        super().__init__()
        self._root_rank = root_rank
        self._done = False

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Broadcasts if the model is built."""
        self._done = False
        if self.model.built:
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Broadcasts after the first batch if that built the model."""
        if not self._done:
            self._broadcast()

    def _broadcast(self) -> None:
        self._done = True
        if exchange.Ranks().size() == 1:
            return
        optimizer = self.model.optimizer
        if hasattr(optimizer, "build") and not getattr(optimizer, "built", True):
            optimizer.build(self.model.trainable_variables)
        owned = optimizer.variables
        owned = owned() if callable(owned) else owned
        unique = {id(v): v for v in map(tf_variable, [*self.model.variables, *owned])}
        exchange.broadcast_variables(
            [v for v in unique.values() if v.dtype.name in _BROADCAST_DTYPES], self._root_rank
        )


class PrepareCheckpoint(tf.keras.callbacks.Callback):
    """Averages the residuals before a checkpoint, so that any rank can save them.

    Every rank needs it, ahead of ModelCheckpoint in the list of callbacks, whether or not the rank
    saves.
    """

    def __init__(self, save_freq: int | str = "epoch") -> None:
        """Takes ModelCheckpoint's `save_freq`: "epoch" (default) or a number of batches."""
        super().__init__()
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise ValueError(f'save_freq must be "epoch" or a number of batches, got {save_freq!r}')
        self._save_freq = save_freq
        self._num_batches = 0

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Averages after every `save_freq` batches."""
        self._num_batches += 1
        if self._save_freq != "epoch" and self._num_batches % self._save_freq == 0:
            checkpoint.prepare_checkpoint(self.model.optimizer)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Averages after every epoch."""
        if self._save_freq == "epoch":
            checkpoint.prepare_checkpoint(self.model.optimizer)
