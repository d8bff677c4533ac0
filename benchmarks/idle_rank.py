"""One rank of a job without exchanges, to measure Horovod's control traffic. Rank 0 writes it as JSON.

python benchmarks/idle_rank.py INTERFACE SECONDS OUTPUT
"""

import json
import pathlib
import sys
import time

import horovod.tensorflow as hvd
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
from workload.interface import COUNTERS, read_counters


def meet() -> None:
    """Waits for all ranks."""
    hvd.allreduce(tf.zeros([]), name="meet")


def main() -> None:
    interface, seconds, output = sys.argv[1:]
    hvd.init()
    meet()
    start, before = time.perf_counter(), read_counters(interface)
    time.sleep(float(seconds))
    rates = (read_counters(interface) - before) / (time.perf_counter() - start)
    meet()
    if hvd.rank() == 0:
        named = {f"{name}_per_second": rate for name, rate in zip(COUNTERS, rates.tolist(), strict=True)}
        pathlib.Path(output).write_text(json.dumps(named) + "\n")


if __name__ == "__main__":
    main()
