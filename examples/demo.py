"""Trains the digits model with several presets, and compares their costs and savings.

Starts `horovodrun`, prints a table, and writes accuracy against bytes on the wire as a figure.
"""

import argparse
import json
import pathlib
import platform

import matplotlib.figure
import rich.console
import rich.table
from horovod_job import run_example

# What keeps the accuracy, what plain top-k costs, and compressors of the papers.
PRESETS = [
    *("none", "fp16", "int8", "int4", "sparse"),
    *("topk", "threshold", "sketchml", "deepreduce"),
]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-np", "--ranks", type=int, default=2, help="number of ranks (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=16, help="epochs of each run (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="two epochs, as a check that it runs")
    parser.add_argument(
        "--compression",
        nargs="+",
        default=PRESETS,
        metavar="PRESET|SPEC",
        help=f"default: {' '.join(PRESETS)}",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("demo_results"),
        help="folder (default %(default)s)",
    )
    return parser.parse_args()


def make_table(results: list[dict]) -> rich.table.Table:
    title = f"Handwritten digits, {results[0]['ranks']} ranks on one {platform.machine()} machine"
    table = rich.table.Table(
        title=title,
        caption="plain: what Horovod's all-reduce of the same gradients moves in and out of a rank",
    )
    table.add_column("preset")
    headings = [
        "test accuracy",
        "plain B/step",
        "wire B/step",
        "ratio",
        "encode ms",
        "decode ms",
        "step ms",
    ]
    for heading in headings:
        table.add_column(heading, justify="right")
    for result in results:
        plain, wire = result["dense_wire_bytes_per_step"], result["wire_bytes_per_step"]
        table.add_row(
            result["compression"],
            f"{result['metrics']['test_accuracy']:.4f}",
            f"{plain:,.0f}",
            f"{wire:,.0f}",
            f"{plain / max(wire, 1):.1f}",
            *(f"{result['milliseconds'][phase]:.2f}" for phase in ("encode", "decode", "step")),
        )
    return table


def plot_accuracy(results: list[dict], path: pathlib.Path) -> None:
    figure = matplotlib.figure.Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for result in results:
        megabytes = [point["wire_bytes"] / 1e6 for point in result["curve"]]
        axes.plot(
            megabytes,
            [point["metrics"]["test_accuracy"] for point in result["curve"]],
            marker=".",
            label=result["compression"],
        )
    axes.set(xscale="log", xlabel="moved in and out of one rank so far (MB)", ylabel="test accuracy")
    axes.set_title(f"Accuracy against bytes on the wire, handwritten digits, {results[0]['ranks']} ranks")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    epochs = 2 if arguments.quick else arguments.epochs
    trained = ["--decay", "--epochs", str(epochs), "--compression", *arguments.compression]
    results = run_example("mnist_mlp", arguments.ranks, trained)
    numbers_path = arguments.output / "results.json"
    numbers_path.write_text(json.dumps(results, indent=1) + "\n")
    rich.console.Console(width=110).print(make_table(results))
    figure_path = arguments.output / "accuracy_by_bytes.png"
    plot_accuracy(results, figure_path)
    print(f"figure: {figure_path}\nnumbers: {numbers_path}")


if __name__ == "__main__":
    main()
