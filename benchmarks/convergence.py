"""Accuracy by bytes on the wire: compressors against the uncompressed run, with several seeds.

    python benchmarks/convergence.py -np 4 --compression none topk "dgc(0.01)" -- --epochs 20
    python benchmarks/convergence.py -np 2 --workload ncf --name movielens -- --data-dir DIR
    python benchmarks/convergence.py --name mine --from seed_1.json seed_2.json

Runs an example once for each seed and compressor, or reads results that examples wrote with --output.
Arguments after -- are passed to the example. All runs of a seed have the same initial weights, data, epochs,
batch size and learning rate. Writes a JSON and a figure, and prints a table.
"""

import argparse
import json
import pathlib
import statistics
import sys
from collections.abc import Iterable, Iterator

import drawing
import fill_tables
import numpy as np
import options
import page_table
import rich.progress

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
from horovod_job import run_example

# A rank's payload, and what the collectives move in and out of it.
BYTES = ("payload_bytes", "wire_bytes")
# What each run has alike.
SHARED = (
    "workload",
    "ranks",
    "parameters",
    "epochs",
    "steps",
    "batch_size",
    "learning_rate",
    "decay",
    "versions",
)


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    options.add_example(parser)
    options.add_compression(parser, ["none", "topk", "deepreduce"])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each compressor (default %(default)s)")
    parser.add_argument(
        "--from",
        nargs="+",
        type=pathlib.Path,
        dest="files",
        metavar="FILE",
        help="summarise these results of examples instead of training",
    )
    parser.add_argument(
        "--least",
        metavar="METRIC",
        help="compare the least value of this metric, such as test_loss, after an epoch (default: the first "
        "metric as it is at the end)",
    )
    parser.add_argument(
        "--no-curves", action="store_true", help="leave the points of each epoch out of the JSON"
    )
    return parser.parse_args()


def results(arguments: argparse.Namespace) -> Iterator[dict]:
    """Yields the results of examples, from files or from training here."""
    if arguments.files:
        for path in arguments.files:
            yield from json.loads(path.read_text())
        return
    for seed in rich.progress.track(range(1, arguments.seeds + 1), "seeds"):
        options = ["--seed", str(seed), "--compression", *arguments.compression, *arguments.example]
        yield from run_example(arguments.workload, arguments.ranks, options)


def collect(results: Iterable[dict]) -> dict[str, list[dict]]:
    """Returns the runs of each compressor, one per seed."""
    runs: dict[str, list[dict]] = {}
    for run in results:
        if not run["replicas_identical"]:
            raise SystemExit(f"{run['compression']}: the ranks ended with different weights")
        runs.setdefault(run["compression"], []).append(run)
    return runs


def summarise(runs: dict[str, list[dict]], least: str | None = None) -> list[dict]:
    """Returns one row for each compressor: a metric over the seeds, and the bytes.

    The difference is that to the baseline's runs with the same seeds.

    Args:
      runs: By compressor, one for each seed.
      least: Metric whose least value counts; None for the first one, as it is at the end.
    """
    [reference, *_] = runs.values()
    metric = least or next(iter(reference[0]["metrics"]))

    finals = {name: [value_of(run, metric, least) for run in each] for name, each in runs.items()}
    baseline = {run["seed"]: value_of(run, metric, least) for run in reference}
    moved = {name: mean_bytes(each) for name, each in runs.items()}
    of_reference = next(iter(moved.values()))
    rows = []
    for name, each in runs.items():
        rows.append(
            {
                "compression": name,
                "spec": each[0]["spec"],
                "metric": f"least {metric}" if least else metric,
                "mean": statistics.mean(finals[name]),
                "values": finals[name],
                "lowest": min(finals[name]),
                "highest": max(finals[name]),
                "difference": statistics.mean(finals[name])
                - statistics.mean(baseline[run["seed"]] for run in each),
                "loss": statistics.mean(run["curve"][-1]["loss"] for run in each),
                **{f"{column}_per_step": number for column, number in moved[name].items()},
                "ratio": of_reference["wire_bytes"] / moved[name]["wire_bytes"],
                "volume": moved[name]["payload_bytes"] / of_reference["payload_bytes"],
                "step_ms": statistics.median(run["step_ms_median"] for run in each),
            }
        )
    return rows


