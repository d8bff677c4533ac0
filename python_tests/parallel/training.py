"""What the tests of both Keras versions share: a small model, its data, and the checks on replicas."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

import tfcompress as tfc

keras = tf.keras  # Keras 3, or tf_keras under TF_USE_LEGACY_KERAS=1.
IS_KERAS_3 = hasattr(keras.optimizers.Optimizer, "apply")

PRESETS = {
    "none": lambda: tfc.Compression.none,
    "fp16": lambda: tfc.Compression.fp16,
    "topk": lambda: tfc.Compression.topk(0.05, min_elements=64),
    "threshold": lambda: tfc.Compression.threshold(0.01, min_elements=64),
    "sketchml": lambda: tfc.Compression.sketchml(min_elements=64),
    "deepreduce": lambda: tfc.Compression.deepreduce(0.05, value="dexp", min_elements=64),
    "randomk": lambda: tfc.Compression.randomk(0.2, min_elements=64),
    "qsgd": lambda: tfc.Compression.qsgd(min_elements=64),
    "terngrad": lambda: tfc.Compression.terngrad(min_elements=64),
    "zipml": lambda: tfc.Compression.zipml(min_elements=64),
    "onebit": lambda: tfc.Compression.onebit(min_elements=64),
    "logquant": lambda: tfc.Compression.logquant(min_elements=64),
    "threelc": lambda: tfc.Compression.threelc(min_elements=64),
    "skcompress": lambda: tfc.Compression.skcompress(min_elements=64),
    "fastsgd": lambda: tfc.Compression.fastsgd(min_elements=64),
    "deepreduce_p1": lambda: tfc.Compression.deepreduce(0.05, policy="p1", fpr=0.1, min_elements=64),
}

# One preset for each way through the code: all-reduced as it is and cast, in frames with and without a
# residual, an index codec that loses elements, a joint codec. The others take long: that their replicas are
# the same is shown without Keras, in test_step.py.
_QUICK = ("none", "fp16", "topk", "qsgd", "deepreduce", "skcompress")
SOME_PRESETS = [name if name in _QUICK else pytest.param(name, marks=pytest.mark.long) for name in PRESETS]


def make_model(keras):
    keras.utils.set_random_seed(hvd.rank())  # Different starts: broadcasting has to repair them.
    return keras.Sequential(
        [
            keras.layers.Input((20,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1),
        ]
    )


def make_data(num_rows):
    """Rows of a linear problem; different on each rank, so replicas agree only by exchanging."""
    rng = np.random.default_rng(hvd.rank())
    x = rng.standard_normal((num_rows, 20)).astype(np.float32)
    return x, (x[:, :1] * 3.0 - x[:, 1:2]).astype(np.float32)


def fit(model, optimizer, num_rows, epochs=1, batch_size=8, callbacks=(), **options):
    """Compiles a model with an optimizer and options, and trains it from the variables of rank 0."""
    model.compile(optimizer, "mse", **options)
    x, y = make_data(num_rows)
    callbacks = [tfc.callbacks.BroadcastVariables(0), *callbacks]
    return model.fit(x, y, batch_size, epochs, verbose=0, shuffle=False, callbacks=callbacks)


def make_variable(values, name="kernel"):
    if IS_KERAS_3:
        return keras.Variable(np.asarray(values, np.float32), name=name)
    return tf.Variable(np.asarray(values, np.float32), name=name)


def topk(ratio=0.1):
    return tfc.Compression.topk(ratio, min_elements=64)
