"""Draws a metric by epoch, a plot for each job, or by time, a plot for each link (SKCompress, Fig. 11, 12).

    python benchmarks/paper_curves.py docs/results/convergence_news_*_curves.json
    python benchmarks/paper_curves.py --name linear_models_times \
        --steps docs/results/network_news.json docs/results/convergence_news_*_curves.json

Reads results of `convergence.py` that have the points of each epoch (no --no-curves), and writes
docs/figures/linear_models_losses.png. With --steps, results of `network.py` for the same job, the time of an
epoch is that of its steps on each link, a row of plots for each job; compressors without them are left out.
"""

import argparse
import json
import pathlib

import drawing
import options
from convergence import draw


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    options.add_pages_folder(parser)
    parser.add_argument("--metric", default="test_loss", help="default: %(default)s")
    parser.add_argument(
        "--name", default="linear_models_losses", help="name of the figure (default %(default)s)"
    )
    parser.add_argument("--steps", type=pathlib.Path, metavar="FILE", help="draw by time, on these links")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="results, a plot each")
    return parser.parse_args()


def plot(results: list[dict], metric: str, path: pathlib.Path) -> None:
    """Draws the metric of each result's compressors by epoch, side by side; equal curves are one line."""
    figure, [plots] = panels(1, len(results))
    for axes, result in zip(plots, results, strict=True):
        lines: dict[str, list[list[float]]] = {}
        for name, runs in result["runs"].items():
            values = values_of(runs, metric)
            equal = next((label for label, other in lines.items() if other == values), None)
            lines[f"{equal}, {name}" if equal else name] = lines.pop(equal) if equal else values
        epochs = [point["epoch"] for point in result["runs"]["none"][0]["curve"]]
        # In the order of the first run, so that a compressor has one colour in all plots.
        for label in sorted(lines, key=lambda label: list(result["runs"]).index(label.split(", ")[0])):
            draw(axes, epochs, lines[label], label)
        finish(axes, result["title"].split(",")[0], "epoch")
    plots[0].set_ylabel(metric.replace("_", " "))
    figure.savefig(path, dpi=120)


def plot_by_time(results: list[dict], steps: dict, metric: str, path: pathlib.Path) -> None:
    """Draws the metric of each result's compressors by the time of their steps, the links side by side."""
    links = list(dict.fromkeys(row["bandwidth"] for row in steps["rows"]))
    milliseconds = {(row["bandwidth"], row["compression"]): row["step_ms"] for row in steps["rows"]}
    figure, rows = panels(len(results), len(links))
    for result, plots in zip(results, rows, strict=True):
        for axes, link in zip(plots, links, strict=True):
            of_link = {name: step for (other, name), step in milliseconds.items() if other == link}
            draw_by_time(axes, result["runs"], of_link, metric)
            finish(axes, f"{result['title'].split(',')[0]}, {link}", "seconds of steps")
        plots[0].set_ylabel(metric.replace("_", " "))
    figure.savefig(path, dpi=120)


def draw_by_time(
    axes: drawing.Axes, runs: dict[str, list[dict]], milliseconds: dict[str, float], metric: str
) -> None:
    """Draws the metric of the compressors whose steps were timed."""
    for name in [name for name in runs if name in milliseconds]:
        seconds = [milliseconds[name] / 1e3 * point["step"] for point in runs[name][0]["curve"]]
        draw(axes, seconds, values_of(runs[name], metric), name)


def values_of(runs: list[dict], metric: str) -> list[list[float]]:
    """Returns the metric at the points of each run's curve."""
    return [[point["metrics"][metric] for point in run["curve"]] for run in runs]


def panels(rows: int, columns: int) -> tuple[drawing.Figure, list[list[drawing.Axes]]]:
    """Returns a figure of so many plots, by row."""
    size = (4 * columns, 4 * rows)
    figure, plots = drawing.subplots(rows, columns, size=size, squeeze=False)
    return figure, plots.tolist()


def finish(axes: drawing.Axes, title: str, x_label: str) -> None:
    """Labels a plot whose lines are drawn."""
    axes.set(title=title, xlabel=x_label, yscale="log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.grid(alpha=0.3, which="both")
    axes.legend()


def main() -> None:
    arguments = parse_arguments()
    folder = arguments.output / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{arguments.name}.png"
    results = [json.loads(file.read_text()) for file in arguments.files]
    if arguments.steps is None:
        plot(results, arguments.metric, path)
    else:
        plot_by_time(results, json.loads(arguments.steps.read_text()), arguments.metric, path)
    print(f"figure: {path}")


if __name__ == "__main__":
    main()
