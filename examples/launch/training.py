"""What the jobs of this folder train: a few steps of a small model. Workers get it by value."""


def train(compression: str) -> dict:
    """Trains on this rank, and returns what came of it.

    Args:
      compression: A preset, such as "int8", or a spec.
    """
    # Within the function: workers of Ray and Spark import what they need themselves.
    import horovod.tensorflow as hvd
    import keras
    import numpy as np

    import tfcompress as tfc

    hvd.init()
    rng = np.random.default_rng(hvd.rank())
    x = rng.standard_normal((4096, 32)).astype(np.float32)
    y = np.abs(x).sum(axis=1, keepdims=True)
    model = keras.Sequential([keras.layers.Dense(256, "relu"), keras.layers.Dense(1)])
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.Adam(1e-2), compression=tfc.make_compressor(compression)
    )
    model.compile(optimizer, "mse")
    history = model.fit(
        x, y, batch_size=64, epochs=2, verbose=0, callbacks=[tfc.callbacks.BroadcastVariables(0)]
    )
    total = tfc.stats(optimizer).total
    return {
        "rank": hvd.rank(),
        "ranks": hvd.size(),
        "loss": [round(loss, 4) for loss in history.history["loss"]],
        "bytes saved": f"{total.dense_wire_bytes / total.wire_bytes:.1f} times",
    }
