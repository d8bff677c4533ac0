"""A gradient tape whose gradients are aggregated over all ranks."""

import dataclasses
import weakref
from collections.abc import Sequence
from types import TracebackType

import tensorflow as tf

from tfcompress.aggregator import GradientAggregator
from tfcompress.compression import Compression
from tfcompress.compressor import Compressor, check_compressor
from tfcompress.statistics import Stats, collect

_STATE = "_tfcompress_tape_state"


class DistributedGradientTape:
    """Wraps a `tf.GradientTape`: `gradient` returns aggregated gradients.

    A tape lives for one step, residuals live longer: they belong to the pair of compressor and source
    variables. A compressor made anew at every step takes over the state of an equal one that is gone.

    Example::

        with tf.GradientTape() as tape:
            loss = loss_fn(model(x))
        tape = tfc.DistributedGradientTape(tape, compression=compression)
        gradients = tape.gradient(loss, model.trainable_variables)
    """

    def __init__(
        self,
        gradtape: tf.GradientTape,
        compression: Compressor = Compression.none,
        op: object = None,
        gradient_predivide_factor: float = 1.0,
    ) -> None:
        """Takes the arguments of Horovod's tape.

        Args:
          gradtape: The tape to wrap.
          compression: What to apply (default: none, Horovod's plain all-reduce).
          op: hvd.Average (default) or hvd.Sum.
          gradient_predivide_factor: As in Horovod; above 0, default 1.

        Raises:
          TypeError: `compression` is not a `tfc.Compressor`.
        """
        check_compressor(compression)
        self._tape = gradtape
        self._compressor = compression
        self._reduction = (op, gradient_predivide_factor)
        self._aggregator: GradientAggregator | None = None

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

    def __getattr__(self, name: str) -> object:
        return getattr(self._tape, name)

    def gradient(self, target: object, sources: object, output_gradients: object = None) -> object:
        """Returns the aggregated gradients of `target` with respect to `sources`.

        Args:
          target: As for `tf.GradientTape.gradient`.
          sources: Variables, tf.Variable or Keras 3's, in any nested structure; the same on all ranks.
          output_gradients: As for `tf.GradientTape.gradient`.

        Returns:
          A structure like `sources`.
        """
        variables = [tf_variable(source) for source in tf.nest.flatten(sources)]
        gradients = self._tape.gradient(target, variables, output_gradients=output_gradients)
        self._aggregator = _aggregator_of(self._compressor, variables, self._reduction)
        reduced = self._aggregator.aggregate(gradients, [variable.name for variable in variables])
        return tf.nest.pack_sequence_as(sources, reduced)

    def _tfcompress_stats(self) -> Stats:
        return self._aggregator.stats() if self._aggregator else collect([])


def tf_variable(variable: object) -> tf.Variable:
    """Returns the tf.Variable inside a Keras 3 variable, or the argument itself."""
    inner = getattr(variable, "value", None)
    return inner if isinstance(inner, tf.Variable) else variable


def _aggregator_of(
    compressor: Compressor, variables: Sequence[tf.Variable], reduction: tuple[object, float]
) -> GradientAggregator:
    """Returns the aggregator of this compressor for these variables; makes it at the first call.

    It is kept on the first variable, so that it goes when the model goes.
    """
    states = variables[0].__dict__.setdefault(_STATE, [])
    key = (compressor.get_config(), [id(variable) for variable in variables], reduction)
    alike = [state for state in states if state["key"] == key]
    mine = [state for state in alike if state["compressor"]() is compressor]
    orphaned = [state for state in alike if state["compressor"]() is None]
    for state in mine or orphaned:
        state["compressor"] = weakref.ref(compressor)
        return state["aggregator"]
    # The aggregator gets an equal compressor of its own: it must not keep the user's alive.
    aggregator = GradientAggregator(dataclasses.replace(compressor), *reduction)
    states.append({"key": key, "compressor": weakref.ref(compressor), "aggregator": aggregator})
    return aggregator
