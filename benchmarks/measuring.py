"""Shared code of the codec benchmarks: the parts to measure, and timing."""

import os
from collections.abc import Callable

import tfcompress as tfc
from tfcompress.measure import best_seconds, processor


def with_policies(entry: tfc.catalogue.Entry) -> list[str]:
    """Returns the part's name, or one variant for each choice of its parameter."""
    choices = [p for p in entry.parameters if p.kind == "choice"]
    if not choices:
        return [entry.name]
    return [f"{entry.name}:{choices[0].name}={value}" for value in choices[0].range.split(", ")]


def seconds(call: Callable[[], object], budget: float = 0.15) -> float:
    """Returns the shortest time of as many calls as fit in `budget` seconds."""
    return best_seconds(call, least_seconds=budget)


def machine() -> str:
    return f"{processor()}, one thread of {os.cpu_count()}"
