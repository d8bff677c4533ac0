"""A gradient tape whose gradients are aggregated over all ranks."""

import copy
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType

import tensorflow as tf

from tfcompress.aggregator import GradientAggregator
from tfcompress.compression import Compression
from tfcompress.compressor import Compressor, Policy
from tfcompress.keras_objects import tf_variable
from tfcompress.schedule import Schedule, as_plan
from tfcompress.statistics import Stats, merge

# What variables carry: the aggregators that they belong to, and the step that new ones begin with.
_STATE, _FIRST_STEP = "_tfcompress_tape_state", "_tfcompress_tape_first_step"


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
        compression: Compressor | Mapping[str, Compressor] | Schedule = Compression.none,
        op: object = None,
        gradient_predivide_factor: float = 1.0,
        *,
        process_set: object = None,
        num_groups: int = 0,
        sparse_as_dense: bool = False,
        scale_local_gradients: bool = True,
    ) -> None:
        """Takes the arguments of Horovod's tape.

        Args:
          gradtape: The tape to wrap.
          compression: What to apply (default: none, Horovod's plain all-reduce), or {regular
            expression: compressor} as for `tfc.DistributedOptimizer`.
          op: hvd.Average (default) or hvd.Sum.
          gradient_predivide_factor: As in Horovod; above 0, default 1.
          process_set: The hvd.ProcessSet whose ranks exchange (default: all ranks).
          num_groups: As in Horovod, for gradients that its all-reduce carries.
          sparse_as_dense: Whether IndexedSlices become dense gradients first (default False).
          scale_local_gradients: Whether gradients of `register_local_source` variables are divided by
            the number of ranks when averaging (default True, as Horovod).

        Raises:
          TypeError: `compression` is not a `tfc.Compressor`.
        """
        self._tape = gradtape
        self._policy = as_plan(compression)
        self._options = {
            "op": op,
            "gradient_predivide_factor": gradient_predivide_factor,
            "process_set": process_set,
            "num_groups": num_groups,
            "sparse_as_dense": sparse_as_dense,
            "scale_local_gradients": scale_local_gradients,
        }
        self._local: list[tf.Variable] = []
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

    def register_local_source(self, source: object) -> None:
        """Leaves the gradient of a source to this rank: it is not exchanged. As in Horovod."""
        self._local.append(tf_variable(source))

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
        self._aggregator = _aggregator_of(self._policy, variables, self._options)
        for variable in self._local:
            self._aggregator.register_local(id(variable))
        reduced = self._aggregator.aggregate(
            gradients, [variable.name for variable in variables], [id(variable) for variable in variables]
        )
        return tf.nest.pack_sequence_as(sources, reduced)

    def _tfcompress_stats(self) -> Stats:
        return self._aggregator.stats() if self._aggregator else merge([])


def aggregators_of(variables: Sequence[object]) -> list[GradientAggregator]:
    """Returns the aggregators of all tapes that gave gradients of any of these variables, each once."""
    states = [state for v in variables for state in tf_variable(v).__dict__.get(_STATE, [])]
    return list({id(state["aggregator"]): state["aggregator"] for state in states}.values())


def begin_at(variables: Sequence[object], step: int) -> None:
    """Makes aggregators of these variables that do not exist yet count from a step that others are at."""
    for variable in variables:
        tf_variable(variable).__dict__[_FIRST_STEP] = step


def _aggregator_of(
    policy: Policy | Schedule, variables: Sequence[tf.Variable], options: dict
) -> GradientAggregator:
    """Returns the aggregator of this policy for these variables; makes it at the first call.

    It is kept on the variables, so that it goes when the model goes, and found again from any of them:
    not all need to have a gradient at every step.
    """
    key = (policy.get_config(), options)
    states = [state for variable in variables for state in variable.__dict__.get(_STATE, [])]
    alike = [state for state in states if state["key"] == key]
    mine = [state for state in alike if state["policy"]() is policy]
    orphaned = [state for state in alike if state["policy"]() is None]
    state = next(iter(mine or orphaned), None)
    if state is None:
        # The aggregator gets an equal policy of its own: it must not keep the user's alive.
        state = {"key": key, "aggregator": GradientAggregator(copy.copy(policy), **options)}
        if first_step := max(v.__dict__.get(_FIRST_STEP, 0) for v in variables):
            with tf.init_scope():
                state["aggregator"].restore(first_step, {})
    state["policy"] = weakref.ref(policy)
    for variable in variables:
        kept = variable.__dict__.setdefault(_STATE, [])
        if not any(state is other for other in kept):
            kept.append(state)
    return state["aggregator"]
