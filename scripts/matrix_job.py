"""A job of the compatibility matrix: `horovodrun -np 2 python matrix_job.py`. Fails unless ranks agree."""

import sys

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import tfcompress as tfc

# Of what reads the plan, the memory, frames in one packet and in shards, and sums of payloads.
COMPRESSION = {
    "int8": tfc.Compression.int8(exchange="shard"),
    "topk": tfc.Compression.topk(0.1, min_elements=0),
    "sketched_sgd": tfc.Compression.sketched_sgd(k=200, rows=3, columns=500, min_elements=0),
}


def train(compression: tfc.Compressor) -> tuple[list[float], list[np.ndarray]]:
    """Trains for two epochs; returns the loss of each, and the weights."""
    tf.random.set_seed(1)  # Keras' own function would fail with some versions: CAVEAT of matrix.py.
    rng = np.random.default_rng(hvd.rank())
    x = rng.standard_normal((512, 20)).astype(np.float32)
    y = x[:, :1] * x[:, 1:2]
    model = tf.keras.Sequential([tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(1)])
    model.compile(tfc.DistributedOptimizer(tf.keras.optimizers.SGD(0.05), compression=compression), "mse")
    history = model.fit(
        x, y, batch_size=32, epochs=2, verbose=0, callbacks=[tfc.callbacks.BroadcastVariables(0)]
    )
    return history.history["loss"], model.get_weights()


def main() -> None:
    hvd.init()
    for name, compression in COMPRESSION.items():
        losses, weights = train(compression)
        flat = np.concatenate([each.ravel() for each in weights])
        everyone = hvd.allgather(tf.constant(flat[np.newaxis]), name=f"weights_{name}").numpy()
        if not (everyone == flat).all():
            sys.exit(f"{name}: ranks have different weights")
        if not losses[-1] < losses[0]:
            sys.exit(f"{name}: the loss went from {losses[0]:.4f} to {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
