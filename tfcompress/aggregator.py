"""One step: a list of local gradients in, the list of aggregated gradients out."""

import itertools
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfcompress import clock, exchange, ops, payload
from tfcompress.compressor import Policy, Transport
from tfcompress.exchange import Ranks
from tfcompress.handshake import check_equal_configuration
from tfcompress.packet import Exchanged, exchange_packet, num_bytes, num_elements
from tfcompress.schedule import Schedule
from tfcompress.statistics import COLUMNS, Counter, Stats, merge
from tfcompress.tensors import COMPRESSED_DTYPES, Gradient, Tensor, TensorTable

# Aggregators are made in the same order on all ranks, which makes their collectives' names agree.
_serial_numbers = itertools.count()


class GradientAggregator:
    """Compresses, exchanges and averages the gradients of one model.

    Owns the state: the memory's slots, the step counter and the statistics. Everything is created when
    it is first needed, and the gradients' dtypes and shapes are known. Ranks compare configurations
    whenever a list of gradients comes that is not the one before.
    """

    def __init__(
        self,
        plan: Policy | Schedule,
        op: object = None,
        gradient_predivide_factor: float = 1.0,
        *,
        process_set: object = None,
        num_groups: int = 0,
        sparse_as_dense: bool = False,
        scale_local_gradients: bool = True,
    ) -> None:
        """Takes the arguments of Horovod's wrappers.

        Args:
          plan: What to apply to which variable, and when.
          op: hvd.Average (default) or hvd.Sum.
          gradient_predivide_factor: Splits the division of an average in two. Only payloads that
            all-reduce sums can overflow, so it changes nothing for the others.
          process_set: The ranks that exchange (default: all).
          num_groups: Groups in which Horovod's all-reduce carries uncompressed gradients (default 0:
            as Horovod likes). Compressed ones always travel in one packet.
          sparse_as_dense: Whether IndexedSlices become dense gradients first.
          scale_local_gradients: Whether gradients of local variables are divided by the number of
            ranks when `op` is average, as Horovod does.

        Raises:
          ValueError: Arguments do not go together.
        """
        self._op = exchange.reduction(op)
        if gradient_predivide_factor != 1.0 and self._op != exchange.AVERAGE:
            raise ValueError("gradient_predivide_factor is for op=hvd.Average")
        if gradient_predivide_factor <= 0:
            raise ValueError(f"gradient_predivide_factor must be above 0, got {gradient_predivide_factor}")
        if num_groups < 0:
            raise ValueError(f"num_groups must be at least 0, got {num_groups}")
        self._predivide_factor = gradient_predivide_factor
        self._ranks = Ranks(process_set)
        self._num_groups = num_groups
        self._sparse_as_dense = sparse_as_dense
        self._scales_local = scale_local_gradients and self._op == exchange.AVERAGE
        self._local: set[Hashable] = set()
        self._name = f"tfcompress_{next(_serial_numbers)}"
        self.tensors = TensorTable(plan)
        self._step: tf.Variable | None = None
        self._prepared: tuple[int, dict[int, np.ndarray]] = (-1, {})
        # One for each list of gradients that was seen.
        self._counters: dict[tuple, Counter] = {}

    def register_local(self, key: Hashable) -> None:
        """Leaves the gradients of a variable to this rank: they are not exchanged.

        Args:
          key: The variable's, as given to `aggregate`.
        """
        self._local.add(key)

    @tf.autograph.experimental.do_not_convert  # It branches on Python values only, and traces faster so.
    def aggregate(
        self,
        gradients: Sequence[Gradient],
        names: Sequence[str],
        keys: Sequence[Hashable] | None = None,
    ) -> list[Gradient]:
        """Returns the average (or sum) over ranks of each gradient.

        Args:
          gradients: Local gradients, in the same order on all ranks. None stays None. float32,
            float16 and bfloat16 are compressed, IndexedSlices as rows of their table; other dtypes go
            uncompressed through Horovod's own collectives.
          names: A name for each, for the policy, statistics and messages.
          keys: What each belongs to, the same at every step; by default its name.

        Returns:
          The aggregated gradients, bit-identical on every rank. On one rank, the gradients themselves,
          with what a memory or clipping does to them.

        Raises:
          ValueError: Ranks are configured differently, or a gradient differs from its first one.
          RuntimeError: The step is compiled by XLA.
        """
        keys = names if keys is None else keys
        results = list(gradients)
        if not self._ranks.may_exchange():
            return self._alone(results, names, keys)
        _refuse_xla()
        self._finish_local(results, keys)
        shared = [i for i, key in enumerate(keys) if key not in self._local]
        exchanged = self._aggregate_shared(
            [self._densify(gradients[i]) for i in shared],
            [names[i] for i in shared],
            [keys[i] for i in shared],
        )
        for i, gradient in zip(shared, exchanged, strict=True):
            results[i] = gradient
        return results

    def begin_sum(self, gradient: tf.Tensor, name: str) -> payload.Encoded | None:
        """Encodes one gradient whose payload the caller sums; None where it does not travel as one.

        Args:
          gradient: float32, float16 or bfloat16.
          name: Its name.
        """
        if not self._ranks.may_exchange():
            return None
        tensors = self.tensors.look_up([gradient], [name], [name])
        if tensors[0].transport is not Transport.PAYLOAD_SUM:
            return None
        self._counter_for(tuple(tensors))
        step = self._step.assign_add(1, read_value=True)
        seed = payload.shared_seed(tensors[0], 0, step)
        return payload.encode(tensors, self._clip(tensors, [gradient]), seed)

    def finish_sum(self, encoded: payload.Encoded, summed: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
        """Returns the reduced gradient of `begin_sum`.

        Args:
          encoded: What it returned.
          summed: The payloads' sum over ranks times `factor`.
          factor: float32 scalar.
        """

        def reduce(values: tf.Tensor) -> tf.Tensor:
            wire_dtype = encoded.tensors[0].compressor.payload_dtype
            name = f"{self._name}_values"
            return factor * self._ranks.allreduce([values], exchange.SUM, 1.0, [wire_dtype], name)[0]

        finished = payload.finish(encoded, summed, factor * self.num_ranks(), reduce)
        finished.commit(finished.finite)
        dense = num_bytes(finished.gradients[0])
        columns = [[each] for each in (dense, *finished.rows[0])]
        counter = self._counter_for(tuple(encoded.tensors))
        counter.add(columns, finished.communication_nanoseconds, tf.zeros([2], tf.int64))
        return finished.gradients[0]

    def change(self, plan: Policy | Schedule) -> None:
        """Applies another policy from the next step on. Every rank must call it; memories go on.

        Raises:
          ValueError: Ranks want different things, or a tensor would need another memory.
        """
        tensors = self.tensors.change(plan)
        if self._ranks.size() > 1:
            self._check_equal(tensors)

    def stats(self) -> Stats:
        """Returns what was sent so far; empty before the first step and on one rank."""
        slots = self.tensors.memories()
        return merge(
            [
                counter.read([slots.get(number, []) for number in numbers])
                for numbers, counter in self._counters.items()
            ]
        )

    def prepare_memories(self) -> None:
        """Averages (or sums) the memories over all ranks for `pending`. Every rank must call it."""
        slots = self.tensors.memories()
        stacked = [tf.stack([slot.read_value() for slot in each]) for each in slots.values()]
        if self._ranks.size() > 1:
            nothing = [None] * len(stacked)
            stacked = self._ranks.allreduce(stacked, self._op, 1.0, nothing, f"{self._name}_memory")
        means = {number: mean.numpy() for number, mean in zip(slots, stacked, strict=True)}
        self._prepared = (self.steps(), {**self.tensors.waiting(), **means})

    def pending(self) -> dict[int, np.ndarray] | None:
        """Returns what is still to be applied: the mean (or sum) over ranks of each tensor's slots.

        Does nothing collective.

        Returns:
          By the tensor's number, float32 [slots, *shape]; empty where no tensor has a memory. None where
          it is not known: several ranks have stepped since `prepare_memories`.
        """
        if not self.tensors.memories():
            return self.tensors.waiting()
        if self._ranks.size() == 1:
            self.prepare_memories()
        steps, means = self._prepared
        return means if steps == self.steps() else None

    def snapshot(self) -> tuple[int, dict[int, np.ndarray]]:
        """Copies what a step changes on this rank.

        Returns:
          The number of steps, and each tensor's slots by its number: float32 [slots, *shape].
        """
        slots = self.tensors.memories()
        held = {number: np.stack([slot.numpy() for slot in each]) for number, each in slots.items()}
        return self.steps(), {**self.tensors.waiting(), **held}

    def restore(self, steps: int, memories: Mapping[int, np.ndarray]) -> None:
        """Goes back to a snapshot; slots that are not in it become zero."""
        _, now = self.snapshot()
        zeros = {number: np.zeros_like(values) for number, values in now.items()}
        self.resume(steps, {**zeros, **memories})

    def resume(self, steps: int, memories: Mapping[int, np.ndarray]) -> None:
        """Goes on after so many steps with these slots; others stay as they are.

        Args:
          steps: Where a schedule stands, and what seeds derive from.
          memories: By the tensor's number, float32 [slots, *shape].

        Raises:
          ValueError: They are another model's.
        """
        self.tensors.restore(memories)
        if steps != self.steps():
            self._make_step().assign(steps)
        self._prepared = (-1, {})

    def resume_pending(self, steps: int, memories: Mapping[int, np.ndarray]) -> None:
        """Goes on after so many steps with each rank's part of what `pending` returned.

        Raises:
          ValueError: They are another model's.
        """
        parts = 1 if self._op == exchange.AVERAGE else self._ranks.size()
        self.resume(steps, {number: values / np.float32(parts) for number, values in memories.items()})

    def _make_step(self) -> tf.Variable:
        if self._step is None:
            with tf.init_scope():
                self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name=f"{self._name}/step")
        return self._step

    def steps(self) -> int:
        """Returns how many packets were exchanged so far."""
        return 0 if self._step is None else int(self._step.numpy())

    def all_finite(self, finite: tf.Tensor) -> tf.Tensor:
        """Returns whether a bool scalar is true on every rank; for loss scaling."""
        if not self._ranks.may_exchange():
            return finite
        return self._ranks.all_true(finite, f"{self._name}_finite")

    def _alone(
        self, gradients: list[Gradient], names: Sequence[str], keys: Sequence[Hashable]
    ) -> list[Gradient]:
        """One rank clips, has the memory's momentum, and applies what several ranks left pending.

        It sends everything, so to speak: there is no residual afterwards.
        """
        if not (self.tensors.waiting() or self.tensors.memories() or self.tensors.acts_on_one_rank()):
            return gradients
        shared = [i for i, key in enumerate(keys) if key not in self._local]
        mine = [self._densify(gradients[i]) for i in shared]
        tensors = self.tensors.look_up(mine, [names[i] for i in shared], [keys[i] for i in shared])
        for i, tensor, gradient in zip(shared, tensors, self._clip(tensors, mine), strict=True):
            has_memory = tensor is not None and tensor.slots and not tensor.is_table
            gradients[i] = _apply_at_once(tensor, gradient) if has_memory else gradient
        return gradients

    def _finish_local(self, results: list[Gradient], keys: Sequence[Hashable]) -> None:
        if not self._scales_local:
            return
        for i, key in enumerate(keys):
            if key in self._local and results[i] is not None:
                results[i] = tf.math.scalar_mul(self._scale(results[i].dtype), results[i])

    def _scale(self, dtype: tf.DType = tf.float32) -> tf.Tensor:
        """The factor that an average has over the sum."""
        return tf.cast(tf.constant(1.0) / self.num_ranks(), dtype)

    def num_ranks(self) -> tf.Tensor:
        """Returns the number of ranks when the graph runs, float32 scalar."""
        return tf.cast(self._ranks.size_tensor(), tf.float32)

    def _densify(self, gradient: Gradient) -> Gradient:
        if self._sparse_as_dense and isinstance(gradient, tf.IndexedSlices):
            return tf.convert_to_tensor(gradient)
        return gradient

    def _aggregate_shared(
        self, gradients: Sequence[Gradient], names: Sequence[str], keys: Sequence[Hashable]
    ) -> list[Gradient]:
        tensors = self.tensors.look_up(gradients, names, keys)
        present = [i for i, tensor in enumerate(tensors) if tensor is not None]
        if not present:
            return list(gradients)
        counter = self._counter_for(tuple(tensors[i] for i in present))
        results = list(gradients)
        columns = [tf.zeros([len(gradients)], tf.int64)] * len(COLUMNS)
        elapsed, padding = tf.constant(0, tf.int64), tf.zeros([2], tf.int64)
        exchanges: list[Exchanged] = []
        gradients = self._clip(tensors, gradients)
        step = self._step.assign_add(1, read_value=True)
        for transport, reduce in (
            (Transport.PACKET, self._exchange_packet),
            (Transport.PAYLOAD_SUM, self._exchange_payloads),
            (Transport.ALLREDUCE, self._allreduce),
        ):
            positions = [i for i in present if tensors[i].transport is transport]
            if not positions:
                continue
            exchanged = reduce(step, [tensors[i] for i in positions], [gradients[i] for i in positions])
            for i, total in zip(positions, exchanged.gradients, strict=True):
                results[i] = total
            added = [_scatter(positions, column, len(gradients)) for column in exchanged.columns]
            columns = [a + b for a, b in zip(columns, added, strict=True)]
            elapsed += exchanged.communication_nanoseconds
            padding += exchanged.padding
            exchanges.append(exchanged)
        self._commit(exchanges)
        counter.add([tf.gather(column, present) for column in columns], elapsed, padding)
        # All or none: a packet that turns out to be broken leaves every variable as it was.
        return tf.tuple(results)

    def _commit(self, exchanges: Sequence[Exchanged]) -> None:
        """The memories of all gradients take the step, or none does: as if there had been no step."""
        if self.tensors.memories():
            finite = tf.reduce_all(tf.stack([exchanged.finite for exchanged in exchanges]))
            for exchanged in exchanges:
                exchanged.commit(finite)

    def _counter_for(self, tensors: tuple[Tensor, ...]) -> Counter:
        """Returns the statistics of this list of tensors; a new list is compared between ranks first."""
        signature = tuple(tensor.number for tensor in tensors)
        if signature not in self._counters:
            # Ranks that join an elastic job later would find nobody to compare with.
            if not exchange.is_elastic():
                self._check_equal(tensors)
                self._agree_on_step()
            self._counters[signature] = Counter([tensor.name for tensor in tensors])
        self._make_step()
        return self._counters[signature]

    def _agree_on_step(self) -> None:
        """A rank that restored nothing goes on at the step of one that did: seeds and schedules follow it."""
        with tf.init_scope():
            mine = self.steps()
            latest = max(int(message) for message in self._ranks.gather_messages(str(mine).encode()))
            if latest != mine:
                self._make_step().assign(latest)

    def _check_equal(self, tensors: Sequence[Tensor]) -> None:
        settings = {"op": self._op, "gradient_predivide_factor": self._predivide_factor}
        check_equal_configuration(self._ranks, settings, [tensor.describe() for tensor in tensors])

    def _clip(self, tensors: Sequence[Tensor | None], gradients: Sequence[Gradient]) -> list[Gradient]:
        """Local gradient clipping: for each compressor that wants it, all its gradients by one factor."""
        clipped = list(gradients)
        limits = {id(t.compressor): t.compressor.clip_norm for t in tensors if t is not None}
        for compressor, limit in limits.items():
            if limit is None:
                continue
            mine = [
                i
                for i, t in enumerate(tensors)
                if t is not None and id(t.compressor) == compressor and t.dtype in COMPRESSED_DTYPES
            ]
            limit = limit * tf.sqrt(self._scale())
            norm = tf.linalg.global_norm([_as_float32(gradients[i]) for i in mine])
            factor = tf.where(norm > limit, limit / norm, 1.0)
            for i in mine:
                clipped[i] = _times(gradients[i], factor)
        return clipped

    def _exchange_payloads(
        self, step: tf.Tensor, tensors: Sequence[Tensor], gradients: Sequence[Gradient]
    ) -> Exchanged:
        return payload.exchange_payloads(self._ranks, self._name, self._op, step, tensors, gradients)

    def _exchange_packet(
        self, step: tf.Tensor, tensors: Sequence[Tensor], gradients: Sequence[Gradient]
    ) -> Exchanged:
        scale = self._scale() if self._op == exchange.AVERAGE else tf.constant(1.0)
        stage = self.tensors.stage(step)
        return exchange_packet(self._ranks, self._name, scale, step, stage, tensors, gradients)

    def _allreduce(
        self, step: tf.Tensor, tensors: Sequence[Tensor], gradients: Sequence[Gradient]
    ) -> Exchanged:
        wires = [
            None if t.compressor.transport is Transport.PACKET else t.compressor.wire_dtype for t in tensors
        ]
        # Nothing waits for this time: each reduction starts as soon as its gradient is there.
        start = clock.time_after(gradients)
        reduced = self._ranks.allreduce(
            gradients, self._op, self._predivide_factor, wires, self._name, self._num_groups
        )
        elapsed = clock.nanoseconds_between(start, clock.time_after(reduced))
        sent = [num_bytes(g, wire) for g, wire in zip(gradients, wires, strict=True)]
        # Rows of IndexedSlices are gathered, not summed: what came in is what was not there before.
        received = [
            num_bytes(total) - own if isinstance(total, tf.IndexedSlices) else own
            for total, own in zip(reduced, sent, strict=True)
        ]
        dense = tf.stack([num_bytes(g) for g in gradients])
        zeros = tf.zeros_like(dense)
        elements = tf.stack([num_elements(g) for g in gradients])
        columns = [dense, tf.stack(sent), tf.stack(received), zeros, zeros, elements, elements]
        finite = tf.constant(True)
        if self.tensors.memories():  # Otherwise nobody asks, and the pass can be spared.
            flags = [tf.reduce_all(tf.math.is_finite(_as_float32(g))) for g in reduced if g.dtype.is_floating]
            finite = tf.reduce_all(tf.stack([finite, *flags]))
        nothing = tf.zeros([2], tf.int64)
        return Exchanged(reduced, columns, elapsed, nothing, finite, lambda succeeded: None)


