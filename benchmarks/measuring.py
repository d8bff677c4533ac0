"""Shared code of the codec benchmarks: the parts to measure, and timing."""

import os
import time
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


def cpu_milliseconds(call: Callable[[], object], repeats: int = 10, least_seconds: float = 0.1) -> float:
    """Returns the least processor time of a call on this thread: other programs hardly change it."""
    times: list[float] = []
    while len(times) < repeats or sum(times) < least_seconds:
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return 1e3 * min(times)


def machine() -> str:
    return f"{processor()}, one thread of {os.cpu_count()}"
