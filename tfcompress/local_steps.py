"""Local steps: ranks train apart for a round, and exchange what it has changed.

For links between sites. Local SGD and FedAvg average weights; with an outer optimizer on the mean difference,
the "pseudo-gradient", it is FedOpt and DiLoCo; with a sparse, quantised difference and error feedback,
SparseLoCo.
"""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfcompress import checkpoint, comm, keras_objects
from tfcompress.auto import Auto
from tfcompress.notices import warn
from tfcompress.options import Options
from tfcompress.outer import OuterStep
from tfcompress.plan import Given, as_plan, compressors_of
from tfcompress.policy import Compressor
from tfcompress.presets import Compression
from tfcompress.rounds import Rounds
from tfcompress.schedule import Schedule
from tfcompress.state import Gradient
from tfcompress.step import Step
from tfcompress.wrapping import Wrapped, attach, refuse_unfit

_FILE = "tfcompress_round.npz"


class _InRounds(Wrapped):
    """Takes local steps, and ends a round where it is time to."""

    _tfcompress_rounds: Rounds

    def build(self, variables: Iterable, *args: object) -> None:
        variables = list(variables)
        super().build(variables, *args)
        self._tfcompress_rounds.prepare(variables)

    def finalize_variable_values(self, var_list: object) -> None:
        """Ends the last round: `fit` calls it when all epochs are over."""
        super().finalize_variable_values(var_list)
        self._tfcompress_rounds.end()

    def save_assets(self, dir_path: str) -> None:
        """Adds the residuals and the round to a file that Keras writes."""
        super().save_assets(dir_path)
        _warn_within_a_round(self._tfcompress_rounds)
        data = self._tfcompress_rounds.serialize()
        if data:
            pathlib.Path(dir_path, _FILE).write_bytes(data)

    def _tfcompress_run(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[object],
        apply: Callable[[Sequence[Gradient]], object],
    ) -> None:
        self._tfcompress_rounds.note_tables(zip(gradients, variables, strict=True))
        self._tfcompress_rounds.run(lambda: apply(gradients))


def LocalSteps(  # noqa: N802 - beside DistributedOptimizer.
    optimizer: Any,
    steps: int,
    compression: Compressor | Mapping[str, Compressor] | Schedule = Compression.none,
    outer: OuterStep | None = None,
    *,
    feedback_decay: float = 1.0,
    process_set: Any = None,
    sparse_as_dense: bool = True,
) -> Any:
    """Makes ranks take several steps of their own between exchanges of what these have changed.

    A round: every rank takes `steps` steps of its optimizer on its own gradients. Then the difference of its
    weights to those that all ranks had when the round began goes through the compression, as a gradient does
    in `DistributedOptimizer`; the mean over ranks goes through the outer step; and all ranks go on from the
    same weights, bit for bit. Traffic is that of one exchange in `steps` steps. What it costs in accuracy is
    measured in docs/convergence.md.

    Sources: FedAvg (McMahan et al. 2017), "Adaptive Federated Optimization" (FedOpt, Reddi et al. 2021),
    DiLoCo (Douillard et al. 2023: AdamW inside, Nesterov's momentum 0.9 at a rate of 0.7 outside), SparseLoCo
    (2025: 30 steps, rate 1, feedback decay 0.95).

    Args:
      optimizer: A Keras optimizer that has not been used yet, of Keras 3 or tf_keras. It keeps its momentum
        and whatever else it has; each rank has its own.
      steps: Of a round, at least 1. What counts is calls of `apply` or `apply_gradients`, the same number
        on all ranks.
      compression: What to apply to the differences (default: none, Horovod's plain all-reduce), or {regular
        expression: compressor}, or a `Schedule`, whose steps are rounds here. `min_elements` and error
        feedback are as ever.
      outer: What becomes of the mean difference (default: ranks go on from the mean of their weights).
      feedback_decay: Factor of the residuals from one round to the next, in (0, 1]; default 1, which loses
        nothing.
      process_set: The hvd.ProcessSet whose ranks exchange (default: all ranks).
      sparse_as_dense: Whether the difference of an embedding is dense (default). Else the rows that a round
        has changed are sent, as `DistributedOptimizer` sends those of a step: for optimizers that leave
        other rows as they are, such as SGD without momentum and Adagrad. Adam changes every row that it has
        ever touched.

    Returns:
      The same object: an optimizer of the class and configuration that it had. Within a round ranks have
      different weights: `fit` with `tfc.callbacks.BroadcastVariables` ends a round, however short, when an
      epoch or training ends and before it validates; elsewhere `tfc.end_round(optimizer)` does. Costs a copy
      of the weights on every rank, and one more with outer momentum. On one rank nothing is sent, and the
      outer step is taken all the same; without one, training is what it was.

    Raises:
      TypeError: Not a Keras optimizer, or `compression` or `outer` is of another kind.
      ValueError: The optimizer has been used, is distributed already, is a legacy one, or averages its
        weights itself (`use_ema`). Or a number is outside its range. Or the compression's memory has a
        momentum; or it is `Compression.auto()`. Or the job is elastic.
    """
    refuse_unfit(optimizer)
    return wrap(optimizer, steps, compression, outer, feedback_decay, process_set, sparse_as_dense)


