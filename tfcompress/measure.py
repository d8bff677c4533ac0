"""What training, the command line and the benchmarks measure: times, codecs, the entropy limit, errors."""

import math
import pathlib
import platform
import re
import time
from collections.abc import Callable, Sequence

import numpy as np

from tfcompress import _core, frames
from tfcompress.costs import CodecCost
from tfcompress.route import (
    factor_elements,
    has_smaller_factors,
    has_smaller_payload,
    matrix_of,
    payload_elements,
)

# Steps after which what a memory adds to a gradient, and so the bytes, have settled.
_STEPS = 8
# Frames whose sum is timed, to tell what another one costs.
_SUMMED_FRAMES = 4


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


def codec_cost(
    spec: str,
    arrays: Sequence[np.ndarray],
    *,
    num_threads: int = 0,
    repeats: int = 1,
    least_seconds: float = 0.0,
) -> CodecCost:
    """Measures what a spec costs for each element of some gradients, with the memory of some equal steps.

    Args:
      spec: What is applied. A linear one without its memory, to all arrays as one vector, as training does; a
        low-rank one to each array as a matrix.
      arrays: float32 of any shapes, finite, at least one element in all.
      num_threads: 0 (default) takes as many as there are cores.
      repeats: See `best_seconds`, of each array.
      least_seconds: See `best_seconds`, of each array.

    Raises:
      ValueError: The spec is not one, or does not take such an array.
    """
    description = _core.describe_spec(spec)
    if description["linear"] and description["rank"]:
        cost_of = _factors_cost
    elif description["linear"]:
        whole = np.concatenate([array.reshape(-1) for array in arrays])
        arrays, cost_of = [whole], _payload_cost
    else:
        cost_of = _frame_cost

    def seconds(call: Callable[[], object]) -> float:
        return best_seconds(call, repeats=repeats, least_seconds=least_seconds)

    costs = [cost_of(array, description, num_threads, seconds) for array in arrays]
    num_elements = sum(array.size for array in arrays)
    return CodecCost(*[sum(each) / num_elements for each in zip(*costs, strict=True)])


def _frame_cost(
    array: np.ndarray, description: dict, num_threads: int, seconds: Callable[[Callable[[], object]], float]
) -> tuple[float, ...]:
    slots = [np.zeros(array.size, np.float32) for _ in range(description["num_slots"])]

    def encode() -> bytes:
        return frames.encode(array, description["spec"], slots=slots, num_threads=num_threads)

    def decode(packets: bytes, num_ranks: int) -> object:
        return _core.decode_sum(packets, num_ranks, 1.0, [array.size], ["float32"], num_threads)

    for _ in range(_STEPS if slots else 0):
        encode()
    frame = encode()
    one = seconds(lambda: decode(frame, 1))
    packets = frame * _SUMMED_FRAMES
    several = seconds(lambda: decode(packets, _SUMMED_FRAMES))
    further = max(several - one, 0.0) / (_SUMMED_FRAMES - 1)
    return len(frame), seconds(encode), one, further


def _payload_cost(
    array: np.ndarray, description: dict, num_threads: int, seconds: Callable[[Callable[[], object]], float]
) -> tuple[float, ...]:
    spec = description["spec"]
    if not has_smaller_payload(spec, array.size):  # The vector travels as it is.
        return 4 * array.size, 0.0, 0.0, 0.0
    payload = _core.linear_encode(array, spec, num_threads=num_threads)
    encode = seconds(lambda: _core.linear_encode(array, spec, num_threads=num_threads))
    recover = seconds(lambda: _core.linear_recover(payload, array.size, spec, num_threads=num_threads))
    return 4 * payload_elements(spec, array.size), encode, recover, 0.0


def _factors_cost(
    array: np.ndarray, description: dict, num_threads: int, seconds: Callable[[Callable[[], object]], float]
) -> tuple[float, ...]:
    rank = description["rank"]
    if not has_smaller_factors(array.shape, rank):  # The matrix travels as it is.
        return 4 * array.size, 0.0, 0.0, 0.0
    matrix = np.ascontiguousarray(array.reshape(matrix_of(array.shape)))
    options = (rank, num_threads)
    right = np.ones(rank * matrix.shape[1], np.float32)
    summed = _core.low_rank_left(matrix, right, rank, num_threads=num_threads)
    encode = seconds(lambda: _core.low_rank_left(matrix, right, rank, num_threads=num_threads))
    left, right = _core.low_rank_right(matrix, summed, *options)
    encode += seconds(lambda: _core.low_rank_right(matrix, summed, *options))
    decode = seconds(lambda: _core.low_rank_decode(matrix, left, right, *options))
    return 4 * factor_elements(array.shape, rank), encode, decode, 0.0


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