def _apply_at_once(tensor: Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """Adds the memory of a tensor to its gradient as if everything were sent: a velocity goes on."""
    new_slots, finite = ops.compensate(gradient, tensor.slots, tensor.spec)
    for slot, value in zip(tensor.slots, [tf.zeros_like(new_slots[0]), *new_slots[1:]], strict=True):
        slot.assign(tf.where(finite, tf.reshape(value, slot.shape), slot), read_value=False)
    applied = tf.cast(tf.reshape(new_slots[0], tensor.shape), gradient.dtype)
    return tf.where(finite, applied, tf.cast(float("nan"), gradient.dtype))


def _times(gradient: tf.Tensor | tf.IndexedSlices, factor: tf.Tensor) -> tf.Tensor | tf.IndexedSlices:
    """Multiplies in float32: a factor may be too small for float16 where the product is not."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_times(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return tf.cast(tf.cast(gradient, tf.float32) * factor, gradient.dtype)


def _as_float32(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """The elements of a gradient, of a table those of its slices."""
    return tf.cast(gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient, tf.float32)


def _scatter(positions: Sequence[int], values: tf.Tensor, count: int) -> tf.Tensor:
    """int64 [count] with `values` at `positions` and zeros elsewhere."""
    return tf.scatter_nd([[i] for i in positions], values, [count])


def _refuse_xla() -> None:
    """Raises RuntimeError while a function is traced for XLA, which has no Horovod."""
    if tf.executing_eagerly():
        return
    for frame in _callers():
        if getattr(frame.f_locals.get("self"), "_jit_compile", None) is True:
            raise RuntimeError(
                "the training step is compiled by XLA, where Horovod's collectives do not exist: set "
                "jit_compile=False in model.compile() (Keras's default 'auto' means True on a GPU), or in "
                "tf.function()"
            )


def _callers() -> "Iterator[FrameType]":  # noqa: F821
    import sys

    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
