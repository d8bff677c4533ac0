"""Bytes that collectives move in and out of a rank, by their algorithm: arithmetic on numbers or tensors."""

from typing import Any, TypeVar

# int, float, or an int64 tensor.
Number = TypeVar("Number", int, float, Any)


def allreduce_bytes(payload: Number, num_ranks: Number) -> Number:
    """Returns what a ring all-reduce of so many bytes moves in and out of a rank, rounded down."""
    return 4 * payload * (num_ranks - 1) // num_ranks


def allgather_bytes(own: Number, of_all_ranks: Number) -> Number:
    """Returns what a ring all-gather moves in and out of a rank: all others' bytes, passed on once."""
    return 2 * (of_all_ranks - own)
