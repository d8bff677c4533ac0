"""An optimizer that aggregates compressed gradients, for Keras 3 and for tf_keras."""

from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf

from tfcompress import checkpoint, keras_objects, loss_scale
from tfcompress.accumulation import LocalAccumulator
from tfcompress.aggregator import GradientAggregator
from tfcompress.compression import Compression
from tfcompress.compressor import Compressor, Policy
from tfcompress.schedule import Schedule, as_plan, stages_of
from tfcompress.statistics import Stats
from tfcompress.tensors import Gradient


class _Distributed:
    """What stands in front of any Keras optimizer."""

    def register_local_var(self, variable: object) -> None:
        """Leaves the gradients of a variable to this rank: they are not exchanged. As in Horovod.

        Args:
          variable: A trainable variable, such as a shard of an embedding table.
        """
        self._tfcompress_aggregator.register_local(id(variable))

    def save_own_variables(self, store: Mapping) -> None:
        super().save_own_variables(store)
        checkpoint.put_memory(self._tfcompress_aggregator, store)

    def load_own_variables(self, store: Mapping) -> None:
        super().load_own_variables(checkpoint.take_memory(self._tfcompress_aggregator, store))

    def _tfcompress_stats(self) -> Stats:
        return self._tfcompress_aggregator.stats()

    def _tfcompress_reduce(self, gradients: list[Gradient], variables: list[object]) -> list[Gradient]:
        names = [getattr(variable, "path", variable.name) for variable in variables]
        return self._tfcompress_aggregator.aggregate(gradients, names, [id(v) for v in variables])


class _Keras3(_Distributed):
    """For Keras 3: `fit` and custom loops all arrive at `apply`."""

    def apply(self, grads: Iterable, trainable_variables: Iterable | None = None) -> None:
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        given = None if trainable_variables is None else variables
        if not self.built and variables:
            self.build(variables)  # Not in the branch of a tf.cond, where accumulation applies.

        def apply_sums(gradients: list[Gradient]) -> None:
            base.apply(self._tfcompress_reduce(gradients, variables), given)

        base = super()
        self._tfcompress_accumulator.run(list(grads), [id(v) for v in variables], apply_sums)


class _Keras2(_Distributed):
    """For Keras 2 and tf_keras: all paths arrive at `apply_gradients`."""

    def apply_gradients(self, grads_and_vars: Iterable, *args: object, **kwargs: object) -> object:
        grads, variables = zip(*grads_and_vars, strict=True)
        variables = list(variables)
        with tf.init_scope():
            self.build(variables)  # Not in the branch of a tf.cond, where accumulation applies.

        def apply_sums(gradients: list[Gradient]) -> None:
            reduced = self._tfcompress_reduce(gradients, variables)
            base.apply_gradients(list(zip(reduced, variables, strict=True)), *args, **kwargs)

        base = super()
        self._tfcompress_accumulator.run(list(grads), [id(v) for v in variables], apply_sums)
        return self.iterations


def DistributedOptimizer(  # noqa: N802 - the name that Horovod's users know.
    optimizer: object,
    compression: Compressor | Mapping[str, Compressor] | Schedule = Compression.none,
    op: object = None,
    gradient_predivide_factor: float = 1.0,
    *,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: object = None,
    num_groups: int = 0,
    sparse_as_dense: bool = False,
    scale_local_gradients: bool = True,
) -> object:
    """Wraps a Keras optimizer so that every step averages compressed gradients over all ranks.

    Works with Keras 3, where Horovod's own wrapper trains without synchronising, and with tf_keras. The
    result is an optimizer of the same class and configuration: models that are saved with it load
    without this package (which then leaves the optimizer's state aside, with a warning).

    Args:
      optimizer: A Keras optimizer that has not been used yet; a LossScaleOptimizer too.
      compression: What to apply to the gradients (default: none, Horovod's plain all-reduce), or
        {regular expression: compressor}, where the first one that is found in a variable's name
        decides and variables that match none are not compressed; or a `Schedule` of these.
      op: hvd.Average (default) or hvd.Sum.
      gradient_predivide_factor: As in Horovod; above 0, default 1.
      backward_passes_per_step: Gradients of so many steps are added up on each rank before they are
        exchanged and applied (default 1).
      average_aggregated_gradients: Whether that sum is divided by their number (default False, as
        Horovod).
      process_set: The hvd.ProcessSet whose ranks exchange (default: all ranks).
      num_groups: As in Horovod, for gradients that its all-reduce carries; compressed ones always
        travel together.
      sparse_as_dense: Whether IndexedSlices become dense gradients first (default False).
      scale_local_gradients: Whether gradients of `register_local_var` variables are divided by the
        number of ranks when averaging (default True, as Horovod).

    Returns:
      The wrapped optimizer. One packed all-gather moves all compressed gradients of a step. On one rank
      it trains like `optimizer`, with the memory's momentum if it has one, and sends nothing.

    Raises:
      TypeError: Not a Keras optimizer, or `compression` is not a `tfc.Compressor`.
      ValueError: The optimizer has been used: its state would be lost. Or both it and `compression`
        have a momentum.
    """
    if not hasattr(optimizer, "get_config") or not hasattr(optimizer, "apply_gradients"):
        raise TypeError(f"expected a Keras optimizer, got {type(optimizer).__name__}")
    if keras_objects.is_built(optimizer):
        raise ValueError(
            "the optimizer has been used already, and wrapping makes a new one without its state: wrap "
            "it before the model is compiled or the first step is taken, or load it with tfc.load_model"
        )
    plan = as_plan(compression)
    _refuse_second_momentum(optimizer, plan)

    def make_parts() -> tuple[GradientAggregator, LocalAccumulator]:
        aggregator = GradientAggregator(
            plan,
            op,
            gradient_predivide_factor,
            process_set=process_set,
            num_groups=num_groups,
            sparse_as_dense=sparse_as_dense,
            scale_local_gradients=scale_local_gradients,
        )
        return aggregator, LocalAccumulator(backward_passes_per_step, average_aggregated_gradients)

    return _subclass(type(optimizer), make_parts).from_config(optimizer.get_config())


