"""Draws a metric by epoch, a plot for each job: linear models as in SKCompress' Figure 12.

    python benchmarks/paper_curves.py docs/results/convergence_news_*_curves.json

Reads results of `convergence.py` that have the points of each epoch (no --no-curves), and writes
docs/figures/linear_models_losses.png.
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import options
from convergence import draw


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    options.add_pages_folder(parser)
    parser.add_argument("--metric", default="test_loss", help="default: %(default)s")
    parser.add_argument(
        "--name", default="linear_models_losses", help="name of the figure (default %(default)s)"
    )
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="results, a plot each")
    return parser.parse_args()


def plot(results: list[dict], metric: str, path: pathlib.Path) -> None:
    """Draws the metric of each result's compressors by epoch, side by side; equal curves are one line."""
    size = (4 * len(results), 4)
    figure, [plots] = plt.subplots(1, len(results), figsize=size, layout="constrained", squeeze=False)
    for axes, result in zip(plots, results, strict=True):
        lines: dict[str, list[list[float]]] = {}
        for name, runs in result["runs"].items():
            values = [[point["metrics"][metric] for point in run["curve"]] for run in runs]
            equal = next((label for label, other in lines.items() if other == values), None)
            lines[f"{equal}, {name}" if equal else name] = lines.pop(equal) if equal else values
        epochs = [point["epoch"] for point in result["runs"]["none"][0]["curve"]]
        # In the order of the first run, so that a compressor has one colour in all plots.
        for label in sorted(lines, key=lambda label: list(result["runs"]).index(label.split(", ")[0])):
            draw(axes, epochs, lines[label], label)
        axes.set(title=result["title"].split(",")[0], xlabel="epoch", yscale="log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    plots[0].set_ylabel(metric.replace("_", " "))
    figure.savefig(path, dpi=120)


def main() -> None:
    arguments = parse_arguments()
    folder = arguments.output / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{arguments.name}.png"
    plot([json.loads(file.read_text()) for file in arguments.files], arguments.metric, path)
    print(f"figure: {path}")


if __name__ == "__main__":
    main()
