"""Figures of `network.py`, after DeepReduce's Figures 10 and 11."""

import pathlib

import drawing
import numpy as np
from gradient_sizes import PARTS
from network_summary import PHASES


def plot_all(result: dict, stem: pathlib.Path) -> list[pathlib.Path]:
    """Draws all figures; their names begin with the stem. Returns their paths."""
    paths = []
    for name, draw in (("steps", plot_steps), ("sizes", plot_sizes), ("codecs", plot_codecs)):
        figure = draw(result)
        paths.append(stem.with_name(f"{stem.name}_{name}.png"))
        figure.savefig(paths[-1], dpi=120)
    return paths


def plot_steps(result: dict) -> drawing.Figure:
    """Step time stacked by phase: a panel for each bandwidth (Figure 11)."""
    bandwidths = list(dict.fromkeys(row["bandwidth"] for row in result["rows"]))
    size = (max(3.2 * len(bandwidths) + 2, 7), 0.35 * len(result["sizes"]) + 1.8)
    figure, panels = drawing.subplots(1, len(bandwidths), size=size, sharey=True, squeeze=False)
    for bandwidth, axes in zip(bandwidths, panels[0], strict=True):
        rows = [row for row in result["rows"] if row["bandwidth"] == bandwidth]
        names = [row["compression"] for row in rows]
        times = {phase: [row["milliseconds"][phase] for row in rows] for phase in PHASES}
        _stack(axes, names, times)
        axes.set(title=bandwidth, xlabel="milliseconds a step")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(PHASES))
    return figure


def plot_sizes(result: dict) -> drawing.Figure:
    """Bytes of a step's gradients relative to dense ones, and what they consist of (Figure 10a)."""
    names = [each["compression"] for each in result["sizes"]]
    totals = np.array([sum(each["parts"].values()) for each in result["sizes"]])
    dense = np.array([each["dense_bytes"] for each in result["sizes"]])
    figure, (volume, shares) = drawing.subplots(1, 2, size=(10, 0.35 * len(names) + 1.8), sharey=True)
    bars = volume.barh(names, 100 * totals / dense, color="gray")
    volume.bar_label(bars, fmt="{:.3g}", padding=2)
    volume.set(xscale="log", xlabel="data volume, % of float32")
    volume.margins(x=0.15)
    parts = {part: [100 * each["parts"].get(part, 0) for each in result["sizes"]] / totals for part in PARTS}
    _stack(shares, names, parts)
    shares.set(xlabel="share of the bytes, %", xlim=(0, 100))
    figure.legend(*shares.get_legend_handles_labels(), loc="outside lower center", ncols=len(PARTS))
    return figure


def plot_codecs(result: dict) -> drawing.Figure:
    """Time of encoding and decoding at the last bandwidth (Figure 10b)."""
    bandwidth = result["rows"][-1]["bandwidth"]
    rows = [row for row in result["rows"] if row["bandwidth"] == bandwidth]
    positions = np.arange(len(rows))
    figure, axes = drawing.subplots(size=(7, 0.4 * len(rows) + 1.5))
    for offset, phase in ((-0.2, "encode"), (0.2, "decode")):
        times = [row["milliseconds"][phase] for row in rows]
        bars = axes.barh(positions + offset, times, height=0.4, label=phase)
        axes.bar_label(bars, fmt="{:.1f}", padding=2)
    axes.set_yticks(positions, [row["compression"] for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set(xlabel=f"milliseconds a step, summed over tensors ({bandwidth})")
    axes.legend()
    return figure


def _stack(axes: drawing.Axes, names: list[str], parts: dict[str, list[float]]) -> None:
    """Draws stacked horizontal bars, the first name on top."""
    left = np.zeros(len(names))
    for label, lengths in parts.items():
        axes.barh(names, lengths, left=left, label=label)
        left += lengths
    if not axes.yaxis_inverted():
        axes.invert_yaxis()
