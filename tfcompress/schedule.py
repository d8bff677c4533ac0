"""Compressors that follow one another during training."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence

from tfcompress.policy import Compressor, Policy, as_policy
from tfcompress.resolution import check_memories

_WARMUP_RATIOS = (0.25, 0.0625, 0.015625, 0.004)


class Schedule:
    """Different compressors for different parts of training, such as a warm-up.

    Early gradients change quickly, and a residual of them is stale when it is sent: papers begin with
    dense gradients and lower the ratio in stages. The memory goes on from one stage to the next. Stages may
    travel differently: all-reduced at first, then compressed and gathered. A stage without memory, beside
    others that have one, has theirs.

    For example:

        topk = tfc.Compression.topk(0.001)
        schedule = tfc.Schedule.of_ratios(topk, ratios=[1.0, 0.25, 0.0625, 0.015625], steps_each=500)
        opt = tfc.DistributedOptimizer(opt, compression=schedule)
    """

    def __init__(
        self,
        stages: Sequence[tuple[int, Policy | Mapping[str, Compressor]]],
        then: Policy | Mapping[str, Compressor],
    ) -> None:
        """Takes the stages.

        Args:
          stages: How many steps each lasts, at least 1, and what is applied in it. For epochs, multiply
            by the steps of an epoch.
          then: What is applied after the last stage.

        Raises:
          ValueError: A stage has no step, or two stages have memories of different kinds.
          TypeError: Something is not a compressor.
        """
        lengths = [length for length, _ in stages]
        if any(length < 1 for length in lengths):
            raise ValueError(f"every stage must last at least one step, got {lengths}")
        self.boundaries = tuple(itertools.accumulate(lengths))
        self.policies: tuple[Policy, ...] = tuple(as_policy(each) for each in (*[c for _, c in stages], then))
        check_memories(self.policies)

    @classmethod
    def of_ratios(cls, compressor: Compressor, ratios: Sequence[float], steps_each: int) -> "Schedule":
        """Makes the schedule that ends with `compressor` and begins with other ratios of its sparsifier.

        Args:
          compressor: One whose sparsifier has a ratio.
          ratios: One for each stage; 1.0 sends everything, and no indices where there is a memory.
          steps_each: Length of each stage.

        Raises:
          ValueError: The sparsifier has no ratio, or one is outside (0, 1].
        """
        return cls([(steps_each, with_ratio(compressor, ratio)) for ratio in ratios], then=compressor)

    @classmethod
    def warmup(cls, compressor: Compressor, steps_per_epoch: int) -> "Schedule":
        """Makes the warm-up of Deep Gradient Compression (section 3.3): an epoch for each of four ratios.

        75 %, 93.75 %, 98.4375 % and 99.6 % of the elements are left out, then what `compressor` leaves
        out. Ratios that are not above the compressor's own are skipped.

        Args:
          compressor: One whose sparsifier has a ratio, such as `tfc.Compression.dgc()`.
          steps_per_epoch: Length of each stage.

        Raises:
          ValueError: The sparsifier has no ratio.
        """
        own = _ratio_of(compressor)
        return cls.of_ratios(compressor, [r for r in _WARMUP_RATIOS if r > own], steps_per_epoch)

    @property
    def last(self) -> Policy:
        """What is applied after the last stage."""
        return self.policies[-1]

    @property
    def spec(self) -> str:
        """What is said of it where other compressors say their spec."""
        specs = [getattr(policy, "spec", "several") for policy in self.policies]
        return ", ".join(
            f"{spec} to step {end}" for spec, end in zip(specs, self.boundaries, strict=False)
        ) + (f", then {specs[-1]}" if self.boundaries else specs[-1])

    def compress(self, tensor: object) -> None:
        """Refuses stock Horovod, which calls this and does not count steps."""
        raise TypeError(
            "a schedule, such as that of Compression.sparse(), needs the number of the step, which Horovod's "
            "own wrappers do not tell: use tfc.DistributedOptimizer or tfc.DistributedGradientTape, or pass "
            "its `last`, which is applied after the last stage"
        )

    def get_config(self) -> dict:
        """Returns the boundaries in steps, and the configurations of the stages."""
        return {"boundaries": self.boundaries, "policies": [policy.get_config() for policy in self.policies]}


def with_ratio(compressor: Compressor, ratio: float) -> Compressor:
    """Returns the compressor with another ratio of its sparsifier; 1.0 selects everything.

    Raises:
      ValueError: The sparsifier has no ratio, or it is outside (0, 1].
    """
    parts = compressor.spec.split("|")
    position = _position_of_ratio(parts, compressor)
    codecs = parts[position + 1 :]
    if ratio == 1.0 and position == 1 and len(codecs) == 2:  # Without a memory all-reduce would carry it.
        parts[position:] = ["dense", "raw", codecs[1]]
    parts[position] = re.sub(r"ratio=[^,]+", f"ratio={float(ratio)!r}", parts[position])
    changed = dataclasses.replace(compressor, spec="|".join(parts))
    return _with_ratio_of_sums(changed, ratio, compressor)


def _with_ratio_of_sums(changed: Compressor, ratio: float, before: Compressor) -> Compressor:
    """The ratio of sums, if they have one, changes by the same factor."""
    if before.return_spec is None:
        return changed
    sparsifier, *codecs = before.return_spec.split("|")
    if "ratio=" not in sparsifier:
        return changed
    of_sums = min(1.0, ratio / _ratio_of(before) * _ratio_in(sparsifier))
    sparsifier = re.sub(r"ratio=[^,]+", f"ratio={of_sums!r}", sparsifier)
    return dataclasses.replace(changed, return_spec="|".join([sparsifier, *codecs]))


def _position_of_ratio(parts: Sequence[str], compressor: Compressor) -> int:
    # The sparsifier is the first part, or the second one after a memory.
    for position, part in enumerate(parts[:2]):
        if "ratio=" in part:
            return position
    raise ValueError(f"the sparsifier of '{compressor.spec}' has no ratio")


def _ratio_of(compressor: Compressor) -> float:
    parts = compressor.spec.split("|")
    return _ratio_in(parts[_position_of_ratio(parts, compressor)])


def _ratio_in(part: str) -> float:
    return float(part.partition("ratio=")[2].partition(",")[0])
