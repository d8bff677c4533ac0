"""Which compressors keep the accuracy of the uncompressed run: what docs/no_loss.md shows.

    python benchmarks/no_loss.py --data-dir DIR                 # all studies; goes on where it was stopped
    python benchmarks/no_loss.py --data-dir DIR --study ncf --seeds 1 --compression none int8
    python benchmarks/no_loss.py --seeds 0                      # only writes the numbers of what has run

A study is an example with settings, on which compressors are compared under each seed. A job trains with the
compressors of a seed that have not run yet; each result is in --runs as soon as it is there. DIR has
fashion_mnist/, movielens/ml-1m-ncf/, text/ and cifar10/, in the formats that the examples read. Seeds come
before studies, the shortest study first. Ranks are real ones, under horovodrun: replicas, sharded sums and
what momentum does in the memory are those of training, and no second implementation has to be checked.
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import sys

import convergence
import drawing
import fill_tables
import matplotlib.lines
import matplotlib.ticker
import options
import page_table
import rich.progress

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
from horovod_job import run_example

# Megabits per second of the links for which the figure shows times.
LINKS = (100, 1000)


def presets(warmup_steps: int) -> tuple[str, ...]:
    """Returns the compressors of a study; the first is the baseline."""
    fewer_bits, few = "index='rowcol',value='ecsq:snr=15'", "index='rowcol',value='ecsq'"
    return (
        "none",
        "int8",
        "int4",
        "sparse",
        f"sparse({fewer_bits})",
        f"sparse(warmup_steps=0,{fewer_bits})",
        "residual|dense|raw|block_int:bits=2,block=64",
        f"sparse(0.01,warmup_steps={warmup_steps},{few})",
        f"sparse(0.01,{few})",
        "dgc(0.01)",
        "topk(0.01)",
    )


@dataclasses.dataclass(frozen=True)
class Study:
    """Runs that differ in compressor and seed only.

    Attributes:
      workload: Name of the example.
      data: Path of its data, below --data-dir of the command line.
      arguments: Further arguments of the example.
      compression: Compressors; the first is the baseline.
      seeds: Number of runs of each.
    """

    workload: str
    data: str
    arguments: str
    compression: tuple[str, ...]
    seeds: int


_MLP = "--hidden 256 256 --batch-size 64 --epochs 2 --decay"
_LANGUAGE = "--context 64 --width 64 --batch-size 32 --epochs 2 --decay"
# Learning rates fall to zero, so that no run ends where the loss still falls fast. The shortest study first.
STUDIES = {
    "mlp_adam": Study("mnist_mlp", "fashion_mnist", _MLP, (*presets(234), "threshold(0.01)"), 3),
    "mlp_momentum": Study(
        "mnist_mlp",
        "fashion_mnist",
        f"{_MLP} --optimizer momentum --learning-rate 0.05",
        presets(234),
        3,
    ),
    "ncf": Study(
        "ncf",
        "movielens/ml-1m-ncf",
        "--dense-tables --factors 8 --tower 32 32 16 8 --batch-size 2048 --learning-rate 0.002 --epochs 2 "
        "--steps 400 --decay",
        presets(160),
        2,
    ),
    "lstm": Study(
        "text_lm",
        "text",
        f"{_LANGUAGE} --model lstm --learning-rate 0.01",
        (*presets(98), "int4(64)", "residual|dense|raw|block_int:bits=4,levels=even"),
        3,
    ),
    "transformer": Study(
        "text_lm",
        "text",
        f"{_LANGUAGE} --model transformer --layers 2 --learning-rate 0.004",
        presets(98),
        2,
    ),
    "resnet20": Study(
        "cifar10", "cifar10", "--batch-size 64 --learning-rate 0.1 --epochs 3 --decay", presets(293), 3
    ),
}
# Some of these compressors again, in trainings that are five times as long.
LONG = "_long"
_LONG_PRESETS = (*presets(0)[:5], "topk(0.01)")
STUDIES |= {
    name + LONG: dataclasses.replace(
        study, arguments=f"{study.arguments} --epochs 10", compression=_LONG_PRESETS, seeds=2
    )
    for name, study in STUDIES.items()
    if "--epochs 2" in study.arguments
}


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    parser.add_argument("--data-dir", type=pathlib.Path, metavar="DIR", help="folder of the data; see above")
    parser.add_argument("--study", nargs="+", choices=STUDIES, default=list(STUDIES), help="default: all")
    parser.add_argument(
        "--compression", nargs="+", metavar="PRESET|SPEC", help="compressors (default: those of each study)"
    )
    parser.add_argument("--seeds", type=int, help="runs of each (default: by study); 0 trains nothing")
    parser.add_argument("-np", "--ranks", type=int, default=2, help="default: %(default)s")
    parser.add_argument(
        "--runs",
        type=pathlib.Path,
        default=pathlib.Path("results/no_loss"),
        help="folder of the results of all runs (default %(default)s)",
    )
    options.add_pages_folder(parser)
    arguments = parser.parse_args()
    if arguments.seeds != 0 and arguments.data_dir is None:
        parser.error("--data-dir is needed to train; --seeds 0 only writes the numbers of what has run")
    return arguments


def train(name: str, seed: int, arguments: argparse.Namespace) -> None:
    """Runs the compressors of a study that have no result of this seed yet."""
    study, folder = STUDIES[name], arguments.runs / name
    done = {run["compression"] for run in read(folder) if run["seed"] == seed}
    missing = [each for each in arguments.compression or study.compression if each not in done]
    if not missing:
        return
    own = ["--data-dir", str((arguments.data_dir / study.data).resolve()), "--seed", str(seed)]
    run_example(
        study.workload,
        arguments.ranks,
        [*study.arguments.split(), *own, "--compression", *missing],
        folder / f"seed_{seed}_from_{len(done)}.json",
    )


def read(folder: pathlib.Path) -> list[dict]:
    """Returns all results of a study that are there."""
    return [run for path in sorted(folder.glob("*.json")) for run in json.loads(path.read_text())]


def summarise(arguments: argparse.Namespace) -> dict[str, dict]:
    """Writes the numbers of each study that has run with its baseline; returns them by its name."""
    results = {}
    for name in arguments.study:
        found = convergence.collect(read(arguments.runs / name))
        order = [each for each in STUDIES[name].compression if each in found]
        runs = {each: found[each] for each in dict.fromkeys([*order, *found])}
        if STUDIES[name].compression[0] in runs:
            results[name] = convergence.result_of(runs, name, curves=False)
            options.save(results[name], arguments.output, f"no_loss_{name}")
    return results


def plot(results: dict[str, dict], path: pathlib.Path) -> None:
    """Draws the metric by bytes, a panel for each study: points are means of the seeds, bars their ranges."""
    columns = min(len(results), 2)
    names = list(dict.fromkeys(row["compression"] for result in results.values() for row in result["rows"]))
    markers = {name: {"color": f"C{i % 10}", "marker": "os^D"[i // 10]} for i, name in enumerate(names)}
    figure, panels = drawing.subplots(
        -(-len(results) // columns),
        columns,
        size=(6.5 * columns, 4.6 * -(-len(results) // columns)),
        squeeze=False,
    )
    for axes, (name, result) in itertools.zip_longest(panels.flat, results.items(), fillvalue=("", None)):
        if result is None:
            axes.remove()
            continue
        baseline = result["rows"][0]
        axes.axhspan(baseline["lowest"], baseline["highest"], color="black", alpha=0.1)
        axes.axhline(baseline["mean"], color="black", linewidth=0.8)
        for row in result["rows"]:
            ends = [[row["mean"] - row["lowest"]], [row["highest"] - row["mean"]]]
            x = row["wire_bytes_per_step"] / 1e6
            axes.errorbar(x, row["mean"], ends, capsize=3, **markers[row["compression"]])
        axes.set(xscale="log", title=f"{name}, {result['parameters']:,} parameters")
        axes.set(xlabel="MB in and out of a rank, a step", ylabel=baseline["metric"].replace("_", " "))
        axes.grid(alpha=0.3)
        axes.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        add_times(axes)
    points = [matplotlib.lines.Line2D([], [], linestyle="", **each) for each in markers.values()]
    figure.legend(points, names, fontsize="small", loc="outside lower center", ncols=columns)
    figure.savefig(path, dpi=110)


def add_times(axes: drawing.Axes) -> None:
    """Adds axes of the time that links need for the bytes, as many in as out, which travel at once."""
    for i, megabits in enumerate(LINKS):
        factor = 8e3 / 2 / megabits
        times = axes.secondary_xaxis(
            -0.22 if i else 1, functions=(lambda x, f=factor: x * f, lambda t, f=factor: t / f)
        )
        times.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        times.set_xlabel(f"ms on a link of {megabits:,} Mbit/s")


def main() -> None:
    arguments = parse_arguments()
    wanted = {
        name: STUDIES[name].seeds if arguments.seeds is None else arguments.seeds for name in arguments.study
    }
    seeds = range(1, max(wanted.values()) + 1)
    jobs = [(seed, name) for seed in seeds for name in wanted if seed <= wanted[name]]
    for seed, name in rich.progress.track(jobs, "jobs"):
        train(name, seed, arguments)
    results = summarise(arguments)
    page_table.show(*map(fill_tables.convergence, results.values()))
    for suffix in ("", LONG):
        panels = {name: each for name, each in results.items() if name.endswith(LONG) == bool(suffix)}
        if panels:
            plot(panels, arguments.output / "figures" / f"no_loss{suffix}.png")


if __name__ == "__main__":
    main()
