"""Arguments that several benchmarks share, and writing of their results."""

import argparse
import json
import pathlib

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


def earlier(folder: pathlib.Path, name: str, setting: dict) -> dict:
    """Returns what results/<name>.json has of the same setting, or results with nothing in them."""
    path = folder / "results" / f"{name}.json"
    if path.exists() and (results := json.loads(path.read_text()))["setting"] == setting:
        return results
    return {"setting": setting, "simulated": {}, "measured": []}


def add_measured(results: dict, points: list[dict]) -> None:
    """Adds the points of a real job, in place of earlier ones with as many ranks."""
    kept = [point for point in results["measured"] if point["ranks"] != points[0]["ranks"]]
    results["measured"] = sorted(kept + points, key=lambda point: point["ranks"])


def is_tried(name: str) -> bool:
    """Whether a compressor's first steps are trials of others: `auto`, with or without arguments."""
    return name.partition("(")[0] == "auto"
