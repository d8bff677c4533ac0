"""Measures what collectives and codecs cost, before the first step. Every rank calls it together."""

import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from tfcompress import devices, measure
from tfcompress.auto import Auto
from tfcompress.comm import SUM, Ranks
from tfcompress.costs import CodecCost, Line, Links, clearly_fastest, expected_seconds, finalists, loads_of
from tfcompress.policy import Described

# Sizes grow until a collective takes so much longer than the first: the last tells the bandwidth.
_SIZES = (1 << 12, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
_LONG_SECONDS = 0.05
_REPEATS = 3
# Elements and seconds of timing a codec.
_SAMPLE = 1 << 18
_CODEC_SECONDS = 0.02


@dataclasses.dataclass(frozen=True)
class Finalists:
    """Candidates that may be the fastest.

    Attributes:
      ready: Names of those that may be it on some links; or of what is sparse, alone, where that is clearly
        faster.
      first: Names of those that may be it on the links of now.
      seconds: What the exchange of each plan is expected to take, by name.
    """

    ready: list[str]
    first: list[str]
    seconds: dict[str, float]

    def told(self) -> str:
        """Returns what is said where one was taken without a trial."""
        [name] = self.ready
        others = ", ".join(f"{each} {1e3 * s:.3g}" for each, s in self.seconds.items() if each != name)
        return f"{name}: its exchange is expected to take {1e3 * self.seconds[name]:.3g} ms a step; {others}"


def finalists_of(plan: Auto, gradients: Sequence[Described], ranks: Ranks, name: str) -> Finalists:
    """Measures links and codecs; returns the candidates that may be the fastest.

    Args:
      plan: The candidates.
      gradients: What is exchanged in a step.
      ranks: Who exchanges.
      name: Equal on all ranks and unique among pending collectives.
    """
    size = ranks.size()
    loads = {each: loads_of(compressor, gradients, size) for each, compressor in plan.candidates}
    of_sparse = {each: loads_of(schedule.last, gradients, size) for each, schedule in plan.sparse}
    framed = {spec for each in (*loads.values(), *of_sparse.values()) for load in each for spec in load.specs}
    links, codecs = measure_links(ranks, name), measure_codecs(ranks, framed)
    dense, sparse = (expected_seconds(each, links, codecs, size) for each in (loads, of_sparse))
    faster = clearly_fastest(sparse, dense)
    first, ready = finalists(loads, links, codecs, size) if faster is None else ([], [faster])
    return Finalists(ready, first, {**dense, **sparse})


def measure_links(ranks: Ranks, name: str) -> Links:
    """Returns the costs of this job's collectives; takes about a second on slow links.

    Args:
      ranks: Who exchanges.
      name: Equal on all ranks and unique among pending collectives.
    """
    size = ranks.size()

    def allreduce(num_bytes: int) -> Callable[[], object]:
        vector = tf.zeros([num_bytes // 4])
        return lambda: ranks.allreduce([vector], SUM, f"{name}_probe")

    def alltoall(num_bytes: int) -> Callable[[], object]:
        part = num_bytes // size
        packet, splits = tf.zeros([part * size], tf.uint8), tf.fill([size], part)
        return lambda: ranks.alltoall_packet(packet, splits, f"{name}_probe")

    def allgather(num_bytes: int) -> Callable[[], object]:
        packet = tf.zeros([num_bytes // size], tf.uint8)
        return lambda: ranks.allgather_packet(packet, f"{name}_probe")

    with tf.init_scope(), tf.device(devices.packets()):
        return Links(_line(ranks, allreduce), _line(ranks, alltoall), _line(ranks, allgather))


def measure_codecs(ranks: Ranks, specs: Iterable[str]) -> dict[str, CodecCost]:
    """Returns the costs of specs on normally distributed gradients, those of the slowest rank."""
    sample = np.random.default_rng(0).standard_normal(_SAMPLE).astype(np.float32).reshape(-1, 512)
    costs = {
        spec: measure.codec_cost(spec, [sample], least_seconds=_CODEC_SECONDS) for spec in sorted(set(specs))
    }
    return dict(zip(costs, slowest(ranks, [*costs.values()]), strict=True))


def slowest(ranks: Ranks, costs: Sequence[CodecCost]) -> list[CodecCost]:
    """Returns the largest of each number over all ranks, for costs that each of them has measured."""
    largest = iter(_agreed(ranks, [number for cost in costs for number in dataclasses.astuple(cost)]))
    fields = len(dataclasses.fields(CodecCost))
    return [CodecCost(*itertools.islice(largest, fields)) for _ in costs]


def _line(ranks: Ranks, make: Callable[[int], Callable[[], object]]) -> Line:
    points = []
    for num_bytes in _SIZES:
        call = make(num_bytes)
        call()  # The first one makes what the others use again, and ranks begin together.
        [seconds] = _agreed(ranks, [measure.best_seconds(call, repeats=_REPEATS)])
        points.append((num_bytes, seconds))
        if seconds - points[0][1] > _LONG_SECONDS:
            break
    return Line.through(points[0], points[-1])


def _agreed(ranks: Ranks, numbers: list[float]) -> list[float]:
    """Returns the largest of each number over all ranks."""
    messages = ranks.gather_messages(json.dumps(numbers).encode())
    largest = [max(each) for each in zip(*[json.loads(message) for message in messages], strict=True)]
    assert all(math.isfinite(number) for number in largest)
    return largest
