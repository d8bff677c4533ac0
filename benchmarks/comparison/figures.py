"""Figures of the results: bytes by method, and bits per key relative to the limit."""

import pathlib
import statistics
from collections.abc import Callable

import drawing

from comparison.peers import OURS
from comparison.report import by_method, is_exact

COLORS = {True: "C0", False: "C1"}
MARKERS = "osv^D<>Pp*hX"


def markers(results: dict) -> dict[str, str]:
    names = [gradient["name"] for gradient in results["gradients"]]
    return {name: MARKERS[i % len(MARKERS)] for i, name in enumerate(names)}


def draw(
    axes: drawing.Axes,
    grouped: dict[str, list[dict]],
    number: Callable[[dict], float],
    marks: dict[str, str],
) -> list[list[dict]]:
    """Draws a line per method and a mark per gradient, the least on top; returns the rows from below."""
    ordered = sorted(grouped.items(), key=lambda item: -statistics.mean(map(number, item[1])))
    for height, (_, rows) in enumerate(ordered):
        color = COLORS[rows[0]["package"] == OURS]
        for row in rows:
            axes.plot(number(row), height, marks[row["gradient"]], color=color, markerfacecolor="none")
    axes.set_yticks(range(len(ordered)), [name for name, _ in ordered])
    axes.grid(alpha=0.3)
    return [rows for _, rows in ordered]


def finish(figure: drawing.Figure, marks: dict[str, str], path: pathlib.Path) -> None:
    axes = figure.axes[0]
    for name, mark in marks.items():
        axes.plot([], [], mark, color="gray", markerfacecolor="none", label=name)
    for ours, label in ((True, "tfcompress"), (False, "others")):
        axes.plot([], [], color=COLORS[ours], label=label)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    figure.savefig(path, dpi=150)


def plot_bytes(results: dict, path: pathlib.Path) -> None:
    """Draws bytes of whole messages as a share of raw pairs: exact codecs above, lossy ones below."""
    grouped, marks = by_method(results["pairs"]), markers(results)
    exact = {name: rows for name, rows in grouped.items() if is_exact(rows)}
    lossy = {name: rows for name, rows in grouped.items() if name not in exact}
    figure, (above, below) = drawing.subplots(
        2,
        1,
        size=(8, 3 + 0.25 * len(grouped)),
        height_ratios=[len(exact), len(lossy)],
        sharex=True,
    )
    draw(above, exact, share, marks)
    for height, rows in enumerate(draw(below, lossy, share, marks)):
        error = statistics.median(row["error"] for row in rows)
        below.text(1.01, height, f"{error:.0e}", transform=below.get_yaxis_transform(), va="center")
    above.set_title("Exact")
    below.set_title("Lossy, with the relative l2 error")
    below.set_xlabel("bytes of the message, % of raw pairs")
    below.set_xlim(left=0)
    finish(figure, marks, path)


def share(row: dict) -> float:
    return 100 * row["bytes"] / row["raw_bytes"]


def plot_keys(results: dict, path: pathlib.Path) -> None:
    """Draws the bits per key of every method, divided by the least bits for a random support."""
    grouped, marks = by_method(results["keys"]), markers(results)
    figure, axes = drawing.subplots(size=(8, 3 + 0.25 * len(grouped)))
    draw(axes, grouped, lambda row: row["bits"] / row["limit_bits"], marks)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="bits a key / limit of a random support, log2 C(n, k) / k", title="Keys")
    axes.xaxis.set_major_formatter("{x:g}")
    finish(figure, marks, path)
