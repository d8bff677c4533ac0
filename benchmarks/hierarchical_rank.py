"""One rank of `hierarchical.py`: times collectives and steps, among all ranks and in two levels.

python benchmarks/hierarchical_rank.py OUTPUT none|static|dynamic REPEATS ELEMENTS...

The second argument is how there are process sets; two levels are timed with static ones only. Rank 0 writes
medians of the slowest rank as JSON.
"""

import functools
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import horovod.tensorflow as hvd
import tensorflow as tf
from idle_rank import idle_rates, meet
from netns import INTERFACE

import tfcompress as tfc

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
from workload.interface import read_counters

# Bytes of an encoded element: of `int8`, and of `topk`, which sends one in a hundred.
ENCODED_BYTES = {"int8": 1 + 2 / 256, "topk": 0.01 * 5.33}
# How the ranks of a host may sum a vector, of which each needs a part.
HOST_SUMS = ("alltoall", "allreduce", "reducescatter")
IDLE_SECONDS = 3.0
COLUMNS = 1024

Calls = dict[str, Callable[[], object]]


def compressors() -> dict[str, tfc.Compressor]:
    return {
        "none": tfc.Compression.none,
        "int8": tfc.Compression.int8(),
        "int4": tfc.Compression.int4(),
        "topk": tfc.Compression.topk(0.01),
        "sparse": tfc.Compression.sparse(0.01, index="rowcol", value="ecsq").last,
    }


# ---- Collectives, of the bytes that an exchange would move -------------------------------------------------


def sum_inside(vector: tf.Tensor, inside: hvd.ProcessSet, how: str) -> tf.Tensor:
    """Sums a vector over the ranks of a host; returns this rank's part of it."""
    options = {"process_set": inside, "name": f"inside_{how}"}
    if how == "allreduce":
        return tf.split(hvd.allreduce(vector, op=hvd.Sum, **options), inside.size())[inside.rank()]
    if how == "reducescatter":
        return hvd.reducescatter(vector, op=hvd.Sum, **options)
    received, _ = hvd.alltoall(vector, splits=[vector.shape[0] // inside.size()] * inside.size(), **options)
    return tf.add_n(tf.split(received, inside.size()))


def gather(packet: tf.Tensor, ranks: hvd.ProcessSet, name: str) -> tf.Tensor:
    return hvd.allgather(packet, process_set=ranks, name=name)


def shard(frame: tf.Tensor) -> tf.Tensor:
    own = frame.shape[0] // hvd.size()
    pieces, _ = hvd.alltoall(frame, splits=[own] * hvd.size(), name="pieces")
    return hvd.allgather(pieces[:own], name="sums")


def in_two_levels(
    vector: tf.Tensor, frame: tf.Tensor, inside: hvd.ProcessSet, across: hvd.ProcessSet, how: str
) -> Callable[[], tf.Tensor]:
    """Moves what a hierarchical exchange moves; `frame` is the encoded vector, of which a part travels."""
    own = frame[: frame.shape[0] // inside.size()]
    # Three functions: in a single one TensorFlow would not wait for the exchange between hosts.
    to_owners = tf.function(functools.partial(sum_inside, vector, inside, how))
    between = tf.function(functools.partial(gather, own, across, "frames_of_hosts"))
    back = tf.function(functools.partial(gather, ranks=inside, name="back"))

    def call() -> tf.Tensor:
        part = to_owners()
        between()
        return back(part)

    return call


def collectives(elements: int, sets: list[hvd.ProcessSet]) -> Calls:
    """Returns what is timed, by name."""
    levels = [each for each in sets if each.included()]
    vector, calls = tf.random.normal([elements]), {}
    for name, width in ENCODED_BYTES.items():
        length = round(elements * width / hvd.size() ** 2) * hvd.size() ** 2
        frame = tf.cast(tf.random.uniform([length], 0, 256, tf.int32), tf.uint8)
        everyone = functools.partial(gather, frame, hvd.global_process_set, "frames")
        calls[f"{name}: one level, all-gather"] = tf.function(everyone)
        calls[f"{name}: one level, all-to-all and all-gather"] = tf.function(functools.partial(shard, frame))
        for how in HOST_SUMS if levels else ():
            calls[f"{name}: two levels by {how}"] = in_two_levels(vector, frame, *levels, how)
    if levels:
        for how in HOST_SUMS:
            calls[f"inside: {how}"] = tf.function(functools.partial(sum_inside, vector, levels[0], how))
        part = tf.split(vector, levels[0].size())[0]
        calls["inside: all-gather"] = tf.function(functools.partial(gather, part, levels[0], "back"))
    return calls


# ---- Steps -------------------------------------------------------------------------------------------------


def steps(elements: int, has_levels: bool) -> Calls:
    """Returns exchanges of one gradient, encoding and decoding included."""
    calls = {}
    gradient = tf.random.normal([elements // COLUMNS, COLUMNS], seed=hvd.rank())
    for name, compressor in compressors().items():
        calls[f"{name}: one level"] = make_step(gradient, compressor, False)
        if has_levels:
            calls[f"{name}: two levels"] = make_step(gradient, compressor, True)
    return calls


def make_step(gradient: tf.Tensor, compressor: tfc.Compressor, hierarchical: bool) -> Callable[[], tf.Tensor]:
    variable = tf.Variable(tf.zeros(gradient.shape))

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as plain:
            loss = tf.reduce_sum(variable * gradient)
        tape = tfc.DistributedGradientTape(plain, compression=compressor, hierarchical=hierarchical)
        return tape.gradient(loss, [variable])[0]

    return step


# ---- Measuring ---------------------------------------------------------------------------------------------


def measure(calls: Calls, repeats: int) -> dict[str, dict]:
    """Times calls in turn; returns medians of the slowest rank, and of the bytes that leave this host."""
    milliseconds: dict[str, list[float]] = {name: [] for name in calls}
    sent: dict[str, list[int]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            meet()
            before, start = read_counters(INTERFACE), time.perf_counter()
            call()
            seconds = time.perf_counter() - start
            slowest = float(tf.reduce_max(hvd.allgather(tf.constant([seconds], tf.float64))))
            if repeat:  # The first one makes what the others use again.
                milliseconds[name].append(1e3 * slowest)
                sent[name].append(int((read_counters(INTERFACE) - before)[0]))
    return {
        name: {
            "ms": statistics.median(milliseconds[name]),
            "fastest_ms": min(milliseconds[name]),
            "sent_bytes": statistics.median(sent[name]),
        }
        for name in calls
    }


def main() -> None:
    output, kind, repeats, *sizes = sys.argv[1:]
    sets = tfc.host_process_sets(int(os.environ["HOROVOD_LOCAL_SIZE"])) if kind == "static" else []
    hvd.init(process_sets="dynamic" if kind == "dynamic" else sets)
    meet_calls = {"one element, all-reduce": tf.function(lambda: hvd.allreduce(tf.zeros([1]), name="one"))}
    results = {
        "idle": idle_rates(INTERFACE, IDLE_SECONDS),
        "latency": measure(meet_calls, 10 * int(repeats)),
        "collectives": {n: measure(collectives(int(n), sets), int(repeats)) for n in sizes},
    }
    results["steps"] = {n: measure(steps(int(n), bool(sets)), int(repeats)) for n in sizes}
    if hvd.rank() == 0:
        pathlib.Path(output).write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
