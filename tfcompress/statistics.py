"""What was really sent: bytes and times, for each tensor and in total."""

import collections
import dataclasses
from collections.abc import Sequence

import tensorflow as tf

# Columns of the counter that the aggregator adds to.
_COLUMNS = (
    "dense_bytes",
    "sent_bytes",
    "received_bytes",
    "encode_nanoseconds",
    "decode_nanoseconds",
)


@dataclasses.dataclass(frozen=True)
class TensorStats:
    """Sums over all steps so far, on this rank.

    Attributes:
      name: The tensor, or "total".
      steps: Number of steps.
      dense_bytes: Bytes of the uncompressed gradients.
      sent_bytes: Bytes of this rank's frames: headers, tables and indices included.
      received_bytes: Bytes of the other ranks' frames.
      encode_nanoseconds: Time spent encoding, memory included; the sum over tensors, which may have
        been encoded side by side.
      decode_nanoseconds: Time spent decoding and summing all ranks' frames.
    """

    name: str
    steps: int
    dense_bytes: int
    sent_bytes: int
    received_bytes: int
    encode_nanoseconds: int
    decode_nanoseconds: int

    @property
    def ratio(self) -> float:
        """Uncompressed bytes for each byte sent; infinite when nothing was sent."""
        return self.dense_bytes / self.sent_bytes if self.sent_bytes else float("inf")

    def per_step(self, column: str) -> float:
        """Returns the mean over steps of one of the counters, 0 before the first step."""
        return getattr(self, column) / max(self.steps, 1)


@dataclasses.dataclass(frozen=True)
class Stats:
    """Statistics of one optimizer, tape or compressor; see `TensorStats` for the units.

    Attributes:
      tensors: One for each gradient, in order.
      total: Their sum.
    """

    tensors: tuple[TensorStats, ...]
    total: TensorStats

    def __str__(self) -> str:
        headings = f"{'before B/step':>14} {'sent B/step':>12} {'ratio':>8} {'enc ms':>8} {'dec ms':>8}"
        header = f"{'tensor':<40} {headings}"
        return "\n".join([header, *map(_row, (*self.tensors, self.total))])


def _row(tensor: TensorStats) -> str:
    milliseconds = [tensor.per_step(f"{way}_nanoseconds") / 1e6 for way in ("encode", "decode")]
    return (
        f"{tensor.name[-40:]:<40} {tensor.per_step('dense_bytes'):>14.0f} "
        f"{tensor.per_step('sent_bytes'):>12.0f} {tensor.ratio:>8.1f} "
        f"{milliseconds[0]:>8.3f} {milliseconds[1]:>8.3f}"
    )


class Counter:
    """Adds up the statistics of a fixed list of tensors inside the training graph."""

    def __init__(self, names: Sequence[str]) -> None:
        """Creates the variables, outside any graph that is being traced."""
        self._names = tuple(names)
        with tf.init_scope():
            self._sums = tf.Variable(tf.zeros([len(names), len(_COLUMNS)], tf.int64), trainable=False)
            self._steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def add(self, columns: Sequence[tf.Tensor]) -> None:
        """Adds one step's numbers.

        Args:
          columns: int64 [tensors] each: dense, sent and received bytes, encode and decode nanoseconds.
        """
        self._sums.assign_add(tf.stack(columns, axis=1))
        self._steps.assign_add(1)

    def read(self) -> Stats:
        """Returns the sums so far."""
        steps = int(self._steps.numpy())
        rows = zip(self._names, self._sums.numpy(), strict=True)
        return _totalled(tuple(TensorStats(name, steps, *map(int, row)) for name, row in rows))


def merge(parts: Sequence[Stats]) -> Stats:
    """Adds up statistics of overlapping lists of tensors; no part at all counts as nothing sent."""
    rows: dict[tuple[str, int], TensorStats] = {}
    for part in parts:
        occurrences: dict[str, int] = collections.Counter()
        for row in part.tensors:
            key = (row.name, occurrences[row.name])
            occurrences[row.name] += 1
            rows[key] = _sum(row, rows[key]) if key in rows else row
    return _totalled(tuple(rows.values()))


def _sum(first: TensorStats, second: TensorStats) -> TensorStats:
    sums = {column: getattr(first, column) + getattr(second, column) for column in ("steps", *_COLUMNS)}
    return TensorStats(first.name, **sums)


def _totalled(tensors: tuple[TensorStats, ...]) -> Stats:
    sums = [sum(getattr(tensor, column) for tensor in tensors) for column in _COLUMNS]
    steps = max((tensor.steps for tensor in tensors), default=0)
    return Stats(tensors, TensorStats("total", steps, *sums))


def stats(source: object) -> Stats:
    """Returns what an optimizer, tape or compressor has sent so far on this rank.

    Args:
      source: What `tfc.DistributedOptimizer` or `tfc.DistributedGradientTape` returned, or a compressor
        that was passed to Horovod's own wrappers. Tensors that Horovod's all-reduce carried
        uncompressed count with their full size.

    Raises:
      TypeError: `source` is none of these.
    """
    read = getattr(source, "_tfcompress_stats", None)
    if read is None:
        raise TypeError(
            f"no statistics in a {type(source).__name__}: pass what tfc.DistributedOptimizer or "
            "tfc.DistributedGradientTape returned, or the compressor given to Horovod's wrappers"
        )
    return read()
