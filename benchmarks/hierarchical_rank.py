"""One rank of `hierarchical.py`: times collectives over all ranks, and in two levels. Rank 0 writes JSON.

python benchmarks/hierarchical_rank.py INTERFACE OUTPUT SETS REPEATS ELEMENTS...

SETS is 0 or 1: whether process sets exist. Without them only what takes all ranks is timed.
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

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
from workload.interface import COUNTERS, read_counters

# Bytes of an encoded element: `int8`, and one element in a hundred as `topk` encodes it.
ENCODED_BYTES = {"int8": 1 + 2 / 256, "topk 1 %": 0.01 * 5.33}
IDLE_SECONDS = 3.0


class Levels:
    """The process sets of this rank: the ranks of its host, and those of its number on other hosts."""

    def __init__(self) -> None:
        per_host, hosts = (int(os.environ[f"HOROVOD_{each}_SIZE"]) for each in ("LOCAL", "CROSS"))
        inside = [[host * per_host + i for i in range(per_host)] for host in range(hosts)]
        self.ranks = [*inside, *zip(*inside, strict=True)]
        self.inside, self.across = None, None

    def sets(self) -> list[hvd.ProcessSet]:
        """Returns the sets that `hvd.init` takes."""
        return [hvd.ProcessSet(list(ranks)) for ranks in self.ranks]

    def choose(self, sets: list[hvd.ProcessSet]) -> None:
        """Keeps the two that this rank is in."""
        self.inside, self.across = [each for each in sets if each.included()]


def host_sum(vector: tf.Tensor, inside: hvd.ProcessSet, how: str) -> tf.Tensor:
    """Sums a vector over the ranks of a host; returns this rank's part of it."""
    parts = inside.size()
    if how == "allreduce":
        total = hvd.allreduce(vector, op=hvd.Sum, process_set=inside, name=f"inside_{how}")
        return tf.split(total, parts)[inside.rank()]
    if how == "reducescatter":
        return hvd.reducescatter(vector, op=hvd.Sum, process_set=inside, name=f"inside_{how}")
    splits = tf.fill([parts], vector.shape[0] // parts)
    received, _ = hvd.alltoall(vector, splits=splits, process_set=inside, name=f"inside_{how}")
    return tf.add_n(tf.split(received, parts))


def gather_inside(part: tf.Tensor, inside: hvd.ProcessSet) -> tf.Tensor:
    return hvd.allgather(part, process_set=inside, name="back")


def shard(frame: tf.Tensor, ranks: hvd.ProcessSet, size: int) -> tf.Tensor:
    """Moves what a sharded exchange of one encoded vector moves."""
    splits = tf.fill([size], frame.shape[0] // size)
    pieces, _ = hvd.alltoall(frame, splits=splits, process_set=ranks, name="pieces")
    return hvd.allgather(pieces[: frame.shape[0] // size], process_set=ranks, name="sums")


def gather(frame: tf.Tensor, ranks: hvd.ProcessSet) -> tf.Tensor:
    return hvd.allgather(frame, process_set=ranks, name="frames")


def in_two_levels(
    vector: tf.Tensor, frame: tf.Tensor, levels: Levels, how: str
) -> Callable[[], tf.Tensor]:
    """Moves what a hierarchical exchange moves; `frame` is the encoded vector, of which a part travels.

    Three functions: in one TensorFlow would do at the same time what waits for each other here.
    """
    own = frame[: frame.shape[0] // hvd.local_size()]
    to_owners = tf.function(functools.partial(host_sum, vector, levels.inside, how))
    between = tf.function(functools.partial(gather, own, levels.across))
    back = tf.function(lambda part: gather_inside(part, levels.inside))

    def call() -> tf.Tensor:
        part = to_owners()
        between()
        return back(part)

    return call


def exchanges(elements: int, levels: Levels | None) -> dict[str, Callable[[], tf.Tensor]]:
    """Returns what is timed, by name."""
    vector, everyone = tf.random.normal([elements]), hvd.global_process_set
    calls = {"meet": lambda: hvd.allreduce(tf.zeros([1]), name="small")}
    calls["flat all-reduce, float32"] = lambda: hvd.allreduce(vector, op=hvd.Sum, name="dense")
    for name, width in ENCODED_BYTES.items():
        length = round(elements * width / hvd.size() ** 2) * hvd.size() ** 2
        frame = tf.cast(tf.random.uniform([length], 0, 256, tf.int32), tf.uint8)
        calls[f"flat gather, {name}"] = functools.partial(gather, frame, everyone)
        calls[f"flat shard, {name}"] = functools.partial(shard, frame, everyone, hvd.size())
        if levels is not None:
            for how in ("reducescatter", "alltoall", "allreduce"):
                calls[f"two levels by {how}, {name}"] = in_two_levels(vector, frame, levels, how)
    if levels is not None:
        for how in ("reducescatter", "alltoall", "allreduce"):
            calls[f"inside: {how}"] = functools.partial(host_sum, vector, levels.inside, how)
        part = tf.split(vector, hvd.local_size())[0]
        calls["inside: allgather"] = functools.partial(gather_inside, part, levels.inside)
    return {name: call if "levels" in name else tf.function(call) for name, call in calls.items()}


def measure(calls: dict[str, Callable[[], tf.Tensor]], interface: str, repeats: int) -> dict[str, dict]:
    """Times calls in turn; returns medians of the slowest rank, and bytes that leave this host."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    sent: dict[str, list[int]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):  # The first one makes what the others use again.
        for name, call in calls.items():
            meet()
            before, start = read_counters(interface), time.perf_counter()
            result = call()
            del result
            seconds = time.perf_counter() - start
            slowest = float(tf.reduce_max(hvd.allgather(tf.constant([seconds], tf.float64))))
            if repeat:
                times[name].append(slowest)
                sent[name].append(int((read_counters(interface) - before)[0]))
    return {
        name: {"ms": 1e3 * statistics.median(times[name]), "sent_bytes": statistics.median(sent[name])}
        for name in calls
    }


def meet() -> None:
    hvd.allreduce(tf.zeros([]), name="meet")


def idle_rates(interface: str) -> dict[str, float]:
    """Returns what a host sends and receives a second when nothing is exchanged."""
    meet()
    start, before = time.perf_counter(), read_counters(interface)
    time.sleep(IDLE_SECONDS)
    rates = (read_counters(interface) - before) / (time.perf_counter() - start)
    meet()
    return dict(zip(COUNTERS, rates.tolist(), strict=True))


def main() -> None:
    interface, output, has_sets, repeats, *sizes = sys.argv[1:]
    levels = None
    if int(has_sets):
        levels = Levels()
        sets = levels.sets()
        hvd.init(process_sets=sets)
        levels.choose(sets)
    else:
        hvd.init()
    results = {"idle": idle_rates(interface)}
    for elements in map(int, sizes):
        results[str(elements)] = measure(exchanges(elements, levels), interface, int(repeats))
    if hvd.rank() == 0:
        pathlib.Path(output).write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
