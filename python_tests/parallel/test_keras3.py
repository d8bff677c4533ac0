"""Keras 3: fit, a traced step, saving."""

import warnings

import horovod.tensorflow as hvd
import keras
import numpy as np
import pytest
import tensorflow as tf
from training import PRESETS, SOME_PRESETS, fit, make_data, make_model

import tfcompress as tfc

NUM_ROWS = 76  # 10 steps an epoch, the last one of half a batch: the step is traced twice.


@pytest.mark.parametrize("preset", SOME_PRESETS)
def test_replicas_are_bit_identical_after_20_steps(preset, assert_same_on_all_ranks):
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.Adam(0.01), compression=PRESETS[preset]())
    history = fit(model, optimizer, NUM_ROWS, epochs=2)
    assert_same_on_all_ranks(model.get_weights())
    assert history.history["loss"][-1] < 0.7 * history.history["loss"][0]
    stats = tfc.stats(optimizer)
    assert stats.total.steps == 20
    assert 0 < stats.total.payload_bytes <= stats.total.dense_bytes * 1.2


@pytest.mark.ranks
def test_uncompressed_training_equals_one_process_with_all_data(assert_same_on_all_ranks):
    """The average of the ranks' gradients is the gradient of the joined batch."""
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.SGD(0.05), compression=tfc.Compressor("nonzero|bitmap|raw")
    )
    start = [hvd.broadcast(w, 0).numpy() for w in model.get_weights()]
    fit(model, optimizer, 32, epochs=5, batch_size=32)

    whole = make_model(keras)
    whole.set_weights(start)
    whole.compile(keras.optimizers.SGD(0.05), "mse")
    x, y = make_data(32)
    all_x, all_y = hvd.allgather(tf.constant(x)).numpy(), hvd.allgather(tf.constant(y)).numpy()
    whole.fit(all_x, all_y, batch_size=len(all_x), epochs=5, verbose=0, shuffle=False)
    for ours, theirs in zip(model.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_run_eagerly(assert_same_on_all_ranks):
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=tfc.Compression.topk(0.1))
    fit(model, optimizer, NUM_ROWS, run_eagerly=True)
    assert_same_on_all_ranks(model.get_weights())


def test_a_retraced_step_keeps_the_residual():
    """Two batch sizes, two traces, one residual: everything that was given arrives in the end."""
    variable = keras.Variable(np.zeros(3000, np.float32))
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.SGD(1.0),
        compression=tfc.Compression.topk(0.1, min_elements=0),
        op=hvd.Sum,
    )

    @tf.function
    def step(batch):
        optimizer.apply([tf.reduce_sum(batch, axis=0)], [variable])

    rng = np.random.default_rng(hvd.rank())
    given = np.zeros(3000)
    for number in range(20):
        batch = rng.standard_normal((3 if number % 3 == 2 else 4, 3000)) * (number < 7)
        given += batch.sum(axis=0)
        step(tf.constant(batch.astype(np.float32)))
    total = hvd.allreduce(tf.constant(given), op=hvd.Sum).numpy()
    np.testing.assert_allclose(-variable.numpy(), total, atol=1e-3)


def test_a_model_that_is_built_by_its_first_batch(assert_same_on_all_ranks):
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
    optimizer = tfc.DistributedOptimizer(keras.optimizers.Adam(), compression=tfc.Compression.topk(0.1))
    fit(model, optimizer, NUM_ROWS)
    assert_same_on_all_ranks(model.get_weights())


def test_a_saved_model_loads_whole_without_this_package(tmp_path):
    """Its residuals are among the assets of the file, where Keras does not look."""
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.Adam(), compression=tfc.Compression.topk(0.1))
    fit(model, optimizer, NUM_ROWS)
    path = tmp_path / f"model_{hvd.rank()}.keras"
    tfc.prepare_checkpoint(model.optimizer)
    model.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        loaded = keras.models.load_model(path)
    assert type(loaded.optimizer) is keras.optimizers.Adam
    for ours, theirs in zip(loaded.variables, model.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
