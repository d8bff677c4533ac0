"""Statistics of what was sent: bytes, elements and times, for each variable and in total."""

import collections
import dataclasses
import functools
import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfcompress import compression_error
from tfcompress.policy import Compressor
from tfcompress.routes.base import Counts
from tfcompress.state import make_variable

# What is counted for each tensor, in the order in which `Counter.add` takes it.
COLUMNS = ("dense_bytes", "dense_wire_bytes", "elements", *(each.name for each in dataclasses.fields(Counts)))
_PADDED = [COLUMNS.index("payload_bytes"), COLUMNS.index("wire_bytes")]


@dataclasses.dataclass(frozen=True)
class TensorStats:
    """Sums over the steps, on this rank.

    Attributes:
      name: The tensor, or "total".
      steps: Number of steps.
      dense_bytes: Bytes of the uncompressed gradients.
      dense_wire_bytes: Bytes that Horovod's own collectives would move in and out of this rank for these
        gradients: a ring all-reduce of dense ones, a gather of rows.
      elements: Elements of the gradients.
      payload_bytes: Bytes of this rank's frames or payloads: headers, tables and indices included.
      wire_bytes: Bytes that the collectives move in and out of this rank, by their algorithm and the number
        of ranks. Those of a gather grow with the ranks, those of an all-reduce hardly.
      encode_nanoseconds: Time spent encoding, memory included; the sum over tensors, which may have
        been encoded side by side.
      decode_nanoseconds: Time spent decoding and summing all ranks' frames.
      sent_elements: Elements that this rank's frames held; all of them where nothing was compressed.
      residual_norm: Euclidean norm of what is held back now, so no sum over steps; 0 without a
        memory, None if it was not asked for.
      compression_error: ||compensated - decoded|| / ||compensated||, in [0, 1] for most codecs: the part of
        gradient and residual together that the step did not send. As the next, of the step that was measured
        last (every 128th, and those whose numbers are powers of two), and None where nothing was: without a
        memory, of rows of tables and low-rank factors, with `hierarchical=True`.
      residual_ratio: The residual's norm after that step for each of the gradient's, or of the velocity's
        with a momentum in the memory. About so many steps of gradient wait, more where they cancel out.
      delay_steps: Mean number of steps from one sending of an element to the next: elements for each that was
        sent in that step.
    """

    name: str
    steps: int
    dense_bytes: int
    dense_wire_bytes: int
    elements: int
    payload_bytes: int
    wire_bytes: int
    encode_nanoseconds: int
    decode_nanoseconds: int
    sent_elements: int
    residual_norm: float | None
    compression_error: float | None
    residual_ratio: float | None
    delay_steps: float | None

    @property
    def ratio(self) -> float:
        """Wire bytes of Horovod's own collectives for each wire byte; 1 when there was nothing to move."""
        if not self.wire_bytes:
            return float("inf") if self.dense_wire_bytes else 1.0
        return self.dense_wire_bytes / self.wire_bytes

    @property
    def density(self) -> float:
        """The part of the elements that was sent, in [0, 1]; 1 when there was nothing to send."""
        return self.sent_elements / self.elements if self.elements else 1.0

    def per_step(self, column: str) -> float:
        """Returns the mean over steps of one of the counters, 0 before the first step."""
        return getattr(self, column) / max(self.steps, 1)

    def milliseconds(self, phase: str) -> float:
        """Returns the mean over steps of a time: "encode", "decode", or of the total "communication"."""
        return self.per_step(f"{phase}_nanoseconds") / 1e6


@dataclasses.dataclass(frozen=True)
class TotalStats(TensorStats):
    """The sum over all tensors; the residual norm is that of all residuals together.

    Payload and wire bytes include the zeros that packets are padded with.

    Attributes:
      communication_nanoseconds: Time from when the last local gradient was ready for the exchange until
        everything was received: waiting for the slowest rank is in it, what overlapped the backward
        pass is not. Under Horovod's own wrappers a sum over tensors, whose exchanges may overlap.
    """

    communication_nanoseconds: int


