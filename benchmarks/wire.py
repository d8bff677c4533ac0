"""Whether an interface carried the wire bytes that the package reports."""

import dataclasses
import statistics
from collections.abc import Iterable

# Ethernet 14, IPv4 20, TCP 20 and its timestamps 12. An interface counts them once per packet, which may have
# up to 64 kB if the network card segments it; the card sends them for every 1448 bytes.
HEADER_BYTES = 66
# Relative tolerance, in addition to the control traffic.
TOLERANCE = 0.05
_DIRECTIONS = ("sent", "received")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Bytes that went in and out of one rank in a step.

    Attributes:
      payload: The rank's own payload, as the package reports it.
      expected: The wire bytes, in and out, that the package reports.
      counted: What the interface counted in both directions.
      headers: The part of it that is headers of packets.
      control: What an idle job has in as much time, without headers: an upper limit of Horovod's control
        traffic, which pauses while gradients are exchanged.
    """

    payload: float
    expected: float
    counted: float
    headers: float
    control: float

    @classmethod
    def median(cls, comparisons: Iterable["Comparison"]) -> "Comparison":
        """Returns the median of each number."""
        columns = zip(*map(dataclasses.astuple, comparisons), strict=True)
        return cls(*map(statistics.median, columns))

    @property
    def excess(self) -> float:
        """Counted bytes beyond headers and expected bytes, relative to the expected bytes."""
        return (self.counted - self.headers - self.expected) / self.expected

    @property
    def agrees(self) -> bool:
        """Whether package and interface agree, up to the tolerance and the control traffic."""
        return -TOLERANCE <= self.excess <= TOLERANCE + self.control / self.expected

    def as_dict(self) -> dict[str, object]:
        """Returns the numbers for JSON."""
        return {**dataclasses.asdict(self), "excess": self.excess, "agrees": self.agrees}


def compare(interface: dict[str, float], idle: dict[str, float]) -> Comparison:
    """Compares what the package reports with what the interface counted.

    Args:
      interface: An entry of "interfaces" in an example's result.
      idle: What `idle_rank` wrote.

    Raises:
      ValueError: No step was counted.
    """
    if not interface["steps"]:
        raise ValueError("no step was counted: training ended with the warm-up; take more --steps")

    def both(numbers: dict[str, float], name: str) -> float:
        return sum(numbers[f"{direction}_{name}"] for direction in _DIRECTIONS)

    idle_rate = both(idle, "bytes_per_second") - HEADER_BYTES * both(idle, "packets_per_second")
    return Comparison(
        payload=interface["reported_payload_bytes_per_step"],
        expected=interface["reported_wire_bytes_per_step"],
        counted=both(interface, "bytes_per_step"),
        headers=HEADER_BYTES * both(interface, "packets_per_step"),
        control=max(idle_rate, 0) * interface["seconds_per_step"],
    )
