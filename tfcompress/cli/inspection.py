"""`inspect`: describes frames or gradients."""

import argparse
import pathlib

from tfcompress.cli import array_report, arrays, console, frame_report, plotting

_DESCRIPTION = """Describe frames on disk, or the arrays of a .npy or .npz file.

Frames, the bytes of tfc.encode, one or several end to end: headers, sections, bits per index, value and
element (both), and the entropy limit log2 C(n, k) / k, the least bits for each of k uniformly random indices
(clustered ones may need less).

Arrays: zeros, NaN and Inf, quantiles of the magnitudes, the share of the squared norm in the largest 0.1, 1
and 10 % of the elements, and the entropy limit of the indices of the nonzero elements. Arrays are converted
to float32, the type that is compressed. --json has more quantiles."""


def add_parser(subcommands: argparse._SubParsersAction) -> None:
    """Adds the subcommand."""
    parser = console.add_subparser(subcommands, "inspect", _DESCRIPTION)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE", help="frames, .npy or .npz")
    parser.add_argument(
        "--plot", type=pathlib.Path, metavar="FILE.png", help="draw the sorted magnitudes, log-log"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Reports on a file of frames or of arrays.

    Raises:
      SystemExit: The file cannot be read, is broken, or holds neither frames nor arrays.
    """
    figures = plotting.figures_for(arguments.plot)
    if arrays.is_array_file(arguments.file):
        magnitudes = array_report.report(arguments.file, arguments.json)
    else:
        magnitudes = frame_report.report(arguments.file, arguments.json, decoded=figures is not None)
    if figures is not None:
        figures.save_magnitudes(magnitudes, arguments.plot)
