"""Logistic regression by scikit-learn, and by this package on one and two ranks (SKCompress, Figure 13).

    python benchmarks/single_node.py --data-dir DIR      # DIR has 20newsgroups_bow.npz; some minutes

All have the same rows, and lambda / 2 times the squared norm of the weights for the sum of all losses, of
which the ranks count those weights whose feature is in the batch. scikit-learn takes a row at a time on one
core (SGDClassifier, its own learning rates), or all rows in each step (LogisticRegression by L-BFGS). The
ranks are those of `linear_models.py`, of one thread each, Adam, a tenth of the rows in a step. Times are of
training, tests left out. Writes docs/results/single_node.json, and prints the table of docs/papers.md.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Iterator

import numpy as np
import options
import page_table
import paper_tables
import rich.progress
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
from horovod_job import run_example
from sparse import csr_npz, labels

DATA = "20newsgroups_bow.npz"
# lambda of the sum over all rows; `linear_models.py` is told that of a batch.
LAMBDA = 0.01
NUM_ROWS, BATCH_ROWS = 11_293, 1128
# Compressors by the number of ranks.
JOBS = {1: ["none"], 2: ["none", "skcompress"]}
# L-BFGS' limits of iterations, each a training of its own.
ITERATIONS = (1, 2, 5, 10, 20, 50)


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    parser.add_argument("--data-dir", type=pathlib.Path, required=True, metavar="DIR", help="its folder")
    parser.add_argument("--epochs", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each (default: %(default)s)")
    options.add_pages_folder(parser)
    return parser.parse_args()


def read(folder: pathlib.Path) -> tuple[tuple, tuple]:
    """Returns rows and labels, -1 and 1, to train with and to test with."""
    (train, train_labels), test = (csr_npz.read_part(folder / DATA, part) for part in ("train", "test"))
    positive = labels.first_half(train_labels)
    return tuple(
        (rows, labels.one_against_rest(own, positive)) for rows, own in ((train, train_labels), test)
    )


def log_loss(model: object, rows: object, wanted: np.ndarray) -> float:
    """Returns the mean logistic loss, without the regularisation."""
    return float(np.logaddexp(0, -wanted * model.decision_function(rows)).mean())


def by_row(train: tuple, test: tuple, epochs: int, seed: int) -> Iterator[dict]:
    """Yields the points of each epoch of stochastic gradient descent, a row in a step."""
    rows, wanted = train
    alpha = LAMBDA / rows.shape[0]
    model = SGDClassifier(loss="log_loss", alpha=alpha, fit_intercept=False, random_state=seed)
    rng, seconds = np.random.default_rng(seed), 0.0
    for epoch in range(1, epochs + 1):
        order = rng.permutation(rows.shape[0])
        shuffled = rows[order], wanted[order]
        begin = time.perf_counter()
        model.partial_fit(*shuffled, classes=[-1, 1])
        seconds += time.perf_counter() - begin
        yield {"epoch": epoch, "seconds": seconds, "test_loss": log_loss(model, *test)}


def by_all_rows(train: tuple, test: tuple) -> Iterator[dict]:
    """Yields a point for each limit of L-BFGS' iterations."""
    for iterations in ITERATIONS:
        model = LogisticRegression(C=1 / LAMBDA, fit_intercept=False, max_iter=iterations, tol=1e-12)
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # The limits are there to be reached.
            model.fit(*train)
        seconds = time.perf_counter() - begin
        yield {"epoch": iterations, "seconds": seconds, "test_loss": log_loss(model, *test)}


def by_ranks(ranks: int, arguments: argparse.Namespace, seed: int) -> Iterator[tuple[str, list[dict]]]:
    """Yields the points of each compressor's epochs."""
    rows = BATCH_ROWS // ranks
    words = f"--data {DATA} --batch-size {rows} --l2 {LAMBDA / NUM_ROWS * rows} --learning-rate 0.1"
    words += f" --seed {seed} --epochs {arguments.epochs} --data-dir {arguments.data_dir.resolve()}"
    for run in run_example("linear_models", ranks, [*words.split(), "--compression", *JOBS[ranks]]):
        points = [{**point, "test_loss": point["metrics"]["test_loss"]} for point in run["curve"]]
        yield (
            run["compression"],
            [{key: point[key] for key in ("epoch", "seconds", "test_loss")} for point in points],
        )


def row_of(method: str, compression: str, cores: int, runs: list[list[dict]]) -> dict:
    """Returns the table's row: least test losses, and the seconds until then; medians over the runs."""
    least = [min(run, key=lambda point: point["test_loss"]) for run in runs]
    losses = [point["test_loss"] for point in least]
    return {
        "method": method,
        "compression": compression,
        "cores": cores,
        "test_loss": statistics.mean(losses),
        "lowest": min(losses),
        "highest": max(losses),
        "epoch": statistics.median(point["epoch"] for point in least),
        "seconds": statistics.median(point["seconds"] for point in least),
        "epoch_seconds": statistics.median(run[-1]["seconds"] / run[-1]["epoch"] for run in runs),
        "runs": runs,
    }


def main() -> None:
    arguments = parse_arguments()
    os.environ |= {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    train, test = read(arguments.data_dir)
    seeds = range(1, arguments.seeds + 1)
    runs: dict[tuple, list[list[dict]]] = {}
    for seed in rich.progress.track(seeds, "seeds"):
        runs.setdefault(("SGDClassifier", "", 1), []).append([*by_row(train, test, arguments.epochs, seed)])
        for ranks in JOBS:
            for name, points in by_ranks(ranks, arguments, seed):
                runs.setdefault(("linear_models.py", name, ranks), []).append(points)
    runs["LogisticRegression", "", 1] = [[*by_all_rows(train, test)]]
    result = {"epochs": arguments.epochs, "rows": [row_of(*key, found) for key, found in runs.items()]}
    options.save(result, arguments.output, "single_node")
    page_table.show(paper_tables.single_node(result))


if __name__ == "__main__":
    main()
