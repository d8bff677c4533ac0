"""The callback that starts all ranks from the same variables."""

import tensorflow as tf

from tfcompress import exchange
from tfcompress.keras_objects import innermost, tf_variable, variables

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
        if exchange.ALL_RANKS.size() == 1:
            return
        unique = {id(variable): variable for variable in self._variables()}
        exchange.broadcast_variables(
            [v for v in unique.values() if v.dtype.name in _BROADCAST_DTYPES], self._root_rank
        )

    def _variables(self) -> list[tf.Variable]:
        optimizer = self.model.optimizer
        # A rank that has restored a checkpoint has the variables of a built optimizer, and all ranks must
        # broadcast the same list.
        if hasattr(optimizer, "build") and not (_is_built(optimizer) and _is_built(innermost(optimizer))):
            optimizer.build(self.model.trainable_variables)
        return [*map(tf_variable, self.model.variables), *variables(optimizer)]


def _is_built(optimizer: object) -> bool:
    """Keras 3 says `built`, tf_keras says `_built` and says it only of those that are."""
    return getattr(optimizer, "built", getattr(optimizer, "_built", False))
