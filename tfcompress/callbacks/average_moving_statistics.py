"""The callback that averages BatchNormalization's moving statistics over all ranks."""

from typing import Any

from tfcompress import comm
from tfcompress.callbacks.base import Callback
from tfcompress.state import tf_variable


class AverageMovingStatistics(Callback):
    """Replaces moving means and variances by their averages over all ranks, after each epoch.

    Each rank normalises its own batches, so these variables differ between ranks; only testing uses them.
    Must be on every rank, and stand before ModelCheckpoint. Validation within an epoch uses each
    rank's own.
    """

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Averages them."""
        average_moving_statistics(self.model)


def average_moving_statistics(model: Any) -> None:
    """Averages what layers that are not frozen keep besides their weights. Every rank must call it."""
    layers = [layer for layer in model._flatten_layers(include_self=False) if layer.trainable]
    kept = {id(v): v for layer in layers for v in map(tf_variable, layer.non_trainable_variables)}
    frozen = {
        id(tf_variable(v)) for each in model._flatten_layers() if not each.trainable for v in each.variables
    }
    variables = [v for key, v in kept.items() if key not in frozen and v.dtype.is_floating]
    if comm.ALL_RANKS.size() == 1 or not variables:
        return
    values = [variable.read_value() for variable in variables]
    means = comm.ALL_RANKS.allreduce(values, comm.AVERAGE, "tfcompress_moving_statistics")
    for variable, mean in zip(variables, means, strict=True):
        variable.assign(mean)
