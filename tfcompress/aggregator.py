"""One step: a list of local gradients in, the list of aggregated gradients out."""

import dataclasses
import itertools
from collections.abc import Sequence

import tensorflow as tf

from tfcompress import clock, exchange, ops
from tfcompress.compressor import Compressor
from tfcompress.handshake import check_equal_configuration
from tfcompress.memory import make_slots
from tfcompress.statistics import COLUMNS, Counter, Stats, collect

Gradient = tf.Tensor | tf.IndexedSlices | None

# Stands for the dtype of a gradient that is None.
_ABSENT = "none"
_COMPRESSED_DTYPES = ("float32", "float16", "bfloat16")
# Aggregators are made in the same order on all ranks, which makes their collectives' names agree.
_serial_numbers = itertools.count()


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """What stays the same from step to step for one gradient."""

    name: str
    dtype: str
    shape: tf.TensorShape
    slots: list[tf.Variable]

    def num_elements(self) -> int | None:
        return self.shape.num_elements()


class GradientAggregator:
    """Compresses, exchanges and averages the gradients of one model.

    Owns the state: the memory's slots, the step counter and the statistics. Everything is created at
    the first call, when the gradients' dtypes and shapes are known; there all ranks compare
    configurations.
    """

    def __init__(
        self,
        compressor: Compressor,
        op: object = None,
        gradient_predivide_factor: float = 1.0,
    ) -> None:
        """Takes the arguments of Horovod's wrappers.

        Args:
          compressor: What to apply.
          op: hvd.Average (default) or hvd.Sum.
          gradient_predivide_factor: Splits the division of an average in two. Only payloads that
            all-reduce sums can overflow, so it changes nothing for the others.
        """
        self._compressor = compressor
        self._op = exchange.reduction(op)
        if gradient_predivide_factor != 1.0 and self._op != exchange.AVERAGE:
            raise ValueError("gradient_predivide_factor is for op=hvd.Average")
        if gradient_predivide_factor <= 0:
            raise ValueError(f"gradient_predivide_factor must be above 0, got {gradient_predivide_factor}")
        self._predivide_factor = gradient_predivide_factor
        self._name = f"tfcompress_{next(_serial_numbers)}"
        self._tensors: list[_Tensor] | None = None

    def aggregate(self, gradients: Sequence[Gradient], names: Sequence[str]) -> list[Gradient]:
        """Returns the average (or sum) over ranks of each gradient.

        Args:
          gradients: Local gradients, in the same order on all ranks and at every step. None stays None.
            Dense float32, float16 and bfloat16 tensors are compressed; IndexedSlices and other dtypes
            go uncompressed through Horovod's own collectives.
          names: A name for each, for statistics and messages.

        Returns:
          The aggregated gradients, bit-identical on every rank. On one rank, the gradients themselves.

        Raises:
          ValueError: Ranks are configured differently, or gradients differ from the first call's.
        """
        num_ranks = exchange.size()
        if num_ranks == 1:
            return list(gradients)
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present:
            return list(gradients)
        self._build_once(gradients, names)
        results = list(gradients)
        packed = [i for i in present if self._is_packed(gradients[i])]
        plain = [i for i in present if i not in set(packed)]
        zeros = tf.zeros([len(gradients)], tf.int64)
        columns = [zeros] * len(COLUMNS)
        elapsed = tf.constant(0, tf.int64)
        if packed:
            sums, measured, elapsed = self._exchange_packet(packed, [gradients[i] for i in packed], num_ranks)
            for i, total in zip(packed, sums, strict=True):
                results[i] = total
            columns = [_scatter(packed, column, len(gradients)) for column in measured]
        if plain:
            reduced, measured, added_time = self._allreduce([gradients[i] for i in plain])
            elapsed += added_time
            for i, total in zip(plain, reduced, strict=True):
                results[i] = total
            added = [_scatter(plain, column, len(gradients)) for column in measured]
            columns = [a + b for a, b in zip(columns, added, strict=True)]
        self._counter.add(columns, elapsed)
        return results

    def stats(self) -> Stats:
        """Returns what was sent so far; empty before the first step and on one rank."""
        return self._counter.read([t.slots for t in self._tensors]) if self._tensors else collect([])

    def _build_once(self, gradients: Sequence[Gradient], names: Sequence[str]) -> None:
        dtypes = [_ABSENT if g is None else g.dtype.name for g in gradients]
        shapes = [tf.TensorShape(None if g is None else g.shape) for g in gradients]
        if self._tensors is not None:
            self._check_same(gradients, dtypes, shapes, names)
            return
        check_equal_configuration(
            {**self._compressor.get_config(), "op": self._op, "predivide": self._predivide_factor},
            [(d, s.as_list() if s.rank is not None else [None]) for d, s in zip(dtypes, shapes, strict=True)],
        )
        self._tensors = [
            self._make_tensor(*description)
            for description in zip(gradients, dtypes, shapes, names, strict=True)
        ]
        with tf.init_scope():
            self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name=f"{self._name}/step")
        self._counter = Counter(names)

    def _make_tensor(self, gradient: Gradient, dtype: str, shape: tf.TensorShape, name: str) -> _Tensor:
        slots = make_slots(self._compressor, dtype, shape, name) if self._is_packed(gradient) else []
        return _Tensor(name, dtype, shape, slots)

    def _check_same(
        self,
        gradients: Sequence[Gradient],
        dtypes: Sequence[str],
        shapes: Sequence[tf.TensorShape],
        names: Sequence[str],
    ) -> None:
        if len(dtypes) != len(self._tensors):
            raise ValueError(f"got {len(dtypes)} gradients, {len(self._tensors)} at the first step")
        for i, now in enumerate(zip(gradients, dtypes, shapes, names, strict=True)):
            _, dtype, shape, name = now
            first = self._tensors[i]
            if dtype == _ABSENT or (first.dtype == dtype and first.shape.is_compatible_with(shape)):
                continue
            if first.dtype != _ABSENT:
                raise ValueError(
                    f"gradient '{name}' is {dtype} {shape}, "
                    f"at the first step it was {first.dtype} {first.shape}"
                )
            self._tensors[i] = self._make_tensor(*now)

    def _is_packed(self, gradient: Gradient) -> bool:
        return (
            not self._compressor.linear
            and isinstance(gradient, tf.Tensor)
            and gradient.dtype.name in _COMPRESSED_DTYPES
        )

    def _exchange_packet(
        self, positions: Sequence[int], gradients: Sequence[tf.Tensor], num_ranks: int
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor]:
        """Returns the reduced gradients, the statistics' columns and the nanoseconds of communication."""
        step = self._step.assign_add(1, read_value=True)
        frames, encode_times = zip(
            *(self._encode(i, gradient, step) for i, gradient in zip(positions, gradients, strict=True)),
            strict=True,
        )
        packet = tf.concat(frames, axis=0)
        start = clock.time_after([packet])
        with tf.control_dependencies([start]):
            packets = exchange.allgather_packet(packet, self._name)
        elapsed = clock.nanoseconds_between(start, clock.time_after([packets]))
        scale = 1.0 / num_ranks if self._op == exchange.AVERAGE else 1.0
        sums, num_bytes, decode_times = ops.decode_sum(
            packets,
            tf.constant(num_ranks, tf.int32),
            tf.constant(scale, tf.float32),
            [tf.shape(gradient, out_type=tf.int64) for gradient in gradients],
            [gradient.dtype for gradient in gradients],
        )
        sums = [tf.ensure_shape(total, g.shape) for total, g in zip(sums, gradients, strict=True)]
        dense = tf.stack([_num_bytes(gradient) for gradient in gradients])
        sent = tf.stack([tf.size(frame, out_type=tf.int64) for frame in frames])
        elements = tf.stack([tf.size(gradient, out_type=tf.int64) for gradient in gradients])
        sent_elements = tf.stack([_sent_elements(frame) for frame in frames])
        times = [tf.stack(encode_times), decode_times]
        return sums, [dense, sent, num_bytes - sent, *times, elements, sent_elements], elapsed

    def _encode(self, position: int, gradient: tf.Tensor, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        tensor = self._tensors[position]
        num_elements = tensor.num_elements()
        if num_elements is None:
            spec = self._compressor.spec
        else:
            spec = self._compressor.spec_for(tensor.dtype, num_elements)
        # Any injective mixture will do: the core hashes the seed before it uses it.
        lane = (self._compressor.seed * len(self._tensors) + position) * exchange.size() + exchange.rank()
        seed = step * tf.constant(1 << 32, tf.int64) + tf.constant(lane % (1 << 32), tf.int64)
        return ops.encode(gradient, tensor.slots, seed, spec)

    def _allreduce(
        self, gradients: Sequence[tf.Tensor | tf.IndexedSlices]
    ) -> tuple[list, list[tf.Tensor], tf.Tensor]:
        """Returns the reduced gradients, the statistics' columns and the nanoseconds of communication."""
        wire_dtype = self._compressor.wire_dtype if self._compressor.linear else None
        # Nothing waits for this time: each reduction starts as soon as its gradient is there.
        start = clock.time_after(gradients)
        reduced = exchange.allreduce(gradients, self._op, self._predivide_factor, wire_dtype, self._name)
        elapsed = clock.nanoseconds_between(start, clock.time_after(reduced))
        sent = [_num_bytes(g, wire_dtype) for g in gradients]
        # Rows of IndexedSlices are gathered, not summed: what came in is what was not there before.
        received = [
            _num_bytes(total, wire_dtype) - own if isinstance(total, tf.IndexedSlices) else own
            for total, own in zip(reduced, sent, strict=True)
        ]
        dense = tf.stack([_num_bytes(g) for g in gradients])
        zeros = tf.zeros_like(dense)
        elements = tf.stack([_num_elements(g) for g in gradients])
        columns = [dense, tf.stack(sent), tf.stack(received), zeros, zeros, elements, elements]
        return reduced, columns, elapsed


def _num_bytes(gradient: tf.Tensor | tf.IndexedSlices, wire_dtype: str | None = None) -> tf.Tensor:
    """Bytes of a gradient in memory; with `wire_dtype`, as Horovod's all-reduce carries it."""
    if isinstance(gradient, tf.IndexedSlices):
        return _num_bytes(gradient.values) + _num_bytes(gradient.indices)
    width = exchange.transport_dtype(gradient.dtype, wire_dtype).size if wire_dtype else gradient.dtype.size
    return tf.size(gradient, out_type=tf.int64) * width


def _num_elements(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return tf.size(values, out_type=tf.int64)


def _sent_elements(frame: tf.Tensor) -> tf.Tensor:
    """The k of a frame: u32 at offset 16, below 2^31 (FORMAT.md, "Frame")."""
    return tf.cast(tf.bitcast(frame[16:20], tf.int32), tf.int64)


def _scatter(positions: Sequence[int], values: tf.Tensor, count: int) -> tf.Tensor:
    """int64 [count] with `values` at `positions` and zeros elsewhere."""
    return tf.scatter_nd([[i] for i in positions], values, [count])
