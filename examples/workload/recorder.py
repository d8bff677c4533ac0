"""Measures metrics, bytes and times while a model trains."""

import time
from collections.abc import Callable

import keras
import numpy as np

import tfcompress as tfc


class Recorder(keras.callbacks.Callback):
    """Metrics by epoch and by bytes on the wire, and where the time of a step goes."""

    def __init__(
        self,
        optimizer: keras.optimizers.Optimizer,
        evaluate: Callable[[keras.Model], dict[str, float]],
        warm_up_steps: int,
    ) -> None:
        """Takes the distributed optimizer, and what is measured.

        Args:
          optimizer: The distributed optimizer.
          evaluate: Tests the model over all ranks.
          warm_up_steps: Steps before times are measured.
        """
        super().__init__()
        self._optimizer, self._evaluate, self._warm_up_steps = optimizer, evaluate, warm_up_steps
        self._seconds: list[float] = []
        self._warm_stats = None
        self.curve: list[dict] = []

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        self._start = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._seconds.append(time.perf_counter() - self._start)
        if len(self._seconds) == self._warm_up_steps:
            self._warm_stats = tfc.stats(self._optimizer, residual_norms=False)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        tested = self._evaluate(self.model)
        logs.update(tested)
        counted = tfc.stats(self._optimizer, residual_norms=False)
        total = counted.total
        self.curve.append(
            {
                "epoch": epoch + 1,
                "step": len(self._seconds),
                "seconds": sum(self._seconds),
                "payload_bytes": total.payload_bytes,
                "wire_bytes": total.wire_bytes,
                "compression_error": total.compression_error,
                "largest_compression_error": largest_error(counted),
                "residual_ratio": total.residual_ratio,
                "loss": float(logs["loss"]),
                "metrics": tested,
            }
        )

    @property
    def metrics(self) -> dict[str, float]:
        """Returns the metrics of the last epoch."""
        return self.curve[-1]["metrics"]

    def median_step_ms(self) -> float:
        """Returns the median step time in milliseconds."""
        return 1e3 * float(np.median(self._warm_seconds()))

    def milliseconds(self, update: float) -> dict[str, float]:
        """Splits the mean step, given the time of the update.

        Times of encoding and decoding are sums over tensors, which are encoded in parallel. "compute" is the
        rest of the step, input pipeline included, and at least 0.
        """
        stats = tfc.stats(self._optimizer, residual_norms=False)
        if self._warm_stats is not None and len(self._seconds) > self._warm_up_steps:
            stats = stats.since(self._warm_stats)
        phases = {phase: stats.total.milliseconds(phase) for phase in ("encode", "communication", "decode")}
        phases["update"] = update
        step = 1e3 * float(np.mean(self._warm_seconds()))
        return {"step": step, "compute": max(step - sum(phases.values()), 0.0), **phases}

    def _warm_seconds(self) -> list[float]:
        return self._seconds[self._warm_up_steps :] or self._seconds


def largest_error(stats: tfc.Stats) -> float | None:
    """Returns the largest compression error of a variable; None where nothing was measured."""
    errors = [tensor.compression_error for tensor in stats.tensors]
    return max((error for error in errors if error is not None), default=None)
