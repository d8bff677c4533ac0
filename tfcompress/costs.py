"""What an exchange is expected to take, from measured costs of links and codecs. Pure arithmetic."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tfcompress.route import Transport

# Candidates whose exchange is expected to take so many times as long as the shortest one's are tried in
# training; the model is not better than that.
_CLOSE = 2.0
# Links get slower and faster by so much during training: those close then are kept ready.
_DRIFT = 4.0
# An exchange shorter than this counts as this long: what surrounds it takes as much.
_FLOOR_SECONDS = 2e-3


@dataclasses.dataclass(frozen=True)
class Line:
    """Seconds of a collective as a function of its bytes.

    Attributes:
      latency: Seconds of an empty one.
      seconds_per_byte: The inverse of the bandwidth.
    """

    latency: float
    seconds_per_byte: float

    @classmethod
    def through(cls, small: tuple[float, float], large: tuple[float, float]) -> "Line":
        """Returns the line through two measurements, (bytes, seconds) each; never one that falls."""
        slope = max(large[1] - small[1], 0.0) / (large[0] - small[0])
        return cls(max(small[1] - small[0] * slope, 0.0), slope)

    def seconds(self, num_bytes: float) -> float:
        """Returns the seconds of a collective of so many bytes; none of nothing."""
        return self.latency + num_bytes * self.seconds_per_byte if num_bytes else 0.0

    def scaled(self, factor: float) -> "Line":
        """Returns the line where each byte takes `factor` times as long."""
        return Line(self.latency, self.seconds_per_byte * factor)


@dataclasses.dataclass(frozen=True)
class Links:
    """The collectives of this job.

    Attributes:
      allreduce: By the bytes of the vector that is summed.
      alltoall: By the bytes that a rank has for all ranks together.
      allgather: By the bytes of all ranks together.
    """

    allreduce: Line
    alltoall: Line
    allgather: Line

    def scaled(self, factor: float) -> "Links":
        """Returns links on which each byte takes `factor` times as long."""
        return Links(*[getattr(self, each.name).scaled(factor) for each in dataclasses.fields(self)])


@dataclasses.dataclass(frozen=True)
class CodecCost:
    """What a spec costs for each element.

    Attributes:
      num_bytes: Of the frame.
      encode_seconds: Of encoding, its memory included.
      decode_seconds: Of decoding one frame.
    """

    num_bytes: float
    encode_seconds: float
    decode_seconds: float


@dataclasses.dataclass(frozen=True)
class Load:
    """The elements of a step that travel alike.

    Attributes:
      transport: How.
      spec: What is applied.
      item_bytes: Bytes of an element that all-reduce carries.
      elements: How many.
      spec_of_sums: What is applied to sums of shards; "" for `spec`.
    """

    transport: Transport
    spec: str
    item_bytes: int
    elements: int
    spec_of_sums: str = ""

    @property
    def specs(self) -> tuple[str, ...]:
        """What encodes gradients and sums; none where Horovod sums the gradients."""
        is_encoded = self.transport is not Transport.ALLREDUCE
        return (self.spec, self.spec_of_sums or self.spec) if is_encoded else ()


def exchange_seconds(
    loads: Sequence[Load], links: Links, codecs: Mapping[str, CodecCost], num_ranks: int
) -> float:
    """Returns what the exchange of a step is expected to take.

    Args:
      loads: What travels.
      links: The collectives.
      codecs: By spec, for what travels in frames.
      num_ranks: Number of ranks.
    """
    reduced = sum(each.item_bytes * each.elements for each in loads if each.transport is Transport.ALLREDUCE)
    seconds = links.allreduce.seconds(reduced)
    to_owners = to_all = 0.0
    for load in loads:
        if load.transport is Transport.ALLREDUCE:
            continue
        cost, of_sums = [codecs[spec] for spec in load.specs]
        n, own = load.elements, load.elements / num_ranks
        if load.transport is Transport.SHARD:
            # Others' shards are encoded, as much is decoded; the own sum is encoded, all sums are decoded.
            to_owners += cost.num_bytes * n
            to_all += of_sums.num_bytes * n
            seconds += (n - own) * (cost.encode_seconds + cost.decode_seconds)
            seconds += own * of_sums.encode_seconds + n * of_sums.decode_seconds
        else:
            to_all += cost.num_bytes * n * num_ranks
            seconds += n * (cost.encode_seconds + cost.decode_seconds * num_ranks)
    return seconds + links.alltoall.seconds(to_owners) + links.allgather.seconds(to_all)


def fastest_by_far(
    candidates: Mapping[str, Sequence[Load]],
    others: Mapping[str, Sequence[Load]],
    links: Links,
    codecs: Mapping[str, CodecCost],
    num_ranks: int,
) -> str | None:
    """Returns the fastest of the candidates, if all others are expected to take more than twice as long.

    Args:
      candidates: By name, what travels in a step.
      others: Likewise.
      links: See `exchange_seconds`.
      codecs: See `exchange_seconds`.
      num_ranks: See `exchange_seconds`.
    """

    def fastest(those: Mapping[str, Sequence[Load]]) -> tuple[float, str]:
        seconds = [(exchange_seconds(each, links, codecs, num_ranks), name) for name, each in those.items()]
        return min(seconds, default=(math.inf, ""))

    (own, name), (of_others, _) = fastest(candidates), fastest(others)
    return name if _CLOSE * max(own, _FLOOR_SECONDS) < of_others < math.inf else None


def finalists(
    candidates: Mapping[str, Sequence[Load]], links: Links, codecs: Mapping[str, CodecCost], num_ranks: int
) -> tuple[list[str], list[str]]:
    """Returns the candidates that may be the fastest: on these links, and also on slower and faster ones.

    Args:
      candidates: By name, what travels in a step.
      links: See `exchange_seconds`.
      codecs: See `exchange_seconds`.
      num_ranks: See `exchange_seconds`.

    Returns:
      Two lists of names in the order of `candidates`; the first is part of the second.
    """

    def close(links: Links) -> set[str]:
        seconds = {
            name: max(exchange_seconds(loads, links, codecs, num_ranks), _FLOOR_SECONDS)
            for name, loads in candidates.items()
        }
        return {name for name, each in seconds.items() if each <= _CLOSE * min(seconds.values())}

    now = close(links)
    ready = now | close(links.scaled(_DRIFT)) | close(links.scaled(1 / _DRIFT))
    return [name for name in candidates if name in now], [name for name in candidates if name in ready]
