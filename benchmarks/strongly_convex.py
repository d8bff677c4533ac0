"""Sketched-SGD on a strongly convex quadratic: the excess loss by the number of steps T (Theorem 1).

    python benchmarks/strongly_convex.py            # about a minute on one idle core
    python benchmarks/strongly_convex.py --quick    # a few seconds, as a check that it runs

The paper's bound is O(1/T) as for plain SGD once T is beyond the order of (n/k)^2. Algorithm 2 runs here
with several ranks in one process: each sketches step size times noisy gradient plus its own error, the
sketches are summed, elements are recovered, and what is not applied stays in each rank's error. Recovered are
either the P k largest estimates, of which the k with the largest exact sums are applied ("sketched",
Algorithm 3), or what HEAVYMIX takes (Algorithm 1). The sketch has fewer cells than the problem has elements,
and both rounds together move fewer numbers than an uncompressed gradient has. The loss is that of the paper's
weighted mean of iterates.

The theorem prescribes smaller first steps for larger n/k (its shift). Uncompressed SGD therefore runs with
its own shift and with those of the compressed runs, to separate the effect of the step size.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterator

import drawing
import numpy as np
import options
import page_table
import paper_tables
import rich.progress

import tfcompress as tfc

SMALLEST_CURVATURE, LARGEST_CURVATURE = 1.0, 4.0
# The step size is STEP / (mu (t + shift)); 1/T needs STEP above 1/2.
STEP = 2.0
# Theorem 1 has shift > 2 + n (1 + beta) / (k (1 + rho)), beta > 4, rho = 4 beta / ((beta - 4) (beta + 1)^2).
BETA = 5.0
# With k = 64 of n = 1024: 320 cells of the sketch and 256 exact values.
ROWS, COLUMNS_FOR_EACH_KEPT, CANDIDATES = 5, 1, 4


# The parameter `recovery` of the codec, by the name of the method.
RECOVERIES = {"sketched": "top", "heavymix": "heavymix"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """The problem and the number of steps.

    Attributes:
      n: Dimensions of the quadratic.
      steps: The largest T.
      kept: The two values of k, the elements that a step applies.
      ranks: Simulated ranks, each with its own noise.
      noise: Standard deviation of each element of one rank's gradient.
      seed: Seed of the noise, the starting point and the sketches.
    """

    n: int = 1024
    steps: int = 50_000
    kept: tuple[int, int] = (64, 16)
    ranks: int = 4
    noise: float = 1.0
    seed: int = 0


QUICK = Setting(n=256, steps=4000, kept=(24, 16))

# Maps the vectors of all ranks, float64 [ranks, n], and the number of the step to the applied mean, [n], and
# each rank's share of it, [ranks, n].
Exchange = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def uncompressed(vectors: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    return vectors.mean(axis=0), vectors


def local_topk(k: int) -> Exchange:
    """Returns an exchange in which each rank sends its own k largest elements."""

    def exchange(vectors: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        largest = np.argpartition(-np.abs(vectors), k - 1, axis=1)[:, :k]
        sent = np.zeros_like(vectors)
        np.put_along_axis(sent, largest, np.take_along_axis(vectors, largest, axis=1), axis=1)
        return sent.mean(axis=0), sent

    return exchange


def sketch_spec(k: int, recovery: str = "top") -> str:
    columns = COLUMNS_FOR_EACH_KEPT * k
    sizes = f"rows={ROWS},columns={columns},k={k},candidates={CANDIDATES}"
    return f"count_sketch:{sizes},recovery={recovery}"


def sketched(spec: str, k: int) -> Exchange:
    """Returns an exchange that sums sketches, then exact values of what they show, and applies the k largest.

    Args:
      spec: Of a `count_sketch`.
      k: Elements to apply.
    """

    def exchange(vectors: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        singles = vectors.astype(np.float32)
        options = {"seed": step, "num_threads": 1}
        summed = sum(tfc.codecs.linear_encode(each, spec, **options) for each in singles)
        candidates, _ = tfc.codecs.linear_recover(summed, vectors.shape[1], spec, **options)
        sums = vectors[:, candidates].sum(axis=0)
        applied = candidates[np.argpartition(-np.abs(sums), k - 1)[:k]]
        sent = np.zeros_like(vectors)
        sent[:, applied] = vectors[:, applied]
        return sent.mean(axis=0), sent

    return exchange


def theorem_shift(ratio: float, condition: float = LARGEST_CURVATURE / SMALLEST_CURVATURE) -> float:
    """Returns the least shift that Theorem 1 allows for n/k and that lets no first step overshoot."""
    rho = 4 * BETA / ((BETA - 4) * (BETA + 1) ** 2)
    return max(2 + ratio * (1 + BETA) / (1 + rho), STEP * condition)


def mean_iterates(
    exchange: Exchange,
    gradients: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    rate: float,
    shift: float,
) -> Iterator[np.ndarray]:
    """Runs SGD with error accumulation; yields the weighted mean of the iterates (Theorem 1).

    Args:
      exchange: The exchange that computes the update.
      gradients: Maps an iterate, [n], to the ranks' stochastic gradients, [ranks, n].
      start: The first iterate, float64 [n].
      rate: The step size of step t is rate / (t + shift).
      shift: See `rate`.
    """
    point, mean, total_weight, error = start, np.zeros_like(start), 0.0, 0.0
    for step in itertools.count(1):
        weight = (shift + step) ** 2
        total_weight += weight
        mean = mean + (weight / total_weight) * (point - mean)
        yield mean
        vectors = error + rate / (step + shift) * gradients(point)
        update, sent = exchange(vectors, step)
        error = vectors - sent
        point = point - update


def excess_losses(setting: Setting, exchange: Exchange, shift: float, checkpoints: np.ndarray) -> list[float]:
    """Runs SGD and returns the excess loss of the weighted mean of iterates at each of the checkpoints.

    Args:
      setting: The problem.
      exchange: The exchange that computes the update.
      shift: Shift of the step size.
      checkpoints: Ascending numbers of steps.
    """
    rng = np.random.default_rng(setting.seed)
    curvature = np.geomspace(SMALLEST_CURVATURE, LARGEST_CURVATURE, setting.n)
    start = rng.standard_normal(setting.n)

    def gradients(point: np.ndarray) -> np.ndarray:
        return curvature * point + setting.noise * rng.standard_normal((setting.ranks, setting.n))

    means = mean_iterates(exchange, gradients, start, STEP / SMALLEST_CURVATURE, shift)
    wanted, losses = set(checkpoints.tolist()), []
    for step, mean in enumerate(itertools.islice(means, setting.steps), start=1):
        if step in wanted:
            losses.append(float(0.5 * np.sum(curvature * mean**2)))
    return losses


def fitted_slope(steps: np.ndarray, losses: list[float], beyond: float) -> float:
    """Fits the slope of log loss by log T from T = `beyond` on."""
    chosen = steps >= beyond
    return float(np.polyfit(np.log(steps[chosen]), np.log(np.asarray(losses)[chosen]), 1)[0])


def measure(setting: Setting) -> dict:
    runs = [("uncompressed", setting.n, uncompressed)]
    for k in setting.kept:
        for method, recovery in RECOVERIES.items():
            runs.append((method, k, sketched(sketch_spec(k, recovery), k)))
        runs += [("local top-k", k, local_topk(k)), ("same steps, plain", k, uncompressed)]
    checkpoints = np.unique(np.geomspace(10, setting.steps, 60).astype(int))
    curves = []
    for method, k, exchange in rich.progress.track(runs, "methods"):
        ratio = setting.n / k
        name = method if k == setting.n else f"{method}, n/k = {ratio:g}"
        shift = theorem_shift(ratio)
        losses = excess_losses(setting, exchange, shift, checkpoints)
        # Plain SGD has no (n/k)^2: fit it from the larger one of the compressed runs on.
        beyond = ratio**2 if k < setting.n else (setting.n / min(setting.kept)) ** 2
        curves.append(
            {
                "name": name,
                "method": method,
                "k": k,
                "ratio": ratio,
                "spec": sketch_spec(k, RECOVERIES[method]) if method in RECOVERIES else None,
                "shift": shift,
                "losses": losses,
                "slope_beyond": beyond,
                "slope": fitted_slope(checkpoints, losses, beyond),
            }
        )
    return {"setting": dataclasses.asdict(setting), "steps": checkpoints.tolist(), "curves": curves}


def plot(results: dict, path: pathlib.Path) -> None:
    figure, axes = drawing.subplots(size=(7, 4.8))
    steps = np.array(results["steps"])
    colors = {k: f"C{i}" for i, k in enumerate(dict.fromkeys(curve["k"] for curve in results["curves"]))}
    # Curves nearly coincide: draw thin ones on top of wide ones.
    styles = {
        "uncompressed": {"linewidth": 1.5},
        "sketched": {"linewidth": 4, "alpha": 0.4},
        "heavymix": {"linewidth": 1.2, "linestyle": (0, (1, 1))},
        "local top-k": {"linewidth": 1.2, "linestyle": "--"},
        "same steps, plain": {"linewidth": 1.2, "linestyle": "-."},
    }
    for curve in results["curves"]:
        color = colors[curve["k"]]
        label = f"{curve['name']}: {curve['slope']:.2f}"
        axes.plot(steps, curve["losses"], color=color, label=label, **styles[curve["method"]])
        if curve["method"] == "sketched":
            axes.axvline(curve["ratio"] ** 2, color=color, linestyle=":", linewidth=1)
            axes.annotate(
                f" T = {curve['ratio']:g}²",
                (curve["ratio"] ** 2, 0.02),
                xycoords=("data", "axes fraction"),
                color=color,
            )
    plain = results["curves"][0]["losses"]
    axes.plot(steps, 0.5 * plain[-1] * steps[-1] / steps, color="gray", linewidth=1, label="1/T")
    axes.set(xscale="log", yscale="log", xlabel="steps T", ylabel="excess loss of the weighted mean iterate")
    axes.set_title(f"Sketched-SGD, Theorem 1: strongly convex quadratic, n = {results['setting']['n']:,}")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(title="slope beyond (n/k)²", fontsize="small")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = options.make_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller problem and fewer steps")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (default %(default)s)")
    options.add_pages_folder(parser)
    arguments = parser.parse_args()
    setting = dataclasses.replace(QUICK if arguments.quick else Setting(), seed=arguments.seed)
    results = measure(setting)
    page_table.show(paper_tables.strongly_convex(results))
    options.save(results, arguments.output, "strongly_convex")
    plot(results, arguments.output / "figures" / "strongly_convex.png")


if __name__ == "__main__":
    main()
