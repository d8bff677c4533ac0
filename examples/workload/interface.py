"""Counts the traffic of network interfaces while a model trains."""

import pathlib
import time

import keras
import numpy as np

import tfcompress as tfc

_INTERFACES = pathlib.Path("/sys/class/net")
# The kernel's names of the counters, in the order of `read_counters`.
COUNTERS = {
    "sent_bytes": "tx_bytes",
    "received_bytes": "rx_bytes",
    "sent_packets": "tx_packets",
    "received_packets": "rx_packets",
}
# What the package reports beside them.
_REPORTED = ("payload_bytes", "wire_bytes")


def read_counters(interface: str) -> np.ndarray:
    """Reads the kernel's counters of an interface: int64, in the order of `COUNTERS`.

    Raises:
      FileNotFoundError: There is no such interface.
    """
    folder = _INTERFACES / interface / "statistics"
    return np.array([int((folder / name).read_text()) for name in COUNTERS.values()])


class InterfaceCounter(keras.callbacks.Callback):
    """Counts an interface's traffic and the package's reported bytes in the steps after the warm-up.

    Traffic between epochs is not counted. Must come before callbacks that test the model.
    """

    def __init__(self, interface: str, optimizer: keras.optimizers.Optimizer, warm_up_steps: int) -> None:
        super().__init__()
        self._interface, self._optimizer, self._warm_up_steps = interface, optimizer, warm_up_steps
        self._steps = 0
        self._start: np.ndarray | None = None
        self._sums = np.zeros(1 + len(COUNTERS) + len(_REPORTED))
        try:
            read_counters(interface)
        except FileNotFoundError as error:
            known = ", ".join(sorted(path.name for path in _INTERFACES.iterdir()))
            raise SystemExit(f"--count-interface: there is no {interface!r} here, only {known}") from error

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        if self._steps >= self._warm_up_steps:
            self._start = self._read()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._steps += 1
        if self._steps == self._warm_up_steps:
            self._start = self._read()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self._start is not None:
            self._sums += self._read() - self._start

    def result(self) -> dict[str, object]:
        """Returns means over the counted steps; their number is 0 if training ended with the warm-up."""
        steps = max(self._steps - self._warm_up_steps, 0)
        names = ["seconds", *COUNTERS, *(f"reported_{name}" for name in _REPORTED)]
        means = (self._sums / max(steps, 1)).tolist()
        per_step = {f"{name}_per_step": mean for name, mean in zip(names, means, strict=True)}
        return {"name": self._interface, "steps": steps, **per_step}

    def _read(self) -> np.ndarray:
        total = tfc.stats(self._optimizer, residual_norms=False).total
        reported = [getattr(total, name) for name in _REPORTED]
        return np.array([time.perf_counter(), *read_counters(self._interface), *reported])
