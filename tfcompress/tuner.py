"""Chooses between ways to exchange by the time that steps take. Pure Python, told what ranks agree on."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Generator, Mapping, Sequence

# A trial: each contender has so many steps that count, so many times; others run in between. Short steps vary
# more: a turn has more of them, up to the most, until they have taken so many seconds.
_LEAST_COUNTED, _MOST_COUNTED = 3, 12
_TURN_SECONDS = 0.25
_ROUNDS = 3
# So many rounds at most, where chance may still hide that one is faster than a more exact one.
_MOST_ROUNDS = 6
# After each round those stay in a trial whose best step is within this factor of the best.
_STAYS = 1.5
# Two steps that each take so many times as long as the best end their contender's turn; one alone may have
# had an evaluation or a checkpoint before it.
_HOPELESS = 3.0
# Of contenders that are as fast but for this, the first is chosen: the most exact. So it is where chance
# alone may explain what they differ by: less than so many standard deviations of a test by ranks.
_TIE = 1.03
_CHANCE = 2.0
# Ranks compare their times that often, by so many steps; they try again when times have changed by this
# factor, or else after so many steps, and then twice as many each time.
_COMPARED_STEPS = 100
_TIMED_STEPS = 9
_CHANGED = 1.5
_FIRST_LOOK_STEPS = 500


@dataclasses.dataclass(frozen=True)
class Contender:
    """A way to exchange.

    Attributes:
      name: For messages.
      stage: Its stage of the plan.
      empties: The stage that sends what the memory holds, to be taken for a step before this one, which does
        not read the memory; None where this one does.
    """

    name: str
    stage: int
    empties: int | None = None


@dataclasses.dataclass(frozen=True)
class Choice:
    """What was chosen.

    Attributes:
      name: The contender's.
      seconds: Median of its steps in the trial.
      others: The medians of those that it was compared with, by name.
    """

    name: str
    seconds: float
    others: dict[str, float]

    def __str__(self) -> str:
        others = ", ".join(f"{name} {1e3 * each:.3g}" for name, each in self.others.items())
        beside = f"; {others}" if others else ""
        return f"{self.name}: {1e3 * self.seconds:.3g} ms a step{beside}"


# The stage of the next steps, how many they are, and whether ranks compare their times after them.
_Steps = tuple[int, int, bool]
_Script = Generator[_Steps, float, None]


class Tuner:
    """Decides the stage of each step.

    Before some steps, `offered` is what this rank tells the others, and `next_steps` takes what they agreed
    on; after them, `observe` takes the time of the last one. What is decided depends on agreed times only, so
    it is the same on all ranks.

    Attributes:
      choice: What was chosen last; None in the first trial.
    """

    def __init__(
        self,
        contenders: Sequence[Contender],
        first: Sequence[str] | None = None,
        tell: Callable[[Choice], None] = lambda choice: None,
    ) -> None:
        """Takes the contenders.

        Args:
          contenders: From the most exact to the least, at least one.
          first: Names of those that are tried first (default: all); the others when times have changed.
          tell: Is called with each choice that differs from the one before.
        """
        self.choice: Choice | None = None
        self._contenders = list(contenders)
        self._first = [each for each in contenders if first is None or each.name in first]
        self._tell = tell
        self._own: list[float] = []
        self._compares = False
        self._reads_memory = True  # What a checkpoint held may wait in it.
        self._script = self._decide()
        self._is_begun = False

    def offered(self) -> float:
        """Returns the seconds to compare with other ranks, NaN where nothing is to be compared."""
        return statistics.median(self._own) if self._compares and self._own else math.nan

    def next_steps(self, agreed: float) -> tuple[int, int]:
        """Returns the stage of the next steps, and how many they are.

        Args:
          agreed: The largest of what ranks offered; NaN where nothing was.
        """
        if self._compares:
            self._own.clear()
        stage, number, self._compares = self._script.send(agreed) if self._is_begun else next(self._script)
        self._is_begun = True
        return stage, number

    def observe(self, seconds: float) -> None:
        """Takes the time of this rank's last step, if `next_steps` is asked before the next."""
        self._own.append(seconds)

    def _decide(self) -> _Script:
        tried, steps = self._first, _FIRST_LOOK_STEPS
        while True:
            chosen = yield from self._try(tried)
            has_changed = yield from self._stay(chosen, steps)
            # The present one first: its time tells when a turn is hopeless.
            others = self._contenders if has_changed else self._first
            tried = [chosen, *[each for each in others if each != chosen]]
            steps = _FIRST_LOOK_STEPS if has_changed else 2 * steps

    def _try(self, contenders: Sequence[Contender]) -> Generator[_Steps, float, Contender]:
        """Runs a trial; returns whom it chose."""
        times: dict[Contender, list[float]] = {each: [] for each in contenders}
        remaining = list(contenders)
        for number in range(1, _MOST_ROUNDS + 1):
            for each in remaining:
                known = [seconds for own in times.values() for seconds in own]
                times[each] += yield from self._turn(each, min(known, default=math.inf))
            best = {each: min(times[each]) for each in remaining}
            remaining = [each for each in remaining if best[each] <= _STAYS * min(best.values())]
            chosen, is_plain = self._choose({each: times[each] for each in remaining})
            if len(remaining) == 1 or (number >= _ROUNDS and is_plain):
                break
        medians = {each: statistics.median(own) for each, own in times.items()}
        others = {each.name: seconds for each, seconds in medians.items() if each != chosen}
        before, self.choice = self.choice, Choice(chosen.name, medians[chosen], others)
        if before is None or before.name != chosen.name:
            self._tell(self.choice)
        return chosen

    def _choose(self, times: Mapping[Contender, list[float]]) -> tuple[Contender, bool]:
        """Returns the most exact one that is not slower than the fastest, and whether they are a tie."""
        fastest = min(times.values(), key=statistics.median)
        chosen = next(
            each for each in self._contenders if each in times and not _is_slower(times[each], fastest)
        )
        return chosen, _is_tie(times[chosen], fastest)

    def _turn(self, contender: Contender, best: float) -> Generator[_Steps, float, list[float]]:
        """One turn of a contender in a trial: the seconds of its steps, the first of which does not count."""
        yield from self._enter(contender)
        last = yield contender.stage, 1, True
        seconds: list[float] = []
        while not _is_enough(seconds):
            before, last = last, (yield contender.stage, 1, True)
            seconds.append(last)
            if min(before, last) > _HOPELESS * best:
                break
        return seconds

    def _stay(self, contender: Contender, num_steps: int) -> Generator[_Steps, float, bool]:
        """Stays with a contender for so many steps; returns whether times have changed before."""
        yield from self._enter(contender)
        for _ in range(num_steps // _COMPARED_STEPS):
            yield contender.stage, _COMPARED_STEPS - _TIMED_STEPS - 1, False
            yield contender.stage, 1, True
            seconds = []
            for _ in range(_TIMED_STEPS):  # One by one, as in a trial: a step includes that ranks agree.
                seconds.append((yield contender.stage, 1, True))
            assert self.choice is not None
            expected = self.choice.seconds
            if not expected / _CHANGED <= statistics.median(seconds) <= expected * _CHANGED:
                return True
        return False

    def _enter(self, contender: Contender) -> _Script:
        if self._reads_memory and contender.empties is not None:
            yield contender.empties, 1, True
        self._reads_memory = contender.empties is None


def _is_enough(seconds: Sequence[float]) -> bool:
    """Whether a turn has had its steps."""
    is_long = sum(seconds) >= _TURN_SECONDS or len(seconds) >= _MOST_COUNTED
    return is_long and len(seconds) >= _LEAST_COUNTED


def _is_tie(seconds: Sequence[float], others: Sequence[float]) -> bool:
    """Whether steps take at most little longer than others."""
    return statistics.median(seconds) <= _TIE * statistics.median(others)


def _is_slower(seconds: Sequence[float], others: Sequence[float]) -> bool:
    """Whether steps are slower than others: by more than a tie, and by more than chance may make of it."""
    if _is_tie(seconds, others):
        return False
    # The rank-sum test of Mann and Whitney, which steps that take ten times as long leave alone.
    pairs = len(seconds) * len(others)
    longer = sum((one > other) + (one == other) / 2 for one in seconds for other in others)
    deviation = math.sqrt(pairs * (len(seconds) + len(others) + 1) / 12)
    return longer - pairs / 2 > _CHANCE * deviation