def _refuse_second_momentum(optimizer: object, plan: Policy | Schedule) -> None:
    """Momentum on top of a memory with momentum would count every gradient twice over."""
    _, policies = stages_of(plan)
    compressors = [each for policy in policies for each in policy.compressors()]
    if not any(each.memory.startswith("momentum") for each in compressors):
        return
    inner = keras_objects.innermost(optimizer)
    for attribute in ("momentum", "beta_1"):
        rate = getattr(inner, attribute, None)
        if rate:
            raise ValueError(
                f"both the compression and the optimizer have a momentum: make the optimizer with "
                f"{attribute}=0.0 (it is {rate!r}), or choose a memory without momentum, such as 'residual'"
            )


def set_compression(optimizer: object, compression: Compressor | Mapping[str, Compressor] | Schedule) -> None:
    """Applies another compression from the next step on, without tracing again; residuals go on.

    Every rank must call it between the same two steps.

    Args:
      optimizer: What `DistributedOptimizer` returned, or a LossScaleOptimizer around it.
      compression: As for `DistributedOptimizer`, with the same memory. A schedule counts from the first
        step of training, not from now.

    Raises:
      ValueError: Ranks want different things, or the memory or the transport of a gradient would change.
      TypeError: An argument is of another kind.
    """
    checkpoint.aggregator_of(optimizer).change(as_plan(compression))


def load_model(
    filepath: object,
    compression: Compressor | Mapping[str, Compressor] | Schedule = Compression.none,
    *,
    custom_objects: Mapping[str, object] | None = None,
    optimizer_options: Mapping[str, object] | None = None,
) -> object:
    """Loads a Keras model together with its optimizer's state, the optimizer wrapped again.

    Args:
      filepath: What `model.save` wrote.
      compression: As for `DistributedOptimizer`; the residuals that were saved come back with it.
      custom_objects: As for `keras.models.load_model`.
      optimizer_options: Further arguments of `DistributedOptimizer`.

    Returns:
      The model, compiled with the wrapped optimizer.
    """
    options = dict(optimizer_options or {})
    objects = dict(custom_objects or {})
    for name, base in _keras_optimizers().items():
        objects.setdefault(name, _Loader.of(base, compression, options))
    model = tf.keras.models.load_model(filepath, custom_objects=objects)
    if not checkpoint.is_distributed(model.optimizer):  # Keras found the class itself, the plain one.
        plain = model.optimizer
        model.optimizer = DistributedOptimizer(
            type(plain).from_config(plain.get_config()), compression, **options
        )
        if keras_objects.is_built(plain):
            model.optimizer.build(model.trainable_variables)
            _copy_variables(plain, model.optimizer)
    return model


def _copy_variables(source: object, target: object) -> None:
    for value, variable in zip(keras_objects.variables(source), keras_objects.variables(target), strict=True):
        variable.assign(value)


class _Loader:
    """Stands for an optimizer class while a model is loaded: makes a wrapped one of its configuration."""

    @classmethod
    def of(cls, base: type, compression: object, options: dict) -> type:
        def from_config(config: dict, custom_objects: object = None) -> object:
            return DistributedOptimizer(base.from_config(config), compression, **options)

        return type(base.__name__, (cls,), {"from_config": staticmethod(from_config)})


def _keras_optimizers() -> dict[str, type]:
    """The optimizer classes of Keras by name."""
    base = tf.keras.optimizers.Optimizer
    found = {
        name: value
        for name, value in vars(tf.keras.optimizers).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }
    # Its inner optimizer is deserialised by itself, and would be wrapped a second time.
    found.pop("LossScaleOptimizer", None)
    return found


def _subclass(base: type, make_parts: Callable[[], tuple[GradientAggregator, LocalAccumulator]]) -> type:
    """Returns a subclass of `base` whose instances aggregate their gradients, each with its own state."""
    loss_scale.let_all_ranks_decide()

    class Distributed(_Keras3 if hasattr(base, "apply") else _Keras2, base):
        @classmethod
        def from_config(cls, config: dict, *args: object, **kwargs: object) -> object:
            wrapped = super().from_config(config, *args, **kwargs)
            aggregator, accumulator = make_parts()
            # Not through __setattr__: Keras would track the aggregator's state as its own variables.
            object.__setattr__(wrapped, "_tfcompress_aggregator", aggregator)
            object.__setattr__(wrapped, "_tfcompress_accumulator", accumulator)
            wrapped._tfcompress_memory = checkpoint.MemoryState(aggregator)  # Seen by tf.train.Checkpoint.
            return wrapped

    # The user's own class to everyone who asks, Keras's serialisation first of all.
    Distributed.__name__, Distributed.__qualname__ = base.__name__, base.__qualname__
    Distributed.__module__, Distributed.__doc__ = base.__module__, base.__doc__
    return Distributed
