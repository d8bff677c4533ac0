"""An optimizer that aggregates compressed gradients, for Keras 3 and for tf_keras."""

from collections.abc import Iterable

from tfcompress.aggregator import GradientAggregator
from tfcompress.compression import Compression
from tfcompress.compressor import Compressor, check_compressor
from tfcompress.statistics import Stats


class _Keras3:
    """Goes in front of a Keras 3 optimizer: `fit` and custom loops all arrive at `apply`."""

    def apply(self, grads: Iterable, trainable_variables: Iterable | None = None) -> None:
        grads = list(grads)
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        variables = self._trainable_variables if trainable_variables is None else trainable_variables
        names = [getattr(variable, "path", variable.name) for variable in variables]
        super().apply(self._tfcompress_aggregator.aggregate(grads, names), trainable_variables)


class _Keras2:
    """Goes in front of a Keras 2 or tf_keras optimizer: all paths arrive at `apply_gradients`."""

    def apply_gradients(self, grads_and_vars: Iterable, *args: object, **kwargs: object) -> object:
        grads, variables = zip(*grads_and_vars, strict=True)
        names = [variable.name for variable in variables]
        reduced = self._tfcompress_aggregator.aggregate(grads, names)
        return super().apply_gradients(list(zip(reduced, variables, strict=True)), *args, **kwargs)


def DistributedOptimizer(  # noqa: N802 - the name that Horovod's users know.
    optimizer: object,
    compression: Compressor = Compression.none,
    op: object = None,
    gradient_predivide_factor: float = 1.0,
) -> object:
    """Wraps a Keras optimizer so that every step averages compressed gradients over all ranks.

    Works with Keras 3, where Horovod's own wrapper trains without synchronising, and with tf_keras. The
    result is an optimizer of the same class and configuration: models that are saved with it load
    without this package.

    Args:
      optimizer: A Keras optimizer that has not been used yet.
      compression: What to apply to the gradients (default: none, Horovod's plain all-reduce).
      op: hvd.Average (default) or hvd.Sum.
      gradient_predivide_factor: As in Horovod; above 0, default 1.

    Returns:
      The wrapped optimizer. One packed all-gather moves all compressed gradients of a step. On one rank
      it trains like `optimizer` and sends nothing.

    Raises:
      TypeError: Not a Keras optimizer, or `compression` is not a `tfc.Compressor`.
      ValueError: The optimizer has been used: its state would be lost.
    """
    if not hasattr(optimizer, "get_config") or not hasattr(optimizer, "apply_gradients"):
        raise TypeError(f"expected a Keras optimizer, got {type(optimizer).__name__}")
    check_compressor(compression)
    if getattr(optimizer, "built", False) or getattr(optimizer, "_built", False):
        raise ValueError(
            "the optimizer has been used already, and wrapping makes a new one without its state: wrap "
            "it before the model is compiled or the first step is taken"
        )
    base = type(optimizer)
    mixin = _Keras3 if hasattr(base, "apply") else _Keras2

    class Distributed(mixin, base):
        def _tfcompress_stats(self) -> Stats:
            return self._tfcompress_aggregator.stats()

    # The user's own class to everyone who asks, Keras's serialisation first of all.
    Distributed.__name__, Distributed.__qualname__ = base.__name__, base.__qualname__
    Distributed.__module__, Distributed.__doc__ = base.__module__, base.__doc__
    wrapped = Distributed.from_config(optimizer.get_config())
    aggregator = GradientAggregator(compression, op, gradient_predivide_factor)
    # Not through __setattr__: Keras would track the aggregator's state as its own variables.
    object.__setattr__(wrapped, "_tfcompress_aggregator", aggregator)
    return wrapped
