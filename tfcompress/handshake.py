"""The check, before the first step, that all ranks mean the same thing."""

import json
import re
from collections.abc import Sequence

from tfcompress._version import __version__
from tfcompress.exchange import Ranks


def check_equal_configuration(
    ranks: Ranks, settings: dict[str, object], tensors: Sequence[tuple[str, str, list[int | None], str]]
) -> None:
    """Compares this rank's configuration with that of all others.

    Different specs would not hang, but would surface as unreadable frames in the middle of training.

    Args:
      ranks: The ranks that exchange.
      settings: What must be equal on all ranks, such as the reduction; JSON-able.
      tensors: Name, dtype name, shape and spec of each gradient, in order. Numbers that Keras appends
        to names do not count: they depend on what else a process has built.

    Raises:
      ValueError: On every rank, when any two differ, saying in what.
    """
    plain = [[re.sub(r"_\d+(?=/|:|$)", "", name), *rest] for name, *rest in tensors]
    mine = {
        "tfcompress version": __version__,
        **settings,
        "number of gradients": len(plain),
        "gradients": plain,
    }
    all_ranks = [json.loads(message) for message in ranks.gather_messages(json.dumps(mine).encode())]
    for rank, theirs in enumerate(all_ranks):
        if theirs != all_ranks[0]:
            raise ValueError(
                "ranks are configured differently, so nothing was exchanged: "
                + _difference(rank, all_ranks[0], theirs)
            )


def _difference(rank: int, first: dict, other: dict) -> str:
    for key in sorted(first.keys() | other.keys()):
        ours, theirs = first.get(key), other.get(key)
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


def _describe(tensor: list) -> str:
    name, dtype, shape, spec = tensor
    return f"'{name}' ({dtype} {shape}, '{spec}')"
