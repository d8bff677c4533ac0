"""`doctor`: whether the installation can train, and how to mend what is broken."""

import argparse
import dataclasses

from tfcompress import diagnosis
from tfcompress.cli import console

_DESCRIPTION = """Check the installation, and say how to mend what is broken.

Versions of Python, tfcompress, NumPy, TensorFlow, Keras and Horovod; whether the core, the op library and the
variants for GPUs load, and for which TensorFlow the ops were built; what Horovod was built with; and whether
two ranks on this machine, started as horovodrun does, get the same result from one compressed exchange. Takes
some ten seconds. The exit status is 1 if something is broken that training needs."""

_STYLES = {"ok": "green", "broken": "bold red", "note": "yellow", "skipped": "dim"}


def add_parser(subcommands: argparse._SubParsersAction) -> None:
    """Adds the subcommand."""
    parser = console.add_subparser(subcommands, "doctor", _DESCRIPTION)
    parser.add_argument(
        "--timeout",
        type=console.positive,
        default=int(diagnosis.TIMEOUT_SECONDS),
        metavar="S",
        help="seconds that loading, and the two ranks, may take each (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Checks and reports.

    Raises:
      SystemExit: With status 1, something is broken.
    """
    findings = diagnosis.diagnose(arguments.timeout)
    broken = [each for each in findings if each.state == "broken"]
    if arguments.json:
        console.print_json({"ok": not broken, "findings": [dataclasses.asdict(each) for each in findings]})
    else:
        _print(findings)
    if broken:
        raise SystemExit(1)


def _print(findings: list[diagnosis.Finding]) -> None:
    table = console.make_table("Installation", "part", "state", "found", text=3)
    for each in findings:
        table.add_row(each.name, console.styled(each.state, _STYLES[each.state]), each.found)
    console.print_table(table)
    for each in findings:
        if each.remedy:
            console.print_text(f"{each.name}:")
            console.print_command(each.remedy)
