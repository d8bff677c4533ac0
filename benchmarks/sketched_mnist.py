"""Sketched-SGD on MNIST: a support vector machine and logistic regression (appendix E.1, Figure 5).

    python benchmarks/sketched_mnist.py --data-dir DIR    # the four files of MNIST; a minute on one idle core
    python benchmarks/sketched_mnist.py --quick           # scikit-learn's digits, as a check that it runs

One class against the rest, without bias, as in the paper: a sketch of 7 rows and 40 columns for 784 weights,
k = 10, P = 10, 4 workers, a regularisation of 0.01. Algorithm 2 runs in one process, with the step sizes of
Theorem 1 for all methods, uncompressed SGD included. Losses and errors are those of the weighted mean of the
iterates, losses without the regularisation; of the training images the first 10,000 count.
"""

import argparse
import dataclasses
import itertools
import pathlib
import statistics
import sys

import drawing
import numpy as np
import options
import page_table
import paper_tables
import rich.progress
from strongly_convex import STEP, Exchange, mean_iterates, sketched, theorem_shift, uncompressed

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
from workload import idx

LAMBDA = 0.01
# By model: a row's loss by its margin m (label times score), and the loss' derivative by m.
LOSSES = {
    "svm": (lambda m: np.maximum(1 - m, 0), lambda m: -(m < 1).astype(float)),
    "logistic": (lambda m: np.logaddexp(0, -m), lambda m: -1 / (1 + np.exp(np.minimum(m, 500)))),
}
# Of the logistic loss by its margin.
LARGEST_DERIVATIVE = 0.25
EVALUATED = 10_000


@dataclasses.dataclass(frozen=True)
class Setting:
    """The experiment.

    Attributes:
      rows: Rows of the sketch.
      columns: Columns of the sketch.
      k: Elements that a step applies.
      candidates: P, elements whose exact values are summed for each one that is applied.
      ranks: Simulated workers.
      batch_size: Images of each worker in a step.
      steps: The largest T.
      positive: The digit that is told from the rest.
      seeds: Number of runs, each with its own images and sketches.
    """

    rows: int = 7
    columns: int = 40
    k: int = 10
    candidates: int = 10
    ranks: int = 4
    batch_size: int = 16
    steps: int = 5000
    positive: int = 0
    seeds: int = 3

    def spec(self, recovery: str) -> str:
        sizes = f"rows={self.rows},columns={self.columns},k={self.k},candidates={self.candidates}"
        return f"count_sketch:{sizes},recovery={recovery}"


# A problem of 64 weights; both rounds move fewer numbers than that.
QUICK = Setting(rows=3, columns=12, k=2, candidates=3, steps=500, seeds=1)

# Images in rows of pixels in [0, 1], float32 [m, n], and labels, -1 or 1.
Part = tuple[np.ndarray, np.ndarray]


def load(folder: pathlib.Path | None, positive: int) -> tuple[Part, Part]:
    """Returns what to train and to test with: MNIST of a folder, or the digits of scikit-learn."""
    if folder is None:
        from sklearn.datasets import load_digits

        images, digits = load_digits(return_X_y=True)
        parts = [(images[::2], digits[::2]), (images[1::2], digits[1::2])]
    else:
        parts = [idx.read_part(folder, part) for part in ("train", "t10k")]
    brightest = max(images.max() for images, _ in parts)
    return tuple(
        (
            images.reshape(len(images), -1).astype(np.float32) / brightest,
            np.where(digits == positive, 1.0, -1.0),
        )
        for images, digits in parts
    )


