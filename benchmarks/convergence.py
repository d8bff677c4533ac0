"""Accuracy by bytes sent: compressors against the uncompressed run, with several seeds.

Start it on all ranks::

    horovodrun -np 4 python benchmarks/convergence.py
    horovodrun -np 4 python benchmarks/convergence.py --data fashion --data-dir DIR

The first trains on the handwritten digits that scikit-learn ships, the second on Fashion-MNIST's files.
Every run has the same model, data, epochs, batch size and learning rate. Where the compressor has the
momentum, the optimizer has none. Writes a JSON and a figure, and prints a table.
"""

import argparse
import gzip
import json
import pathlib
import statistics

import matplotlib

matplotlib.use("Agg")
import horovod.tensorflow as hvd
import matplotlib.pyplot as plt
import numpy as np
import rich.console
import rich.progress
import rich.table
import tensorflow as tf

import tfcompress as tfc

keras = tf.keras
MOMENTUM = 0.9


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", choices=["digits", "fashion"], default="digits", help="default: %(default)s"
    )
    parser.add_argument(
        "--data-dir", type=pathlib.Path, help="folder of train-images-idx3-ubyte.gz and its three companions"
    )
    parser.add_argument("--epochs", type=int, default=20, help="of each run (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="of a rank (default %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each compressor (default %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.02, help="default: %(default)s")
    parser.add_argument(
        "--decay", action="store_true", help="lower the learning rate to zero over the run, as a cosine"
    )
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("results"), help="folder (default %(default)s)"
    )
    arguments = parser.parse_args()
    if arguments.data == "fashion" and arguments.data_dir is None:
        parser.error("--data fashion needs --data-dir")
    return arguments


def load(arguments: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns train images, train labels, test images, test labels; images float32 [m, pixels] in [0, 1]."""
    if arguments.data == "fashion":
        return (
            *read_idx(arguments.data_dir, "train"),
            *read_idx(arguments.data_dir, "t10k"),
        )
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order].astype(np.float32) / 16, labels[order]
    return images[360:], labels[360:], images[:360], labels[:360]


def read_idx(folder: pathlib.Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads images and labels in MNIST's format, gzipped or not."""
    arrays = []
    for kind, header in (("images-idx3", 16), ("labels-idx1", 8)):
        [path, *_] = sorted(folder.glob(f"{part}-{kind}-ubyte*"))
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        arrays.append(np.frombuffer(data, np.uint8, offset=header))
    images, labels = arrays
    return images.reshape(len(labels), -1).astype(np.float32) / 255, labels


def compressors(num_parameters: int) -> dict[str, tuple[tfc.Compressor | tfc.Schedule, float]]:
    """The compressors, each with the momentum that the optimizer keeps; all apply 1 % of the elements."""
    k = num_parameters // 100
    return {
        "none": (tfc.Compression.none, MOMENTUM),
        "topk": (tfc.Compression.topk(0.01), MOMENTUM),
        "dgc": (tfc.Compression.dgc(0.01, MOMENTUM), 0.0),
        "sketched_sgd": (tfc.Compression.sketched_sgd(k, 5, 2 * k, 4, MOMENTUM), 0.0),
    }


def make_model(num_inputs: int, seed: int) -> keras.Model:
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.layers.Input((num_inputs,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


class Curve(keras.callbacks.Callback):
    """Test accuracy and bytes sent after each epoch."""

    def __init__(self, optimizer: object, test: tuple[np.ndarray, np.ndarray]) -> None:
        super().__init__()
        self.optimizer, self.test, self.points = optimizer, test, []

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        images, labels = self.test
        logits = self.model(images, training=False).numpy()
        accuracy = float((logits.argmax(axis=1) == labels).mean())
        sent = tfc.stats(self.optimizer, residual_norms=False).total.sent_bytes
        self.points.append({"epoch": epoch + 1, "test_accuracy": accuracy, "sent_bytes": sent})


def train(
    compression: object, momentum: float, seed: int, data: tuple, arguments: argparse.Namespace
) -> dict:
    """Trains once; returns the curve and what a step sent."""
    train_images, train_labels, *test = data
    shard = slice(hvd.rank(), None, hvd.size())
    images, labels = train_images[shard], train_labels[shard]
    num_steps = len(train_images) // hvd.size() // arguments.batch_size  # The same on all ranks.
    images, labels = images[: num_steps * arguments.batch_size], labels[: num_steps * arguments.batch_size]
    model = make_model(images.shape[1], seed)
    rate = arguments.learning_rate
    if arguments.decay:
        rate = keras.optimizers.schedules.CosineDecay(rate, num_steps * arguments.epochs)
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.SGD(rate, momentum=momentum), compression=compression
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)
    curve = Curve(optimizer, test)
    callbacks = [tfc.callbacks.BroadcastVariables(), curve]
    batch = arguments.batch_size
    model.fit(images, labels, batch_size=batch, epochs=arguments.epochs, verbose=0, callbacks=callbacks)
    total = tfc.stats(optimizer).total
    return {
        "seed": seed,
        "curve": curve.points,
        "bytes_before": total.per_step("dense_bytes"),
        "bytes_sent": total.per_step("sent_bytes"),
        "steps": total.steps,
    }


def summarise(runs: dict[str, list[dict]]) -> list[dict]:
    """One row for each compressor; accuracies in per cent."""
    finals = {name: [100 * run["curve"][-1]["test_accuracy"] for run in each] for name, each in runs.items()}
    return [
        {
            "compressor": name,
            "accuracy": statistics.mean(finals[name]),
            "lowest": min(finals[name]),
            "highest": max(finals[name]),
            "difference": statistics.mean(finals[name]) - statistics.mean(finals["none"]),
            "bytes_sent": each[0]["bytes_sent"],
            "ratio": each[0]["bytes_before"] / each[0]["bytes_sent"],
        }
        for name, each in runs.items()
    ]


def plot(runs: dict[str, list[dict]], title: str, path: pathlib.Path) -> None:
    """Draws test accuracy by bytes sent: a line for the mean of the seeds, a band for their range."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name, each in runs.items():
        accuracy = np.array([[p["test_accuracy"] for p in run["curve"]] for run in each]) * 100
        sent = [p["sent_bytes"] / 1e6 for p in each[0]["curve"]]
        [line] = axes.plot(sent, accuracy.mean(axis=0), marker=".", label=name)
        axes.fill_between(sent, accuracy.min(axis=0), accuracy.max(axis=0), alpha=0.2, color=line.get_color())
    axes.set(xscale="log", xlabel="MB sent by one rank", ylabel="test accuracy (%)", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


def report(rows: list[dict], title: str) -> None:
    table = rich.table.Table(title=title)
    for heading in ("compressor", "test accuracy %", "of seeds", "to none", "B/step sent", "ratio"):
        table.add_column(heading, justify="left" if heading == "compressor" else "right")
    for row in rows:
        table.add_row(
            row["compressor"],
            f"{row['accuracy']:.2f}",
            f"{row['lowest']:.2f} to {row['highest']:.2f}",
            f"{row['difference']:+.2f}",
            f"{row['bytes_sent']:,.0f}",
            f"{row['ratio']:.1f}",
        )
    rich.console.Console(width=100).print(table)


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    data = load(arguments)
    num_parameters = make_model(data[0].shape[1], 0).count_params()
    named = compressors(num_parameters)
    tasks = [(name, seed) for seed in range(arguments.seeds) for name in named]
    runs: dict[str, list[dict]] = {name: [] for name in named}
    for name, seed in rich.progress.track(tasks, "training", disable=hvd.rank() != 0):
        compression, momentum = named[name]
        runs[name].append(train(compression, momentum, seed, data, arguments))
    if hvd.rank() != 0:
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows = summarise(runs)
    title = (
        f"{arguments.data}, {hvd.size()} ranks, {num_parameters:,} parameters, {arguments.epochs} epochs, "
        f"{arguments.seeds} seeds"
    )
    stem = arguments.output / f"convergence_{arguments.data}"
    settings = {k: str(v) if isinstance(v, pathlib.Path) else v for k, v in vars(arguments).items()}
    settings = {k: v for k, v in settings.items() if k not in ("data_dir", "output")}
    result = {"title": title, "settings": settings, "ranks": hvd.size(), "rows": rows, "runs": runs}
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    plot(runs, title, stem.with_suffix(".png"))
    report(rows, title)


if __name__ == "__main__":
    main()
