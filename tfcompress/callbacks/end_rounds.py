"""The callback that ends rounds of local steps where all ranks must have the same model."""

from tfcompress import keras_objects
from tfcompress.callbacks.average_moving_statistics import average_moving_statistics
from tfcompress.callbacks.base import Callback


class EndRounds(Callback):
    """Ends a round of `tfc.LocalSteps`, however short, before validation and at the end of each epoch.

    Then averages the moving statistics of BatchNormalization. Averaging them in every round would give the
    same mean: each rank's are a linear function of what they were. Does nothing for other optimizers. Must be
    on every rank and stand before callbacks that test, save or restore weights; `BroadcastVariables` does all
    this.
    """

    _trained = False

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Begins with what was trained before as it is."""
        self._trained = False

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Notes that there is something to bring together."""
        self._trained = True

    def on_test_begin(self, logs: dict | None = None) -> None:
        """Ends the round before validation within `fit`; a rank that has none does so when its epoch ends."""
        self._end()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Ends the round before checkpoints."""
        self._end()

    def _end(self) -> None:
        rounds = keras_objects.rounds_of(self.model.optimizer)
        if self._trained and rounds is not None:
            rounds.end()
            average_moving_statistics(self.model)
        self._trained = False
