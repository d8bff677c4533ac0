"""Arguments and output: results go to stdout, notes and progress to stderr, so that stdout can be piped."""

import argparse
import json
import os
import sys
from typing import TextIO

import rich.box
import rich.console
import rich.progress
import rich.table
import rich.text

# Width of tables that are not written to a terminal.
_WIDTH = 200


def add_subparser(
    subcommands: argparse._SubParsersAction, name: str, description: str
) -> argparse.ArgumentParser:
    """Adds a subcommand with the option `--json`; the first line of its description is its help."""
    parser = subcommands.add_parser(
        name,
        help=description.partition("\n")[0],
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    return parser


def make_table(title: str, *headings: str, caption: str | None = None, text: int = 1) -> rich.table.Table:
    """Returns a table without rows.

    Args:
      title: Text above the table.
      *headings: Headings of the columns.
      caption: Text below the table.
      text: Number of leading columns that hold text, which is wrapped on narrow terminals; the others hold
        numbers.
    """
    table = rich.table.Table(
        title=title,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        box=rich.box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for i, heading in enumerate(headings):
        if i < text:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    return table


def styled(text: str, style: str) -> rich.text.Text:
    """Returns a cell of a table in a style of rich, such as "bold red", which shows on terminals only."""
    return rich.text.Text(text, style=style)


def print_table(table: rich.table.Table) -> None:
    """Prints a table to stdout."""
    _console(sys.stdout).print(table)


def print_text(text: str) -> None:
    """Prints a line to stdout."""
    _console(sys.stdout).print(text)


def print_command(command: str) -> None:
    """Prints a command on a line of its own to stdout; it is not wrapped, so that it can be copied."""
    _console(sys.stdout).print(f"  {command}", soft_wrap=True)


def print_error(text: str) -> None:
    """Prints an error to stderr; it is not wrapped, so that a command in it can be copied."""
    console = _console(sys.stderr)
    console.print("error:", style="bold red", end=" ")
    console.print(text, soft_wrap=True)


def print_json(value: object) -> None:
    """Prints a value to stdout as JSON; NaN is an error, since JSON has no such number."""
    print(json.dumps(value, indent=1, allow_nan=False))


def note(text: str) -> None:
    """Prints a remark to stderr."""
    _console(sys.stderr).print(f"note: {text}")


def make_progress() -> rich.progress.Progress:
    """Returns a progress bar on stderr, which shows only on a terminal."""
    console = _console(sys.stderr)
    return rich.progress.Progress(console=console, disable=not console.is_terminal, transient=True)


def number(value: float | None, digits: int = 2) -> str:
    """Returns the text of a table cell; "-" if there is no value."""
    return "-" if value is None else f"{value:,.{digits}f}"


def positive(text: str) -> int:
    """Reads an argument that is a whole number, at least 1."""
    return at_least(1, text)


def natural(text: str) -> int:
    """Reads an argument that is a whole number, at least 0."""
    return at_least(0, text)


def at_least(least: int, text: str) -> int:
    """Reads an argument that is a whole number, at least `least`."""
    number = int(text) if text.isdigit() else -1
    if number < least:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}, got '{text}'")
    return number


def _console(file: TextIO) -> rich.console.Console:
    wide = not file.isatty() and "COLUMNS" not in os.environ
    # Print names and specs literally: "[8, 512]" and ":key:" are not markup.
    return rich.console.Console(
        file=file, width=_WIDTH if wide else None, markup=False, highlight=False, emoji=False
    )
