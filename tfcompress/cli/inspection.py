"""`inspect`: what is in a frame, or in a gradient."""

import argparse
import pathlib

from tfcompress.cli import array_report, arrays, console, frame_report

_DESCRIPTION = """Look into frames on disk, or at the arrays of a .npy or .npz file.

Frames, the bytes of tfc.encode, one or several end to end: headers, sections, bits an index, a value and an
element (both), and the entropy limit log2 C(n, k) / k: bits that uniformly random indices need at least
(clustered ones may need less).

Arrays: zeros, NaN and Inf, quantiles of the magnitudes, the share of the squared norm that the largest 0.1, 1
and 10 % of the elements hold, and the same limit for the indices of what is not zero. They are looked at as
float32, which is what is compressed. --json has more quantiles."""


def add_parser(subcommands: argparse._SubParsersAction) -> None:
    """Adds the subcommand."""
    parser = console.add_subparser(subcommands, "inspect", _DESCRIPTION)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE", help="frames, .npy or .npz")
    parser.add_argument(
        "--plot", type=pathlib.Path, metavar="FILE.png", help="draw the sorted magnitudes, log-log"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Reports on the file, whichever it is.

    Raises:
      SystemExit: It cannot be read, is broken, or is something else.
    """
    figures = console.figures_for(arguments.plot)
    if arrays.is_array_file(arguments.file):
        magnitudes = array_report.report(arguments.file, arguments.json)
    else:
        magnitudes = frame_report.report(arguments.file, arguments.json, decoded=figures is not None)
    if figures is not None:
        figures.save_magnitudes(magnitudes, arguments.plot)
