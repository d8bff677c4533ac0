"""Time to the accuracy of the uncompressed run, on links of a chosen speed.

    sudo -E $(which python) benchmarks/time_to_accuracy.py --bandwidths 100mbit 1gbit -- --epochs 4 --decay
    python benchmarks/time_to_accuracy.py --name mine --from runs.json

Trains an example to its end with each compressor, the first of which is the baseline, in a job each, each
rank in a network namespace as in network.py (needs root and iproute2). A compressor has arrived at the end of
the first epoch whose metric, in the mean over the seeds, is at most `--within` below the baseline's last; its
time is that of all steps up to there, without evaluation. With --timed-steps only the first link sees whole
trainings of what takes the same steps on every link, all but `auto`: on other links some steps are timed,
after the warm-up of a schedule, and the curve of the first link is stretched. Arguments after -- are passed
to the example. Writes a JSON and a figure, and prints a table.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import sys
import tempfile

import drawing
import fill_tables
import matplotlib.ticker
import network
import options
import page_table
from convergence import SHARED
from measuring import tracked
from network_summary import title_of

BANDWIDTHS = ["100mbit", "1gbit"]
COMPRESSION = ["none", "fp16", "auto", "int4", "sparse", "topk"]
KEPT = ("bandwidth", "compression", "seed", "metrics", "step_ms_median", "curve")


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    options.add_example(parser)
    network.add_links(parser, BANDWIDTHS)
    options.add_compression(parser, COMPRESSION)
    parser.add_argument("--seeds", type=int, default=1, help="runs of each (default %(default)s)")
    parser.add_argument(
        "--within",
        type=float,
        default=0.001,
        metavar="X",
        help="how far below the baseline a metric counts as equal (default %(default)s)",
    )
    parser.add_argument(
        "--timed-steps",
        type=int,
        default=0,
        metavar="N",
        help="steps on further links of what takes the same steps on every link (default: whole trainings)",
    )
    parser.add_argument(
        "--from",
        type=pathlib.Path,
        dest="file",
        metavar="FILE",
        help="summarise this JSON instead of training",
    )
    return parser.parse_args(words)


def train(arguments: argparse.Namespace) -> dict:
    """Runs all jobs; returns the content of the JSON, without its rows."""
    import tfcompress as tfc

    made = {name: tfc.make_compressor(name) for name in arguments.compression}
    warm_up = {name: _warm_up_steps(each) for name, each in made.items() if not options.is_tried(name)}
    jobs = itertools.product(range(1, arguments.seeds + 1), arguments.bandwidths, made)
    whole: dict[tuple[int, str], dict] = {}
    runs = []
    for seed, bandwidth, name in tracked(jobs, lambda job: f"seed {job[0]}, {job[1].label}, {job[2]}"):
        if arguments.timed_steps and (seed, name) in whole and name in warm_up:
            steps = warm_up[name]
            short = ["--epochs", "1", "--steps", str(steps + arguments.timed_steps)]
            short += ["--warm-up-steps", str(steps)] if steps else []
            timed = _run(arguments, seed, bandwidth, name, *short)
            runs.append(stretched(whole[seed, name], timed, steps))
        else:
            runs.append(_run(arguments, seed, bandwidth, name))
            whole.setdefault((seed, name), runs[-1])
    slim = [{key: run[key] for key in KEPT} for run in runs]
    settings = {"threads": arguments.threads, "timed_steps": arguments.timed_steps}
    return {**{key: runs[0][key] for key in SHARED}, **settings, "runs": slim}


def _run(
    arguments: argparse.Namespace, seed: int, bandwidth: network.Bandwidth, name: str, *further: str
) -> dict:
    """Trains with a compressor; `further` arguments of the example take precedence."""
    # Imported late, since it loads Horovod and TensorFlow: the machine has been checked before.
    import network_jobs

    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "results.json"
        own = ["--seed", str(seed), "--output", str(output), "--compression", name]
        script = network.EXAMPLES / f"{arguments.workload}.py"
        command = [sys.executable, str(script), *own, *arguments.example, *further]
        network_jobs.run(arguments, bandwidth, command)
        [result] = json.loads(output.read_text())
    network_jobs.check_replicas(result)
    return {"bandwidth": bandwidth.label, **result}


def _warm_up_steps(compressor: object) -> int:
    """Returns how many steps come before those that are like the last one."""
    return max(getattr(compressor, "boundaries", ()), default=0)


def stretched(whole: dict, timed: dict, warm_up_steps: int) -> dict:
    """Returns a whole training as it would be on the link on which some of its steps were timed.

    Its warm-up is stretched as those are that come after it, which are most of its steps.
    """
    name, steps = whole["compression"], whole["steps"]
    if 2 * warm_up_steps > steps:
        raise SystemExit(f"{name} warms up in {warm_up_steps} of {steps} steps: leave --timed-steps out")
    factor = timed["step_ms_median"] / whole["step_ms_median"]
    curve = [{**point, "seconds": factor * point["seconds"]} for point in whole["curve"]]
    return {**whole, **{key: timed[key] for key in ("bandwidth", "step_ms_median")}, "curve": curve}


def summarise(runs: list[dict], within: float) -> list[dict]:
    """Returns a row for each bandwidth and compressor, in the order of the runs, of means over the seeds."""
    metric, baseline = next(iter(runs[0]["metrics"])), runs[0]["compression"]
    curves = mean_curves(runs, metric)
    rows = []
    for (bandwidth, name), curve in curves.items():
        reference = curves[bandwidth, baseline]
        needed, arrived = (
            _first_within(each, reference[-1]["metric"] - within) for each in (reference, curve)
        )
        rows.append(
            {
                "bandwidth": bandwidth,
                "compression": name,
                "metric": metric,
                "final": curve[-1]["metric"],
                "training_megabytes": curve[-1]["megabytes"],
                "training_seconds": curve[-1]["seconds"],
                "megabytes": arrived and arrived["megabytes"],
                "seconds": arrived and arrived["seconds"],
                "fewer": arrived and needed["megabytes"] / arrived["megabytes"],
                "faster": arrived and needed["seconds"] / arrived["seconds"],
            }
        )
    return rows


def mean_curves(runs: list[dict], metric: str) -> dict[tuple[str, str], list[dict]]:
    """Returns what each bandwidth and compressor has at the ends of epochs, as means over the seeds.

    Seconds are those of the steps so far, megabytes those in and out of rank 0.
    """
    groups: dict[tuple[str, str], list[list[dict]]] = {}
    for run in runs:
        groups.setdefault((run["bandwidth"], run["compression"]), []).append(run["curve"])
    return {
        key: [
            {
                "metric": statistics.mean(point["metrics"][metric] for point in points),
                "seconds": statistics.mean(point["seconds"] for point in points),
                "megabytes": statistics.mean(point["wire_bytes"] for point in points) / 1e6,
            }
            for points in zip(*curves, strict=True)
        ]
        for key, curves in groups.items()
    }


def _first_within(curve: list[dict], target: float) -> dict | None:
    return next((point for point in curve if point["metric"] >= target), None)


def plot(result: dict, path: pathlib.Path) -> None:
    """Draws the metric by the seconds of training, a panel for each bandwidth."""
    metric = result["rows"][0]["metric"]
    curves = mean_curves(result["runs"], metric)
    bandwidths = list(dict.fromkeys(bandwidth for bandwidth, _ in curves))
    colors = {name: f"C{i}" for i, name in enumerate(dict.fromkeys(name for _, name in curves))}
    figure, panels = drawing.subplots(
        1,
        len(bandwidths),
        size=(1 + 5 * len(bandwidths), 4.5),
        sharey=True,
        squeeze=False,
    )
    for bandwidth, axes in zip(bandwidths, panels[0], strict=True):
        for (of, name), curve in curves.items():
            if of == bandwidth:
                seconds, values = zip(*((point["seconds"], point["metric"]) for point in curve), strict=True)
                axes.plot(seconds, values, marker="o", color=colors[name], label=name)
        axes.set(title=bandwidth, xscale="log", xlabel="seconds of training")
        axes.xaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        axes.grid(alpha=0.3)
    panels[0][0].set(ylabel=metric.replace("_", " "))
    panels[0][-1].legend()
    figure.suptitle(title_of(result))
    figure.savefig(path, dpi=120)


def main() -> None:
    arguments = parse_arguments()
    if arguments.file:
        result = json.loads(arguments.file.read_text())
    else:
        network.prepare("time_to_accuracy.py")
        result = train(arguments)
    result = {**result, "within": arguments.within, "rows": summarise(result["runs"], arguments.within)}
    path = options.write(result, arguments.output, f"time_to_accuracy_{arguments.name or result['workload']}")
    plot(result, path.with_suffix(".png"))
    page_table.show(fill_tables.time_to_accuracy(result))
    print(f"numbers: {path}\nfigure: {path.with_suffix('.png')}")


if __name__ == "__main__":
    main()
