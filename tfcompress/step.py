"""One step: a list of local gradients in, the list of reduced gradients out; a transaction over all ranks."""

import dataclasses
from collections.abc import Collection, Hashable, Mapping, Sequence

import tensorflow as tf

from tfcompress import comm
from tfcompress.accuracy import warn_of_dense_table
from tfcompress.compression_error import Measurement
from tfcompress.options import Options
from tfcompress.parts import WHOLE
from tfcompress.plan import Given, compressors_of
from tfcompress.route import Transport
from tfcompress.routes import (
    allreduce,
    custom,
    gather,
    hierarchical,
    linear,
    low_rank,
    rows,
    shard,
    shard_rows,
)
from tfcompress.routes.base import Context, Member, Outcome, dense_columns, join
from tfcompress.stages import Stages
from tfcompress.state import Gradient, Parameter, factor_of
from tfcompress.step_state import StepState

# In this order gradients are encoded and sent.
_EXCHANGES = {
    Transport.GATHER: gather.exchange,
    Transport.SHARD: shard.exchange,
    Transport.SHARD_ROWS: shard_rows.exchange,
    Transport.LINEAR: linear.exchange,
    Transport.LOW_RANK: low_rank.exchange,
    Transport.CUSTOM: custom.exchange,
    Transport.ALLREDUCE: allreduce.exchange,
}
# What travels in packets of several gradients, which may be more than one a step.
_IN_PACKETS = (Transport.GATHER, Transport.SHARD)


