"""What a step keeps from one call to the next, and what ranks have agreed on before the first."""

import dataclasses
import itertools
import json
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfcompress import comm, probe
from tfcompress.auto import Auto, Contest
from tfcompress.collective_names import begin_exchange, name_of_list, num_exchanges
from tfcompress.comm import Ranks
from tfcompress.handshake import Agreement, agree
from tfcompress.levels import Levels, levels_of, refuse_levels
from tfcompress.notices import tell, warn_once
from tfcompress.options import Options
from tfcompress.parts import WHOLE, Part
from tfcompress.plan import Given, Plan, compressors_of
from tfcompress.policy import Described
from tfcompress.route import Transport
from tfcompress.stages import Stages, describe
from tfcompress.state import Gradient, Memories, Parameter, factor_of, make_variable
from tfcompress.statistics import Counter, Stats, merge, note_use
from tfcompress.trials import Trials

# What the ranks of a host cannot sum for the other hosts.
_NOT_IN_LEVELS = (Transport.LINEAR, Transport.LOW_RANK, Transport.CUSTOM)


class StepState:
    """The plan, memories, step counter and statistics of the gradients of one model.

    Variables are created when they are first needed, and the gradients' dtypes are known; also while a
    function is traced, at any trace. Ranks compare configurations whenever a list of gradients comes that is
    not one of those before.

    Attributes:
      options: How gradients are reduced.
      ranks: Who exchanges.
      plan: What to apply to which variable, and when; `change` replaces it.
      memories: The slots of all parameters.
      name: Prefix of the names of collectives; None before ranks have agreed.
      unsynchronised_steps: How many of the first steps come before the program has broadcast its variables:
        one in Horovod's examples, where the optimizer gets its variables by the first step.
    """

    def __init__(
        self,
        plan: Given,
        options: Options | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Takes what to apply and how.

        Args:
          plan: What to apply.
          options: How gradients are reduced (default: averaged over all ranks).
          settings: What else must be equal on all ranks; JSON-able.
        """
        self.options = options or Options()
        self.ranks = Ranks(self.options.process_set)
        self.plan = plan
        self.memories = Memories()
        self.unsynchronised_steps = 1
        # Ranks that join an elastic job make the same objects in the same order, but begin to exchange later.
        self.name = begin_exchange(num_exchanges()) if comm.is_elastic() else None
        self._settings = {**self.options.describe(), **(settings or {})}
        if isinstance(plan, Auto):
            self._settings["auto"] = [[name, each.spec] for name, each in plan.plans.items()]
        self._numbers: dict[Hashable, int] = {}
        self._stages: dict[tuple, Stages] = {}
        self._settled: dict[tuple[str, tuple[Described, ...]], Plan] = {}
        self._choice = ""
        self._counters: dict[tuple, Counter] = {}
        self._levels: tuple[Levels | None] | None = None  # None before the first step.
        self._steps: tf.Variable | None = None
        self._prepared: tuple[int, dict[str, np.ndarray]] = (-1, {})

    # ---- For a step ----------------------------------------------------------------------------------------

    def enter(
        self, gradients: Sequence[Gradient], parameters: Sequence[Parameter], plan: Given
    ) -> tuple[Stages, Counter]:
        """Returns the stages and the counter of a list of gradients; a new list is compared between ranks.

        Raises:
          ValueError: Ranks are configured differently, or a gradient differs from its first one.
        """
        stages = self.stages_of(gradients, parameters, plan)
        if not stages.is_agreed:
            self._agree(stages)
            stages.is_agreed = True
        note_use(compressors_of(plan), self)
        numbers = tuple(self.number(parameter) for parameter in parameters)
        if numbers not in self._counters:
            _warn_if_nothing_is_compressed(stages, plan)
            self._counters[numbers] = Counter([self.memories.unique_name(each) for each in parameters])
        return stages, self._counters[numbers]

    def stages_of(
        self, gradients: Sequence[Gradient], parameters: Sequence[Parameter], plan: Given
    ) -> Stages:
        """Returns what the stages of a plan mean for a list of gradients; restored slots find theirs."""
        names = [self.memories.unique_name(parameter) for parameter in parameters]
        held = [self.memories.memory_of(parameter) for parameter in parameters]
        levels = self.levels()
        num_ranks = None if comm.is_elastic() else (levels.across if levels else self.ranks).size()
        if levels and isinstance(plan, Auto):
            raise ValueError(
                "hierarchical=True does not work with Compression.auto(), which measures exchanges among all "
                "ranks: choose a preset"
            )
        described = describe(names, gradients, parameters)
        settled = self._settle(plan, described) if isinstance(plan, Auto) else plan
        made = Stages.resolve(settled, described, held, num_ranks)
        if levels and any(route.transport in _NOT_IN_LEVELS for route in made.all_routes()):
            raise ValueError(
                "hierarchical=True does not work with linear codecs, whose payloads all ranks sum, nor with "
                "codecs in Python: choose another compression, or leave it out"
            )
        stages = self._stages.setdefault(made.key(), made)
        if stages is made and isinstance(settled, Contest):
            stages.trials = Trials(settled.tuner(self._tell_choice), self.ranks)
        if plan is self.plan and comm.talks_eagerly():  # A TF1-style graph would broadcast the variables.
            stages.make_changeable()
        needs = list(zip(parameters, stages.resolutions, strict=True))
        factors = [factor_of(each, rank) for each, resolution in needs for rank in resolution.factor_ranks]
        with_memory = [each for each, resolution in needs if resolution.num_slots]
        self.memories.match_waiting([*with_memory, *factors])
        return stages

    def levels(self) -> Levels | None:
        """Returns the ranks of this host and those across hosts, if exchanges have two levels.

        Makes them at the first call; every rank must do that together.

        Raises:
          ValueError: There cannot be two levels; says why.
        """
        if not (self.options.hierarchical and self.ranks.may_exchange()):
            return None
        if self._levels is None:
            refuse_levels()
            self.name_of_all()  # Ranks that have other settings would make no process sets.
            self._levels = (levels_of(self.ranks),)
        return self._levels[0]

    def part(self) -> Part:
        """Returns what this rank owns of each gradient."""
        levels = self.levels()
        return Part.owned_by(levels.inside) if levels else WHOLE

    def _settle(self, plan: Auto, gradients: tuple[Described, ...]) -> Plan:
        """Returns what is applied to a list of gradients: one candidate, or a contest of several."""
        key = (str(plan.get_config()), gradients)  # Of one made anew at every step, too.
        if key not in self._settled:
            if comm.talks_eagerly() and not comm.is_elastic() and self.ranks.size() > 1:
                found = probe.finalists_of(plan, gradients, self.ranks, self.name_of_all())
                if len(found.ready) == 1:
                    self._tell_choice(found.told())
                self._settled[key] = plan.settled(found.ready, found.first)
            else:
                self._tell_choice(f"{plan.fallback}, unmeasured")
                self._settled[key] = plan.settled([plan.fallback], [])
        return self._settled[key]

    def _tell_choice(self, choice: object) -> None:
        self._choice = str(choice)
        if comm.leads():
            tell(f"Compression.auto() on {self.ranks.size()} ranks took {choice}")

    def number(self, parameter: Parameter) -> int:
        """Returns the parameter's number, in the order of first appearance."""
        return self._numbers.setdefault(parameter.key, len(self._numbers))

    def name_of(self, stages: Stages, parameters: Sequence[Parameter]) -> str:
        """Returns the prefix of the names of a list's collectives, equal on all ranks."""
        if comm.is_elastic() and all(parameter.variable is not None for parameter in parameters):
            description = [self._settings, stages.gradients]
            return name_of_list(description, [id(parameter.variable) for parameter in parameters])
        return self.name_of_all()

    def begin_step(self) -> tf.Tensor:
        """Counts a step; returns its number from 1 on, int64 scalar."""
        if comm.talks_eagerly():
            assert self._steps is not None
            return self._steps.assign_add(1, read_value=True)
        # TF1-style programs may have made the operation that initialises variables before.
        numbers = itertools.count(1)
        step = tf.numpy_function(lambda: np.int64(next(numbers)), [], tf.int64)
        return tf.ensure_shape(step, [])

    def name_of_all(self) -> str:
        """Returns the prefix of the collectives' names, equal on all ranks, also before the first step."""
        if self.name is None:
            self._agree(None)
        assert self.name is not None
        return self.name

    def check_replicas(self, parameters: Sequence[Parameter], counter: Counter) -> None:
        """Stops training where ranks hold different variables after the unsynchronised steps of a list.

        Ranks that join an elastic job are at their first step when others are not.
        """
        variables = [p.variable for p in parameters if p.variable is not None and p.variable.dtype.size]
        if comm.is_elastic() or not variables:
            return

        def check() -> tf.Tensor:
            position = self.ranks.find_difference(variables, self.name_of_all())
            name = tf.gather([variable.name for variable in variables], tf.maximum(position, 0))
            message = (
                "the ranks train different models: after the first steps this variable differs between "
                "ranks. Give fit tfc.callbacks.BroadcastVariables(0), or call "
                "tfc.broadcast_variables(model.variables) before the first step:"
            )
            tf.debugging.Assert(position < 0, [message, name])
            return tf.constant(True)

        tf.cond(tf.equal(counter.steps(), self.unsynchronised_steps), check, lambda: tf.constant(True))

    def _agree(self, stages: Stages | None) -> None:
        """Compares configurations; a rank that restored nothing goes on at the step of one that did."""
        number, steps = num_exchanges(), self.steps()
        # Ranks that join an elastic job later would find nobody to compare with.
        if comm.talks_eagerly() and not comm.is_elastic():
            agreement = self._compare(stages)
            number, steps = agreement.number, agreement.steps
        if self.name is None:
            self.name = begin_exchange(number)
        self._go_to(steps)

    def _compare(self, stages: Stages | None) -> Agreement:
        settings = {**self._settings, "ends of stages": list(stages.boundaries if stages else ())}
        return agree(self.ranks, self.steps(), settings, stages.describe() if stages else [])

    def _go_to(self, steps: int) -> None:
        """Sets how many steps were done."""
        if self._steps is None:
            self._steps = make_variable(np.int64(0), "tfcompress/step")
        if steps != self.steps():
            with tf.init_scope():  # Not in the graph that is being traced, where every step would do it.
                self._steps.assign(steps)

    # ---- Between steps -------------------------------------------------------------------------------------

    def change(self, plan: Given) -> None:
        """Applies another plan from the next step on. Every rank must call it; memories go on.

        Raises:
          ValueError: Ranks want different things, or a gradient would need another memory, or a way to travel
            that is in no stage of the plan before, which a traced step cannot take up. Or the plan is `auto`.
        """
        if isinstance(plan, Auto):
            raise ValueError(
                "Compression.auto() measures before the first step: give it to tfc.DistributedOptimizer, or "
                "choose a preset now"
            )
        changed = [stages.changed(plan) for stages in self._stages.values()]
        for stages in changed:
            if self.ranks.size() > 1:
                self._compare(stages)
        for before, after in zip(self._stages.values(), changed, strict=True):
            before.become(after)
        self._stages = {stages.key(): stages for stages in self._stages.values()}
        self.plan = plan
        self._choice = ""
        note_use(compressors_of(plan), self)

    def steps(self) -> int:
        """Returns how many steps were done."""
        if self._steps is None or not comm.talks_eagerly():
            return 0
        with tf.init_scope():
            return int(self._steps.numpy())

    def stats(self) -> Stats:
        """Returns what was sent so far; empty before the first step and on one rank."""
        slots = self.memories.by_name()
        counted = merge([counter.read(slots) for counter in self._counters.values()])
        return dataclasses.replace(counted, choice=self._choice)

    def prepare_memories(self) -> None:
        """Averages (or sums) the memories over all ranks for `pending`. Every rank must call it."""
        held = self.memories.whole()
        if self.ranks.size() > 1:
            name = f"{self.name}_memory"
            if comm.is_elastic():
                held, name = self._with_those_of_others(held), "tfcompress_memory"
            stacked = list(held.values())
            stacked = self.ranks.allreduce(stacked, self.options.op, name)
            held = dict(zip(held, stacked, strict=True))
        means = {name: mean.numpy() for name, mean in held.items()}
        self._prepared = (self.steps(), {**self.memories.waiting(), **means})

    def _with_those_of_others(self, held: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Adds zeros for memories that a rank which joined later has not, in an order that all ranks have."""
        shapes = {name: each.shape.as_list() for name, each in held.items()}
        for message in self.ranks.gather_messages(json.dumps(shapes).encode()):
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
        if self.ranks.size() == 1:
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
        self._go_to(steps)
        self._prepared = (-1, {})

    def resume_pending(self, steps: int, memories: Mapping[str, np.ndarray]) -> None:
        """Goes on after so many steps with each rank's part of what `pending` returned.

        Raises:
          ValueError: They are another model's.
        """
        parts = 1 if self.options.op == comm.AVERAGE else self.ranks.size()
        self.resume(steps, {name: values / np.float32(parts) for name, values in memories.items()})


def _warn_if_nothing_is_compressed(stages: Stages, plan: Given) -> None:
    wanted = [each for each in compressors_of(plan) if each.transport is not Transport.ALLREDUCE]
    if wanted and not any(route.compresses for route in stages.all_routes()):
        warn_once(
            f"'{wanted[0].spec}' compresses no gradient of this step: all are excluded, have fewer than "
            f"min_elements={wanted[0].min_elements} elements or min_dimensions={wanted[0].min_dimensions} "
            "dimensions, are neither float32, float16 nor bfloat16, or would not be smaller. Lower what "
            "excludes them, or use tfc.Compression.none"
        )
