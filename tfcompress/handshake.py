"""The check, before the first step, that all ranks mean the same thing."""

import json

from tfcompress import exchange
from tfcompress._version import __version__


def check_equal_configuration(
    configuration: dict[str, object], tensors: list[tuple[str, list[int | None]]]
) -> None:
    """Compares this rank's configuration with that of all others.

    Different specs would not hang, but would surface as unreadable frames in the middle of training.

    Args:
      configuration: What must be equal on all ranks, such as the spec; JSON-able.
      tensors: dtype name and shape of each gradient, in order.

    Raises:
      ValueError: On every rank, when any two differ, showing both sides.
    """
    mine = {"tfcompress": __version__, **configuration, "tensors": tensors}
    messages = exchange.gather_messages(json.dumps(mine).encode())
    all_ranks = [json.loads(message) for message in messages]
    for rank, theirs in enumerate(all_ranks):
        if theirs != all_ranks[0]:
            raise ValueError(_difference(rank, all_ranks[0], theirs))


def _difference(rank: int, first: dict, other: dict) -> str:
    for key in first.keys() | other.keys():
        if first.get(key) != other.get(key):
            return (
                f"ranks are configured differently, so nothing was exchanged: {key} is "
                f"{first.get(key)!r} on rank 0 and {other.get(key)!r} on rank {rank}"
            )
    raise AssertionError("called with equal configurations")
