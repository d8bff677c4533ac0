"""What the stages of a plan mean for one list of gradients."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from tfcompress.auto import Contest
from tfcompress.devices import HOST
from tfcompress.plan import Plan, stages_of
from tfcompress.policy import Described
from tfcompress.resolution import Resolution, resolve
from tfcompress.route import Route
from tfcompress.state import Parameter, make_variable
from tfcompress.trials import Trials

_Result = TypeVar("_Result")


@dataclasses.dataclass
class Stages:
    """The routes of a list of gradients in each stage.

    Stages whose routes differ in nothing but the specs of frames are one branch of the step: specs are inputs
    of the ops. A plan with several branches puts them all into the graph, and the step takes one.

    Attributes:
      gradients: Name, dtype name and shape of each.
      boundaries: Steps at which stages end.
      resolutions: What the plan means for each gradient.
      num_ranks: Of the exchange; None where it may change.
      branches: The signatures of the routes in each branch; they stay when stages change.
      is_agreed: Whether the ranks have compared this list.
      trials: What decides the stage of each step, where steps do not.
    """

    gradients: tuple[Described, ...]
    boundaries: tuple[int, ...]
    resolutions: tuple[Resolution, ...]
    num_ranks: int | None
    branches: list[tuple[Route, ...]] = dataclasses.field(init=False)
    is_agreed: bool = dataclasses.field(init=False, default=False)
    trials: Trials | None = dataclasses.field(init=False, default=None)
    _variables: tuple[tf.Variable, ...] | None = dataclasses.field(init=False, default=None)

    def __post_init__(self) -> None:
        self.branches = list(dict.fromkeys(self._signatures()))

    @classmethod
    def resolve(
        cls,
        plan: Plan,
        gradients: Sequence[Described],
        held: Sequence[str],
        num_ranks: int | None,
    ) -> "Stages":
        """Resolves a plan for a list of gradients, whose variables hold these memories, on so many ranks.

        Raises:
          ValueError: A gradient needs different memories.
        """
        boundaries, policies = stages_of(plan)
        bypasses = plan.bypasses if isinstance(plan, Contest) else ()
        resolutions = [
            resolve(policies, *each, memory, num_ranks, bypasses)
            for each, memory in zip(gradients, held, strict=True)
        ]
        return cls(tuple(gradients), tuple(boundaries), tuple(resolutions), num_ranks)

    def key(self) -> tuple:
        """Returns what tells lists apart."""
        return self.gradients, self.boundaries, self.resolutions

    def describe(self) -> list[tuple[str, str, list[int | None], list[str]]]:
        """Returns what ranks compare."""
        return [
            (name, dtype, list(shape), [_text(route) for route in resolution.routes])
            for (name, dtype, shape, _), resolution in zip(self.gradients, self.resolutions, strict=True)
        ]

    def all_routes(self) -> list[Route]:
        """Returns the routes of all gradients in all stages."""
        return [route for resolution in self.resolutions for route in resolution.routes]

    # ---- Branches ------------------------------------------------------------------------------------------

    def _signatures(self) -> list[tuple[Route, ...]]:
        """For each stage, what a traced step cannot change."""
        stages = zip(*[resolution.routes for resolution in self.resolutions], strict=True)
        return [tuple(route.signature() for route in routes) for routes in stages]

    def _branch_numbers(self, branches: Sequence[tuple[Route, ...]]) -> np.ndarray:
        return np.array([branches.index(signature) for signature in self._signatures()], np.int32)

    def last_branch(self) -> int:
        """Returns the branch of the last stage."""
        return int(self._branch_numbers(self.branches)[-1])

    def switch(self, stage: tf.Tensor, exchange: Callable[[int], _Result]) -> _Result:
        """Returns what `exchange` returns for the branch of a stage."""
        count = len(self.branches)
        if count == 1:
            return exchange(0)
        branch = tf.gather(self._arrays()[2], stage)
        if tf.executing_eagerly():
            return exchange(int(branch))
        return tf.switch_case(branch, [lambda i=i: exchange(i) for i in range(count)])

    # ---- Stages of a running step --------------------------------------------------------------------------

    def _arrays(self) -> tuple:
        """Boundaries int64 [stages - 1], specs strings [stages, gradients, 2], branches int32 [stages]."""
        if self._variables is not None:
            return self._variables
        specs = zip(
            *[[(r.spec, r.spec_of_sums) for r in each.routes] for each in self.resolutions], strict=True
        )
        numbers = self._branch_numbers(self.branches)
        return np.array(self.boundaries, np.int64), np.array(list(specs), np.bytes_), numbers

    def make_changeable(self) -> None:
        """Keeps stages in variables, so that `become` reaches steps that are traced already."""
        if self._variables is None:
            with tf.init_scope(), tf.device(HOST):
                self._variables = tuple(make_variable(array, varies=True) for array in self._arrays())

    def at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the stage that a step, counted from 1, belongs to by the boundaries: int64 scalar."""
        with tf.device(HOST):
            boundaries = tf.convert_to_tensor(self._arrays()[0])
            return tf.reduce_sum(tf.cast(boundaries < step, tf.int64))

    def specs_at(self, stage: tf.Tensor | None) -> list[tf.Tensor]:
        """Returns what is applied to each gradient and to its sums in a stage, strings [2].

        Args:
          stage: int64 scalar; None for the last one.
        """
        with tf.device(HOST):
            specs = tf.convert_to_tensor(self._arrays()[1])
            return tf.unstack(
                specs[-1] if stage is None else tf.gather(specs, stage), num=len(self.gradients)
            )

    def changed(self, plan: Plan) -> "Stages":
        """Returns the stages of another plan.

        Raises:
          ValueError: A traced step cannot take it up.
        """
        held = [each.memory if each.num_slots else "" for each in self.resolutions]
        other = Stages.resolve(plan, self.gradients, held, self.num_ranks)
        for signature in other._signatures():
            if signature not in self.branches:
                name, before, after = self._first_difference(signature)
                raise ValueError(
                    f"gradient '{name}' travels as {_text(before)}, which a traced step cannot change to "
                    f"{_text(after)}: give tfc.DistributedOptimizer a tfc.Schedule that has both, or "
                    "compile the model again with a new optimizer"
                )
        return other

    def _first_difference(self, signature: tuple[Route, ...]) -> tuple[str, Route, Route]:
        last = self._signatures()[-1]
        return next(
            (gradient[0], before, after)
            for gradient, before, after in zip(self.gradients, last, signature, strict=True)
            if before != after
        )

    def become(self, other: "Stages") -> None:
        """Takes over what `changed` returned, from the next step on."""
        boundaries, specs, _ = other._arrays()
        values = boundaries, specs, other._branch_numbers(self.branches)
        self.boundaries, self.resolutions = other.boundaries, other.resolutions
        if self.trials is not None:
            self.trials.stop()
        for variable, value in zip(self._variables or (), values, strict=False):
            variable.assign(tf.convert_to_tensor(value, variable.dtype))


