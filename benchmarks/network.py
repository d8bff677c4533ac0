"""Compares step time and bytes of compressors with plain Horovod and its fp16, on links of a chosen speed.

    sudo -E $(which python) benchmarks/network.py -np 4 --bandwidths 100mbit 1gbit unlimited
    sudo -E $(which python) benchmarks/network.py --workload ncf --compression topk -- --data-dir DIR

Each rank runs in a network namespace of this machine, behind a link that `tc tbf` limits in both directions:
this needs root and iproute2. In each round the example trains with every compressor, at every bandwidth; the
next round starts with the next compressor. Batches are in memory before the first step, so that times exclude
reading. Arguments after -- are passed to the example. Numbers are medians over the rounds, of rank 0. Ranks
share the machine's cores: with more ranks than cores, computing and codecs take longer than on separate
machines. Writes a JSON and three figures, and prints a table, and for which rows the interface carried other
bytes than the package reports. A compressor with which the example fails is left out and reported at the end,
and the exit status is 1.
"""

import argparse
import os
import pathlib
import platform
import signal
import sys

import fill_tables
import network_plots
import network_summary
import options
import page_table
from netns import Bandwidth, NetworkError, obstacle

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
COMPRESSION = ["topk", "dgc", "qsgd", "sketchml", "skcompress", "fastsgd", "deepreduce"]
BANDWIDTHS = ["100mbit", "1gbit", "10gbit", "unlimited"]
# Exit status if the machine lacks something; argparse uses the same for invalid arguments.
CANNOT_RUN = 2


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    options.add_example(parser)
    add_links(parser, BANDWIDTHS)
    baselines = " and ".join(network_summary.BASELINES)
    options.add_compression(parser, COMPRESSION, f"compressors in addition to {baselines}")
    parser.add_argument("--steps", type=int, default=20, help="steps, in one epoch (default %(default)s)")
    parser.add_argument(
        "--trial-steps",
        type=int,
        default=150,
        metavar="N",
        help="steps of `auto`, in an epoch of their own, for its trials; as many more are measured after "
        "them (default %(default)s)",
    )
    parser.add_argument("--repeats", type=int, default=3, help="rounds (default %(default)s)")
    parser.add_argument(
        "--plan", action="store_true", help="let the ranks predict these steps, too, by `tfcompress plan`"
    )
    parser.add_argument(
        "--quick", action="store_true", help="none and topk, 2 ranks, 1 Gbit/s, one round of 8 steps"
    )
    arguments = parser.parse_args(words)
    if not (EXAMPLES / f"{arguments.workload}.py").exists():
        parser.error(f"--workload: there is no {arguments.workload}.py in {EXAMPLES}")
    if arguments.quick:
        arguments.ranks, arguments.steps, arguments.repeats = 2, 8, 1
        arguments.bandwidths, arguments.compression = [Bandwidth.parse("1gbit")], ["none", "topk"]
    else:
        arguments.compression = list(dict.fromkeys([*network_summary.BASELINES, *arguments.compression]))
    return arguments


def add_links(parser: argparse.ArgumentParser, bandwidths: list[str]) -> None:
    """Adds arguments for the links and the ranks' processes."""
    parser.add_argument(
        "--bandwidths",
        nargs="+",
        type=_bandwidth,
        default=[Bandwidth.parse(each) for each in bandwidths],
        metavar="RATE",
        help=f'bandwidths of the links, such as 2.5gbit or "unlimited" (default: {" ".join(bandwidths)})',
    )
    parser.add_argument(
        "--threads", type=int, help="threads of each rank, for TensorFlow and the codecs (default: theirs)"
    )
    parser.add_argument(
        "--cycle-time", type=float, default=1, metavar="MS", help="HOROVOD_CYCLE_TIME (default %(default)s)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800,
        metavar="S",
        help="time limit of each job (default %(default)s)",
    )


def _bandwidth(text: str) -> Bandwidth:
    try:
        return Bandwidth.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(arguments: argparse.Namespace) -> dict:
    """Measures, and returns the content of the JSON."""
    # Imported late, since it loads Horovod and TensorFlow: the machine has been checked before.
    import network_jobs

    import tfcompress as tfc

    try:
        compressors = {name: tfc.make_compressor(name) for name in arguments.compression}
    except ValueError as error:
        raise SystemExit(f"--compression: {error}") from error
    try:
        measured = network_jobs.measure(arguments, EXAMPLES / f"{arguments.workload}.py")
    except (NetworkError, network_jobs.JobError) as error:
        raise SystemExit(str(error)) from error
    compressors = {name: each for name, each in compressors.items() if name not in measured.failures}
    rows = network_summary.summarise(measured.runs, measured.idle, compressors)
    network_summary.add_planned(rows, measured.planned)
    # `auto` is several compressors, not one.
    framed = {name: each for name, each in compressors.items() if isinstance(each, tfc.Compressor)}
    first = measured.runs[0]
    shared = ("workload", "ranks", "parameters", "steps", "batch_size", "seed", "machine", "versions")
    return {
        **{key: first[key] for key in shared},
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        # Of paths the last part: the others are of one machine.
        "arguments": [
            pathlib.PurePath(word).name if word.startswith("/") else word for word in arguments.example
        ],
        "repeats": arguments.repeats,
        "threads": arguments.threads,
        "cycle_time_ms": arguments.cycle_time,
        "idle": measured.idle,
        "failures": measured.failures,
        "rows": rows,
        "sizes": network_summary.sizes(measured.gradients, rows, framed),
        "runs": [{key: value for key, value in each.items() if key != "curve"} for each in measured.runs],
    }


def prepare(program: str) -> None:
    """Exits, with the reason, where the machine permits no networks; removes them on signals from here on."""
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, _: sys.exit(128 + number))
    if reason := obstacle():
        print(f"{program}: {reason}", file=sys.stderr)
        sys.exit(CANNOT_RUN)


def main() -> None:
    arguments = parse_arguments()
    prepare("network.py")
    try:
        result = run(arguments)
    except KeyboardInterrupt:
        sys.exit("interrupted")
    path = options.write(result, arguments.output, f"network_{arguments.name or arguments.workload}")
    page_table.show(fill_tables.network(result))
    for row in result["rows"]:
        if not row["wire"]["agrees"]:
            excess = f"{row['wire']['excess']:+.1%} bytes on the interface beside those reported"
            print(f"{row['compression']}, {row['bandwidth']}: {excess}")
    figures = network_plots.plot_all(result, path.with_suffix(""))
    print("\n".join(["numbers:", f"  {path}", "figures:", *(f"  {figure}" for figure in figures)]))
    if result["failures"]:
        sys.exit("\n".join(f"{name} failed: {how}" for name, how in result["failures"].items()))


if __name__ == "__main__":
    main()
