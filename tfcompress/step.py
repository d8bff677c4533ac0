"""One step: a list of local gradients in, the list of reduced gradients out; a transaction over all ranks."""

import dataclasses
import functools
import itertools
import json
from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfcompress import comm
from tfcompress.comm import Ranks
from tfcompress.handshake import Agreement, agree
from tfcompress.notices import warn_once
from tfcompress.policy import Compressor, Policy, Transport
from tfcompress.routes import allreduce, gather, linear
from tfcompress.routes.base import Context, Member, Outcome
from tfcompress.schedule import Schedule, stages_of
from tfcompress.stages import Stages
from tfcompress.state import Gradient, Memories, Parameter, make_variable
from tfcompress.statistics import Counter, Stats, merge, note_use

# In this order gradients are encoded and sent.
_EXCHANGES = {
    Transport.GATHER: gather.exchange,
    Transport.LINEAR: linear.exchange,
    Transport.ALLREDUCE: allreduce.exchange,
}


@dataclasses.dataclass(frozen=True)
class Options:
    """How a step reduces: the arguments of Horovod's wrappers.

    Attributes:
      op: hvd.Average (default) or hvd.Sum.
      gradient_predivide_factor: Splits the division of an average in two: 1/f before the sum, f/size
        after it. Only what all-reduce sums can overflow: it changes nothing for frames.
      process_set: The hvd.ProcessSet whose ranks exchange; None for all.
      num_groups: Groups in which Horovod reduces uncompressed gradients; 0: as Horovod likes.
      sparse_as_dense: Whether IndexedSlices become dense gradients first.
      scale_local_gradients: Whether gradients of local variables are divided by the number of ranks
        where `op` is average, as Horovod does.

    Raises:
      ValueError: Arguments do not go together.
    """

    op: object = None
    gradient_predivide_factor: float = 1.0
    process_set: object = None
    num_groups: int = 0
    sparse_as_dense: bool = False
    scale_local_gradients: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "op", comm.reduction(self.op))
        if self.gradient_predivide_factor != 1.0 and self.op != comm.AVERAGE:
            raise ValueError("gradient_predivide_factor is for op=hvd.Average")
        if self.gradient_predivide_factor <= 0:
            raise ValueError(
                f"gradient_predivide_factor must be above 0, got {self.gradient_predivide_factor}"
            )
        if self.num_groups < 0:
            raise ValueError(f"num_groups must be at least 0, got {self.num_groups}")

    def describe(self) -> dict:
        """Returns what must be equal on all ranks; the process set is the ranks that compare."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del fields["process_set"]
        return fields


@dataclasses.dataclass(frozen=True)
class PendingSum:
    """A gradient whose payload somebody else sums over the ranks: stock Horovod."""

    encoded: linear.Encoded
    ranks: Ranks
    name: str
    counter: Counter

    @property
    def payload(self) -> tf.Tensor:
        """What is to be summed: float32 vector."""
        return self.encoded.payload

    def finish(self, summed: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        """Returns the reduced gradient; updates the memory.

        Args:
          summed: The payloads' sum over ranks, scaled.
          weight: float32 scalar, what became of the sum of ones.
        """
        factor = weight / tf.cast(self.ranks.size_tensor(), tf.float32)

        def reduce(values: tf.Tensor) -> tf.Tensor:
            wire_dtype = self.encoded.members[0].route.wire_dtype
            return factor * self.ranks.allreduce([values], comm.SUM, 1.0, [wire_dtype], self.name)[0]

        outcome = linear.finish(self.encoded, summed, weight, reduce, self.ranks)
        outcome.commit(outcome.finite)
        self.counter.add(outcome.counts.columns(), outcome.communication_nanoseconds, outcome.padding)
        return outcome.gradients[0]


class Step:
    """Compresses, exchanges and reduces the gradients of one model.

    Owns the state: memory slots, step counter and statistics. State is created when it is first needed, and
    the gradients' dtypes are known; also while a function is traced, at any trace. Ranks compare
    configurations whenever a list of gradients comes that is not one of those before.
    """

    def __init__(
        self,
        plan: Policy | Schedule,
        options: Options | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Takes what to apply and how.

        Args:
          plan: What to apply to which variable, and when; `change` replaces it.
          options: How gradients are reduced.
          settings: What else must be equal on all ranks; JSON-able.
        """
        self._options = options or Options()
        self._settings = {**self._options.describe(), **(settings or {})}
        self._ranks = Ranks(self._options.process_set)
        self._plan = plan
        self.memories = Memories()
        self._local: set[Hashable] = set()
        self._numbers: dict[Hashable, int] = {}
        self._stages: dict[tuple, Stages] = {}
        self._counters: dict[tuple, Counter] = {}
        # Ranks that join an elastic job make the same objects in the same order, but begin to exchange later.
        elastic = comm.is_elastic()
        self._name: str | None = comm.begin_exchange(comm.num_exchanges()) if elastic else None
        self._steps: tf.Variable | None = None
        self._calls: tf.Variable | None = None
        self._prepared: tuple[int, dict[str, np.ndarray]] = (-1, {})

    def register_local(self, key: Hashable) -> None:
        """Leaves the gradients of the parameter with this key to this rank: they are not exchanged."""
        self._local.add(key)

    @tf.autograph.experimental.do_not_convert  # It branches on Python values only, and traces faster so.
    def reduce(
        self,
        gradients: Sequence[Gradient],
        parameters: Sequence[Parameter],
        plan: Policy | Schedule | None = None,
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
        mine = [self.densify(gradients[i]) for i in shared]
        reduce = self._reduce_on_all if self._ranks.may_exchange() else self._reduce_alone
        reduced = reduce(mine, [parameters[i] for i in shared], plan or self._plan)
        for i, gradient in zip(shared, reduced, strict=True):
            results[i] = gradient
        return results

    def _reduce_on_all(
        self, gradients: list[Gradient], parameters: list[Parameter], plan: Policy | Schedule
    ) -> list[Gradient]:
        _refuse_xla()
        stages, counter = self._enter(gradients, parameters, plan)
        self._check_replicas(parameters)
        step = self._begin_step()
        stage = stages.at(step)
        name = self._name_of(stages, parameters)

        def exchange(branch: int) -> tuple[list[Gradient], list[tf.Tensor], tf.Tensor, tf.Tensor]:
            members = self._members(stages, branch, stage, gradients, parameters)
            clipped = self._clip(members, gradients)
            outcomes = self._exchange(name, members, clipped, step)
            _commit(outcomes.values())
            return _in_order(outcomes)

        reduced, columns, elapsed, padding = stages.switch(stage, exchange)
        counter.add(columns, elapsed, padding)
        if any(route.transport is Transport.GATHER for route in stages.all_routes()):
            size = self._ranks.size_tensor()
            reduced = [_in_smaller_form(r, g, size) for r, g in zip(reduced, gradients, strict=True)]
        # All or none: a packet that turns out to be broken leaves every variable as it was.
        return tf.tuple(reduced)

    def _exchange(
        self, name: str, members: Sequence[Member], gradients: Sequence[Gradient], step: tf.Tensor
    ) -> dict[tuple[int, ...], Outcome]:
        """Sends each gradient on its route; returns the outcomes by positions."""
        context = Context(
            self._ranks,
            name,
            self._options.op,
            self._options.gradient_predivide_factor,
            self._options.num_groups,
            step,
            has_memory=any(member.slots for member in members),
        )
        outcomes = {}
        for transport, exchange in _EXCHANGES.items():
            positions = tuple(i for i, m in enumerate(members) if m.route.transport is transport)
            if positions:
                outcomes[positions] = exchange(
                    context, [members[i] for i in positions], [gradients[i] for i in positions]
                )
        return outcomes

    def _reduce_alone(
        self, gradients: list[Gradient], parameters: list[Parameter], plan: Policy | Schedule
    ) -> list[Gradient]:
        """One rank clips, has the memory's momentum, and applies what several ranks left pending."""
        compressors = _compressors(plan)
        acts = any(each.clip_norm is not None or each.memory_kind == "momentum" for each in compressors)
        if not (acts or self.memories or self.memories.waiting()):
            return gradients
        stages = self._stages_of(gradients, parameters, plan)
        self._match_waiting(stages, parameters)
        members = self._members(stages, stages.last_branch(), None, gradients, parameters)
        return [_apply_alone(m, g) for m, g in zip(members, self._clip(members, gradients), strict=True)]

    def begin_sum(self, gradient: tf.Tensor, parameter: Parameter) -> "PendingSum | None":
        """Encodes one gradient whose payload the caller sums; None where it does not travel as one.

        Args:
          gradient: float32, float16 or bfloat16.
          parameter: What it is the gradient of.
        """
        if not self._ranks.may_exchange():
            return None
        stages = self._stages_of([gradient], [parameter], self._plan)
        if stages.branches[0][0].transport is not Transport.LINEAR:
            return None
        stages, counter = self._enter([gradient], [parameter], self._plan)
        members = self._members(stages, 0, None, [gradient], [parameter])
        seed = linear.shared_seed(members[0], 0, self._begin_step())
        encoded = linear.encode(members, self._clip(members, [gradient]), seed)
        return PendingSum(encoded, self._ranks, f"{self._name}_values", counter)

    # ---- What is known of a list of gradients --------------------------------------------------------------

    def _enter(
        self, gradients: Sequence[Gradient], parameters: Sequence[Parameter], plan: Policy | Schedule
    ) -> tuple[Stages, Counter]:
        """Returns the stages and the counter of a list of gradients; a new list is compared between ranks."""
        stages = self._stages_of(gradients, parameters, plan)
        self._match_waiting(stages, parameters)
        if not stages.is_agreed:
            self._agree(stages)
            stages.is_agreed = True
        numbers = tuple(self._number(parameter) for parameter in parameters)
        if numbers not in self._counters:
            note_use(_compressors(plan), self)
            _warn_if_nothing_is_compressed(stages, plan)
            self._counters[numbers] = Counter([self.memories.unique_name(each) for each in parameters])
        return stages, self._counters[numbers]

    def _stages_of(
        self, gradients: Sequence[Gradient], parameters: Sequence[Parameter], plan: Policy | Schedule
    ) -> Stages:
        names = [self.memories.unique_name(parameter) for parameter in parameters]
        held = [self.memories.memory_of(parameter) for parameter in parameters]
        made = Stages.resolve(plan, names, gradients, parameters, held)
        stages = self._stages.setdefault(made.key(), made)
        if plan is self._plan and comm.talks_eagerly():  # A TF1-style graph would broadcast the variables.
            stages.make_changeable()
        return stages

    def _match_waiting(self, stages: Stages, parameters: Sequence[Parameter]) -> None:
        needs = zip(parameters, stages.resolutions, strict=True)
        self.memories.match_waiting([each for each, resolution in needs if resolution.num_slots])

    def _agree(self, stages: Stages) -> None:
        """Compares configurations; a rank that restored nothing goes on at the step of one that did."""
        number, steps = comm.num_exchanges(), self.steps()
        # Ranks that join an elastic job later would find nobody to compare with.
        if comm.talks_eagerly() and not comm.is_elastic():
            agreement = self._compare(stages)
            number, steps = agreement.number, agreement.steps
        if self._name is None:
            self._name = comm.begin_exchange(number)
        variable = self._make_counters()
        if steps != self.steps():
            with tf.init_scope():  # Not in the graph that is being traced, where every step would do it.
                variable.assign(steps)

    def _compare(self, stages: Stages) -> Agreement:
        settings = {**self._settings, "ends of stages": list(stages.boundaries)}
        return agree(self._ranks, self.steps(), settings, stages.describe())

    def _make_counters(self) -> tf.Variable:
        if self._steps is None:
            self._steps = make_variable(np.int64(0), "tfcompress/step")
            self._calls = make_variable(np.int64(0), "tfcompress/calls")
        return self._steps

    def _name_of(self, stages: Stages, parameters: Sequence[Parameter]) -> str:
        """Returns the prefix of the names of a list's collectives."""
        if comm.is_elastic() and all(parameter.variable is not None for parameter in parameters):
            description = [self._settings, stages.gradients]
            return comm.name_of_list(description, [parameter.key for parameter in parameters])
        return self._name

    def _begin_step(self) -> tf.Tensor:
        """Counts a step; returns its number, from 1."""
        if comm.talks_eagerly():
            return self._steps.assign_add(1, read_value=True)
        # TF1-style programs may have made the operation that initialises variables before.
        numbers = itertools.count(1)
        step = tf.numpy_function(lambda: np.int64(next(numbers)), [], tf.int64)
        return tf.ensure_shape(step, [])

    def _number(self, parameter: Parameter) -> int:
        return self._numbers.setdefault(parameter.key, len(self._numbers))

    def _members(
        self,
        stages: Stages,
        branch: int,
        stage: tf.Tensor | None,
        gradients: Sequence[Gradient],
        parameters: Sequence[Parameter],
    ) -> list[Member]:
        specs = stages.specs_at(stage)
        members = []
        for i, (gradient, parameter) in enumerate(zip(gradients, parameters, strict=True)):
            is_table = isinstance(gradient, tf.IndexedSlices)
            needs = stages.resolutions[i]
            slots = self.memories.slots_of(parameter, needs.memory, needs.num_slots, is_table)
            members.append(
                Member(
                    self._number(parameter),
                    self.memories.unique_name(parameter),
                    gradient.dtype,
                    parameter.shape,
                    is_table,
                    slots,
                    stages.branches[branch][i],
                    specs[i],
                )
            )
        return members

    # ---- Parts of a step -----------------------------------------------------------------------------------

    def _local_result(self, gradient: Gradient) -> Gradient:
        scales = self._options.scale_local_gradients and self._options.op == comm.AVERAGE
        if gradient is None or not scales:
            return gradient
        return tf.math.scalar_mul(tf.cast(1.0 / self._num_ranks(), gradient.dtype), gradient)

    def _num_ranks(self) -> tf.Tensor:
        return tf.cast(self._ranks.size_tensor(), tf.float32)

    def densify(self, gradient: Gradient) -> Gradient:
        """Returns a gradient, IndexedSlices as a dense tensor where the options say so."""
        if self._options.sparse_as_dense and isinstance(gradient, tf.IndexedSlices):
            return tf.convert_to_tensor(gradient)
        return gradient

    def _clip(self, members: Sequence[Member], gradients: Sequence[Gradient]) -> list[Gradient]:
        """Local gradient clipping: one factor for the gradients of all compressors with one limit."""
        clipped = list(gradients)
        for limit in {member.route.clip_norm for member in members} - {None}:
            mine = [i for i, member in enumerate(members) if member.route.clip_norm == limit]
            norm = tf.linalg.global_norm([_as_float32(gradients[i]) for i in mine])
            bound = limit / tf.sqrt(self._num_ranks())
            factor = tf.where(norm > bound, bound / norm, 1.0)
            for i in mine:
                clipped[i] = _times(gradients[i], factor)
        return clipped

    def _check_replicas(self, parameters: Sequence[Parameter]) -> None:
        """Stops training where ranks hold different variables at the second exchange.

        At the first one they may: Horovod's examples broadcast after the first step, when the optimizer has
        its variables. Ranks that join an elastic job are at their first exchange when others are not.
        """
        variables = [p.variable for p in parameters if p.variable is not None and p.variable.dtype.size]
        if comm.is_elastic() or not variables:
            return
        calls = self._calls.assign_add(1, read_value=True)

        def check() -> tf.Tensor:
            position = self._ranks.find_difference(variables, self._name)
            name = tf.gather([variable.name for variable in variables], tf.maximum(position, 0))
            message = (
                "the ranks train different models: at the second step this variable differs between ranks. "
                "Give fit tfc.callbacks.BroadcastVariables(0), or call "
                "tfc.broadcast_variables(model.variables) before the first step:"
            )
            tf.debugging.Assert(position < 0, [message, name])
            return tf.constant(True)

        tf.cond(tf.equal(calls, 2), check, lambda: tf.constant(True))

    def all_finite(self, finite: tf.Tensor) -> tf.Tensor:
        """Returns whether a bool scalar is true on every rank; for loss scaling."""
        if not self._ranks.may_exchange():
            return finite
        if self._name is None:  # Keras asks before the first exchange.
            number = comm.num_exchanges()
            if comm.talks_eagerly() and not comm.is_elastic():
                number = agree(self._ranks, self.steps(), self._settings, []).number
            self._name = comm.begin_exchange(number)
        return self._ranks.all_true(finite, f"{self._name}_finite")

    # ---- Between steps -------------------------------------------------------------------------------------

    def change(self, plan: Policy | Schedule) -> None:
        """Applies another plan from the next step on. Every rank must call it; memories go on.

        Raises:
          ValueError: Ranks want different things, or a gradient would need another memory, or a way to travel
            that is in no stage of the plan before, which a traced step cannot take up.
        """
        changed = [stages.changed(plan) for stages in self._stages.values()]
        for stages in changed:
            if self._ranks.size() > 1:
                self._compare(stages)
        for before, after in zip(self._stages.values(), changed, strict=True):
            before.become(after)
        self._stages = {stages.key(): stages for stages in self._stages.values()}
        self._plan = plan

    def has_schedule(self) -> bool:
        """Whether what is applied depends on the step."""
        return isinstance(self._plan, Schedule)

    def steps(self) -> int:
        """Returns how many steps were done."""
        if self._steps is None or not comm.talks_eagerly():
            return 0
        with tf.init_scope():
            return int(self._steps.numpy())

    def stats(self) -> Stats:
        """Returns what was sent so far; empty before the first step and on one rank."""
        slots = self.memories.by_name()
        return merge([counter.read(slots) for counter in self._counters.values()])

    _tfcompress_stats = stats  # What `tfc.stats` asks for.

    def prepare_memories(self) -> None:
        """Averages (or sums) the memories over all ranks for `pending`. Every rank must call it."""
        slots = self.memories.by_name()
        held = {name: tf.stack([slot.read_value() for slot in each]) for name, each in slots.items()}
        if self._ranks.size() > 1:
            name = f"{self._name}_memory"
            if comm.is_elastic():
                held, name = self._with_those_of_others(held), "tfcompress_memory"
            stacked = list(held.values())
            stacked = self._ranks.allreduce(stacked, self._options.op, 1.0, [None] * len(stacked), name)
            held = dict(zip(held, stacked, strict=True))
        means = {name: mean.numpy() for name, mean in held.items()}
        self._prepared = (self.steps(), {**self.memories.waiting(), **means})

    def _with_those_of_others(self, held: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Adds zeros for memories that a rank which joined later has not, in an order that all ranks have."""
        shapes = {name: each.shape.as_list() for name, each in held.items()}
        for message in self._ranks.gather_messages(json.dumps(shapes).encode()):
            shapes |= json.loads(message)
        return {name: held.get(name, tf.zeros(shape)) for name, shape in sorted(shapes.items())}

    def pending(self) -> dict[str, np.ndarray] | None:
        """Returns what is still to be applied: the mean (or sum) over ranks of each parameter's slots.

        Does nothing collective.

        Returns:
          By the parameter's name, float32 [slots, *shape]; empty where none has a memory. None where
          it is not known: several ranks have stepped since `prepare_memories`.
        """
        if not self.memories:
            return self.memories.waiting()
        if self._ranks.size() == 1:
            self.prepare_memories()
        steps, means = self._prepared
        return means if steps == self.steps() else None

    def snapshot(self) -> tuple[int, dict[str, np.ndarray]]:
        """Copies what a step changes on this rank: the number of steps, and all slots by name."""
        return self.steps(), self.memories.snapshot()

    def restore(self, steps: int, memories: Mapping[str, np.ndarray]) -> None:
        """Goes back to a snapshot; slots that are not in it become zero."""
        zeros = {name: np.zeros_like(values) for name, values in self.memories.snapshot().items()}
        self.resume(steps, {**zeros, **memories})

    def resume(self, steps: int, memories: Mapping[str, np.ndarray]) -> None:
        """Goes on after so many steps with these slots; others stay as they are.

        Args:
          steps: Where a schedule stands, and what seeds derive from.
          memories: By the parameter's name, float32 [slots, *shape].

        Raises:
          ValueError: They are another model's.
        """
        self.memories.restore(memories)
        if steps != self.steps():
            variable = self._make_counters()
        if steps != self.steps():
            with tf.init_scope():  # Not in the graph that is being traced, where every step would do it.
                variable.assign(steps)
        self._prepared = (-1, {})

    def resume_pending(self, steps: int, memories: Mapping[str, np.ndarray]) -> None:
        """Goes on after so many steps with each rank's part of what `pending` returned.

        Raises:
          ValueError: They are another model's.
        """
        parts = 1 if self._options.op == comm.AVERAGE else self._ranks.size()
        self.resume(steps, {name: values / np.float32(parts) for name, values in memories.items()})


def _compressors(plan: Policy | Schedule) -> list[Compressor]:
    return [each for policy in stages_of(plan)[1] for each in policy.compressors()]


def _warn_if_nothing_is_compressed(stages: Stages, plan: Policy | Schedule) -> None:
    wanted = [each for each in _compressors(plan) if each.transport is not Transport.ALLREDUCE]
    if wanted and not any(route.compresses for route in stages.all_routes()):
        warn_once(
            f"'{wanted[0].spec}' compresses no gradient of this step: all are excluded or have fewer than "
            f"min_elements={wanted[0].min_elements} elements. Lower min_elements, or use tfc.Compression.none"
        )


def _commit(outcomes: Sequence[Outcome]) -> None:
    """Updates the memories of all gradients, or of none: as if there had been no step."""
    finite = functools.reduce(tf.logical_and, [outcome.finite for outcome in outcomes])
    for outcome in outcomes:
        outcome.commit(finite)


def _in_order(
    outcomes: Mapping[tuple[int, ...], Outcome],
) -> tuple[list[Gradient], list[tf.Tensor], tf.Tensor, tf.Tensor]:
    """Returns gradients and columns of counts in the order of the gradients; the times; the padding."""
    order = np.argsort([i for positions in outcomes for i in positions]).tolist()
    gradients = [gradient for outcome in outcomes.values() for gradient in outcome.gradients]
    columns = zip(*[outcome.counts.columns() for outcome in outcomes.values()], strict=True)
    return (
        [gradients[i] for i in order],
        [tf.gather(tf.concat(column, axis=0), order) for column in columns],
        tf.add_n([outcome.communication_nanoseconds for outcome in outcomes.values()]),
        tf.add_n([outcome.padding for outcome in outcomes.values()]),
    )


def _apply_alone(member: Member, gradient: Gradient) -> Gradient:
    if not member.slots:
        return gradient
    if member.is_table:
        return gather.apply_rows_alone(member, gradient)
    return allreduce.apply_alone(member, gradient)


def _in_smaller_form(reduced: Gradient, gradient: Gradient, size: tf.Tensor) -> Gradient:
    if isinstance(reduced, tf.IndexedSlices):
        return gather.smaller_form(reduced, gradient, size)
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
