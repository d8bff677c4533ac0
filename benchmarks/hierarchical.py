"""Times exchanges over all ranks and in two levels: hosts of several ranks on links of a limited rate.

sudo -E $(which python) benchmarks/hierarchical.py --bandwidths 100mbit 1gbit
"""

import argparse
import json
import pathlib
import sys
import tempfile

import network
import options
from namespace_job import run_ranks
from netns import INTERFACE, Bandwidth
from netns import network as make_network

RANK = pathlib.Path(__file__).with_name("hierarchical_rank.py")


def run(arguments: argparse.Namespace, bandwidth: Bandwidth, has_sets: bool) -> dict:
    """Runs one job; returns what its first rank measured."""
    with make_network(arguments.hosts, bandwidth) as hosts, tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "result.json"
        words = [INTERFACE, output, int(has_sets), arguments.repeats, *arguments.elements]
        environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "HOROVOD_CYCLE_TIME": str(arguments.cycle_time)}
        command = [sys.executable, str(RANK), *map(str, words)]
        run_ranks(hosts, command, arguments.timeout, environment, arguments.ranks_per_host)
        return json.loads(output.read_text())


def main() -> None:
    parser = options.make_parser(__doc__)
    network.add_links(parser, ["100mbit", "1gbit"])
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks-per-host", type=int, default=2)
    parser.add_argument("--elements", type=int, nargs="+", default=[1 << 20, 8_500_224])
    parser.add_argument("--repeats", type=int, default=9)
    options.add_pages_folder(parser)
    arguments = parser.parse_args()
    network.prepare("hierarchical.py")
    results = {"collectives": {}}
    for bandwidth in arguments.bandwidths:
        for has_sets in (True, False):
            measured = run(arguments, bandwidth, has_sets)
            results["collectives"][f"{bandwidth.label}, {'with' if has_sets else 'without'} sets"] = measured
            print(bandwidth.label, has_sets, json.dumps(measured, indent=1), flush=True)
    options.save(results, arguments.output, "hierarchical")


if __name__ == "__main__":
    main()
