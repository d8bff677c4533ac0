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
import itertools
import os

import fill_tables
import network
import options
import page_table
from measuring import tracked
from netns import Bandwidth

from tfcompress.measure import processor

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
    # Imported late, since it loads Horovod and TensorFlow: the machine has been checked before.
    import network_jobs

    words = [kind, arguments.repeats, *(arguments.elements if kind == "static" else [])]
    hosts = {"hosts": arguments.hosts, "ranks_per_host": arguments.ranks_per_host}
    return network_jobs.written(arguments, bandwidth, "hierarchical_rank.py", words, **hosts)


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
    jobs = itertools.product(arguments.bandwidths, KINDS)
    for bandwidth, kind in tracked(jobs, lambda job: f"{job[0].label}, process sets: {job[1]}"):
        measured = results["links"].setdefault(bandwidth.label, {})
        measured[kind] = run(arguments, bandwidth, kind)
    results["rows"] = rows_of(results["links"])
    options.save(results, arguments.output, "hierarchical")
    page_table.show(fill_tables.hierarchical(results))


if __name__ == "__main__":
    main()
