"""Compares exchanges in two levels (`hierarchical=True`) with those among all ranks, on emulated hosts.

    sudo -E $(which python) benchmarks/hierarchical.py

Each host is a network namespace of this machine with several ranks, which talk over its loopback device;
links between hosts are limited as in network.py (needs root and iproute2). Collectives of the bytes that an
exchange moves are timed by themselves, then steps of one gradient, encoding and decoding included. One level
and two take turns in one job. Times are those of the slowest rank; bytes are what the interface of rank 0's
host sent. Ranks share the machine's cores, and hosts its memory: bytes within a host move more slowly than on
a machine for each host.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

import network
import options
import rich.console
import rich.progress
import rich.table
from namespace_job import environment_of, run_ranks
from netns import INTERFACE, Bandwidth
from netns import network as make_network

from tfcompress.measure import processor

RANK = pathlib.Path(__file__).with_name("hierarchical_rank.py")
# How there are process sets. With the first two kinds only the costs of Horovod itself are measured.
KINDS = ("none", "dynamic", "static")


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    network.add_links(parser, ["100mbit", "1gbit"])
    parser.add_argument("--hosts", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--ranks-per-host", type=int, default=2, help="default: %(default)s")
    parser.add_argument(
        "--elements", type=int, nargs="+", default=[1 << 20, 8_500_224], help="of a gradient, rows of 1024"
    )
    parser.add_argument("--repeats", type=int, default=9, help="default: %(default)s")
    options.add_pages_folder(parser)
    return parser.parse_args(words)


def run(arguments: argparse.Namespace, bandwidth: Bandwidth, kind: str) -> dict:
    """Runs one job; returns what its first rank measured."""
    sizes = arguments.elements if kind == "static" else []
    environment = environment_of(arguments.cycle_time, arguments.threads)
    with make_network(arguments.hosts, bandwidth) as hosts, tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "result.json"
        words = [INTERFACE, output, kind, arguments.repeats, *sizes]
        command = [sys.executable, str(RANK), *map(str, words)]
        run_ranks(hosts, command, arguments.timeout, environment, arguments.ranks_per_host)
        return json.loads(output.read_text())


def rows_of(links: dict[str, dict]) -> list[dict]:
    """Returns both exchanges of each gradient, compression and link side by side."""
    rows = []
    for link, kinds in links.items():
        for elements, calls in kinds["static"]["steps"].items():
            for name in dict.fromkeys(call.partition(":")[0] for call in calls):
                one, two = calls[f"{name}: one level"], calls[f"{name}: two levels"]
                row = {"link": link, "elements": int(elements), "compression": name, "one": one, "two": two}
                rows.append(row | {"faster": one["ms"] / two["ms"]})
    return rows


def make_table(rows: list[dict]) -> rich.table.Table:
    table = rich.table.Table(title="Exchanges among all ranks, and in two levels")
    for heading in ("link", "elements", "compression", "kB, one level", "kB, two", "ms, one", "ms, two", "x"):
        table.add_column(heading, justify="right")
    for row in rows:
        numbers = [f"{row[key]['sent_bytes'] / 1e3:,.0f}" for key in ("one", "two")]
        numbers += [f"{row[key]['ms']:,.1f}" for key in ("one", "two")]
        table.add_row(
            row["link"], f"{row['elements']:,}", row["compression"], *numbers, f"{row['faster']:.2f}"
        )
    return table


def main() -> None:
    arguments = parse_arguments()
    network.prepare("hierarchical.py")
    names = ("hosts", "ranks_per_host", "repeats", "cycle_time")
    results = {
        "setting": {name: getattr(arguments, name) for name in names},
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "links": {},
    }
    with rich.progress.Progress() as progress:
        task = progress.add_task("", total=len(KINDS) * len(arguments.bandwidths))
        for bandwidth in arguments.bandwidths:
            measured = results["links"].setdefault(bandwidth.label, {})
            for kind in KINDS:
                progress.update(task, description=f"{bandwidth.label}, process sets: {kind}")
                measured[kind] = run(arguments, bandwidth, kind)
                progress.advance(task)
    results["rows"] = rows_of(results["links"])
    options.save(results, arguments.output, "hierarchical")
    rich.console.Console(width=110).print(make_table(results["rows"]))


if __name__ == "__main__":
    main()
