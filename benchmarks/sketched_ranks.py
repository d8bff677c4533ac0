"""Sketched-SGD by the number of workers (Figure 4), on the problem of Figure 5.

    python benchmarks/sketched_ranks.py --data-dir DIR    # the four files of MNIST; 4 to 256 workers
    python benchmarks/sketched_ranks.py --quick           # scikit-learn's digits, 2 and 8 workers

Uncompressed SGD, local top-k and Sketched-SGD train as in `sketched_mnist.py`, with each number of workers,
which one process plays. Updated elements are counted: those of local top-k are the union of what the workers
sent.
"""

import argparse
import dataclasses
import itertools
import pathlib

import numpy as np
import options
import page_table
import paper_tables
import rich.progress
import sketched_mnist
from strongly_convex import Exchange, local_topk, sketched, uncompressed


class Counted:
    """An exchange that counts the elements that its updates change."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._steps = self._updated = 0

    def __call__(self, vectors: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        update, sent = self._exchange(vectors, step)
        self._steps += 1
        self._updated += np.count_nonzero(update)
        return update, sent

    @property
    def updated(self) -> float:
        """The mean of the steps so far."""
        return self._updated / self._steps


def methods(setting: sketched_mnist.Setting) -> dict[str, Exchange]:
    return {
        "uncompressed": uncompressed,
        "local top-k": local_topk(setting.k),
        "sketched": sketched(setting.spec("top"), setting.k),
    }


def numbers_moved(setting: sketched_mnist.Setting, method: str, n: int, updated: float) -> float:
    """Returns the numbers of a worker and step, up and down, as the paper counts them."""
    sketch_and_exact = setting.rows * setting.columns + setting.candidates * setting.k
    up = {"uncompressed": n, "local top-k": setting.k, "sketched": sketch_and_exact}[method]
    return up + (n if method == "uncompressed" else updated)


def measure(setting: sketched_mnist.Setting, folder: pathlib.Path | None, ranks: list[int]) -> dict:
    parts = sketched_mnist.load(folder, setting.positive)
    n = parts[0][0].shape[1]
    rows = []
    runs = list(itertools.product(ranks, sketched_mnist.LOSSES, methods(setting).items()))
    for num_ranks, model, (method, exchange) in rich.progress.track(runs, "trainings"):
        played = dataclasses.replace(setting, ranks=num_ranks)
        counted = Counted(exchange)
        seeds = range(setting.seeds)
        curves = [sketched_mnist.run(played, model, counted, parts, seed) for seed in seeds]
        moved = numbers_moved(setting, method, n, counted.updated)
        sizes = {"updated": counted.updated, "times_fewer": 2 * n / moved}
        names = {"ranks": num_ranks, "model": model, "method": method}
        rows.append(names | sizes | sketched_mnist.finals(curves))
    return {"setting": dataclasses.asdict(setting), "n": n, "rows": rows}


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    parser.add_argument(
        "--data-dir", type=pathlib.Path, help="folder of MNIST (default: scikit-learn's digits)"
    )
    parser.add_argument(
        "--ranks", type=int, nargs="+", default=[4, 16, 64, 256], metavar="N", help="default: 4 16 64 256"
    )
    parser.add_argument("--steps", type=int, default=2000, help="the largest T (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a smaller sketch, few steps, 2 and 8 workers")
    options.add_pages_folder(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    setting, ranks = sketched_mnist.Setting(steps=arguments.steps), arguments.ranks
    if arguments.quick:
        setting, ranks = sketched_mnist.QUICK, [2, 8]
    results = measure(setting, arguments.data_dir, ranks)
    page_table.show(paper_tables.sketched_ranks(results))
    options.save(results, arguments.output, "sketched_ranks")


if __name__ == "__main__":
    main()
