"""The callback that lets any rank save the residuals."""

from tfcompress.callbacks.base import Callback
from tfcompress.checkpoint import prepare_checkpoint


class PrepareCheckpoint(Callback):
    """Averages the residuals before a checkpoint, so that any rank can save them.

    Must be on every rank, whether or not the rank saves, and stand before ModelCheckpoint.
    """

    def __init__(self, save_freq: int | str = "epoch") -> None:
        """Takes ModelCheckpoint's `save_freq`: "epoch" (default) or a number of batches.

        Raises:
          ValueError: It is neither.
        """
        super().__init__()
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise ValueError(f'save_freq must be "epoch" or a number of batches, got {save_freq!r}')
        self._save_freq = save_freq
        self._num_batches, self._last_batch = 0, -1

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Averages after every `save_freq` batches, of which Keras may have taken several at once."""
        self._num_batches += batch + 1 if batch <= self._last_batch else batch - self._last_batch
        self._last_batch = batch
        if isinstance(self._save_freq, int) and self._num_batches >= self._save_freq:
            self._num_batches = 0
            prepare_checkpoint(self.model.optimizer)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Averages after every epoch."""
        if self._save_freq == "epoch":
            prepare_checkpoint(self.model.optimizer)
