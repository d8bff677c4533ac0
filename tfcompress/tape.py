"""The way in through a gradient tape, for custom loops."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import tensorflow as tf

from tfcompress.auto import Auto
from tfcompress.options import Options
from tfcompress.plan import Given, as_plan
from tfcompress.policy import Compressor
from tfcompress.presets import Compression
from tfcompress.schedule import Schedule
from tfcompress.state import parameter_of, tf_variable
from tfcompress.step import Step
from tfcompress.step_state import StepState

# What variables carry, by options: the steps that they take part in, and the counts that new ones begin with.
_STEPS, _FIRST_STEP = "_tfcompress_tape_steps", "_tfcompress_tape_first_step"


class DistributedGradientTape:
    """Wraps a `tf.GradientTape`: `gradient` returns reduced gradients.

    A tape lives for one step, residuals live longer: they belong to the source variables. A tape that is made
    with another compression, or an equal one made anew, goes on with the residuals that are there.

    For example:

        with tf.GradientTape() as tape:
            loss = loss_fn(model(x))
        tape = tfc.DistributedGradientTape(tape, compression=compression)
        gradients = tape.gradient(loss, model.trainable_variables)
    """

    def __init__(
        self,
        gradtape: tf.GradientTape,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Compressor | Mapping[str, Compressor] | Schedule | Auto = Compression.none,
        sparse_as_dense: bool = False,
        op: Any = None,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        groups: int | Sequence | None = None,
        process_set: Any = None,
        scale_local_gradients: bool = True,
        hierarchical: bool = False,
    ) -> None:
        """Takes the arguments of Horovod's tape, in its order.

        Args:
          gradtape: The tape to wrap.
          device_dense: Accepted for Horovod's programs; exchanges are placed where their kernels are.
          device_sparse: As `device_dense`.
          compression: What to apply (default: none, Horovod's plain all-reduce), or {regular
            expression: compressor}, or a `Schedule`, as for `tfc.DistributedOptimizer`.
          sparse_as_dense: Whether IndexedSlices become dense gradients first (default False).
          op: hvd.Average (default) or hvd.Sum.
          gradient_predivide_factor: As in Horovod; above 0, default 1.
          num_groups: As in Horovod, and the number of packets, as for `tfc.DistributedOptimizer`.
          groups: As in Horovod: a number of groups, or a list of lists of variables, of which the number
            counts.
          process_set: The hvd.ProcessSet whose ranks exchange (default: all ranks).
          scale_local_gradients: Whether gradients of `register_local_source` variables are divided by
            the number of ranks when averaging (default True, as Horovod).
          hierarchical: Whether the ranks of a host sum among each other first, as for
            `tfc.DistributedOptimizer` (default False).

        Raises:
          TypeError: `compression` is not a `tfc.Compressor`.
          ValueError: Arguments do not go together.
        """
        self._tape = gradtape
        self._plan = as_plan(compression)
        self._options = Options.of_horovod(
            device_dense=device_dense,
            device_sparse=device_sparse,
            groups=groups,
            op=op,
            gradient_predivide_factor=gradient_predivide_factor,
            process_set=process_set,
            num_groups=num_groups,
            sparse_as_dense=sparse_as_dense,
            scale_local_gradients=scale_local_gradients,
            hierarchical=hierarchical,
        )
        self._local: list[tf.Variable] = []
        self._tfcompress_step: Step | None = None

    def __enter__(self) -> "DistributedGradientTape":
        self._tape.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tape.__exit__(kind, error, trace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def register_local_source(self, source: object) -> None:
        """Leaves the gradient of a source to this rank: it is not exchanged. As in Horovod."""
        self._local.append(source)

    @tf.autograph.experimental.do_not_convert  # As `Step.reduce`.
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: tf.UnconnectedGradients = tf.UnconnectedGradients.NONE,
    ) -> Any:
        """Returns the reduced gradients of `target` with respect to `sources`.

        Args:
          target: As for `tf.GradientTape.gradient`.
          sources: Variables, tf.Variable or Keras 3's, or watched tensors, in any nested structure; the same
            on all ranks.
          output_gradients: As for `tf.GradientTape.gradient`.
          unconnected_gradients: As for `tf.GradientTape.gradient`; zeros are exchanged like other gradients.

        Returns:
          A structure like `sources`.

        Raises:
          ValueError: A gradient has a memory, and none of the sources is a variable that could keep it.
        """
        given = tf.nest.flatten(sources)
        inner = [tf_variable(source) for source in given]
        gradients = self._tape.gradient(target, inner, output_gradients, unconnected_gradients)
        self._tfcompress_step = _step_of(inner, self._plan, self._options)
        parameters = [parameter_of(source, position) for position, source in enumerate(given)]
        are_local = self._are_local(given)
        local = [parameter.key for parameter, own in zip(parameters, are_local, strict=True) if own]
        reduced = self._tfcompress_step.reduce(gradients, parameters, self._plan, local)
        if self._tfcompress_step.state.memories and not any(
            isinstance(source, tf.Variable) for source in inner
        ):
            raise ValueError(
                "this compression keeps a memory with the variables that gradients are of, and none of these "
                "sources is a variable: use a spec without memory, such as Compression.bf16"
            )
        return tf.nest.pack_sequence_as(sources, reduced)

    def get_local_and_global_gradients(
        self, target: Any, sources: Sequence, output_gradients: Any = None
    ) -> tuple[list[tuple], list[tuple]]:
        """Returns (source, gradient) pairs of local sources and of all others, as Horovod's tape does."""
        pairs = list(zip(sources, self.gradient(target, sources, output_gradients), strict=True))
        are_local = self._are_local(sources)
        return (
            [pair for pair, local in zip(pairs, are_local, strict=True) if local],
            [pair for pair, local in zip(pairs, are_local, strict=True) if not local],
        )

    def _are_local(self, sources: Sequence) -> list[bool]:
        local_ids = {id(tf_variable(source)) for source in self._local}
        return [id(tf_variable(source)) in local_ids for source in sources]

    def jacobian(self, *args: object, **kwargs: object) -> None:
        """Refuses: it would be this rank's own, from a tape whose gradients are those of all ranks."""
        raise NotImplementedError("jacobian is not reduced over ranks: take it from the wrapped tape")

    def batch_jacobian(self, *args: object, **kwargs: object) -> None:
        """Refuses, as `jacobian`."""
        raise NotImplementedError("batch_jacobian is not reduced over ranks: take it from the wrapped tape")


