"""Figures of the command line; the only module that imports matplotlib."""

import itertools
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from tfcompress.cli import console

# Maximum lines of a figure and points of a line.
_MAX_LINES = 10
_MAX_POINTS = 2000


def check(path: pathlib.Path) -> None:
    """Checks that a figure can be written.

    Raises:
      SystemExit: The folder does not exist, or matplotlib cannot write files with this ending.
    """
    formats = Figure().canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in formats:
        raise SystemExit(f"--plot {path}: the ending must be one of {', '.join(sorted(formats))}")
    if not path.parent.is_dir():
        raise SystemExit(f"--plot {path}: there is no folder {path.parent}")


def save_magnitudes(magnitudes: Mapping[str, np.ndarray], path: pathlib.Path) -> None:
    """Draws magnitudes against their rank, the largest first, both on logarithmic axes.

    Args:
      magnitudes: Magnitudes of each tensor, by name, in any order. Zeros are left out.
      path: The file to write.
    """
    largest = sorted(magnitudes, key=lambda name: magnitudes[name].size, reverse=True)[:_MAX_LINES]
    if len(largest) < len(magnitudes):
        console.note(f"the figure has the {_MAX_LINES} largest of {len(magnitudes)} tensors")
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for name in largest:
        nonzero = np.sort(magnitudes[name][magnitudes[name] > 0])[::-1]
        if nonzero.size:
            ranks = np.unique(np.geomspace(1, nonzero.size, _MAX_POINTS).astype(np.int64))
            axes.plot(ranks, nonzero[ranks - 1], label=_literal(name), marker="." if ranks.size == 1 else "")
    axes.set(xscale="log", yscale="log", xlabel="rank of the element", ylabel="magnitude")
    axes.grid(True, which="major", alpha=0.3)
    if axes.lines:
        axes.legend(fontsize="x-small", loc="lower left")
    figure.savefig(path, dpi=150)


def save_bench(results: Sequence[Mapping], path: pathlib.Path) -> None:
    """Draws the relative error against the bytes of each spec.

    Args:
      results: Results of `bench`, with `name` and `total`.
      path: The file to write.
    """
    figure = Figure(figsize=(8, 4.5 + 0.16 * len(results)), layout="constrained")
    axes = figure.subplots()
    errors = [result["total"]["relative_error"] for result in results]
    inexact = [error for error in errors if error]
    # The axis is linear below the least error, since exact codecs have error 0.
    axes.set_yscale("symlog", linthresh=min(inexact, default=1.0), linscale=0.3)
    markers = itertools.cycle("os^vD*PX<>h")
    for result, error in zip(results, errors, strict=True):
        if error is not None:
            spec = _literal(result["name"])
            axes.plot(result["total"]["num_bytes"], error, next(markers), label=spec, clip_on=False)
    axes.set(xscale="log", xlabel="bytes", ylabel="relative l2 error")
    axes.set_ylim(bottom=0)
    axes.grid(True, which="major", alpha=0.3)
    figure.legend(fontsize="x-small", loc="outside lower center")
    figure.savefig(path, dpi=150)


def save_plan(results: Sequence[Mapping], compute_ms: float, path: pathlib.Path) -> None:
    """Draws the parts of each preset's step as one bar, the shortest step on top.

    Args:
      results: Results of `plan`, by ascending step time.
      compute_ms: Time of a step without its exchange.
      path: The file to write.
    """
    figure = Figure(figsize=(8, 1.5 + 0.35 * len(results)), layout="constrained")
    axes = figure.subplots()
    names = [_literal(result["name"]) for result in results]
    left = np.zeros(len(results))
    for part in ("computing", "encode", "communication", "decode"):
        is_computing = part == "computing"
        widths = np.array([compute_ms if is_computing else result[f"{part}_ms"] for result in results])
        axes.barh(names, widths, left=left, label=part)
        left += widths
    axes.invert_yaxis()
    axes.set(xlabel="ms")
    axes.grid(True, axis="x", alpha=0.3)
    figure.legend(fontsize="small", loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=150)


def _literal(text: str) -> str:
    """Escapes a label, so that matplotlib neither reads formulas nor hides a leading underscore."""
    return text.replace("$", r"\$") if not text.startswith("_") else f" {text}".replace("$", r"\$")
