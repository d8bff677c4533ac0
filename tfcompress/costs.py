"""What an exchange is expected to take, from measured costs of links and codecs. Pure arithmetic."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tfcompress.policy import Described, Policy
from tfcompress.route import Transport, is_known
from tfcompress.wire import allgather_bytes, allreduce_bytes

# Candidates whose exchange is expected to take so many times as long as the shortest one's are tried in
# training; the model is not better than that.
_CLOSE = 2.0
# What is sparse has to be faster by so much: it may cost accuracy, the exchange is only a part of a step, and
# no trial comes after. The model's errors are mostly common to all.
_CLEARLY = 2.0
# Links get slower and faster by so much during training: those close then are kept ready.
_DRIFT = 4.0
# An exchange shorter than this counts as this long: what surrounds it takes as much.
_FLOOR_SECONDS = 2e-3
# The share of a link's bytes that is left for data by headers and acknowledgements of TCP, in Ethernet frames
# of 1500 bytes and with traffic in both directions.
_GOODPUT = 0.94
# What a collective waits for Horovod's next cycle and its coordination (HOROVOD_CYCLE_TIME is 1 ms).
_COORDINATION_SECONDS = 1e-3
# Of dtypes that all-reduce carries as they are; bfloat16 travels as float32.
_ITEM_BYTES = {"float16": 2, "float32": 4, "float64": 8}


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
class HostCost:
    """What moving and summing costs a host, whatever its links.

    Attributes:
      transfer_seconds: Of sending a byte and receiving another one: the network stack and its copies.
      half_seconds: Of casting an element to float16, adding it to another one, and casting the sum back.
    """

    transfer_seconds: float
    half_seconds: float


@dataclasses.dataclass(frozen=True)
class Links:
    """The collectives of a job.

    Attributes:
      allreduce: By the bytes of the vector that is summed.
      alltoall: By the bytes that a rank has for all ranks together.
      allgather: By the bytes of all ranks together.
      half_seconds: Of an element in float16, what all-reduce takes beside its bytes; 0 where it is not known.
    """

    allreduce: Line
    alltoall: Line
    allgather: Line
    half_seconds: float = 0.0

    @classmethod
    def of_bandwidth(cls, num_ranks: int, bandwidth: float, latency: float, host: HostCost) -> "Links":
        """Returns the collectives of ranks that are each behind a link of their own, as Gloo makes them.

        All-reduce and all-gather go round a ring, all-to-all goes from pair to pair. Ranks coordinate each
        collective by a ring all-reduce of a few bytes. A host moves bytes before or after the link does.

        Args:
          num_ranks: Number of ranks, at least 2.
          bandwidth: Bytes per second of each direction of a link; infinite where it does not limit.
          latency: Seconds that a message takes from one rank to another.
          host: The costs of a host.
        """
        hops = num_ranks - 1
        moved = hops / num_ranks * (1 / (_GOODPUT * bandwidth) + host.transfer_seconds)
        coordination = _COORDINATION_SECONDS + 2 * hops * latency
        once, twice = (Line(coordination + rounds * hops * latency, rounds * moved) for rounds in (1, 2))
        return cls(twice, once, once, host.half_seconds)

    def scaled(self, factor: float) -> "Links":
        """Returns links on which each byte takes `factor` times as long."""
        lines = {name: getattr(self, name).scaled(factor) for name in ("allreduce", "alltoall", "allgather")}
        return dataclasses.replace(self, **lines)


@dataclasses.dataclass(frozen=True)
class CodecCost:
    """What a spec costs for each element.

    Attributes:
      num_bytes: Of the frame, or of the float32 payload that is summed.
      encode_seconds: Of encoding, its memory included.
      decode_seconds: Of decoding one frame.
      add_seconds: Of decoding another frame and adding it.
    """

    num_bytes: float
    encode_seconds: float
    decode_seconds: float
    add_seconds: float

    def sum_seconds(self, num_frames: int) -> float:
        """Returns the seconds of decoding and adding so many frames."""
        return self.decode_seconds + (num_frames - 1) * self.add_seconds


# Of what all-reduce carries as it is.
_UNCODED = CodecCost(num_bytes=4, encode_seconds=0, decode_seconds=0, add_seconds=0)


@dataclasses.dataclass(frozen=True)
class Load:
    """The elements of a step that travel alike.

    Attributes:
      transport: How.
      spec: What is applied.
      item_bytes: Bytes of an element that all-reduce carries, of the gradient or of a payload.
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


def loads_of(compressor: Policy, gradients: Sequence[Described], num_ranks: int) -> list[Load]:
    """Returns what travels in a step, for dense gradients whose shape is known.

    Args:
      compressor: What is applied.
      gradients: Name, dtype, shape of the variable, and whether the gradient is rows of a table.
      num_ranks: Of the exchange.
    """
    elements: dict[tuple[Transport, str, int, str], int] = {}
    for name, dtype, shape, is_table in gradients:
        if is_table or not is_known(shape):
            continue
        route = compressor.compressor_for(name).route(name, dtype, shape, is_table, num_ranks)
        item_bytes = _ITEM_BYTES.get(route.wire_dtype or dtype, 4)
        key = (route.transport, route.spec, item_bytes, route.return_spec)
        elements[key] = elements.get(key, 0) + math.prod(shape)
    return [
        Load(transport, spec, item_bytes, size, of_sums)
        for (transport, spec, item_bytes, of_sums), size in elements.items()
    ]


