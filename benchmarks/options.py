"""Arguments that several benchmarks share, and writing of their results."""

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Callable

DOCS = pathlib.Path(__file__).parents[1] / "docs"
GRADIENTS = pathlib.Path(__file__).parent / "gradients"


def make_parser(description: str) -> argparse.ArgumentParser:
    """Returns a parser that keeps the lines of its description."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_example(parser: argparse.ArgumentParser) -> None:
    """Adds arguments for the example to run and the place of its results."""
    parser.add_argument("--workload", default="mnist_mlp", help="name of the example (default %(default)s)")
    add_ranks(parser)
    parser.add_argument("--name", help="name of the results (default: the workload)")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results"), help="folder (default %(default)s)"
    )
    parser.add_argument("example", nargs="*", metavar="-- ARGUMENT", help="arguments of the example")


def add_compression(
    parser: argparse.ArgumentParser,
    default: list[str],
    what: str = "compressors; the first is the baseline",
) -> None:
    """Adds the compressors that are compared."""
    parser.add_argument(
        "--compression",
        nargs="+",
        default=default,
        metavar="PRESET|SPEC",
        help=f"{what} (default: {' '.join(default)})",
    )


def add_ranks(parser: argparse.ArgumentParser) -> None:
    """Adds the number of ranks of a job."""
    parser.add_argument("-np", "--ranks", type=_ranks, default=2, help="at least 2 (default: %(default)s)")


def _ranks(text: str) -> int:
    if not text.isdigit() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"at least 2 ranks are needed for an exchange, got '{text}'")
    return int(text)


def add_gradients(parser: argparse.ArgumentParser) -> None:
    """Adds the dumped gradients that codecs are compared on, and the share of each that is sent."""
    parser.add_argument(
        "--gradients",
        type=pathlib.Path,
        nargs="+",
        default=[GRADIENTS],
        metavar="FILE|DIR",
        help=".npz files that the examples dumped, or folders of them (default: benchmarks/gradients)",
    )
    parser.add_argument(
        "--ratio", type=float, default=0.01, help="share of a dense gradient that is sent (default: 0.01)"
    )


def parse_gradients(description: str) -> argparse.Namespace:
    """Parses the arguments of a benchmark that compares codecs on gradients and writes for the pages."""
    parser = make_parser(description)
    add_gradients(parser)
    add_pages_folder(parser)
    return parser.parse_args()


def add_dumps(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    """Adds the files of dumped gradients, as positional arguments."""
    parser.add_argument(
        "files", nargs=nargs, type=pathlib.Path, metavar="FILE", help="dumps, or folders of them"
    )


def add_pages_folder(parser: argparse.ArgumentParser) -> None:
    """Adds the folder of the pages that show the results."""
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=DOCS,
        help="folder that gets figures/ and results/ (default: docs)",
    )


def write(results: dict, folder: pathlib.Path, name: str) -> pathlib.Path:
    """Writes <name>.json into a folder, which is made; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    return path


def save(results: dict, folder: pathlib.Path, name: str) -> None:
    """Writes results/<name>.json, and makes the folder of its figures."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    write(results, folder / "results", name)


def add_measure(parser: argparse.ArgumentParser, quick: str) -> None:
    """Adds what programs have in common whose `update` measures real jobs besides."""
    parser.add_argument("--measure", action="store_true", help="measure a few real steps, under horovodrun")
    parser.add_argument("--quick", action="store_true", help=quick)
    add_pages_folder(parser)


def update(
    arguments: argparse.Namespace,
    name: str,
    setting: object,
    measure: Callable[[], list[dict]],
    simulate: Callable[[], dict],
) -> dict:
    """Returns results/<name>.json of the same setting with new numbers, those of a real job or the simulated.

    Args:
      arguments: Of a parser with `add_measure`.
      name: Of the results.
      setting: A data class.
      measure: Returns what a rank of a real job counted, in place of earlier jobs of as many ranks.
      simulate: Returns new "simulated" numbers.

    Raises:
      SystemExit: This is not the first rank, which has the results.
    """
    path = arguments.output / "results" / f"{name}.json"
    results = {"setting": dataclasses.asdict(setting), "simulated": {}, "measured": []}
    if path.exists() and (earlier := json.loads(path.read_text()))["setting"] == results["setting"]:
        results = earlier
    if not arguments.measure:
        return {**results, "simulated": simulate()}
    import horovod.tensorflow as hvd

    hvd.init()
    if hvd.size() == 1:
        raise SystemExit("--measure needs several ranks: start it under horovodrun")
    measured = measure()
    if hvd.rank() != 0:
        raise SystemExit
    kept = [point for point in results["measured"] if point["ranks"] != hvd.size()]
    return {**results, "measured": sorted(kept + measured, key=lambda point: point["ranks"])}


def is_tried(name: str) -> bool:
    """Whether a compressor's first steps are trials of others: `auto`, with or without arguments."""
    return name.partition("(")[0] == "auto"
