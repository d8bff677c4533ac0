"""Two levels of ranks: those of a host, and those in one place on all hosts."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import Any

from tfcompress.comm import Ranks, horovod, is_elastic, talks_eagerly

# Process sets of two levels, by their ranks; they serve all optimizers and tapes.
_sets: dict[tuple[int, ...], Any] = {}


@dataclasses.dataclass(frozen=True)
class Levels:
    """The two levels of ranks, as one of them sees them.

    Attributes:
      inside: The ranks of its host.
      across: The ranks, one on each host, that are in its place there.
    """

    inside: Ranks
    across: Ranks


def host_number() -> int:
    """Returns a number that the ranks of this host share, and no others."""
    return horovod().cross_rank()


def refuse_levels() -> None:
    """Raises ValueError where there cannot be two levels, whatever hosts the ranks are on."""
    if is_elastic():
        raise ValueError(
            "hierarchical=True does not work in elastic jobs, where ranks come and go and process sets stay"
        )
    if not talks_eagerly():
        raise ValueError(
            "hierarchical=True does not work in TF1-style graphs, where ranks cannot talk beforehand"
        )


def levels_of(ranks: Ranks) -> Levels | None:
    """Makes the process sets of two levels. Every rank must call it, none while it exchanges.

    Returns:
      The levels; None where all ranks are on one host, or each is on its own: one level is all there is.

    Raises:
      ValueError: On all ranks. Hosts have different numbers of ranks, or Horovod was started without
        process sets.
    """
    hosts: dict[bytes, list[int]] = {}
    for rank, host in enumerate(ranks.gather_messages(str(host_number()).encode())):
        hosts.setdefault(host, []).append(rank)
    sizes = sorted({len(ranks) for ranks in hosts.values()})
    if len(sizes) > 1:
        raise ValueError(
            f"hierarchical=True needs equally many ranks on all hosts, got {sizes[0]} to {sizes[-1]}: "
            "start as many on each, or leave it out"
        )
    if len(hosts) == 1 or sizes == [1]:
        return None
    sets = [_process_set(group) for group in _groups_of_levels(hosts.values())]
    return Levels(*[Ranks(each) for each in sets if each.included()])


def host_process_sets(ranks_per_host: int, num_ranks: int | None = None) -> list:
    """Returns the process sets of `hierarchical=True`, for `hvd.init(process_sets=...)`.

    With these Horovod's idle traffic stays as it is; where process sets may be added later, by
    `hvd.init(process_sets="dynamic")`, it is some times as much.

    Args:
      ranks_per_host: How many ranks there are on each host; they have consecutive numbers.
      num_ranks: Of all hosts (default: what horovodrun says, or one without it).

    Returns:
      A list of hvd.ProcessSet: one for each host, and one for each place on the hosts; empty for a single
      host, or a single rank on each.

    Raises:
      ValueError: The ranks do not fill the hosts.
    """
    size = num_ranks or int(os.environ.get("HOROVOD_SIZE", "1"))
    if ranks_per_host < 1 or size % ranks_per_host:
        raise ValueError(f"{size} ranks are not hosts of {ranks_per_host} each")
    hosts = [range(begin, begin + ranks_per_host) for begin in range(0, size, ranks_per_host)]
    if len(hosts) == 1 or ranks_per_host == 1:
        return []
    made = {group: horovod().ProcessSet(list(group)) for group in _groups_of_levels(hosts)}
    _sets.update(made)
    return list(made.values())


def _groups_of_levels(hosts: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """Returns the ranks of each host, and those that are in the same place on all hosts."""
    inside = [tuple(ranks) for ranks in hosts]
    return [*inside, *zip(*inside, strict=True)]


def _process_set(ranks: tuple[int, ...]) -> Any:
    """Returns Horovod's process set of some ranks. All ranks must call it, members or not."""
    known = _sets.get(ranks)
    if known is None or known.process_set_id is None:  # None before `hvd.init`, and where it was removed.
        try:
            _sets[ranks] = horovod().add_process_set(list(ranks))
        except ValueError as error:
            raise ValueError(
                "hierarchical=True needs process sets of its own: call "
                "hvd.init(process_sets=tfc.host_process_sets(ranks_per_host)), "
                f'or hvd.init(process_sets="dynamic") ({error})'
            ) from error
    return _sets[ranks]
