"""Shows what `auto` does when the links of a job become slower and faster while it trains.

    sudo -E $(which python) benchmarks/changing_link.py --bandwidths 1gbit 100mbit 1gbit

Ranks in network namespaces of this machine train a multi-layer perceptron, as in network.py (needs root and
iproute2). After each phase of `--steps` steps the limit of all links becomes the next one, and nobody tells
the job. With other compressors a tenth of the steps is trained, to compare with. Steps are those of rank 0;
of a phase the last half counts, and of `auto` what it had chosen at its end.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import sys
import tempfile
import threading

import drawing
import fill_tables
import network
import numpy as np
import options
import page_table
import rich.progress
from namespace_job import environment_of, run_ranks
from netns import Bandwidth, Network
from netns import network as make_network

from tfcompress.measure import processor

RANK = pathlib.Path(__file__).with_name("changing_link_rank.py")
AUTO = "auto"
_POLL_SECONDS = 0.02
# Of a figure: each point is the median of so many steps.
_SMOOTHED_STEPS = 5


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    network.add_links(parser, ["1gbit", "100mbit", "1gbit"])
    options.add_ranks(parser)
    options.add_compression(parser, ["none", "fp16", "int8", "int4"], "what `auto` is compared with")
    parser.add_argument("--units", type=int, default=1024, help="of two layers (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=600, help="of a phase (default: %(default)s)")
    options.add_pages_folder(parser)
    arguments = parser.parse_args(words)
    if any(each.bits_per_second is None for each in arguments.bandwidths[1:]):
        parser.error("--bandwidths: only the first one may be unlimited")
    return arguments


def run(arguments: argparse.Namespace, compression: str, num_steps: int) -> dict:
    """Runs one job; returns what its first rank measured."""
    environment = environment_of(arguments.cycle_time, arguments.threads)
    first, *later = arguments.bandwidths
    has_ended = threading.Event()
    with (
        make_network(arguments.ranks, first) as hosts,
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        changes = pool.submit(change_links, hosts, later, pathlib.Path(folder), has_ended)
        words = [folder, compression, arguments.units, num_steps, len(arguments.bandwidths)]
        command = [sys.executable, str(RANK), *map(str, words)]
        try:
            run_ranks(hosts, command, arguments.timeout, environment)
        finally:
            has_ended.set()
        changes.result()
        return json.loads(pathlib.Path(folder, "result.json").read_text())


def change_links(
    hosts: Network, bandwidths: list[Bandwidth], folder: pathlib.Path, has_ended: threading.Event
) -> None:
    """Limits the links after each phase but the last, until the job has ended."""
    for phase, bandwidth in enumerate(bandwidths, start=1):
        while not (folder / f"phase_{phase}").exists():
            if has_ended.wait(_POLL_SECONDS):
                return
        hosts.limit(bandwidth)


def rows_of(bandwidths: list[str], jobs: dict[str, dict]) -> list[dict]:
    """Returns a row for each phase: its link, milliseconds a step of each compressor, and what `auto` took.

    Args:
      bandwidths: Of the phases.
      jobs: By compressor, what `run` returned.
    """
    phases = {name: np.array_split(job["milliseconds"], len(bandwidths)) for name, job in jobs.items()}
    rows = []
    for i, link in enumerate(bandwidths):
        length = len(phases[AUTO][i])
        within = [(step, choice) for step, choice in jobs[AUTO]["choices"] if step <= (i + 1) * length]
        settled, choice = within[-1] if within else (0, "nothing yet")
        milliseconds = {name: statistics.median(own[i][len(own[i]) // 2 :]) for name, own in phases.items()}
        row = {"link": link, "choice": choice.partition(":")[0], "milliseconds": milliseconds}
        # None: it stayed with what it had.
        rows.append(row | {"settled_after": settled - i * length if settled > i * length else None})
    return rows


def plot(results: dict) -> drawing.Figure:
    """Draws the steps of `auto`, and those of the others as levels."""
    figure, axes = drawing.subplots(size=(9, 4))
    own, rows = np.array(results["jobs"][AUTO]["milliseconds"]), results["rows"]
    length = len(own) // len(rows)
    whole = own[: len(own) // _SMOOTHED_STEPS * _SMOOTHED_STEPS].reshape(-1, _SMOOTHED_STEPS)
    axes.plot(np.arange(len(whole)) * _SMOOTHED_STEPS, np.median(whole, axis=1), color="black", label=AUTO)
    others = [name for name in rows[0]["milliseconds"] if name != AUTO]
    for number, name in enumerate(others):
        for i, row in enumerate(rows):
            ends = [i * length, (i + 1) * length]
            label = name if i == 0 else None
            axes.hlines(
                row["milliseconds"][name], *ends, color=f"C{number}", linestyles="dashed", label=label
            )
    for i, row in enumerate(rows):
        axes.axvline(i * length, color="gray", linewidth=0.5)
        text, place = f" {row['link']}: {row['choice']}", (i * length, 0.95)
        axes.annotate(text, place, xycoords=("data", "axes fraction"))
    axes.set(xlabel="step", ylabel="milliseconds a step", yscale="log")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def main() -> None:
    arguments = parse_arguments()
    network.prepare("changing_link.py")
    jobs = {}
    names = [*arguments.compression, AUTO]
    for name in rich.progress.track(names, "jobs"):
        num_steps = arguments.steps if name == AUTO else max(arguments.steps // 10, 4)
        jobs[name] = run(arguments, name, num_steps)
    labels = [each.label for each in arguments.bandwidths]
    setting = {name: getattr(arguments, name) for name in ("ranks", "units", "steps", "threads")}
    results = {
        "setting": setting,
        "processor": processor(),
        "rows": rows_of(labels, jobs),
        "jobs": {
            name: {**job, "milliseconds": [round(each, 2) for each in job["milliseconds"]]}
            for name, job in jobs.items()
        },
    }
    options.save(results, arguments.output, "changing_link")
    plot(results).savefig(arguments.output / "figures" / "changing_link.png", dpi=120)
    page_table.show(fill_tables.changing_link(results))


if __name__ == "__main__":
    main()
