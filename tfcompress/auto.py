"""The plan that chooses its compressor by measurement. Pure data, no TensorFlow."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tfcompress.policy import Compressor
from tfcompress.route import Transport
from tfcompress.schedule import Schedule
from tfcompress.tuner import Choice, Contender, Tuner


@dataclasses.dataclass(frozen=True, repr=False)
class Auto:
    """Takes the fastest of several compressors, found by measurement on this job's own links.

    Before the first step ranks time collectives of several sizes and the candidates' codecs; candidates that
    may be the fastest are then tried in training, some steps each, and looked at again later and when the
    time of steps changes. Ranks decide by times that they have agreed on, so all decide alike.

    Attributes:
      candidates: Names and compressors, from the most exact to the least: of two that are as fast, the first
        is taken. Their memories must be of one kind.
      fallback: The name of the one that is taken where nothing can be measured: on one rank, in elastic jobs,
        whose ranks come and go, and in TF1-style graphs.
      sparse: Names and plans that are taken, without a trial, where they are expected to be clearly faster
        than all candidates.
    """

    candidates: tuple[tuple[str, Compressor], ...]
    fallback: str
    sparse: tuple[tuple[str, Schedule], ...] = ()

    def __repr__(self) -> str:
        return f"Compression.auto(), which takes {self.spec} for all gradients of a step"

    @property
    def compressors(self) -> dict[str, Compressor]:
        """The candidates by name."""
        return dict(self.candidates)

    @property
    def plans(self) -> dict[str, Compressor | Schedule]:
        """All that may be taken, by name."""
        return {**self.compressors, **dict(self.sparse)}

    @property
    def spec(self) -> str:
        """What is said of it where other compressors say their spec."""
        return "the fastest of " + ", ".join(self.plans)

    def compress(self, tensor: object) -> None:
        """Refuses stock Horovod, which calls this and shows one gradient at a time."""
        raise TypeError(
            "Compression.auto() times whole steps, which Horovod's own wrappers do not show to a compressor: "
            "use tfc.DistributedOptimizer or tfc.DistributedGradientTape, or choose a preset"
        )

    def settled(self, ready: Sequence[str], first: Sequence[str]) -> "Compressor | Schedule | Contest":
        """Returns what is applied: one candidate, a contest of several, or what is sparse.

        Args:
          ready: Names of the candidates that may be the fastest.
          first: Names of those that are tried first.
        """
        chosen = {name: each for name, each in self.candidates if name in ready}
        if len(chosen) > 1:
            return Contest.between(chosen, first)
        return self.plans[ready[0]]

    def get_config(self) -> dict:
        """Returns the configurations of all that may be taken by name."""
        return {name: plan.get_config() for name, plan in self.plans.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class Contest:
    """What `Auto` becomes for a list of gradients: stages, and what decides between them.

    Attributes:
      policies: One for each stage.
      bypasses: For each stage, whether it leaves the memory alone, which is empty then.
      contenders: The stages that are chosen from.
      first: Names of the contenders that are tried first.
    """

    policies: tuple[Compressor, ...]
    bypasses: tuple[bool, ...]
    contenders: tuple[Contender, ...]
    first: tuple[str, ...]

    @classmethod
    def between(cls, compressors: Mapping[str, Compressor], first: Sequence[str]) -> "Contest":
        """Makes the stages of candidates. What all-reduce carries leaves the memory alone once it is empty.

        Args:
          compressors: By name, from the most exact to the least.
          first: Names of those that are tried first.
        """
        policies, empties = list(compressors.values()), None
        has_memory = any(each.memory_kind != "none" for each in policies)
        bypasses = [has_memory and each.transport is Transport.ALLREDUCE for each in policies]
        if any(bypasses):
            empties = len(policies)
            policies.append(Compressor("dense|raw|raw", clip_norm=policies[0].clip_norm))
            bypasses.append(False)
        contenders = [
            Contender(name, stage, empties if bypasses[stage] else None)
            for stage, name in enumerate(compressors)
        ]
        return cls(tuple(policies), tuple(bypasses), tuple(contenders), tuple(first))

    def tuner(self, tell: Callable[[Choice], None]) -> Tuner:
        """Returns what decides the stage of each step."""
        return Tuner(self.contenders, self.first, tell)