class Step:
    """Compresses, exchanges and reduces the gradients of one model.

    Attributes:
      state: What stays from one step to the next.
    """

    def __init__(
        self,
        plan: Given,
        options: Options | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Takes what to apply and how; see `StepState`."""
        self.state = StepState(plan, options, settings)
        self._options = self.state.options
        self._ranks = self.state.ranks
        self._local: set[Hashable] = set()

    def register_local(self, key: Hashable) -> None:
        """Leaves the gradients of the parameter with this key to this rank: they are not exchanged."""
        self._local.add(key)

    @tf.autograph.experimental.do_not_convert  # It branches on Python values only, and traces faster so.
    def reduce(
        self,
        gradients: Sequence[Gradient],
        parameters: Sequence[Parameter],
        plan: Given | None = None,
        local: Collection[Hashable] = (),
    ) -> list[Gradient]:
        """Returns the average (or sum) over ranks of each gradient.

        Args:
          gradients: Local gradients, in the same order on all ranks. None stays None. float32,
            float16 and bfloat16 are compressed, IndexedSlices as rows of their table; other dtypes go
            uncompressed through Horovod's own collectives.
          parameters: What each is the gradient of.
          plan: What to apply in this step, where it is not the plan given before.
          local: Keys of further parameters whose gradients are not exchanged in this step.

        Returns:
          The reduced gradients, bit-identical on every rank. On one rank, the gradients themselves,
          with what a memory or clipping does to them.

        Raises:
          ValueError: Ranks are configured differently, or a gradient differs from its first one.
          RuntimeError: The step is compiled by XLA.
        """
        local = self._local.union(local)
        results = [
            self._local_result(gradient) if parameter.key in local else gradient
            for gradient, parameter in zip(gradients, parameters, strict=True)
        ]
        shared = [i for i, p in enumerate(parameters) if p.key not in local and gradients[i] is not None]
        if not shared:
            return results
        plan = plan or self.state.plan
        mine = [self.densify(gradients[i], parameters[i], plan) for i in shared]
        reduce = self._reduce_on_all if self._ranks.may_exchange() else self._reduce_alone
        reduced = reduce(mine, [parameters[i] for i in shared], plan)
        for i, gradient in zip(shared, reduced, strict=True):
            results[i] = gradient
        return results

    def _reduce_on_all(
        self, gradients: list[Gradient], parameters: list[Parameter], plan: Given
    ) -> list[Gradient]:
        _refuse_xla()
        stages, counter = self.state.enter(gradients, parameters, plan)
        self.state.check_replicas(parameters, counter)
        step = self.state.begin_step()
        stage, trials = stages.at(step), stages.trials
        name = self.state.name_of(stages, parameters)
        if trials is not None:
            stage, is_timed = trials.begin(stage, name)

        def exchange(branch: int) -> tuple[list[Gradient], list[tf.Tensor], tf.Tensor, tf.Tensor, tf.Tensor]:
            members = self._members(stages, branch, stage, gradients, parameters)
            clipped = self._clip(members, gradients)
            measurement = Measurement(members, clipped, step)
            outcome = self._exchange(name, members, clipped, step)
            outcome.commit(outcome.finite)
            return (
                outcome.gradients,
                outcome.counts.columns(),
                outcome.communication_nanoseconds,
                outcome.padding,
                measurement.end(outcome),
            )

        reduced, columns, elapsed, padding, norms = stages.switch(stage, exchange)
        counter.add([*dense_columns(gradients, self._ranks), *columns], elapsed, padding, norms)
        if any(route.carries_frames for route in stages.all_routes()):
            size = self._ranks.size_tensor()
            reduced = [_in_smaller_form(r, g, size) for r, g in zip(reduced, gradients, strict=True)]
        if trials is not None:
            trials.end(is_timed, reduced)
        # All or none: a packet that turns out to be broken leaves every variable as it was.
        return tf.tuple(reduced)

    def _exchange(
        self, name: str, members: Sequence[Member], gradients: Sequence[Gradient], step: tf.Tensor
    ) -> Outcome:
        """Sends each gradient on its route."""
        has_memory = any(member.has_state for member in members)
        context = Context(self._ranks, name, self._options, step, has_memory)
        levels = self.state.levels()
        if levels is None:
            return _send(context, members, gradients)
        return hierarchical.exchange(context, levels, members, gradients, _send)

    def _reduce_alone(
        self, gradients: list[Gradient], parameters: list[Parameter], plan: Given
    ) -> list[Gradient]:
        """One rank clips, has the memory's momentum, and applies what several ranks left pending."""
        memories = self.state.memories
        acts = any(c.clip_norm is not None or c.has_momentum for c in compressors_of(plan))
        if not (acts or memories or memories.waiting()):
            return gradients
        stages = self.state.stages_of(gradients, parameters, plan)
        members = self._members(stages, stages.last_branch(), None, gradients, parameters)
        return [_apply_alone(m, g) for m, g in zip(members, self._clip(members, gradients), strict=True)]

    def all_finite(self, finite: tf.Tensor) -> tf.Tensor:
        """Returns whether a bool scalar is true on every rank; for loss scaling."""
        if not self._ranks.may_exchange():
            return finite
        return self._ranks.all_true(finite, f"{self.state.name_of_all()}_finite")

    def densify(self, gradient: Gradient, parameter: Parameter, plan: Given) -> Gradient:
        """Returns a gradient, IndexedSlices as a dense tensor where the options say so."""
        if not (self._options.sparse_as_dense and isinstance(gradient, tf.IndexedSlices)):
            return gradient
        dense = tf.convert_to_tensor(gradient)
        if parameter.key not in self._local:
            warn_of_dense_table(plan, parameter.name, dense)
        return dense

    def _members(
        self,
        stages: Stages,
        branch: int,
        stage: tf.Tensor | None,
        gradients: Sequence[tf.Tensor | tf.IndexedSlices],
        parameters: Sequence[Parameter],
    ) -> list[Member]:
        memories, specs = self.state.memories, stages.specs_at(stage)
        members = []
        for i, (gradient, parameter) in enumerate(zip(gradients, parameters, strict=True)):
            is_table = isinstance(gradient, tf.IndexedSlices)
            needs, route = stages.resolutions[i], stages.branches[branch][i]
            part = WHOLE if is_table else self.state.part()
            own = memories.slots_of(parameter, needs.memory, needs.num_slots, is_table, part)
            spec, spec_of_sums = tf.unstack(specs[i])
            factor = None
            if route.keeps_factor:
                [factor] = memories.slots_of(factor_of(parameter, route.rank), "factor", 1, on_cpu=False)
            members.append(
                Member(
                    self.state.number(parameter),
                    memories.unique_name(parameter),
                    gradient.dtype,
                    parameter.shape,
                    is_table,
                    [] if route.bypasses_memory else own,
                    route,
                    spec,
                    spec_of_sums,
                    factor,
                )
            )
        return members

    def _local_result(self, gradient: Gradient) -> Gradient:
        scales = self._options.scale_local_gradients and self._options.op == comm.AVERAGE
        if gradient is None or not scales:
            return gradient
        return tf.math.scalar_mul(tf.cast(1.0 / self._ranks.number(), gradient.dtype), gradient)

    def _clip(self, members: Sequence[Member], gradients: Sequence[Gradient]) -> list[Gradient]:
        """Local gradient clipping: one factor for all gradients that have the same limit."""
        clipped = list(gradients)
        for limit in {member.route.clip_norm for member in members} - {None}:
            mine = [i for i, member in enumerate(members) if member.route.clip_norm == limit]
            norm = tf.linalg.global_norm([_as_float32(gradients[i]) for i in mine])
            bound = limit / tf.sqrt(self._ranks.number())
            factor = tf.where(norm > bound, bound / norm, 1.0)
            for i in mine:
                clipped[i] = _times(gradients[i], factor)
        return clipped


def _send(context: Context, members: Sequence[Member], gradients: Sequence[Gradient]) -> Outcome:
    """Exchanges gradients among the ranks of a context, each on its route."""
    outcomes = {}
    for transport, exchange in _EXCHANGES.items():
        positions = [i for i, member in enumerate(members) if member.route.transport is transport]
        num_packets = context.options.num_groups if transport in _IN_PACKETS else 1
        # The backward pass ends with the first gradients: what is ready first is sent first.
        for number, group in enumerate(reversed(comm.in_runs(positions, num_packets or 1))):
            own = dataclasses.replace(context, name=f"{context.name}_{number}") if number else context
            outcomes[tuple(group)] = exchange(own, [members[i] for i in group], [gradients[i] for i in group])
    return join(outcomes)


def _apply_alone(member: Member, gradient: Gradient) -> Gradient:
    if not member.slots:
        return gradient
    if member.is_table:
        return rows.apply_alone(member, gradient)
    return allreduce.apply_alone(member, gradient)


def _in_smaller_form(reduced: Gradient, gradient: Gradient, size: tf.Tensor) -> Gradient:
    if isinstance(reduced, tf.IndexedSlices):
        return rows.smaller_form(reduced, gradient, size)
    return reduced


def _times(gradient: tf.Tensor | tf.IndexedSlices, factor: tf.Tensor) -> tf.Tensor | tf.IndexedSlices:
    """Multiplies in float32: a factor may be too small for float16 where the product is not."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_times(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return tf.cast(tf.cast(gradient, tf.float32) * factor, gradient.dtype)


def _as_float32(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """The elements of a gradient, of a table those of its slices."""
    return tf.cast(gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient, tf.float32)


def _refuse_xla() -> None:
    """Raises RuntimeError while a function is traced for XLA, which has no Horovod."""
    if comm.is_compiled_by_xla():
        raise RuntimeError(
            "the training step is compiled by XLA, where Horovod's collectives do not exist: set "
            "jit_compile=False in model.compile() or in tf.function(). Keras's default 'auto' means True "
            "on a GPU; tfc.callbacks.BroadcastVariables turns that off"
        )
