"""Compares our codecs with packages from PyPI on real gradients: bytes, error, speed.

    python benchmarks/codecs.py                            # the gradients in benchmarks/gradients
    python benchmarks/codecs.py --gradients DIR FILE.npz   # others, dumped by an example's --dump-gradients

A dense gradient sends the `--ratio` of its elements with the largest magnitude, a sparse one its rows. Exact
methods are compared with exact ones, lossy with lossy ones, whose errors are given with the bytes. One thread
each; speeds are the best of several runs, and the JSON has those of a memcpy of as many bytes beside them.

Packages that are not installed are named and left out; `pip install -r scripts/requirements-test.txt`
installs all of them.
"""

import argparse
import dataclasses
import importlib.metadata
import platform
import zlib
from collections.abc import Callable

import numpy as np
import options
from comparison import figures, keys, pairs, peers, quantiles, report, selection, values
from comparison.gradients import Gradient, find_files, read_gradients
from measuring import machine, tracked

import tfcompress as tfc
from tfcompress.measure import memcpy_seconds

# Seconds for each number: the best of the runs that fit is reported.
BUDGET, QUICK_BUDGET = 0.15, 0.005


@dataclasses.dataclass(frozen=True)
class Section:
    """One comparison.

    Attributes:
      methods: Lists the compared methods.
      measure: Returns a dict of numbers for (method, gradient, seconds for each number).
      words: Returns the number of 32-bit words of a gradient that the methods take.
      dense: Whether it applies to dense gradients only.
    """

    methods: Callable[[], list]
    measure: Callable[[object, Gradient, float], dict]
    words: Callable[[Gradient], int]
    dense: bool = False


def magnitudes(gradient: Gradient) -> np.ndarray:
    elements = np.abs(gradient.sent.values.ravel() if gradient.dense is None else gradient.dense)
    return elements[elements > 0]


SECTIONS = {
    "keys": Section(keys.methods, lambda m, g, b: keys.measure(m, g.sent, b), lambda g: keys.raw(g.sent)),
    "values": Section(
        values.methods,
        lambda m, g, b: values.measure(m, g.sent.values.ravel(), b),
        lambda g: g.sent.values.size,
    ),
    "dense values": Section(
        values.methods, lambda m, g, b: values.measure(m, g.dense, b), lambda g: g.dense.size, dense=True
    ),
    "pairs": Section(pairs.methods, lambda m, g, b: pairs.measure(m, g.sent, b), lambda g: pairs.raw(g.sent)),
    "selection": Section(
        selection.methods,
        lambda m, g, b: selection.measure(m, g.dense, len(g.sent.keys), b),
        lambda g: g.dense.size,
        dense=True,
    ),
    "quantiles": Section(
        quantiles.methods,
        lambda m, g, b: quantiles.measure(m, magnitudes(g), b),
        lambda g: magnitudes(g).size,
    ),
}


def describe(gradients: list[Gradient]) -> list[dict]:
    return [
        {
            "number": number,
            "name": gradient.name,
            "kind": "rows" if gradient.dense is None else "dense",
            "n": gradient.sent.num_rows,
            "k": len(gradient.sent.keys),
            "width": gradient.sent.width,
        }
        for number, gradient in enumerate(gradients, 1)
    ]


def measure(gradients: list[Gradient], budget: float) -> dict[str, list[dict]]:
    """Returns the numbers of every section, and the speed of memcpy at the sizes of each."""
    results: dict[str, list[dict]] = {"memcpy": [], **{name: [] for name in SECTIONS}}
    jobs = [
        (name, section, gradient)
        for name, section in SECTIONS.items()
        for gradient in gradients
        if gradient.dense is not None or not section.dense
    ]
    for name, section, gradient in tracked(jobs, lambda job: f"{job[0]}, {job[2].name}"):
        about = {"gradient": gradient.name, "k": len(gradient.sent.keys)}
        words = section.words(gradient)
        speed = words / memcpy_seconds(words, budget) / 1e6
        results["memcpy"].append({"section": name, **about, "m_per_s": speed})
        for method in section.methods():
            numbers = section.measure(method, gradient, budget)
            results[name].append({**about, "method": method.name, "package": method.package, **numbers})
    return results


def versions() -> dict[str, str]:
    packages = ("numpy", *(name for name in peers.PACKAGES if name not in peers.missing()))
    found = {
        "python": platform.python_version(),
        "tfcompress": tfc.__version__,
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
    }
    distributions = importlib.metadata.packages_distributions()
    return found | {name: importlib.metadata.version(distributions[name][0]) for name in packages}


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    options.add_gradients(parser)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only the first dense and the first sparse gradient, with rough times",
    )
    options.add_pages_folder(parser)
    arguments = parser.parse_args()
    if not 0 < arguments.ratio <= 1:
        parser.error(f"--ratio {arguments.ratio} is outside (0, 1]")
    return arguments


def load(arguments: argparse.Namespace) -> list[Gradient]:
    try:
        gradients = [
            each for path in find_files(arguments.gradients) for each in read_gradients(path, arguments.ratio)
        ]
    except ValueError as error:
        raise SystemExit(str(error)) from error
    if not arguments.quick:
        return gradients
    kinds = {each.dense is None: each for each in reversed(gradients)}
    return [each for each in gradients if each in kinds.values()]


def main() -> None:
    arguments = parse_arguments()
    gradients = load(arguments)
    selection.use_one_thread()
    results = {
        "setting": {"ratio": arguments.ratio, "quick": arguments.quick},
        "machine": machine(),
        "versions": versions(),
        "missing": peers.missing(),
        "gradients": describe(gradients),
        **measure(gradients, QUICK_BUDGET if arguments.quick else BUDGET),
    }
    report.show(results)
    options.save(results, arguments.output, "codecs")
    figures.plot_bytes(results, arguments.output / "figures" / "codecs_bytes.png")
    figures.plot_keys(results, arguments.output / "figures" / "codecs_keys.png")


if __name__ == "__main__":
    main()
