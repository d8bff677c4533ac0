"""One rank of a job without exchanges, to measure Horovod's control traffic. Rank 0 writes it as JSON.

python benchmarks/idle_rank.py OUTPUT INTERFACE SECONDS
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


def idle_rates(interface: str, seconds: float) -> dict[str, float]:
    """Returns what this host sends and receives in a second without exchanges."""
    meet()
    start, before = time.perf_counter(), read_counters(interface)
    time.sleep(seconds)
    rates = (read_counters(interface) - before) / (time.perf_counter() - start)
    meet()
    return dict(zip(COUNTERS, rates.tolist(), strict=True))


def main() -> None:
    output, interface, seconds = sys.argv[1:]
    hvd.init()
    rates = idle_rates(interface, float(seconds))
    if hvd.rank() == 0:
        named = {f"{name}_per_second": rate for name, rate in rates.items()}
        pathlib.Path(output).write_text(json.dumps(named) + "\n")


if __name__ == "__main__":
    main()
