"""Fills the tables of docs/*.md from the numbers in docs/results.

    python benchmarks/fill_tables.py            # after new numbers were copied to docs/results
    python benchmarks/fill_tables.py --check    # only checks whether the pages are up to date

In a page, two comments mark the position of a table and name the benchmark's file::

    <!-- convergence: convergence_digits -->
    <!-- /convergence -->
"""

import argparse
import json
import pathlib
import re
import sys
from collections.abc import Callable

from comparison import report
from network_summary import BASELINES, PHASES
from options import DOCS

_MARKED = re.compile(r"(<!-- (\w+): (\w+) -->\n).*?(<!-- /\2 -->)", re.DOTALL)


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Returns a table in Markdown; all columns but the first are right-aligned."""
    aligned = ["---", *["---:"] * (len(headings) - 1)]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in [headings, aligned, *rows])


def convergence(result: dict) -> str:
    """Final metrics, payload and wire bytes, and these relative to the first compressor's."""
    metric = result["rows"][0]["metric"]
    rows = [
        [
            code(row["compression"]),
            f"{row['mean']:.4f}",
            f"{row['lowest']:.4f} to {row['highest']:.4f}",
            f"{row['difference']:+.4f}",
            f"{row['payload_bytes_per_step']:,.0f}",
            f"{row['wire_bytes_per_step']:,.0f}",
            f"{row['ratio']:.1f}",
            f"{row['volume']:.4f}",
        ]
        for row in result["rows"]
    ]
    numbers = ["payload B/step", "wire B/step", "ratio", "volume"]
    return table([result["title"], metric, "of the seeds", "difference", *numbers], rows)


def network(result: dict) -> str:
    """Returns a table of median step times and their parts, by bandwidth."""
    rows = [
        [
            row["bandwidth"],
            code(row["compression"]),
            *(f"{row['wire'][part]:,.0f}" for part in ("payload", "expected", "counted")),
            f"{row['step_ms']:.1f}",
            *(f"{row['milliseconds'][phase]:.1f}" for phase in PHASES),
            *(f"{row['throughput_to'][baseline]:.2f}" for baseline in BASELINES),
        ]
        for row in result["rows"]
    ]
    ratios = [f"x {code(baseline)}" for baseline in BASELINES]
    traffic = ["payload B/step", "wire B/step", "counted"]
    return table(["link", "compression", *traffic, "step ms", *PHASES, *ratios], rows)


def gradients(result: dict) -> str:
    """Returns a table that describes the columns of `keys` and `messages`."""
    rows = [
        [each["name"].split(",")[0], each["kind"], f"{each['n']:,}", f"{each['k']:,}", str(each["width"])]
        for each in result["gradients"]
    ]
    numbered = [[f"#{number}", *row] for number, row in enumerate(rows, start=1)]
    return table(["", "gradient", "kind", "n", "k", "width of a row"], numbered)


def keys(result: dict) -> str:
    """Returns a table of the bits per key of each codec on each gradient."""
    return codecs(result, "keys", report.bits_of_keys, report.mean("bits"))


def messages(result: dict) -> str:
    """Returns a table of the bytes of messages of each codec on each gradient; exact codecs first."""
    return codecs(result, "pairs", report.share_and_error, report.exact_first("bytes"))


def codec_choice(result: dict) -> str:
    """Returns a table of bits and errors; those that no other codec beats in both are marked."""
    rows = [
        [code(row["codecs"]), f"{row['bits']:.2f}", f"{row['snr']:.1f}", "*" if row["front"] else ""]
        for row in result["rows"]
    ]
    return table(["codecs", "bits an element", "dB", "front"], rows)


def codecs(
    result: dict, section: str, cell: Callable[[dict], str], order: Callable[[list[dict]], object]
) -> str:
    """Returns a table with a row for each method, a column for each gradient, and median speeds."""
    names = [f"#{number}" for number, _ in enumerate(result["gradients"], start=1)]
    methods = sorted(report.by_method(result[section]).items(), key=lambda item: order(item[1]))
    rows = [
        [
            f"{code(name)} ({each[0]['package']})",
            *map(cell, each),
            *report.speeds(each, list(report.SPEEDS)[:2]),
        ]
        for name, each in methods
    ]
    return table(["method", *names, "encode M/s", "decode M/s"], rows)


TABLES = {
    "convergence": convergence,
    "network": network,
    "gradients": gradients,
    "keys": keys,
    "messages": messages,
    "codec_choice": codec_choice,
}


def code(text: str) -> str:
    escaped = text.replace("|", "\\|")
    return f"`{escaped}`"


def filled(page: str, results: pathlib.Path) -> str:
    """Returns a page with all its tables regenerated.

    Raises:
      FileNotFoundError: There are no numbers of that name.
    """

    def fill(match: re.Match) -> str:
        begin, kind, name, end = match.groups()
        result = json.loads((results / f"{name}.json").read_text())
        return f"{begin}\n{TABLES[kind](result)}\n{end}"

    return _MARKED.sub(fill, page)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page would change")
    arguments = parser.parse_args()
    stale = []
    for path in sorted(DOCS.glob("*.md")):
        page = path.read_text()
        new = filled(page, DOCS / "results")
        if new == page:
            continue
        stale.append(path.name)
        if not arguments.check:
            path.write_text(new)
    if stale:
        print("stale:" if arguments.check else "written:", *stale)
    sys.exit(1 if stale and arguments.check else 0)


if __name__ == "__main__":
    main()