@dataclasses.dataclass(frozen=True, eq=False)
class Stats:
    """Statistics of one optimizer, tape or compressor, as they were when they were read.

    Attributes:
      names: One for each tensor, in the order of the gradients.
      counts: int64 [tensors, 1 + columns]: the steps, and the sums over them.
      communication_nanoseconds: See `TotalStats`.
      padding: int64 [2]: payload and wire bytes besides those of the tensors.
      measured: float64 [tensors, columns], see `compression_error.COLUMNS`.
      slots: The memory's variables of each tensor, for those who want the residual norms.
      residual_norms: float64 [tensors], or None if they were not asked for.
      choice: What `Compression.auto()` took and why; "" elsewhere, and before it has chosen.
    """

    names: tuple[str, ...]
    counts: np.ndarray
    communication_nanoseconds: int
    padding: np.ndarray
    measured: np.ndarray
    slots: tuple[Sequence[tf.Variable], ...] = dataclasses.field(repr=False)
    residual_norms: np.ndarray | None = None
    choice: str = ""

    @functools.cached_property
    def tensors(self) -> tuple[TensorStats, ...]:
        """The statistics of each tensor."""
        norms = [None] * len(self.names) if self.residual_norms is None else self.residual_norms.tolist()
        rows = zip(self.names, self.counts.tolist(), norms, self.measured, strict=True)
        columns = [(name, *counts, norm, *_ratios(row[1:])) for name, counts, norm, row in rows]
        return tuple(TensorStats(*each) for each in columns)

    @functools.cached_property
    def total(self) -> TotalStats:
        """Their sum."""
        steps = int(self.counts[:, 0].max(initial=0))
        sums = self.counts[:, 1:].sum(axis=0)
        sums[_PADDED] += self.padding
        norm = None if self.residual_norms is None else float(np.linalg.norm(self.residual_norms))
        ratios = _ratios(self.measured[:, 1:].sum(axis=0))
        columns = ("total", steps, *sums.tolist(), norm, *ratios, self.communication_nanoseconds)
        return TotalStats(*columns)

    def since(self, earlier: "Stats") -> "Stats":
        """Returns what was counted after `earlier` was read from the same source.

        Norms and their ratios are not counted: they stay those of `self`.

        Raises:
          ValueError: `earlier` knows tensors that `self` does not, so it is of another source.
        """
        known = len(earlier.names)
        if earlier.names != self.names[:known]:
            raise ValueError("cannot subtract statistics of another source: the tensors differ")
        counts = self.counts.copy()
        counts[:known] -= earlier.counts
        elapsed = self.communication_nanoseconds - earlier.communication_nanoseconds
        padding = self.padding - earlier.padding
        return dataclasses.replace(self, counts=counts, communication_nanoseconds=elapsed, padding=padding)

    def summary(self) -> str:
        """Returns one line: bytes, ratio, density, times and residual norm of a mean step."""
        total = self.total
        if not total.steps:
            return "nothing was exchanged through this object: it took no step, or there is one rank only"
        line = (
            f"{total.steps} steps, {len(self.names)} tensors; a step: {total.per_step('wire_bytes'):,.0f} B "
            f"on the wire where Horovod's all-reduce moves {total.per_step('dense_wire_bytes'):,.0f} "
            f"({total.ratio:.1f} times fewer), payload {total.per_step('payload_bytes'):,.0f} of "
            f"{total.per_step('dense_bytes'):,.0f} B, density {total.density:.3g}, "
            f"encode {total.milliseconds('encode'):.2f} ms, decode {total.milliseconds('decode'):.2f} ms, "
            f"communication {total.milliseconds('communication'):.2f} ms"
        )
        if total.residual_norm is not None:
            line += f"; residual norm {total.residual_norm:.3g}"
        if total.residual_ratio is not None:
            line += f", {total.residual_ratio:.3g} times the gradient's; error {total.compression_error:.3g}"
        return f"{line}; auto took {self.choice}" if self.choice else line

    def __str__(self) -> str:
        headings = (
            f"{'tensor':<28} {'dense B/step':>12} {'payload B/step':>14} {'wire B/step':>12} {'ratio':>7} "
            f"{'density':>8} {'enc ms':>8} {'dec ms':>8} {'comm ms':>8} {'residual':>9} {'error':>7} "
            f"{'res/grad':>8}"
        )
        rows = [_row(tensor, "") for tensor in self.tensors]
        total = _row(self.total, f"{self.total.milliseconds('communication'):.3f}")
        return "\n".join([headings, *rows, total])


def _ratios(measured: np.ndarray) -> tuple[float | None, float | None, float | None]:
    """The compression error, the residual ratio and the delay; None where there was nothing to send.

    Args:
      measured: All columns of `compression_error.COLUMNS` but the step; those of one tensor, or sums.
    """
    added, compensated, residual, elements, sent = measured.tolist()
    if not compensated:
        return None, None, None
    ratio = math.sqrt(residual / added) if added else math.inf
    return math.sqrt(residual / compensated), ratio, elements / sent if sent else math.inf