def value_of(run: dict, metric: str, least: str | None) -> float:
    """Returns a metric of a run: the least value after an epoch, or the last one."""
    values = [point["metrics"][metric] for point in run["curve"]]
    return min(values) if least else values[-1]


def mean_bytes(runs: list[dict]) -> dict[str, float]:
    """Returns the bytes of a step of these runs, by the names that `tfc.Stats` has for them."""
    return {column: statistics.mean(run[f"{column}_per_step"] for run in runs) for column in BYTES}


def plot(runs: dict[str, list[dict]], title: str, path: pathlib.Path, least: str | None = None) -> None:
    """Draws loss by step and the metric by bytes: lines are means of the seeds, bands their ranges."""
    figure, (by_step, by_bytes) = drawing.subplots(1, 2, size=(11, 5))
    [reference, *_] = runs.values()
    metric = least or next(iter(reference[0]["metrics"]))
    for name, each in runs.items():
        curves = [run["curve"] for run in each]
        losses = [[point["loss"] for point in curve] for curve in curves]
        metrics = [[point["metrics"][metric] for point in curve] for curve in curves]
        draw(by_step, [point["step"] for point in curves[0]], losses, name)
        draw(by_bytes, [point["wire_bytes"] / 1e6 for point in curves[0]], metrics, name)
    by_step.set(xlabel="step", ylabel="training loss")
    by_bytes.set(xscale="log", xlabel="MB in and out of one rank", ylabel=metric.replace("_", " "))
    for axes in (by_step, by_bytes):
        axes.grid(alpha=0.3)
    figure.legend(*by_bytes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def draw(axes: drawing.Axes, x: list[float], curves: list[list[float]], label: str) -> None:
    y = np.array(curves)
    [line] = axes.plot(x, y.mean(axis=0), marker=".", label=label)
    axes.fill_between(x, y.min(axis=0), y.max(axis=0), alpha=0.2, color=line.get_color())


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def count_of_seeds(runs: dict[str, list[dict]]) -> str:
    """Returns how many seeds each compressor has had, such as "3 seeds" or "1 to 3 seeds"."""
    fewest, most = (of(len(each) for each in runs.values()) for of in (min, max))
    return count(most, "seed") if fewest == most else f"{fewest} to {count(most, 'seed')}"


def result_of(
    runs: dict[str, list[dict]], name: str, *, least: str | None = None, curves: bool = True
) -> dict:
    """Returns the content of the JSON.

    Args:
      runs: By compressor, one for each seed.
      name: Of the results.
      least: See `summarise`.
      curves: Whether it has the points of each epoch.
    """
    [[first, *_], *_] = runs.values()
    title = (
        f"{name}, {first['ranks']} ranks, {first['parameters']:,} parameters, "
        f"{count(first['epochs'], 'epoch')}, {count_of_seeds(runs)}"
    )
    moved = (f"{column}_per_step" for column in (*BYTES, "dense_bytes"))
    kept = ("seed", "metrics", *moved, "milliseconds", *(["curve"] if curves else []))
    slim = {name: [{key: run[key] for key in kept} for run in each] for name, each in runs.items()}
    shared = {key: first[key] for key in SHARED}
    return {"title": title, **shared, "rows": summarise(runs, least), "runs": slim}


def main() -> None:
    arguments = parse_arguments()
    runs = collect(results(arguments))
    [[first, *_], *_] = runs.values()
    name = arguments.name or first["workload"]
    result = result_of(runs, name, least=arguments.least, curves=not arguments.no_curves)
    path = options.write(result, arguments.output, f"convergence_{name}")
    plot(runs, result["title"], path.with_suffix(".png"), arguments.least)
    page_table.show(fill_tables.convergence(result))
    print(f"numbers: {path}\nfigure: {path.with_suffix('.png')}")


if __name__ == "__main__":
    main()