def states_of(variables: Sequence[object]) -> list[StepState]:
    """Returns what all tapes that gave gradients of any of these variables keep, each once."""
    found = [step.state for variable in variables for step in _kept(variable, _STEPS, {}).values()]
    return list(dict.fromkeys(found))


def counts_of(variables: Sequence[object]) -> list[tuple[int, str, int]]:
    """Returns how many steps the tapes of variables have done: position of the variable, options, count."""
    return [
        (position, _text(options), step.state.steps())
        for position, variable in enumerate(variables)
        for options, step in _kept(variable, _STEPS, {}).items()
    ]


def begin_at(variables: Sequence[object], counts: Sequence[tuple[int, str, int]]) -> None:
    """Makes steps of these variables that do not exist yet count from where another rank's are."""
    for position, options, count in counts:
        tf_variable(variables[position]).__dict__.setdefault(_FIRST_STEP, {})[options] = count


def _text(options: Options) -> str:
    return str(options.describe())


def _kept(variable: object, name: str, default: Any) -> Any:
    return getattr(tf_variable(variable), "__dict__", {}).get(name, default)


def _step_of(sources: Sequence[tf.Variable | tf.Tensor], plan: Given, options: Options) -> Step:
    """Returns the step of these sources with these options; makes it at the first call.

    It is kept on the variables, so that it goes when the model goes, and found again from any of them:
    not all need to have a gradient at every step.
    """
    variables = [source for source in sources if isinstance(source, tf.Variable)]
    found = [_kept(variable, _STEPS, {}).get(options) for variable in variables]
    steps = list(dict.fromkeys(step for step in found if step is not None))
    step = steps[0] if steps else Step(plan, options)
    first = [_kept(variable, _FIRST_STEP, {}).get(_text(options), 0) for variable in variables]
    if not steps and any(first):
        step.state.restore(max(first), {})
    for other in steps[1:]:  # Sources that had tapes of their own before.
        step.state.memories.adopt(other.state.memories, [parameter_of(variable) for variable in variables])
    for variable in variables:
        variable.__dict__.setdefault(_STEPS, {})[options] = step
    return step
