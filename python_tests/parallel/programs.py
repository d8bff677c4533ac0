"""What the tests of whole programs share: small models, their data, training by the README's two lines."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from training import keras

import tfcompress as tfc

# What a program that ends in an error may raise; the tests look at the message.
Refused = (ValueError, TypeError, RuntimeError, NotImplementedError, tf.errors.OpError)

NUM_WORDS, LENGTH = 60, 6


def words(num_rows):
    """Rows of word numbers and labels; different on each rank."""
    rng = np.random.default_rng(hvd.rank())
    x = rng.integers(0, NUM_WORDS, [num_rows, LENGTH])
    return x.astype(np.int32), (x.mean(axis=1, keepdims=True) > NUM_WORDS / 2).astype(np.float32)


def text_model(width=40):
    """An embedding, a dense layer on 3-D input, the mean over the words; starts differ between ranks."""
    keras.utils.set_random_seed(hvd.rank())
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((LENGTH,), dtype="int32"),
            layers.Embedding(NUM_WORDS, width),
            layers.Dense(width, activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )


def dense_model(width=48):
    """Two dense layers with a kernel of more than `min_elements`; starts differ between ranks."""
    keras.utils.set_random_seed(hvd.rank())
    layers = keras.layers
    return keras.Sequential(
        [layers.Input((32,)), layers.Dense(width, activation="relu"), layers.Dense(1, name="head")]
    )


def numbers(num_rows):
    """Rows for `dense_model`; different on each rank."""
    rng = np.random.default_rng(hvd.rank())
    x = rng.standard_normal([num_rows, 32]).astype(np.float32)
    return x, x[:, :1] - 2 * x[:, 1:2]


def fit(model, data, callbacks=None, **options):
    """Trains with a last batch that is smaller than the others, so that its size is not static."""
    callbacks = [tfc.callbacks.BroadcastVariables(0)] if callbacks is None else callbacks
    options = {"batch_size": 8, "epochs": 1, "verbose": 0, "shuffle": False, **options}
    return model.fit(*data, callbacks=callbacks, **options)


def exact_mean(gradient):
    """Horovod's own average of a gradient over the ranks, dense."""
    return hvd.allreduce(tf.convert_to_tensor(gradient)).numpy()


def tf_variables(variables):
    """The tf.Variable of each variable, of either Keras."""
    inner = [getattr(variable, "value", None) for variable in variables]
    return [v if isinstance(v, tf.Variable) else given for v, given in zip(inner, variables, strict=True)]


def start_alike(variables):
    """Gives all ranks the variables of rank 0 by nothing but Horovod's own operations."""
    for variable in variables:
        variable.assign(hvd.broadcast(tf.convert_to_tensor(variable), root_rank=0))
