"""The callback that averages BatchNormalization's moving statistics over all ranks."""

import tensorflow as tf

from tfcompress import comm
from tfcompress.state import tf_variable


class AverageMovingStatistics(tf.keras.callbacks.Callback):
    """Replaces moving means and variances by their averages over all ranks, after each epoch.

    Each rank normalises its own batches, so these variables differ between ranks; only testing uses them.
    Must be on every rank, and stand before ModelCheckpoint. Validation within an epoch uses each
    rank's own.
    """

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Averages them."""
        average_moving_statistics(self.model)


def average_moving_statistics(model: object) -> None:
    """Averages the floating-point variables of a model that are not trained. Every rank must call it."""
    variables = [tf_variable(variable) for variable in model.non_trainable_variables]
    variables = [variable for variable in variables if variable.dtype.is_floating]
    if comm.ALL_RANKS.size() == 1 or not variables:
        return
    values = [variable.read_value() for variable in variables]
    wires = [None] * len(values)
    means = comm.ALL_RANKS.allreduce(values, comm.AVERAGE, 1.0, wires, "tfcompress_moving_statistics")
    for variable, mean in zip(variables, means, strict=True):
        variable.assign(mean)
