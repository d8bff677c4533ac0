"""The check, before a new list of gradients is exchanged, that all ranks are configured alike."""

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

from tfcompress import devices
from tfcompress._version import __version__
from tfcompress.collective_names import num_exchanges
from tfcompress.comm import Ranks

# What ranks compare of a list of gradients; all else is of an optimizer or tape.
_OF_A_LIST = ("ends of stages", "gradients", "number of gradients")


@dataclasses.dataclass(frozen=True)
class Agreement:
    """What ranks have agreed on.

    Attributes:
      number: Of the exchange, free on all ranks.
      steps: Of the rank that has done most: one that restored a checkpoint, beside others that did not.
    """

    number: int
    steps: int


def agree(
    ranks: Ranks,
    steps: int,
    settings: dict[str, object],
    gradients: Sequence[tuple[str, str, list[int | None], list[str]]],
) -> Agreement:
    """Compares this rank's configuration with that of all others.

    Ranks that differ would hang in a collective, or fail later on frames that they cannot read.

    Args:
      ranks: The ranks that exchange.
      steps: Steps that this rank has done.
      settings: What must be equal on all ranks, such as the reduction; JSON-able.
      gradients: Name, dtype name, shape and routes of each gradient, in order. Numbers that Keras appends
        to names do not count: they depend on what else a process has built.

    Raises:
      ValueError: On every rank, when any two differ, saying in what.
    """
    plain = [[re.sub(r"_\d+(?=/|:|$)", "", name), *rest] for name, *rest in gradients]
    configuration = {
        "tfcompress version": __version__,
        "device of packets": devices.packets(),
        **settings,
        "number of gradients": len(plain),
        "gradients": plain,
    }
    message = json.dumps([configuration, num_exchanges(), steps])
    all_ranks = [json.loads(each) for each in ranks.gather_messages(message.encode())]
    configurations, numbers, all_steps = zip(*all_ranks, strict=True)
    for rank, theirs in enumerate(configurations):
        if theirs != configurations[0]:
            raise ValueError(
                "ranks are configured differently, so nothing was exchanged: "
                + _difference(rank, configurations[0], theirs)
            )
    return Agreement(max(numbers), max(all_steps))


def _difference(rank: int, first: dict, other: dict) -> str:
    # What the program said comes before what follows from it.
    for key in sorted(first.keys() | other.keys(), key=lambda key: (key in _OF_A_LIST, key)):
        ours: Any = first.get(key)
        theirs: Any = other.get(key)
        if ours == theirs:
            continue
        if key != "gradients" or len(ours) != len(theirs):
            return f"{key} is {ours!r} on rank 0 and {theirs!r} on rank {rank}"
        position = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        return (
            f"gradient {position} is {_describe(ours[position])} on rank 0 "
            f"and {_describe(theirs[position])} on rank {rank}"
        )
    raise AssertionError("called with equal configurations")


def _describe(gradient: list) -> str:
    name, dtype, shape, routes = gradient
    return f"'{name}' ({dtype} {shape}, {', then '.join(routes)})"
