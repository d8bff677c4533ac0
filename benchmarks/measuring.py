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
    """The best of several runs, as many as `budget` seconds allow: the machine's noise only ever adds."""
    best = math.inf
    start = time.perf_counter()
    while time.perf_counter() - start < budget:
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def memcpy_seconds(num_floats: int, budget: float = 0.15) -> float:
    source, target = np.ones(num_floats, np.float32), np.zeros(num_floats, np.float32)
    return seconds(lambda: np.copyto(target, source), budget)


def machine() -> str:
    models = re.findall(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{models[0] if models else platform.machine()}, one thread of {os.cpu_count()}"