def _text(route: Route) -> str:
    wire = f" in {route.wire_dtype}" if route.wire_dtype else ""
    rows = f", rows {route.row_sparsifier}" if route.row_sparsifier != "dense" else ""
    clip = f", clipped at {route.clip_norm}" if route.clip_norm else ""
    memory = ", its memory left alone" if route.bypasses_memory else ""
    codec = f", {route.codec}" if route.codec else ""
    sums = f", sums by '{route.return_spec}'" if route.return_spec else ""
    return (
        f"'{route.spec}' by {route.transport.value}{codec}{sums}{wire}{rows}{clip}{memory}, seed {route.seed}"
    )


def describe(
    names: Sequence[str],
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
    parameters: Sequence[Parameter],
) -> tuple[Described, ...]:
    """Returns what plans are resolved for.

    Raises:
      ValueError: A gradient has another shape than its variable.
    """
    described = []
    for name, gradient, parameter in zip(names, gradients, parameters, strict=True):
        if not gradient.shape.is_compatible_with(parameter.shape):
            raise ValueError(
                f"gradient '{name}' has shape {gradient.shape}, expected that of its variable, "
                f"{parameter.shape}"
            )
        is_table = isinstance(gradient, tf.IndexedSlices)
        described.append((name, gradient.dtype.name, _dimensions(parameter.shape), is_table))
    return tuple(described)


def _dimensions(shape: tf.TensorShape) -> tuple[int | None, ...]:
    """A shape as a tuple; one unknown dimension where even the rank is unknown."""
    return tuple(shape.as_list()) if shape.rank is not None else (None,)
