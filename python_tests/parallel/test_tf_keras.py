"""tf_keras (TF_USE_LEGACY_KERAS=1) and Keras 2: our optimizer, and stock Horovod's with our compressors."""

import io

import h5py
import horovod.tensorflow as hvd
import numpy as np
import pytest
from training import PRESETS, SOME_PRESETS, fit, keras, make_model

import tfcompress as tfc

NUM_ROWS = 76  # The last batch is smaller than the others.


@pytest.mark.parametrize("preset", SOME_PRESETS)
def test_our_optimizer(preset, assert_same_on_all_ranks):
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.Adam(0.01), compression=PRESETS[preset]())
    history = fit(model, optimizer, NUM_ROWS, epochs=2)
    assert_same_on_all_ranks(model.get_weights())
    assert history.history["loss"][-1] < 0.7 * history.history["loss"][0]
    assert tfc.stats(optimizer).total.payload_bytes > 0


@pytest.mark.parametrize("preset", SOME_PRESETS)
def test_stock_optimizer(preset, assert_same_on_all_ranks):
    model = make_model(keras)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01), compression=PRESETS[preset]())
    history = fit(model, optimizer, NUM_ROWS, epochs=2)
    assert_same_on_all_ranks(model.get_weights())
    assert history.history["loss"][-1] < 0.7 * history.history["loss"][0]


def test_stock_optimizer_with_an_exact_codec_equals_uncompressed():
    weights = []
    for compressor in [
        hvd.Compression.none,
        tfc.Compressor("nonzero|delta_binary|raw", min_elements=0),
    ]:
        model = make_model(keras)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=compressor)
        fit(model, optimizer, NUM_ROWS, epochs=2)
        weights.append(model.get_weights())
    for plain, compressed in zip(*weights, strict=True):
        np.testing.assert_allclose(plain, compressed, rtol=1e-4, atol=1e-5)


def test_load_model_takes_an_open_hdf5_file(assert_same_on_all_ranks):
    """As Horovod's Spark estimator gives it to the ranks."""
    model = make_model(keras)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    with h5py.File(io.BytesIO(), "w") as file:
        keras.models.save_model(model, file)
        loaded = tfc.load_model(file, tfc.Compression.topk(0.05, min_elements=64))
    fit(loaded, loaded.optimizer, NUM_ROWS, epochs=2)
    assert_same_on_all_ranks(loaded.get_weights())
    assert tfc.stats(loaded.optimizer).total.payload_bytes > 0
