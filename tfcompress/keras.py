"""The way in through a Keras optimizer: Keras 3, tf_keras and Keras 2."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfcompress import broadcast, checkpoint, comm, keras_objects, local_steps, momentum
from tfcompress.accumulation import LocalAccumulator
from tfcompress.auto import Auto
from tfcompress.notices import warn
from tfcompress.options import Options
from tfcompress.plan import Given, as_plan, compressors_of
from tfcompress.policy import Compressor
from tfcompress.presets import Compression
from tfcompress.schedule import Schedule
from tfcompress.state import Gradient, parameter_of, tf_variable
from tfcompress.statistics import note_use
from tfcompress.step import Step
from tfcompress.wrapping import Wrapped, attach, refuse_unfit


class _Distributed(Wrapped):
    """Reduces gradients over all ranks before the optimizer applies them."""

    _tfcompress_accumulator: LocalAccumulator

    def register_local_var(self, variable: object) -> None:
        """Leaves the gradients of a variable to this rank: they are not exchanged. As in Horovod.

        Args:
          variable: A trainable variable, such as a shard of an embedding table.
        """
        self._tfcompress_step.register_local(parameter_of(variable).key)

    def _tfcompress_run(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[object],
        apply: Callable[[Sequence[Gradient]], object],
    ) -> None:
        """Accumulates and reduces gradients, and applies them where it is time to."""
        parameters = [parameter_of(variable) for variable in variables]
        step = self._tfcompress_step
        self._tfcompress_accumulator.run(
            [step.densify(g, p, step.state.plan) for g, p in zip(gradients, parameters, strict=True)],
            parameters,
            lambda sums: apply(step.reduce(sums, parameters)),
            lambda: self.iterations.assign_add(1),  # As Horovod counts.
        )


def DistributedOptimizer(  # noqa: N802 - the name that Horovod's users know.
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor | Mapping[str, Compressor] | Schedule | Auto = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: Any = None,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: int | Sequence | None = None,
    process_set: Any = None,
    scale_local_gradients: bool = True,
    hierarchical: bool = False,
) -> Any:
    """Makes a Keras optimizer average compressed gradients over all ranks at every step.

    Works with Keras 3, where Horovod's own wrapper trains without synchronising, with tf_keras, and with
    legacy optimizers of Keras 2. Takes the arguments of Horovod's wrapper, in its order.

    Args:
      optimizer: A Keras optimizer that has not been used yet; a LossScaleOptimizer too.
      name: Accepted for Horovod's programs; names of collectives are agreed between ranks.
      device_dense: Accepted for Horovod's programs; exchanges are placed where their kernels are.
      device_sparse: As `device_dense`.
      compression: What to apply to the gradients (default: none, Horovod's plain all-reduce), or
        {regular expression: compressor}, where the first one that is found in a variable's name
        decides and variables that match none are not compressed; or a `Schedule` of these.
        `hvd.Compression.none` and `hvd.Compression.fp16` are accepted, too.
      sparse_as_dense: Whether IndexedSlices become dense gradients first (default False).
      gradient_predivide_factor: As in Horovod; above 0, default 1.
      op: hvd.Average (default) or hvd.Sum.
      backward_passes_per_step: Gradients of so many steps are added up on each rank before they are
        exchanged and applied (default 1). `iterations` counts all of them, as in Horovod.
      average_aggregated_gradients: Whether that sum is divided by their number (default False, as
        Horovod).
      num_groups: As in Horovod, for gradients that its all-reduce carries. Those that travel in packets are
        sent in so many, the last gradients first, while the backward pass goes on; 0, the default, sends one
        packet when it has ended.
      groups: As in Horovod: a number of groups, or a list of lists of variables, of which the number counts.
      process_set: The hvd.ProcessSet whose ranks exchange (default: all ranks).
      scale_local_gradients: Whether gradients of `register_local_var` variables are divided by the
        number of ranks when averaging (default True, as Horovod).
      hierarchical: Whether the ranks of a host sum dense gradients among each other first, uncompressed, and
        hosts exchange the sums compressed (default False). For hosts of several ranks on links that are slow
        for their number. All hosts need equally many ranks, and Horovod process sets: begin with
        hvd.init(process_sets=tfc.host_process_sets(ranks_per_host)). Not with `process_set`,
        `Compression.auto()`, linear codecs or elastic jobs. On one host, or with one rank on each, nothing
        changes. docs/design.md says when it pays.

    Returns:
      The same object: an optimizer of the class and configuration that it had, its schedules and attributes
      kept. Models that are saved with it load without this package. One packed all-gather moves all
      compressed gradients of a step. On one rank it trains as before, with the memory's momentum if the
      compression has one, and sends nothing. A memory with momentum has that of SGD, Adam, AdamW or RMSprop
      (Deep Gradient Compression 3.1), which then update its variables without; docs/behaviour.md has the
      arithmetic of each.

    Raises:
      TypeError: Not a Keras optimizer, or `compression` is not a `tfc.Compressor`.
      ValueError: The optimizer has been used, or is distributed already. Or it has a momentum that the
        memory of `compression` cannot take, or has beside one that was given.
    """
    refuse_unfit(optimizer)
    return _wrap(
        optimizer,
        compression,
        backward_passes_per_step,
        average_aggregated_gradients,
        name=name,
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


def _wrap(
    optimizer: Any,
    compression: object,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    **options: Any,
) -> Any:
    """Wraps an optimizer that may have been used; `options` are those of `Options.of_horovod`."""
    plan = as_plan(compression)
    _warn_unsuited(optimizer, plan)
    accumulation = {
        "backward_passes_per_step": backward_passes_per_step,
        "average_aggregated_gradients": average_aggregated_gradients,
    }
    return _distribute(optimizer, plan, Options.of_horovod(**options), accumulation)


def _distribute(optimizer: Any, plan: Given, options: Options, accumulation: Mapping) -> Any:
    """Gives an optimizer a class that reduces gradients before it applies them."""
    step = Step(momentum.taken(optimizer, plan), options, accumulation)
    attach(
        optimizer,
        _Distributed,
        step,
        plan,
        remade=lambda made: _distribute(made, plan, options, accumulation),
        _tfcompress_accumulator=LocalAccumulator(*accumulation.values()),
    )
    momentum.leave_to(step.state.memories, optimizer)
    return optimizer


def _warn_unsuited(optimizer: Any, plan: Given) -> None:
    """Warns of what does not train."""
    inner = keras_objects.innermost(optimizer)
    if type(inner).__name__ == "Adafactor" and any(each.is_sparse for each in compressors_of(plan)):
        warn(
            "Adafactor does not train with sparse gradients: its factored second moment takes each row and "
            "column for as large as its one element that was sent. Use a compression that sends every "
            "element, such as tfc.Compression.qsgd() or fp16, or another optimizer"
        )


def set_compression(optimizer: Any, compression: Compressor | Mapping[str, Compressor] | Schedule) -> None:
    """Applies another compression from the next step on, without tracing again; residuals go on.

    Every rank must call it between the same two steps.

    Args:
      optimizer: What `DistributedOptimizer` or `LocalSteps` returned, or a LossScaleOptimizer around it.
      compression: As it was for that, with the same memory. A schedule counts from the first
        step of training, not from now.

    Raises:
      ValueError: Ranks want different things; the memory of a gradient would change; or it would travel in a
        way that no stage of the compression before has, such as all-reduced instead of gathered.
      TypeError: An argument is of another kind.
    """
    state = checkpoint.state_of(optimizer)
    if keras_objects.rounds_of(optimizer) is not None:
        plan = given = local_steps.checked_plan(compression)
    else:
        given = as_plan(compression)
        plan = momentum.taken(optimizer, given)
        _warn_unsuited(optimizer, plan)
    state.change(plan)
    note_use(compressors_of(given), state)


@tf.autograph.experimental.do_not_convert  # As `Step.reduce`.
def broadcast_variables(variables: Iterable, root_rank: int = 0) -> None:
    """Overwrites variables on all ranks with those of one rank. Every rank must call it.

    Args:
      variables: tf.Variables or Keras 3's, of any numeric dtype, such as `model.variables` and
        `optimizer.variables`; the same list on all ranks.
      root_rank: The rank whose values all others get (default 0).

    Raises:
      TypeError: A variable has a dtype that cannot travel, such as string; nothing was broadcast.
    """
    if comm.ALL_RANKS.size() > 1:
        broadcast.broadcast_variables([tf_variable(variable) for variable in variables], root_rank)


def load_model(
    filepath: Any,
    compression: Compressor | Mapping[str, Compressor] | Schedule | Auto = Compression.none,
    *,
    custom_objects: Mapping[str, Any] | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
) -> Any:
    """Loads a Keras model together with its optimizer's state, the optimizer wrapped again.

    Args:
      filepath: What `model.save` wrote, a path, or an open h5py.File where `keras.models.load_model` takes
        one; residuals are in files of the format `.keras`.
      compression: As for `DistributedOptimizer`; the residuals that were saved come back with it.
      custom_objects: As for `keras.models.load_model`.
      optimizer_options: Further arguments of `DistributedOptimizer`; or of `LocalSteps`, where `steps` is
        among them.

    Returns:
      The model, compiled with the wrapped optimizer.

    Raises:
      ValueError: The saved model was not compiled.
    """
    keras = keras_objects.keras_of_file(filepath)
    model = keras.models.load_model(filepath, custom_objects=custom_objects)
    if model.optimizer is None:
        raise ValueError("the saved model is not compiled: load it with Keras and compile it")
    options = dict(optimizer_options or {})
    found = keras_objects.innermost(model.optimizer)
    if "steps" in options:
        inner = local_steps.wrap(found, compression=compression, **options)
        local_steps.load_assets(inner, model.trainable_variables, filepath)
    else:
        inner = _wrap(found, compression, **options)
    checkpoint.load_assets(checkpoint.state_of(inner), filepath)
    return model
