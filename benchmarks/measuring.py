"""What the benchmarks of the codecs share: the parts to measure, times, limits."""

import math
import os
import pathlib
import platform
import re
import time
from collections.abc import Callable

import numpy as np

import tfcompress as tfc

_LEAST_TIMED = 2e-4  # Seconds.


def with_policies(entry: tfc.catalogue.Entry) -> list[str]:
    """The part, and one for each choice of its parameters."""
    choices = [p for p in entry.parameters if p.kind == "choice"]
    if not choices:
        return [entry.name]
    return [f"{entry.name}:{choices[0].name}={value}" for value in choices[0].range.split(", ")]


def entropy_bits(n: int, k: int) -> float:
    """Returns log2 of the number of k-subsets of n elements, for each of the k."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2) / k


def seconds(call: Callable[[], object], budget: float = 0.15) -> float:
    """CPU seconds of a call, the best of as many as `budget` has room for.

    Other programs on the machine can only add to it, and add less than to the time on the clock. Short calls
    are timed in groups, since reading the CPU's time takes about a microsecond.
    """
    best, spent, group = math.inf, 0.0, 1
    while spent < budget:
        begin = time.process_time()
        for _ in range(group):
            call()
        took = time.process_time() - begin
        best = min(best, took / group)
        spent += took
        if took < _LEAST_TIMED:
            group *= 2
    return best


def memcpy_seconds(num_floats: int, budget: float = 0.15) -> float:
    source, target = np.ones(num_floats, np.float32), np.zeros(num_floats, np.float32)
    return seconds(lambda: np.copyto(target, source), budget)


def machine() -> str:
    models = re.findall(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{models[0] if models else platform.machine()}, one thread of {os.cpu_count()}"