def true_topk(k: int) -> Exchange:
    """Returns an exchange that applies the k largest elements of the sum, which no worker could know."""

    def exchange(vectors: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        applied = np.argpartition(-np.abs(vectors.sum(axis=0)), k - 1)[:k]
        sent = np.zeros_like(vectors)
        sent[:, applied] = vectors[:, applied]
        return sent.mean(axis=0), sent

    return exchange


def methods(setting: Setting) -> dict[str, Exchange]:
    return {
        "uncompressed": uncompressed,
        "true top-k": true_topk(setting.k),
        "sketched": sketched(setting.spec("top"), setting.k),
        "heavymix": sketched(setting.spec("heavymix"), setting.k),
    }


def evaluate(model: str, weights: np.ndarray, part: Part) -> tuple[float, float]:
    """Returns the mean loss and the share of wrong signs."""
    images, labels = (each[:EVALUATED] for each in part)
    margins = labels * (images @ weights.astype(np.float32))
    return float(LOSSES[model][0](margins).mean()), float((margins <= 0).mean())


def run(setting: Setting, model: str, exchange: Exchange, parts: tuple[Part, Part], seed: int) -> dict:
    """Trains once; returns losses and errors at steps that grow by a third."""
    rng = np.random.default_rng(seed)
    (images, labels), _ = parts
    derivative = LOSSES[model][1]

    def gradients(weights: np.ndarray) -> np.ndarray:
        chosen = rng.integers(len(labels), size=(setting.ranks, setting.batch_size))
        rows, signs = images[chosen], labels[chosen]
        slopes = signs * derivative(signs * (rows @ weights))
        return np.einsum("wb,wbn->wn", slopes, rows) / setting.batch_size + LAMBDA * weights

    n = images.shape[1]
    # The trace of the second moments bounds their largest eigenvalue.
    curvature = LARGEST_DERIVATIVE * float((images[:EVALUATED] ** 2).sum(axis=1).mean()) + LAMBDA
    shift = theorem_shift(n / setting.k, curvature / LAMBDA)
    means = mean_iterates(exchange, gradients, np.zeros(n), STEP / LAMBDA, shift)
    wanted = checkpoints(setting)
    curve = {"train_loss": [], "train_error": [], "test_loss": [], "test_error": []}
    for step, mean in enumerate(itertools.islice(means, setting.steps), start=1):
        if step in wanted:
            for name, part in zip(("train", "test"), parts, strict=True):
                loss, error = evaluate(model, mean, part)
                curve[f"{name}_loss"].append(loss)
                curve[f"{name}_error"].append(error)
    return curve


def checkpoints(setting: Setting) -> list[int]:
    return np.unique(np.geomspace(10, setting.steps, 24).astype(int)).tolist()


def compression(setting: Setting, n: int) -> dict[str, float]:
    """Returns how many times fewer numbers move, as the paper counts and as an all-reduce moves them."""
    sketch, exact = setting.rows * setting.columns, setting.candidates * setting.k
    return {"paper": 2 * n / (sketch + exact + setting.k), "all_reduce": n / (sketch + exact)}


def measure(setting: Setting, folder: pathlib.Path | None) -> dict:
    parts = load(folder, setting.positive)
    n = parts[0][0].shape[1]
    rows = []
    for model in rich.progress.track(LOSSES, "models"):
        for name, exchange in methods(setting).items():
            curves = [run(setting, model, exchange, parts, seed) for seed in range(setting.seeds)]
            rows.append({"model": model, "method": name, "curves": curves, **finals(curves)})
    return {
        "setting": dataclasses.asdict(setting),
        "n": n,
        "compression": compression(setting, n),
        "steps": checkpoints(setting),
        "rows": rows,
    }


def finals(curves: list[dict]) -> dict[str, float]:
    """Returns the means of the last values over the seeds, and the range of the test losses."""
    means = {name: statistics.mean(curve[name][-1] for curve in curves) for name in curves[0]}
    losses = [curve["test_loss"][-1] for curve in curves]
    return means | {"least_test_loss": min(losses), "largest_test_loss": max(losses)}


def plot(results: dict, path: pathlib.Path) -> None:
    figure, both = drawing.subplots(1, 2, size=(10, 4.5))
    for axes, model in zip(both, LOSSES, strict=True):
        for i, row in enumerate(each for each in results["rows"] if each["model"] == model):
            for kind, style in (("train", "-"), ("test", "--")):
                errors = np.mean([curve[f"{kind}_error"] for curve in row["curves"]], axis=0)
                axes.plot(results["steps"], errors, style, color=f"C{i}", label=f"{row['method']}, {kind}")
        axes.set(
            xscale="log", yscale="log", xlabel="steps T", ylabel="error of the mean iterate", title=model
        )
        axes.grid(True, which="both", alpha=0.3)
    both[0].legend(fontsize="small")
    figure.savefig(path, dpi=120)


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    parser.add_argument(
        "--data-dir", type=pathlib.Path, help="folder of MNIST (default: scikit-learn's digits)"
    )
    parser.add_argument("--quick", action="store_true", help="a smaller sketch and fewer steps")
    options.add_pages_folder(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    results = measure(QUICK if arguments.quick else Setting(), arguments.data_dir)
    page_table.show(paper_tables.sketched_mnist(results))
    options.save(results, arguments.output, "sketched_mnist")
    plot(results, arguments.output / "figures" / "sketched_mnist.png")


if __name__ == "__main__":
    main()