def _row(tensor: TensorStats, communication: str) -> str:
    norms = (tensor.residual_norm, tensor.compression_error, tensor.residual_ratio)
    norm, error, ratio = ("" if value is None else f"{value:.3g}" for value in norms)
    return (
        f"{tensor.name[-28:]:<28} {tensor.per_step('dense_bytes'):>12.0f} "
        f"{tensor.per_step('payload_bytes'):>14.0f} {tensor.per_step('wire_bytes'):>12.0f} "
        f"{tensor.ratio:>7.1f} {tensor.density:>8.4f} {tensor.milliseconds('encode'):>8.3f} "
        f"{tensor.milliseconds('decode'):>8.3f} {communication:>8} {norm:>9} {error:>7} {ratio:>8}"
    )


class Counter:
    """Adds up the statistics of a fixed list of tensors inside the training graph."""

    def __init__(self, names: Sequence[str]) -> None:
        """Creates the variables, outside any graph that is being traced."""
        self._names = tuple(names)
        self._sums = make_variable(np.zeros([len(names), len(COLUMNS)], np.int64))
        # Steps, the nanoseconds of communication in them, and the padding of packets.
        self._step_sums = make_variable(np.zeros([4], np.int64))
        self._measured = make_variable(np.zeros([len(names), len(compression_error.COLUMNS)], np.float64))

    def add(
        self,
        columns: Sequence[tf.Tensor],
        communication_nanoseconds: tf.Tensor,
        padding: tf.Tensor,
        measured: tf.Tensor,
    ) -> None:
        """Adds one step's numbers.

        Args:
          columns: int64 [tensors] for each of `COLUMNS`.
          communication_nanoseconds: int64 scalar, of the whole step.
          padding: int64 [2], payload and wire bytes besides those of the tensors.
          measured: float64 [tensors, columns], what `Measurement.end` returns.
        """
        self._measured.assign(tf.where(measured[:, :1] > 0, measured, self._measured))
        self._sums.assign_add(tf.stack(columns, axis=1))
        step = tf.stack([tf.constant(1, tf.int64), communication_nanoseconds])
        self._step_sums.assign_add(tf.concat([step, padding], axis=0))

    def steps(self) -> tf.Tensor:
        """Returns how many steps were added, int64 scalar."""
        return self._step_sums[0]

    def read(self, slots: Mapping[str, Sequence[tf.Variable]]) -> Stats:
        """Returns the sums so far.

        Args:
          slots: The memory's variables of tensors that have some, by name.
        """
        steps, communication, *padding = self._step_sums.numpy().tolist()
        counts = np.insert(self._sums.numpy(), 0, steps, axis=1)
        owned = tuple(slots.get(name, ()) for name in self._names)
        measured = self._measured.numpy()
        return Stats(self._names, counts, communication, np.array(padding), measured, owned)


def merge(parts: Sequence[Stats]) -> Stats:
    """Adds up statistics whose tensors may be the same; no part at all counts as nothing sent.

    Tensors are told apart by name, and within one part by their order where names are equal.
    """
    counts: dict[tuple[str, int], np.ndarray] = {}
    measured: dict[tuple[str, int], np.ndarray] = {}
    slots: dict[tuple[str, int], Sequence[tf.Variable]] = {}
    for part in parts:
        occurrences: collections.Counter[str] = collections.Counter()
        for name, row, norms, owned in zip(part.names, part.counts, part.measured, part.slots, strict=True):
            key = (name, occurrences[name])
            occurrences[name] += 1
            counts[key] = counts.get(key, 0) + row
            measured[key] = max(measured.get(key, norms), norms, key=lambda columns: columns[0])
            slots[key] = owned
    nothing = np.zeros([0, 1 + len(COLUMNS)], np.int64)
    unmeasured = np.zeros([0, len(compression_error.COLUMNS)])
    return Stats(
        tuple(name for name, _ in counts),
        np.stack([*counts.values()]) if counts else nothing,
        sum(part.communication_nanoseconds for part in parts),
        sum((part.padding for part in parts), np.zeros(2, np.int64)),
        np.stack([*measured.values()]) if measured else unmeasured,
        tuple(slots.values()),
        choice=next((part.choice for part in parts if part.choice), ""),
    )


# Steps and adapters that have used a compressor.
_users: "weakref.WeakKeyDictionary[Compressor, weakref.WeakSet]" = weakref.WeakKeyDictionary()


def note_use(compressors: Sequence[Compressor], holder: object) -> None:
    """Lets `stats` find a holder of statistics by the compressors that it uses."""
    for compressor in compressors:
        _users.setdefault(compressor, weakref.WeakSet()).add(holder)


def users_of(compressor: Compressor) -> list[Any]:
    """Returns the holders of statistics that use a compressor."""
    return list(_users.get(compressor, ()))