def end_round(optimizer: Any) -> None:
    """Ends a round of `LocalSteps` that has begun, however few its steps; does nothing between two rounds.

    Every rank must call it, after the same step: before weights are tested, saved or compared in a custom
    loop. A round of fewer steps is a round like others. Moving statistics of BatchNormalization are not the
    optimizer's: `tfc.callbacks.average_moving_statistics(model)` averages them.

    Args:
      optimizer: What `tfc.LocalSteps` returned, or a LossScaleOptimizer around it.

    Raises:
      TypeError: `optimizer` is neither.
    """
    rounds = keras_objects.rounds_of(optimizer)
    if rounds is None:
        raise TypeError(f"expected what tfc.LocalSteps returned, got a {type(optimizer).__name__}")
    rounds.end()


def checked_plan(compression: object) -> Given:
    """Returns what may be applied to differences.

    Raises:
      TypeError: It is no compression.
      ValueError: It is `Compression.auto()`, or its memory has a momentum.
    """
    plan = as_plan(compression)
    if isinstance(plan, Auto):
        raise ValueError(
            "Compression.auto() weighs an exchange in every step, and local steps have one in a round: "
            "choose a preset, such as tfc.Compression.int8() or int4()"
        )
    for each in compressors_of(plan):
        if each.has_momentum:
            raise ValueError(
                f"'{each.spec}' has a momentum in its memory, and local steps leave the optimizer its own: "
                "use the memory 'residual', such as tfc.Compression.topk() has, and for a momentum of the "
                "differences outer=tfc.OuterStep(momentum=...)"
            )
    return plan


def wrap(
    optimizer: Any,
    steps: int,
    compression: object = Compression.none,
    outer: OuterStep | None = None,
    feedback_decay: float = 1.0,
    process_set: Any = None,
    sparse_as_dense: bool = True,
) -> Any:
    """Does what `LocalSteps` does, to an optimizer that may have been used."""
    _refuse_unsuited(optimizer)
    outer = OuterStep() if outer is None else outer
    if not isinstance(outer, OuterStep):
        raise TypeError(f"outer must be a tfc.OuterStep, got {outer!r}")
    plan = checked_plan(compression)
    settings = {"local steps": steps, "outer step": str(outer), "feedback decay": feedback_decay}
    step = Step(plan, Options(process_set=process_set, sparse_as_dense=sparse_as_dense), settings)
    step.state.unsynchronised_steps = 0  # Anchors are compared, which are broadcast before or in a round.
    rounds = Rounds(step, steps, outer, feedback_decay, sends_rows=not sparse_as_dense)
    attach(
        optimizer,
        _InRounds,
        step,
        plan,
        remade=lambda made: wrap(
            made, steps, compression, outer, feedback_decay, process_set, sparse_as_dense
        ),
        _tfcompress_rounds=rounds,
    )
    optimizer._tfcompress_round = _saved_round(rounds)
    return optimizer


def load_assets(optimizer: Any, variables: Iterable, filepath: Any) -> None:
    """Gives an optimizer that was built the state of its variables, from a file of Keras if that has one."""
    keras_objects.rounds_of(optimizer).prepare(list(variables))
    for data in keras_objects.read_assets(filepath, _FILE):
        keras_objects.rounds_of(optimizer).deserialize(data)


def _saved_round(rounds: Rounds) -> checkpoint.SavedBytes:
    """Returns the round as `tf.train.Checkpoint` sees it."""

    def save() -> bytes:
        _warn_within_a_round(rounds)
        return rounds.serialize()

    return checkpoint.SavedBytes(save, rounds.deserialize)


def _warn_within_a_round(rounds: Rounds) -> None:
    taken = rounds.num_taken()
    if taken:
        warn(
            f"this checkpoint is of one rank's weights after {taken} local steps of a round, which goes "
            "on where all ranks restore it, each its own or all the same. Call tfc.end_round(optimizer) on "
            "every rank before, to save what all ranks have"
        )


def _refuse_unsuited(optimizer: Any) -> None:
    if comm.is_elastic():
        raise ValueError(
            "tfc.LocalSteps does not work in elastic jobs: a rank that joins within a round has none of its "
            "steps, and one that dies takes them along. Use tfc.DistributedOptimizer, with "
            "tfc.elastic.KerasState, or a job of a fixed number of ranks"
        )
    inner = keras_objects.innermost(optimizer)
    name = type(inner).__name__
    if keras_objects.is_legacy(inner):
        raise ValueError(f"{name} is of tf_keras.optimizers.legacy: make one of tf_keras.optimizers.{name}")
    if getattr(inner, "use_ema", False):
        raise ValueError(
            f"{name} has use_ema=True, which would average a rank's own weights within rounds: leave it out"
        )