@dataclasses.dataclass(frozen=True)
class Exchange:
    """What the exchange of a step is expected to take and to move.

    Attributes:
      payload_bytes: What a rank has to send, each byte counted once.
      wire_bytes: What the collectives move in and out of a rank.
      encode_seconds: Time of encoding.
      decode_seconds: Time of decoding and summing.
      communication_seconds: Time of the collectives.
    """

    payload_bytes: float
    wire_bytes: float
    encode_seconds: float
    decode_seconds: float
    communication_seconds: float

    @property
    def seconds(self) -> float:
        """All of it: nothing is taken to overlap."""
        return self.encode_seconds + self.communication_seconds + self.decode_seconds


def exchange(
    loads: Sequence[Load], links: Links, codecs: Mapping[str, CodecCost], num_ranks: int
) -> Exchange:
    """Returns what the exchange of a step is expected to take and to move.

    Args:
      loads: What travels.
      links: The collectives.
      codecs: By spec, for what is encoded.
      num_ranks: Number of ranks.
    """
    reduced = to_owners = to_all = 0.0  # Bytes: of a vector, from a rank, of all ranks.
    encode = decode = half_elements = 0.0
    for load in loads:
        n, own = load.elements, load.elements / num_ranks
        cost, of_sums = [codecs[spec] for spec in load.specs] or [_UNCODED, _UNCODED]
        if load.transport is Transport.SHARD:
            # Others' shards are encoded, as much is decoded; the own sum is encoded, all sums are decoded.
            to_owners += cost.num_bytes * n
            to_all += of_sums.num_bytes * n
            encode += (n - own) * cost.encode_seconds + own * of_sums.encode_seconds
            decode += own * cost.sum_seconds(num_ranks - 1) + n * of_sums.decode_seconds
        elif load.transport is Transport.GATHER:
            to_all += cost.num_bytes * n * num_ranks
            encode += n * cost.encode_seconds
            decode += n * cost.sum_seconds(num_ranks)
        else:
            summed = cost.num_bytes * n / 4
            reduced += load.item_bytes * summed
            half_elements += summed if load.item_bytes == 2 else 0
            encode += n * cost.encode_seconds
            decode += n * cost.decode_seconds
    sent = to_owners * (num_ranks - 1) / num_ranks
    return Exchange(
        reduced + sent + to_all / num_ranks,
        allreduce_bytes(reduced, num_ranks) + 2 * sent + allgather_bytes(to_all / num_ranks, to_all),
        encode,
        decode,
        links.allreduce.seconds(reduced)
        + half_elements * links.half_seconds
        + links.alltoall.seconds(to_owners)
        + links.allgather.seconds(to_all),
    )


def expected_seconds(
    candidates: Mapping[str, Sequence[Load]], links: Links, codecs: Mapping[str, CodecCost], num_ranks: int
) -> dict[str, float]:
    """Returns what the exchange of each candidate is expected to take.

    Args:
      candidates: By name, what travels in a step.
      links: See `exchange`.
      codecs: See `exchange`.
      num_ranks: See `exchange`.
    """
    return {name: exchange(loads, links, codecs, num_ranks).seconds for name, loads in candidates.items()}


def clearly_fastest(candidates: Mapping[str, float], others: Mapping[str, float]) -> str | None:
    """Returns the fastest of the candidates, if all others are expected to take more than twice as long.

    Args:
      candidates: Seconds by name.
      others: Likewise.
    """
    if not candidates:
        return None
    name = min(candidates, key=lambda each: candidates[each])
    least = min(others.values(), default=math.inf)
    return name if _CLEARLY * max(candidates[name], _FLOOR_SECONDS) < least < math.inf else None


def finalists(
    candidates: Mapping[str, Sequence[Load]], links: Links, codecs: Mapping[str, CodecCost], num_ranks: int
) -> tuple[list[str], list[str]]:
    """Returns the candidates that may be the fastest: on these links, and also on slower and faster ones.

    Args:
      candidates: By name, what travels in a step.
      links: See `exchange`.
      codecs: See `exchange`.
      num_ranks: See `exchange`.

    Returns:
      Two lists of names in the order of `candidates`; the first is part of the second.
    """

    def close(links: Links) -> set[str]:
        seconds = expected_seconds(candidates, links, codecs, num_ranks)
        least = max(min(seconds.values()), _FLOOR_SECONDS)
        return {name for name, each in seconds.items() if each <= _CLOSE * least}

    now = close(links)
    ready = now | close(links.scaled(_DRIFT)) | close(links.scaled(1 / _DRIFT))
    return [name for name in candidates if name in now], [name for name in candidates if name in ready]
