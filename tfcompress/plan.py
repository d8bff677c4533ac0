"""Plans: what a step can apply, and what users give as `compression=`."""

import dataclasses
import itertools
from collections.abc import Callable

from tfcompress.auto import Auto, Contest
from tfcompress.policy import Compressor, PerVariable, Policy, as_policy
from tfcompress.schedule import Schedule

# What a step can apply, and what a user can give.
Plan = Policy | Schedule | Contest
Given = Policy | Schedule | Auto


def stages_of(plan: Plan) -> tuple[tuple[int, ...], tuple[Policy, ...]]:
    """Returns the steps at which stages end, and what is applied in each; one stage without a schedule."""
    if isinstance(plan, Schedule):
        return plan.boundaries, plan.policies
    if isinstance(plan, Contest):
        return (), plan.policies
    return (), (plan,)


def compressors_of(plan: Given) -> list[Compressor]:
    """Returns all compressors that a variable may have in any stage."""
    if isinstance(plan, Auto):
        of_sparse = [each for _, schedule in plan.sparse for each in compressors_of(schedule)]
        return [*plan.compressors.values(), *of_sparse]
    return [each for stage in stages_of(plan)[1] for each in stage.compressors()]


def mapped(plan: Given, change: Callable[[Compressor], Compressor]) -> Given:
    """Returns a plan with changed compressors, for the same variables and steps."""
    if isinstance(plan, Schedule):
        return _mapped_schedule(plan, change)
    if isinstance(plan, Auto):
        return dataclasses.replace(
            plan,
            candidates=tuple((name, change(each)) for name, each in plan.candidates),
            sparse=tuple((name, _mapped_schedule(each, change)) for name, each in plan.sparse),
        )
    return _mapped_policy(plan, change)


def _mapped_schedule(schedule: Schedule, change: Callable[[Compressor], Compressor]) -> Schedule:
    lengths = [end - begin for begin, end in itertools.pairwise((0, *schedule.boundaries))]
    *policies, last = [_mapped_policy(policy, change) for policy in schedule.policies]
    return Schedule(list(zip(lengths, policies, strict=True)), then=last)


def _mapped_policy(policy: Policy, change: Callable[[Compressor], Compressor]) -> Policy:
    return policy.mapped(change) if isinstance(policy, PerVariable) else change(policy)


def as_plan(compression: object) -> Given:
    """Returns what a user gave as `compression=`: a compressor, {pattern: compressor}, a schedule or `auto`.

    Raises:
      TypeError: Another object; the message says what to pass.
    """
    return compression if isinstance(compression, Schedule | PerVariable | Auto) else as_policy(compression)
