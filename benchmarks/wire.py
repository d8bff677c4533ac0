"""Compares an interface's counters with the bytes expected from the package's reports.

Horovod's collectives go around a ring. An all-reduce of S bytes makes each rank send and receive
2 (W - 1) / W x S; an all-gather makes it receive the other ranks' bytes and send all but its successor's.
"""

import dataclasses
import statistics
from collections.abc import Iterable

# Ethernet 14, IPv4 20, TCP 20 and its timestamps 12. An interface counts them once per packet, which may have
# up to 64 kB if the network card segments it; the card sends them for every 1448 bytes.
HEADER_BYTES = 66
# Relative tolerance, in addition to the control traffic.
TOLERANCE = 0.05
DIRECTIONS = ("sent", "received")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Bytes that one rank sent, or received, in a step.

    Attributes:
      reported: Bytes that the package reports: payloads, once each.
      expected: Bytes on the ring for the reported ones.
      counted: Bytes that the interface counted.
      headers: Counted bytes that are headers of packets.
      control: Bytes of an idle job in as much time, without headers: an upper limit of Horovod's control
        traffic, which pauses while gradients are exchanged.
    """

    reported: float
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


def ring_bytes(sent: float, received: float, ranks: int, gathered: bool) -> float:
    """Returns the bytes that a rank sends, or receives, on the ring.

    Args:
      sent: Payload of this rank.
      received: Gathered payloads of the other ranks, and sums.
      ranks: Number of ranks, at least 2.
      gathered: Whether all payloads were gathered. Otherwise they were summed, except sparse rows, for which
        more bytes were received than sent.
    """
    if gathered:
        return (sent + received) * (ranks - 1) / ranks
    # For g gathered bytes, (ranks - 1) g are received. With 2 ranks both collectives carry the same.
    rows = min(max(received - sent, 0) / (ranks - 2), sent) if ranks > 2 else 0
    return (ranks - 1) * rows + 2 * (ranks - 1) / ranks * (sent - rows)


def compare(
    interface: dict[str, float], idle: dict[str, float], ranks: int, gathered: bool
) -> dict[str, Comparison]:
    """Compares both directions.

    Args:
      interface: An entry of "interfaces" in an example's result.
      idle: Output of `idle_rank`.
      ranks: Number of ranks, at least 2.
      gathered: As in `ring_bytes`.

    Raises:
      ValueError: No step was counted.
    """
    if not interface["steps"]:
        raise ValueError("no step was counted: training ended with the warm-up; set --steps higher")
    reported = {direction: interface[f"reported_{direction}_bytes_per_step"] for direction in DIRECTIONS}
    expected = ring_bytes(reported["sent"], reported["received"], ranks, gathered)
    comparisons = {}
    for direction in DIRECTIONS:
        idle_headers = HEADER_BYTES * idle[f"{direction}_packets_per_second"]
        idle_rate = idle[f"{direction}_bytes_per_second"] - idle_headers
        comparisons[direction] = Comparison(
            reported=reported[direction],
            expected=expected,
            counted=interface[f"{direction}_bytes_per_step"],
            headers=HEADER_BYTES * interface[f"{direction}_packets_per_step"],
            control=max(idle_rate, 0) * interface["seconds_per_step"],
        )
    return comparisons
