"""The command line: `tfcompress list | inspect | bench | plan | doctor`, one module a subcommand.

It works at the NumPy level, without TensorFlow unless `plan` runs in a job, and uses the package's public
names only. rich and matplotlib are the package's extra `cli`.
"""

import argparse
import sys
from collections.abc import Sequence

import tfcompress as tfc
from tfcompress.cli import bench, console, doctor, inspection, listing, planning


def run_program() -> None:
    """Runs the command line of the process, and prints its errors.

    Raises:
      SystemExit: As `main`, with a status in place of the message.
    """
    try:
        main()
    except SystemExit as error:
        if not isinstance(error.code, str):
            raise
        console.print_error(error.code)
        raise SystemExit(1) from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
      arguments: The arguments after the program's name; None means those of the process.

    Raises:
      SystemExit: A file, spec or preset is invalid; the message says why.
    """
    parsed = parse(sys.argv[1:] if arguments is None else arguments)
    parsed.run(parsed)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses a command line; the subcommand's `run` takes what it returns.

    Raises:
      SystemExit: The command line is invalid, or asks for help.
    """
    parser = argparse.ArgumentParser(
        prog="tfcompress", description="What compression makes of your own gradients."
    )
    version = f"tfcompress {tfc.__version__}, frames of version {tfc.FORMAT_VERSION}"
    parser.add_argument("--version", action="version", version=version)
    subcommands = parser.add_subparsers(title="subcommands", required=True, metavar="COMMAND")
    for module in (listing, inspection, bench, planning, doctor):
        module.add_parser(subcommands)
    if arguments and arguments[0] in subcommands.choices:
        # Options may be between the file and the specs, which argparse allows only without subcommands.
        return subcommands.choices[arguments[0]].parse_intermixed_args(arguments[1:])
    return parser.parse_args(arguments)
