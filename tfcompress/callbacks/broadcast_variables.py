"""The callback that starts all ranks from the same variables."""

from collections.abc import Sequence

from tfcompress import comm, keras_objects
from tfcompress.broadcast import broadcast_variables
from tfcompress.callbacks.end_rounds import EndRounds
from tfcompress.callbacks.requirements import require_distributed
from tfcompress.checkpoint import find_state
from tfcompress.state import tf_variable


class BroadcastVariables(EndRounds):
    """Starts all ranks from the same model and optimizer variables.

    Broadcasts before the first step, or after it where the model is built by its first batch. Residuals
    are not broadcast: each rank's is its own. Turns off XLA where Keras chose it by itself
    (`jit_compile="auto"` beside a GPU): Horovod's collectives do not exist there. With `tfc.LocalSteps` it
    does what `EndRounds` does.
    """

    def __init__(
        self, root_rank: int = 0, device: str = "", local_variables: Sequence[object] | None = None
    ) -> None:
        """Takes the arguments of Horovod's callback.

        Args:
          root_rank: The rank whose variables all others get.
          device: Accepted for Horovod's programs; not used.
          local_variables: Variables that stay each rank's own (default: none).
        """
        super().__init__()
        self._root_rank = root_rank
        self._local = {id(tf_variable(variable)) for variable in local_variables or ()}
        self._done = False

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Broadcasts if the model is built.

        Raises:
          ValueError: The model trains without exchanging gradients.
        """
        require_distributed(self.model)
        super().on_train_begin(logs)
        if comm.ALL_RANKS.size() > 1:
            keras_objects.turn_off_automatic_xla(self.model)
        self._done = False
        if self.model.built:
            self._broadcast()
        elif (state := find_state(self.model.optimizer)) is not None:
            state.unsynchronised_steps = keras_objects.steps_per_execution(self.model)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Broadcasts after the first batch if that built the model."""
        super().on_train_batch_end(batch, logs)
        if not self._done:
            self._broadcast()

    def _broadcast(self) -> None:
        self._done = True
        if comm.ALL_RANKS.size() == 1:
            return
        variables = keras_objects.training_variables(self.model, self.model.optimizer)
        shared = [variable for variable in variables if id(variable) not in self._local]
        broadcast_variables(shared, self._root_rank)
