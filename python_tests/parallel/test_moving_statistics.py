"""All ranks test the same model, although each normalises its own batches."""

import horovod.tensorflow as hvd
import numpy as np
from training import keras

import tfcompress as tfc


def test_moving_statistics_become_the_mean_of_the_ranks():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.BatchNormalization()])
    _, normalisation = model.layers
    normalisation.moving_mean.assign([hvd.rank(), 1.0])
    normalisation.moving_variance.assign([2.0, 2.0 * hvd.rank()])
    weights = [variable.numpy() for variable in model.trainable_variables]
    callback = tfc.callbacks.AverageMovingStatistics()
    callback.set_model(model)
    callback.on_epoch_end(0)
    mean = (hvd.size() - 1) / 2
    np.testing.assert_allclose(normalisation.moving_mean, [mean, 1.0], rtol=1e-6)
    np.testing.assert_allclose(normalisation.moving_variance, [2.0, 2.0 * mean], rtol=1e-6)
    for before, variable in zip(weights, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(before, variable.numpy())
