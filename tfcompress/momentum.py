"""Moves the momentum of a Keras optimizer into the compression's memory, where it is corrected for delays."""

import contextlib
import dataclasses
from collections.abc import Iterator

from tfcompress import comm, keras_objects
from tfcompress.notices import tell
from tfcompress.policy import Compressor, PerVariable, Policy
from tfcompress.schedule import Given, Schedule, compressors_of, stages_of

# Optimizers whose momentum is a sum of gradients that nothing else has touched, and the name of its decay;
# those derived from them, such as AdamW, too.
_MOVABLE = {"SGD": "momentum", "Adam": "beta_1"}
_RATES = ("momentum", "beta_1")


class _Moved:
    """What stands in front of an optimizer whose momentum was moved: to Keras it is the user's optimizer."""

    def get_config(self) -> dict:
        return {**super().get_config(), **_given(self)}

    def build(self, *args: object) -> None:
        with _as_given(self):  # The slots of files that the user's optimizer writes and reads.
            super().build(*args)


def move(optimizer: object, plan: Given) -> Given:
    """Moves an optimizer's momentum into the memories of a plan that have one.

    The optimizer runs without momentum from then on; its configuration is still the user's.

    Args:
      optimizer: A Keras optimizer, or a LossScaleOptimizer around it; changed in place.
      plan: What to apply. Without a memory with momentum, nothing happens.

    Returns:
      The plan, whose memories have the optimizer's momentum; their own where the optimizer has none.

    Raises:
      ValueError: The momentum cannot be moved, because of what the optimizer does with it, or because some
        variables would have none.
    """
    inner = keras_objects.innermost(optimizer)
    if not any(each.memory_kind == "momentum" for each in compressors_of(plan)):
        return plan
    rates = {name: float(rate) for name in _RATES if (rate := getattr(inner, name, None))}
    if rates:
        _refuse_unmovable(inner, rates)
        _check_all_have_momentum(plan)
        [(name, rate)] = rates.items()
        _take(inner, rates)
        if comm.leads():
            tell(f"{name}={rate:g} of {type(inner).__name__} moved into the compression's memory")
    return adapt(optimizer, plan)


def adapt(optimizer: object, plan: Given) -> Given:
    """Returns a plan whose memories have the momentum that was moved out of an optimizer before."""
    inner = keras_objects.innermost(optimizer)
    given = _given(inner)
    if not given:
        return plan
    [rate] = given.values()
    memory = f"momentum:rate={rate!r},nesterov={int(bool(getattr(inner, 'nesterov', False)))}"
    if isinstance(plan, Schedule):
        lengths = [b - a for a, b in zip((0, *plan.boundaries), plan.boundaries, strict=False)]
        policies = [_with_memory(policy, memory) for policy in plan.policies]
        return Schedule(list(zip(lengths, policies[:-1], strict=True)), then=policies[-1])
    return _with_memory(plan, memory) if isinstance(plan, Compressor | PerVariable) else plan


def _with_memory(policy: Policy, memory: str) -> Policy:
    if isinstance(policy, PerVariable):
        return policy.mapped(lambda each: _with_memory(each, memory))
    if policy.memory_kind != "momentum":
        return policy
    return dataclasses.replace(policy, spec="|".join([memory, *policy.spec.split("|")[1:]]))


def _refuse_unmovable(inner: object, rates: dict[str, float]) -> None:
    names = [cls.__name__ for cls in type(inner).__mro__]
    if any(rates.keys() == {_MOVABLE.get(name)} for name in names):
        return
    described = ", ".join(f"{name}={rate:g}" for name, rate in rates.items())
    raise ValueError(
        f"the compression's memory has a momentum, and {names[0]} has {described}, which cannot move there: "
        "it is no plain sum of gradients. Set it to 0, use SGD, Adam or AdamW, or a compression whose memory "
        "is 'residual', such as tfc.Compression.topk() or int4()"
    )


def _check_all_have_momentum(plan: Given) -> None:
    for policy in stages_of(plan)[1]:
        if len({each.memory_kind == "momentum" for each in policy.compressors()}) > 1:
            raise ValueError(
                "the optimizer's momentum moves into the compression's memory, and variables whose "
                "compressor has none would train without it: use one compressor, with exclude=(...) for the "
                "variables that are to travel uncompressed"
            )


def _take(inner: object, rates: dict[str, float]) -> None:
    inner.__class__ = _moved_class(type(inner))
    # Not through __setattr__: Keras would track it.
    object.__setattr__(inner, "_tfcompress_momentum", rates)
    for name in rates:
        setattr(inner, name, 0.0)


def _moved_class(base: type) -> type:
    """Returns a subclass that looks like the user's class."""
    if issubclass(base, _Moved):
        return base
    names = ("__name__", "__qualname__", "__module__", "__doc__")
    return type(base.__name__, (_Moved, base), {name: getattr(base, name) for name in names})


def _given(inner: object) -> dict[str, float]:
    return getattr(inner, "_tfcompress_momentum", {})


@contextlib.contextmanager
def _as_given(inner: object) -> Iterator[None]:
    given = _given(inner)
    for name, rate in given.items():
        setattr(inner, name, rate)
    try:
        yield
    finally:
        for name in given:
            setattr(inner, name, 0.0)
