"""The callback that shows what compression does."""

from tfcompress import comm
from tfcompress.callbacks.base import Callback
from tfcompress.callbacks.requirements import require_distributed
from tfcompress.sources import stats
from tfcompress.statistics import Stats, TensorStats


class CompressionStats(Callback):
    """Adds what was sent to Keras's logs: to progress bars, History, CSVLogger and TensorBoard.

    Stands before callbacks that read logs. After a batch the logs hold means over the steps of the epoch
    so far, as Keras's metrics do; after an epoch, means over its steps. All are of this rank:

    - `payload_bytes`: bytes of this rank's frames or payloads in a step, headers included.
    - `wire_bytes`: bytes that the collectives move in and out of this rank.
    - `compression_ratio`: wire bytes of Horovod's all-reduce of the same gradients for each of these.
    - `density`: elements sent for each element.
    - `encode_ms`: milliseconds of encoding, summed over tensors.
    - `decode_ms`: milliseconds of decoding.
    - `communication_ms`: milliseconds of the exchange, see `TotalStats.communication_nanoseconds`.
    - `residual_norm`: Euclidean norm of all residuals; after epochs only, as it reads them all.
    - `compression_error`: what the residuals keep of the norm of what there was to send: in a step of the
      last 128, after epochs, where there is a memory; as the next two.
    - `residual_ratio`: norm of the residuals for each of the gradients.
    - `delay_steps`: steps between two sendings of an element.

    After an epoch rank 0 warns once, by `tfc.AccuracyWarning`, of a variable whose compression error is above
    what is safe, or of an end of `fit` after too few steps for what waits; the message says what to do.
    """

    def __init__(
        self, source: object | None = None, *, per_variable: bool = False, summary: bool = True
    ) -> None:
        """Makes the callback.

        Args:
          source: What `tfc.stats` takes (default: the model's optimizer).
          per_variable: Whether an epoch's logs hold these for each variable too, all but
            `communication_ms`, under names such as "wire_bytes/dense/kernel". Default False.
          summary: Whether rank 0 prints one line when training ends (default True).
        """
        super().__init__()
        self._source = source
        self._per_variable = per_variable
        self._summary = summary

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Starts counting.

        Raises:
          TypeError: The source keeps no statistics.
          ValueError: The model trains without exchanging gradients.
        """
        if self._source is None:
            require_distributed(self.model)
        self._at_train_begin = self._read(residual_norms=False)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Starts counting for the epoch."""
        self._at_epoch_begin = self._read(residual_norms=False)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Adds the means over the epoch so far."""
        if logs is not None:
            self._add(logs, self._read(residual_norms=False))

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Adds the means over the epoch."""
        if logs is not None:
            now = self._read(residual_norms=True, planned_steps=self._planned_steps(epoch))
            self._add(logs, now, self._per_variable)

    def on_train_end(self, logs: dict | None = None) -> None:
        """Prints the summary."""
        if self._summary and comm.ALL_RANKS.rank() == 0:
            print(self._read(residual_norms=True).since(self._at_train_begin).summary(), flush=True)

    def _planned_steps(self, epoch: int) -> int | None:
        """Steps when `fit` ends, if all epochs are as long as this one; None where no end is known.

        Statistics begin anew where training goes on from a file: epochs before count as long as this one.
        """
        epochs = (getattr(self, "params", None) or {}).get("epochs")
        if epochs is None:
            return None
        now = self._read(residual_norms=False)
        of_epoch = now.since(self._at_epoch_begin).total.steps
        return max(now.total.steps, (epoch + 1) * of_epoch) + (epochs - epoch - 1) * of_epoch

    def _read(self, residual_norms: bool, planned_steps: int | None = None) -> Stats:
        source = self.model.optimizer if self._source is None else self._source
        return stats(source, residual_norms, planned_steps)

    def _add(self, logs: dict, now: Stats, per_variable: bool = False) -> None:
        counted = now.since(self._at_epoch_begin)
        logs.update(_values(counted.total))
        logs["communication_ms"] = counted.total.milliseconds("communication")
        for tensor in counted.tensors if per_variable else ():
            logs.update({f"{key}/{tensor.name}": value for key, value in _values(tensor).items()})


def _values(tensor: TensorStats) -> dict[str, float]:
    values = {
        "payload_bytes": tensor.per_step("payload_bytes"),
        "wire_bytes": tensor.per_step("wire_bytes"),
        "compression_ratio": tensor.ratio,
        "density": tensor.density,
        "encode_ms": tensor.milliseconds("encode"),
        "decode_ms": tensor.milliseconds("decode"),
    }
    if tensor.residual_norm is None:
        return values
    held = ("residual_norm", "compression_error", "residual_ratio", "delay_steps")
    return {**values, **{key: getattr(tensor, key) for key in held if getattr(tensor, key) is not None}}
