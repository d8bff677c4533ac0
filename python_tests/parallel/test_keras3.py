"""Keras 3: fit, custom loops, saving."""

import warnings

import horovod.tensorflow as hvd
import keras
import numpy as np
import pytest
import tensorflow as tf
from training import PRESETS, SOME_PRESETS, make_data, make_model

import tfcompress as tfc


def fit(model, optimizer, steps=20, batch_size=8, **options):
    model.compile(optimizer, "mse", **options)
    # 10 steps an epoch, the last one of half a batch: the step is traced twice.
    x, y = make_data(num_rows=10 * batch_size - batch_size // 2)
    return model.fit(
        x,
        y,
        batch_size=batch_size,
        epochs=steps // 10,
        verbose=0,
        shuffle=False,
        callbacks=[tfc.callbacks.BroadcastVariables(0)],
    )


@pytest.mark.parametrize("preset", SOME_PRESETS)
def test_replicas_are_bit_identical_after_20_steps(preset, assert_same_on_all_ranks):
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.Adam(0.01), compression=PRESETS[preset]())
    history = fit(model, optimizer)
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
    model.compile(optimizer, "mse")
    tfc_broadcast = tfc.callbacks.BroadcastVariables(0)
    x, y = make_data(32)
    start = [hvd.broadcast(w, 0).numpy() for w in model.get_weights()]
    model.fit(x, y, batch_size=32, epochs=5, verbose=0, shuffle=False, callbacks=[tfc_broadcast])

    whole = make_model(keras)
    whole.set_weights(start)
    whole.compile(keras.optimizers.SGD(0.05), "mse")
    all_x, all_y = hvd.allgather(tf.constant(x)).numpy(), hvd.allgather(tf.constant(y)).numpy()
    whole.fit(all_x, all_y, batch_size=len(all_x), epochs=5, verbose=0, shuffle=False)
    for ours, theirs in zip(model.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_run_eagerly(assert_same_on_all_ranks):
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=tfc.Compression.topk(0.1))
    fit(model, optimizer, steps=10, run_eagerly=True)
    assert_same_on_all_ranks(model.get_weights())


def test_custom_loop_with_our_tape(assert_same_on_all_ranks):
    model = make_model(keras)
    optimizer = keras.optimizers.SGD(0.01)
    compressor = tfc.Compression.topk(0.1, min_elements=64)
    hvd.broadcast_variables([v.value for v in model.variables], root_rank=0)
    x, y = make_data(16)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        tape = tfc.DistributedGradientTape(tape, compression=compressor)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for _ in range(20):
        step()
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


@pytest.mark.long
def test_two_models_with_equal_shapes_share_nothing(assert_same_on_all_ranks):
    compressor = tfc.Compression.topk(0.05, min_elements=64)
    models = [make_model(keras) for _ in range(2)]
    for model in models:
        fit(
            model,
            tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=compressor),
            steps=20,
        )
    assert_same_on_all_ranks([w for model in models for w in model.get_weights()])
    # Same start, same data, own residuals: the same result.
    for first, second in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_model_that_is_built_by_its_first_batch(assert_same_on_all_ranks):
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
    fit(
        model,
        tfc.DistributedOptimizer(keras.optimizers.Adam(), compression=tfc.Compression.topk(0.1)),
        steps=10,
    )
    assert_same_on_all_ranks(model.get_weights())


def test_a_saved_model_loads_whole_without_this_package(tmp_path):
    """Its residuals are among the assets of the file, where Keras does not look."""
    model = make_model(keras)
    fit(
        model,
        tfc.DistributedOptimizer(keras.optimizers.Adam(), compression=tfc.Compression.topk(0.1)),
        steps=10,
    )
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
