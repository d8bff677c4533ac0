"""The optimizer's momentum, in the compression's memory for the variables whose memory has one.

The memory keeps velocities back, u = rate * u + gradient, where the optimizer would have made them of what
arrives. So the optimizer updates a variable whose memory has a momentum as if it had none itself, and all
other variables as ever: rows of tables, what another compressor sends. Its attributes, configuration, slots
and files stay the user's.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfcompress import comm, keras_objects
from tfcompress.auto import Auto
from tfcompress.notices import tell
from tfcompress.paper_presets import momentum_spec
from tfcompress.plan import Given, compressors_of, mapped
from tfcompress.policy import Compressor
from tfcompress.state import Memories, parameter_of, tf_variable

_RATES = ("momentum", "beta_1")


@dataclasses.dataclass(frozen=True)
class _Kind:
    """What an optimizer does with its momentum.

    Attributes:
      rate: The name of its decay.
      sums_steps: Whether it sums steps that have been normalised, as RMSprop, where Adam normalises the mean
        of gradients: it is as long as so many steps then.
    """

    rate: str
    sums_steps: bool = False


# By the name of the class; those derived from them, too. AdamW of tf_keras is not derived from Adam.
_KINDS = {
    "SGD": _Kind("momentum"),
    "Adam": _Kind("beta_1"),
    "AdamW": _Kind("beta_1"),
    "RMSprop": _Kind("momentum", sums_steps=True),
}
# Why others cannot, where that is known.
_REASONS = {
    "Nadam": "its decay is another one at every step",
    "Adamax": "the largest sum that ever arrives would be its step's divisor for long",
    "Lamb": "it divides a layer's step by the step's norm, and most of its elements wait",
    "Lion": "it takes signs, of which a sum that has waited counts no more than a gradient",
    "Muon": "it makes the momentum of a matrix orthogonal, of which most elements wait",
    "ScheduleFreeAdamW": "its beta_1 averages weights, not gradients",
}
# What an optimizer does to gradients before its momentum, and what does it before the memory.
_EARLIER = {
    **dict.fromkeys(
        ("clipnorm", "clipvalue", "global_clipnorm"),
        "give the compression clip_norm=..., which clips gradients (Deep Gradient Compression 3.2)",
    ),
    "gradient_accumulation_steps": "pass backward_passes_per_step=... to tfc.DistributedOptimizer",
}


def taken(optimizer: Any, plan: Given) -> Given:
    """Returns a plan whose memories have the momentum of an optimizer, and says so.

    Args:
      optimizer: A Keras optimizer, or a LossScaleOptimizer around it.
      plan: What to apply.

    Returns:
      The plan itself where no memory has or takes a momentum, or the optimizer has none: the memory's own
      counts then. Of `Compression.auto()` what sends every element, where the momentum cannot be in a memory.

    Raises:
      ValueError: The momentum cannot be in a memory, because of what the optimizer does with it or to
        gradients before it; or a memory's momentum was given, and would be the second one.
    """
    inner = keras_objects.innermost(optimizer)
    rates = {name: rate for name in _RATES if (rate := getattr(inner, name, None))}
    kind = _kind_of(inner)

    def takes(compressor: Compressor) -> bool:
        is_left = compressor.leaves_sgd_momentum and kind is _KINDS["SGD"]
        return compressor.takes_momentum and not is_left

    concerned = [each for each in compressors_of(plan) if takes(each) or each.has_momentum]
    if not (rates and concerned):
        if kind is not None and rates:
            _tell_what_it_costs(plan, type(inner).__name__)
        return plan
    described = f"{type(inner).__name__} has " + ", ".join(f"{name}={rate}" for name, rate in rates.items())
    try:
        _refuse_unmovable(inner, rates, described)
    except ValueError as error:
        if not isinstance(plan, Auto):
            raise
        if comm.leads():
            tell(f"Compression.auto() sends every element, because {error}")
        return dataclasses.replace(plan, sparse=())
    for each in concerned:
        if not takes(each):
            raise ValueError(
                f"both the compression and the optimizer have a momentum: '{each.spec}', and {described}. "
                "Leave it out of tfc.Compression.dgc() or sketched_sgd(), which then take the optimizer's; "
                "make the optimizer without; or choose the memory 'residual'"
            )
    [(name, rate)] = rates.items()
    if comm.leads():
        where = ", where what auto() takes has one" if isinstance(plan, Auto) else ""
        tell(f"{name}={float(rate):g} of {type(inner).__name__} is in the compression's memory{where}")
    memory = momentum_spec(rate, bool(getattr(inner, "nesterov", False)))

    def take(compressor: Compressor) -> Compressor:
        if not takes(compressor):
            return compressor
        spec = "|".join([memory, *compressor.spec.split("|")[1:]])
        return dataclasses.replace(compressor, spec=spec)

    return mapped(plan, take)


def _tell_what_it_costs(plan: Given, name: str) -> None:
    waiting = [
        each
        for each in compressors_of(plan)
        if each.is_sparse and each.memory_kind == "residual" and not each.leaves_sgd_momentum
    ]
    if waiting and comm.leads():
        tell(
            f"what waits in the memory of '{waiting[0].spec}' has none of {name}'s momentum. That costs "
            "accuracy, which tfc.Compression.sparse() keeps (docs/no_loss.md)"
        )


def leave_to(memories: Memories, optimizer: Any) -> None:
    """Makes an optimizer update variables without its momentum where their memory has one.

    Args:
      memories: Those of the variables.
      optimizer: A Keras optimizer, or a LossScaleOptimizer around it; its class changes, and says that it
        does not. One whose momentum no memory takes stays as it is.
    """
    inner = keras_objects.innermost(optimizer)
    if _kind_of(inner) is None or keras_objects.is_legacy(inner):
        return
    if not isinstance(inner, _WithoutMomentum):
        keras_objects.put_in_front(inner, _WithoutMomentum)
    object.__setattr__(inner, "_tfcompress_memories", memories)  # Keras would track it.


class _WithoutMomentum(keras_objects.OptimizerBase):
    """What stands in front of an optimizer whose momentum is in the memory of some variables."""

    _tfcompress_memories: Memories | None = None  # Of one that Keras has made from a configuration.

    def update_step(self, gradient: tf.Tensor, variable: object, *learning_rate: Any) -> Any:
        memories = self._tfcompress_memories
        if memories is None or not memories.memory_of(parameter_of(variable)).startswith("momentum"):
            return super().update_step(gradient, variable, *learning_rate)
        kind = _kind_of(self)
        assert kind is not None  # `leave_to` changes no other.
        values = {kind.rate: 0.0}
        if kind.sums_steps:
            summed = _num_summed(getattr(self, kind.rate), tf_variable(self.iterations))
            if learning_rate:  # Of Keras 3.
                learning_rate = (summed * learning_rate[0],)
            else:
                values["_learning_rate"] = summed * self.learning_rate
        with _attributes(self, values):
            return super().update_step(gradient, variable, *learning_rate)


def _num_summed(rate: float, iterations: tf.Variable) -> tf.Tensor:
    """How many equal steps a velocity would be the sum of by now, float32 scalar."""
    rate = tf.constant(rate, tf.float32)
    return (1.0 - rate ** tf.cast(iterations + 1, tf.float32)) / (1.0 - rate)


@contextlib.contextmanager
def _attributes(optimizer: Any, values: dict[str, Any]) -> Iterator[None]:
    """Gives attributes other values, unseen by Keras, which tracks what is assigned."""
    held = {name: vars(optimizer)[name] for name in values}
    vars(optimizer).update(values)
    try:
        yield
    finally:
        vars(optimizer).update(held)


def _kind_of(inner: Any) -> _Kind | None:
    return next((_KINDS[cls.__name__] for cls in type(inner).__mro__ if cls.__name__ in _KINDS), None)


def _refuse_unmovable(inner: Any, rates: dict[str, Any], described: str) -> None:
    name, kind, reason = type(inner).__name__, _kind_of(inner), None
    if keras_objects.is_legacy(inner):
        reason = f"it is of tf_keras.optimizers.legacy: make one of tf_keras.optimizers.{name}"
    elif kind is None or rates.keys() != {kind.rate}:
        reason = _REASONS.get(name, "it is not known what becomes of it")
    elif not isinstance(rates[kind.rate], int | float):
        reason = "it is no number"
    elif getattr(inner, "centered", False):
        reason = "centered=True, and there is nothing left of an average less its average"
    if reason is not None:
        raise ValueError(
            f"the compression's memory has a momentum, and {described}, which cannot move there: {reason}. "
            "Use SGD, Adam, AdamW or RMSprop, or a compression whose memory is 'residual', such as "
            "tfc.Compression.topk() or int4()"
        )
    for setting, remedy in _EARLIER.items():
        if getattr(inner, setting, None):
            raise ValueError(
                f"{name} has {setting}={getattr(inner, setting)}, which would get velocities, not gradients, "
                f"now that its momentum is in the compression's memory: {remedy} instead"
            )
