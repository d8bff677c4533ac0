"""Compares steps of one packet with those of several (`num_groups`), sent while the backward pass goes on.

    sudo -E $(which python) benchmarks/overlap.py

The backward pass is that of an accelerator: gradients become ready one after another while no core computes.
Each rank is in a network namespace, on links that are limited as in network.py (needs root and iproute2).
Packets take turns in each job. Times are medians over the rounds, of the slowest rank.
"""

import argparse
import itertools
import os
import statistics

import fill_tables
import network
import options
import page_table
from measuring import tracked
from netns import Bandwidth

from tfcompress.measure import processor


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    network.add_links(parser, ["1gbit", "10gbit"])
    options.add_ranks(parser)
    options.add_compression(parser, ["none", "int8", "int4", "topk"], "compressors, without commas")
    parser.add_argument(
        "--milliseconds",
        type=float,
        nargs="+",
        default=[0, 10, 20],
        help="from one of the four gradients to the next (default: 0 10 20)",
    )
    parser.add_argument(
        "--groups", type=int, nargs="+", default=[0, 2, 4], help="values of num_groups (default: 0 2 4)"
    )
    parser.add_argument("--steps", type=int, default=20, help="of each (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds (default %(default)s)")
    options.add_pages_folder(parser)
    return parser.parse_args(words)


def run(arguments: argparse.Namespace, bandwidth: Bandwidth, milliseconds: float, number: int) -> dict:
    """Runs one job; returns what its first rank wrote."""
    # Imported late, since it loads Horovod and TensorFlow: the machine has been checked before.
    import network_jobs

    groups = network_jobs.rotated(arguments.groups, number)
    words = [milliseconds, arguments.steps, ",".join(arguments.compression), *groups]
    return network_jobs.written(arguments, bandwidth, "overlap_rank.py", words)


def rows_of(runs: list[dict]) -> list[dict]:
    """Returns a row for each link, time between gradients and compressor: medians over the rounds."""
    found: dict[tuple, dict[str, list[float]]] = {}
    for each in runs:
        for name, steps in each["ms"].items():
            row = found.setdefault((each["link"], each["milliseconds"], name), {})
            for groups, ms in steps.items():
                row.setdefault(groups, []).append(ms)
    return [
        {
            "link": link,
            "milliseconds": milliseconds,
            "compression": name,
            "ms": {groups: statistics.median(row[groups]) for groups in sorted(row, key=int)},
        }
        for (link, milliseconds, name), row in found.items()
    ]


def main() -> None:
    arguments = parse_arguments()
    network.prepare("overlap.py")
    runs = []
    jobs = itertools.product(range(arguments.repeats), arguments.bandwidths, arguments.milliseconds)
    for number, bandwidth, milliseconds in tracked(
        jobs, lambda job: f"round {job[0] + 1}, {job[1].label}, {job[2]:g} ms"
    ):
        measured = run(arguments, bandwidth, milliseconds, number)
        runs.append({"link": bandwidth.label, "milliseconds": milliseconds, "ms": measured})
    names = ("ranks", "steps", "repeats", "cycle_time")
    results = {
        "setting": {name: getattr(arguments, name) for name in names},
        "processor": processor(),
        "cores": os.cpu_count(),
        "rows": rows_of(runs),
        "runs": runs,
    }
    options.save(results, arguments.output, "overlap")
    page_table.show(fill_tables.overlap(results))


if __name__ == "__main__":
    main()
