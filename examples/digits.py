"""Trains a small Keras model on scikit-learn's handwritten digits, compressed or not.

    horovodrun -np 2 python examples/digits.py --compression topk deepreduce

Every name after --compression is a preset (with its defaults) or a spec such as
"residual|topk:ratio=0.01|bitmap|quantile"; each trains the same model from the same start.
"""

import argparse
import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import keras
import numpy as np
import sklearn.datasets
import sklearn.model_selection

import tfcompress as tfc


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--compression", nargs="+", default=["topk"], metavar="PRESET|SPEC", help="default: topk"
    )
    parser.add_argument("--epochs", type=int, default=16, help="epochs of each run (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="per rank (default %(default)s)")
    parser.add_argument(
        "--hidden", type=int, default=1024, help="units of each hidden layer (default %(default)s)"
    )
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="Adam's (default %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of initial weights and shuffling (default %(default)s)"
    )
    parser.add_argument("--output", type=pathlib.Path, help="write the results of rank 0 here, as JSON")
    return parser.parse_args()


def make_compressor(name: str) -> tfc.Compressor:
    if "|" in name:
        return tfc.Compressor(name)
    preset = getattr(tfc.Compression, name, None)
    if preset is None:
        known = ", ".join(preset for preset in vars(tfc.Compression) if not preset.startswith("_"))
        raise SystemExit(f"unknown preset '{name}'; known: {known}; or write a spec with '|'")
    return preset if isinstance(preset, tfc.Compressor) else preset()


def load_digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns this rank's share of the training images, and all test images."""
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = sklearn.model_selection.train_test_split(
        images.astype("float32") / 16.0, labels, test_size=0.2, random_state=0, stratify=labels
    )
    # Equal shares: ranks that take different numbers of steps would wait for each other for ever.
    share = len(x_train) // hvd.size()
    mine = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
    return (x_train[mine], y_train[mine]), (x_test, y_test)


class Recorder(keras.callbacks.Callback):
    """Records test accuracy against bytes sent, and the time of each step."""

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        super().__init__()
        self._optimizer = optimizer
        self.step_seconds: list[float] = []
        self.curve: list[dict[str, float]] = []

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        self._start = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.step_seconds.append(time.perf_counter() - self._start)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        sent = tfc.stats(self._optimizer).total.sent_bytes
        self.curve.append({"sent_bytes": sent, "accuracy": float(logs["val_accuracy"])})


def train(name: str, arguments: argparse.Namespace) -> dict:
    """Trains one model and returns what the table and the plot show."""
    keras.utils.set_random_seed(arguments.seed)
    train_data, test_data = load_digits()
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(arguments.hidden, activation="relu"),
            keras.layers.Dense(arguments.hidden, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    compressor = make_compressor(name)
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.Adam(arguments.learning_rate), compression=compressor
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    recorder = Recorder(optimizer)
    if hvd.rank() == 0:
        print(f"\n{name}: {compressor.spec}", flush=True)
    model.fit(
        *train_data,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        validation_data=test_data,
        callbacks=[tfc.callbacks.BroadcastVariables(0), recorder],
        verbose=1 if hvd.rank() == 0 else 0,
    )
    total = tfc.stats(optimizer).total
    return {
        "preset": name,
        "spec": compressor.spec,
        "ranks": hvd.size(),
        "accuracy": recorder.curve[-1]["accuracy"],
        "dense_bytes_per_step": total.per_step("dense_bytes"),
        "sent_bytes_per_step": total.per_step("sent_bytes"),
        "encode_ms": total.per_step("encode_nanoseconds") / 1e6,
        "decode_ms": total.per_step("decode_nanoseconds") / 1e6,
        "step_ms": 1e3 * float(np.median(recorder.step_seconds)),
        "curve": recorder.curve,
    }


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    results = [train(name, arguments) for name in arguments.compression]
    if hvd.rank() == 0:
        if arguments.output:
            arguments.output.write_text(json.dumps(results, indent=1))
        for result in results:
            ratio = result["dense_bytes_per_step"] / max(result["sent_bytes_per_step"], 1)
            print(
                f"{result['preset']}: test accuracy {result['accuracy']:.4f}, {ratio:.1f} times fewer bytes"
            )


if __name__ == "__main__":
    main()
