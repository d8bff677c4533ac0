"""What the command line and the benchmarks measure alike: times, memcpys, the entropy limit, errors."""

import math
import pathlib
import platform
import re
import time
from collections.abc import Callable

import numpy as np


def best_seconds(
    call: Callable[[], object],
    *,
    repeats: int = 1,
    least_seconds: float = 0.0,
    prepare: Callable[[], object] | None = None,
) -> float:
    """Returns the shortest of several runs: the machine's noise only ever adds.

    Args:
      call: What is timed.
      repeats: Runs at least.
      least_seconds: Time that all runs together take at least.
      prepare: Is called before every run, outside the time.
    """
    best, total, runs = math.inf, 0.0, 0
    while runs < repeats or total < least_seconds:
        if prepare is not None:
            prepare()
        begin = time.perf_counter()
        call()
        elapsed = time.perf_counter() - begin
        best, total, runs = min(best, elapsed), total + elapsed, runs + 1
    return best


def memcpy_seconds(num_floats: int, least_seconds: float = 0.15) -> float:
    """Returns the time to copy a float32 vector on one thread, into memory that is already mapped.

    Args:
      num_floats: Elements of the vector.
      least_seconds: See `best_seconds`.
    """
    source = np.ones(num_floats, np.float32)
    target = source.copy()
    return best_seconds(lambda: np.copyto(target, source), least_seconds=least_seconds)


def entropy_bits(n: int, k: int) -> float:
    """Returns log2 C(n, k) / k: bits that each of k of n indices needs if all choices are equally likely.

    Args:
      n: Elements.
      k: Elements of the support, in [1, n].
    """
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2) / k


def squared_norm(values: np.ndarray) -> float:
    """Returns the sum of squares, in float64: squares of small gradients vanish in float32."""
    return float(np.sum(np.square(values, dtype=np.float64)))


def processor() -> str:
    """Returns the name of this machine's processor."""
    info = pathlib.Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    return models[0] if models else platform.machine()
