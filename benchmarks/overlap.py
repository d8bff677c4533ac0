"""Compares steps of one packet with those of several (`num_groups`), sent while the backward pass goes on.

    sudo -E $(which python) benchmarks/overlap.py

The backward pass is that of an accelerator: gradients become ready one after another while no core computes.
Each rank is in a network namespace, on links that are limited as in network.py (needs root and iproute2).
Packets take turns in each job. Times are medians over the rounds, of the slowest rank.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

import network
import options
import rich.console
import rich.progress
import rich.table
from netns import Bandwidth

from tfcompress.measure import processor

RANK = pathlib.Path(__file__).with_name("overlap_rank.py")


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    network.add_links(parser, ["1gbit", "10gbit"])
    options.add_ranks(parser)
    parser.add_argument(
        "--compression",
        nargs="+",
        default=["none", "int8", "int4", "topk"],
        metavar="PRESET",
        help="default: none int8 int4 topk",
    )
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
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "result.json"
        words = [RANK, output, milliseconds, arguments.steps, ",".join(arguments.compression), *groups]
        network_jobs.run(arguments, bandwidth, [sys.executable, *map(str, words)])
        return json.loads(output.read_text())


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


def make_table(rows: list[dict]) -> rich.table.Table:
    table = rich.table.Table(title="Milliseconds of a step, by num_groups")
    for heading in ("link", "ms between gradients", "compression", *rows[0]["ms"]):
        table.add_column(heading, justify="right")
    for row in rows:
        times = [f"{ms:.0f}" for ms in row["ms"].values()]
        table.add_row(row["link"], f"{row['milliseconds']:g}", row["compression"], *times)
    return table


def main() -> None:
    arguments = parse_arguments()
    network.prepare("overlap.py")
    runs = []
    with rich.progress.Progress() as progress:
        jobs = [
            (number, bandwidth, milliseconds)
            for number in range(arguments.repeats)
            for bandwidth in arguments.bandwidths
            for milliseconds in arguments.milliseconds
        ]
        task = progress.add_task("", total=len(jobs))
        for number, bandwidth, milliseconds in jobs:
            progress.update(task, description=f"round {number + 1}, {bandwidth.label}, {milliseconds:g} ms")
            measured = run(arguments, bandwidth, milliseconds, number)
            runs.append({"link": bandwidth.label, "milliseconds": milliseconds, "ms": measured})
            progress.advance(task)
    names = ("ranks", "steps", "repeats", "cycle_time")
    results = {
        "setting": {name: getattr(arguments, name) for name in names},
        "processor": processor(),
        "cores": os.cpu_count(),
        "rows": rows_of(runs),
        "runs": runs,
    }
    options.save(results, arguments.output, "overlap")
    rich.console.Console(width=110).print(make_table(results["rows"]))


if __name__ == "__main__":
    main()
