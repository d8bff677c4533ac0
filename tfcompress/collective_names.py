"""Names of collectives, which all ranks give alike."""

import hashlib
import json
from collections.abc import Hashable, Sequence

# Exchanges that began, each of one optimizer or tape: their numbers are in the names of collectives. An
# object that exists on one rank only, such as the optimizer of a model loaded for evaluation, never
# exchanges.
_num_exchanges = 0

# In elastic jobs: the keys of the variables of each list of gradients that has begun to be exchanged, by what
# describes the list; models that are alike in everything have more than one.
_lists: dict[str, list[tuple]] = {}


def num_exchanges() -> int:
    """Returns how many exchanges have begun: the first number that is free on this rank."""
    return _num_exchanges


def begin_exchange(number: int) -> str:
    """Takes a number that is free on all ranks; returns the name of the exchange's collectives."""
    global _num_exchanges
    _num_exchanges = number + 1
    return f"tfcompress_{number}"


def name_of_list(description: object, keys: Sequence[Hashable]) -> str:
    """Returns a name for the collectives of a list of gradients that ranks need not agree on.

    For elastic jobs: a rank that joins has not exchanged all that others have, so serial numbers differ.

    Args:
      description: What is the same on all ranks for this list, and seldom for another one; JSON-able.
      keys: Identify the variables within this process.
    """
    digest = hashlib.sha256(json.dumps(description).encode()).hexdigest()[:16]
    alike = _lists.setdefault(digest, [])
    if tuple(keys) not in alike:
        alike.append(tuple(keys))
    return f"tfcompress_{digest}_{alike.index(tuple(keys))}"
