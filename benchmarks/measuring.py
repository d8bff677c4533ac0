"""What the benchmarks of the codecs share: the parts to measure, and how."""

import os
from collections.abc import Callable

import tfcompress as tfc
from tfcompress.measure import best_seconds, processor


def with_policies(entry: tfc.catalogue.Entry) -> list[str]:
    """The part, and one for each choice of its parameters."""
    choices = [p for p in entry.parameters if p.kind == "choice"]
    if not choices:
        return [entry.name]
    return [f"{entry.name}:{choices[0].name}={value}" for value in choices[0].range.split(", ")]


def seconds(call: Callable[[], object], budget: float = 0.15) -> float:
    """The shortest of as many calls as take `budget` seconds."""
    return best_seconds(call, least_seconds=budget)


def machine() -> str:
    return f"{processor()}, one thread of {os.cpu_count()}"
