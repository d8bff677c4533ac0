"""What the stages of a plan mean for one variable. Pure data, no TensorFlow."""

import dataclasses
from collections.abc import Sequence

from tfcompress.policy import Compressor, Policy
from tfcompress.route import PASS_THROUGH, Route, Transport, facts_of


@dataclasses.dataclass(frozen=True)
class Resolution:
    """What a plan means for one variable.

    Attributes:
      memory: Its memory, such as "residual".
      num_slots: float32 vectors of the variable's size that the memory keeps.
      routes: One for each stage.
    """

    memory: str
    num_slots: int
    routes: tuple[Route, ...]

    @property
    def factor_ranks(self) -> set[int]:
        """Ranks of the right factors that steps keep."""
        return {route.rank for route in self.routes if route.keeps_factor}


def resolve(
    policies: Sequence[Policy],
    name: str,
    dtype: str,
    shape: Sequence[int | None],
    is_table: bool,
    held: str = "",
    num_ranks: int | None = None,
    bypasses: Sequence[bool] = (),
) -> Resolution:
    """Returns what the stages of a plan mean for one variable.

    Stages may differ in their transport. A stage without memory, beside others that have one, has theirs, so
    that nothing that waits in it is lost.

    Args:
      policies: One for each stage.
      name: The variable's.
      dtype: The gradient's, such as "float32".
      shape: The variable's.
      is_table: Whether the gradient is IndexedSlices.
      held: The memory that the variable has already, such as "residual"; it counts as that of one more stage.
      num_ranks: Of the exchange; None where it may change.
      bypasses: For each stage, whether it leaves the memory that others have alone (default: none does).

    Raises:
      ValueError: Two stages need memories of different kinds.
    """
    compressors = [policy.compressor_for(name) for policy in policies]
    routes = [each.route(name, dtype, shape, is_table, num_ranks) for each in compressors]
    needs = [each.memory_for(route, is_table) for each, route in zip(compressors, routes, strict=True)]
    if held:
        needs.append((held.partition(":")[0], facts_of(f"{held}|dense|raw|raw")["num_slots"]))
    kinds = set(needs) - {("none", 0)}
    if not kinds:
        return Resolution("none", 0, tuple(routes))
    if len(kinds) > 1:
        raise ValueError(_memories_differ(f"gradient '{name}'", [each.spec for each in compressors]))
    [(memory, num_slots)] = kinds
    if not is_table:
        memory = held or next(c.memory for c, need in zip(compressors, needs, strict=True) if need in kinds)
    with_memory = [_as_rows(each, dtype) if is_table else _with_memory(each, memory) for each in routes]
    for stage, bypassing in enumerate(bypasses):
        if bypassing:
            with_memory[stage] = dataclasses.replace(routes[stage], bypasses_memory=True)
    return Resolution(memory, num_slots, tuple(with_memory))


def _with_memory(route: Route, memory: str) -> Route:
    return route if facts_of(route.spec)["num_slots"] else route.with_memory(memory)


def _as_rows(route: Route, dtype: str) -> Route:
    """All-reduced rows go through Horovod, which knows no residual: frames carry them, uncompressed."""
    if route.carries_frames:
        return route
    return dataclasses.replace(route, transport=Transport.GATHER, spec=PASS_THROUGH[dtype], wire_dtype=None)


def check_memories(policies: Sequence[Policy]) -> None:
    """Raises ValueError where stages that apply to all variables have memories of different kinds."""
    compressors = [policy for policy in policies if isinstance(policy, Compressor)]
    if len({each.memory_kind for each in compressors} - {"none"}) > 1:
        raise ValueError(_memories_differ("every gradient", [each.spec for each in compressors]))


def _memories_differ(subject: str, specs: Sequence[str]) -> str:
    return (
        f"{subject} would need a memory of another kind in another stage: {specs}. Choose one memory "
        "(residual or momentum) for all stages that have one"
    )
