"""The callback that averages metrics over all ranks."""

import json
from typing import Any

from tfcompress import comm
from tfcompress.callbacks.base import Callback
from tfcompress.callbacks.requirements import require_distributed


class MetricAverage(Callback):
    """Replaces the metrics in an epoch's logs by their average over all ranks.

    Must be on every rank, and stand before callbacks that decide by metrics, such as ReduceLROnPlateau,
    EarlyStopping and ModelCheckpoint: ranks that decide differently train differently, or wait for each
    other for ever. The average has equal weights, as Horovod's MetricAverageCallback has.
    """

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Raises ValueError where the model trains without exchanging gradients."""
        require_distributed(self.model)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Averages every number in `logs`, in place; what is not a number stays as it is.

        The result is the same on all ranks, bit by bit. NaN on one rank makes the average NaN.

        Raises:
          ValueError: On every rank, when ranks log different metrics.
        """
        num_ranks = comm.ALL_RANKS.size()
        if num_ranks == 1 or logs is None:
            return
        mine = {name: _number(value) for name, value in logs.items()}
        all_ranks = [
            json.loads(message) for message in comm.ALL_RANKS.gather_messages(json.dumps(mine).encode())
        ]
        for rank, theirs in enumerate(all_ranks):
            if theirs.keys() != all_ranks[0].keys():
                raise ValueError(_difference(rank, set(all_ranks[0]), set(theirs)))
        for name in mine:
            values = [theirs[name] for theirs in all_ranks]
            if None not in values:
                logs[name] = sum(values) / num_ranks


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _difference(rank: int, first: set[str], other: set[str]) -> str:
    return (
        "ranks log different metrics, so none was averaged: "
        f"rank {rank} lacks {sorted(first - other)} of rank 0, which lacks {sorted(other - first)}. "
        "Use the same metrics, validation data and callbacks that write logs on all ranks"
    )
