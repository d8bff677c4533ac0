"""The callback that raises the learning rate gradually at the start of training."""

from tfcompress import comm
from tfcompress.callbacks.base import Callback
from tfcompress.keras_objects import learning_rate


class LearningRateWarmup(Callback):
    """Raises the learning rate linearly, step by step, from `initial_lr / hvd.size()` to `initial_lr`.

    As Horovod's LearningRateWarmupCallback does ("Accurate, Large Minibatch SGD", 2.2), with Keras 3 too. Its
    momentum correction is left out: Keras builds the momentum into the graph as a constant, and
    adaptive optimizers need no correction.

    After the warm-up the learning rate is left alone, to other callbacks or to itself. Logs it
    after each epoch of the warm-up, as "learning_rate". Stands before callbacks that change the learning
    rate, such as ReduceLROnPlateau.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        *,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        """Takes the arguments of Horovod's callback.

        Args:
          initial_lr: The learning rate when the warm-up is over: that of one process times the number of
            ranks, as a rule; above 0.
          warmup_epochs: How long it takes; above 0, default 5.
          steps_per_epoch: Batches of an epoch (default: what `fit` knows of its data).
          verbose: 1 prints a line on rank 0 when the warm-up is over; 0, the default, does not.

        Raises:
          ValueError: A number is not above 0.
        """
        super().__init__()
        numbers = {"initial_lr": initial_lr, "warmup_epochs": warmup_epochs}
        if steps_per_epoch is not None:
            numbers["steps_per_epoch"] = steps_per_epoch
        for name, number in numbers.items():
            if not number > 0:
                raise ValueError(f"{name} must be above 0, got {number}")
        self._initial_lr = initial_lr
        self._warmup_epochs = warmup_epochs
        self._steps_per_epoch = steps_per_epoch
        self._verbose = verbose

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Finds the learning rate and the number of steps.

        Raises:
          ValueError: The learning rate is a schedule, or the number of steps is not known.
        """
        self._rate = learning_rate(self.model.optimizer)
        self._num_ranks = comm.ALL_RANKS.size()
        self._steps = self._steps_per_epoch or self.params.get("steps")
        if not self._steps:
            raise ValueError(
                "the data does not say how many steps an epoch has: pass steps_per_epoch to "
                "LearningRateWarmup"
            )

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Notes the epoch."""
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Sets the learning rate of this step; that of the last step is `initial_lr`."""
        if self._epoch < self._warmup_epochs:
            # Where Keras does not know the length of the data, it begins one batch too many.
            self._set(self._epoch + min((batch + 1) / self._steps, 1.0))

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Logs the learning rate, and ends the warm-up."""
        if epoch >= self._warmup_epochs:
            return
        if epoch + 1 >= self._warmup_epochs:
            # With several steps in one execution, the last step has not been seen.
            self._set(epoch + 1)
            if self._verbose and comm.ALL_RANKS.rank() == 0:
                print(f"\nEpoch {epoch + 1}: learning rate warmed up to {self._initial_lr:g}", flush=True)
        if logs is not None:
            logs["learning_rate"] = float(self._rate.numpy())

    def _set(self, epochs: float) -> None:
        """Sets the learning rate that is due after so many epochs."""
        progress = min(epochs / self._warmup_epochs, 1.0)
        self._rate.assign(self._initial_lr * (1 + progress * (self._num_ranks - 1)) / self._num_ranks)
