"""Residuals in checkpoints, on Keras 3 and on tf_keras alike: what is saved is their mean over the ranks."""

import warnings

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from training import IS_KERAS_3, fit, keras, make_data, make_model

import tfcompress as tfc
from tfcompress.checkpoint import state_of

COMPRESSION = tfc.Compression.topk(0.05, min_elements=64)


def trained_model(callbacks=(), epochs=2):
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.Adam(0.01), compression=COMPRESSION)
    fit(model, optimizer, 32, epochs, callbacks=callbacks)
    return model


@pytest.fixture(scope="module")
def trained():
    """A trained model, prepared to be saved; its residuals' means over the ranks."""
    model = trained_model()
    expected = means(residuals(model))
    tfc.prepare_checkpoint(model.optimizer)
    return model, expected


def residuals(model):
    """This rank's."""
    return [slots[0].numpy() for slots in state_of(model.optimizer).memories.by_name().values()]


def variables_of(optimizer):
    return optimizer.variables if IS_KERAS_3 else optimizer.variables()


def means(arrays):
    return [hvd.allreduce(tf.constant(array), op=hvd.Average).numpy() for array in arrays]


def assert_starts_with(model, expected):
    """The memories of a loaded model, which are made by its first step or wait for it."""
    waiting = [values[0] for values in state_of(model.optimizer).memories.waiting().values()]
    found = waiting or residuals(model)
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def assert_trains_on(model, assert_same_on_all_ranks):
    before = model.get_weights()
    x, y = make_data(8)
    model.fit(x, y, batch_size=8, verbose=0)
    assert any((a != b).any() for a, b in zip(before, model.get_weights(), strict=True))
    assert not state_of(model.optimizer).memories.waiting()
    assert_same_on_all_ranks(model.get_weights())


@pytest.mark.ranks
def test_model_save_and_load_model(trained, folder, assert_same_on_all_ranks):
    model, expected = trained
    path = str(folder / "model.keras")
    if hvd.rank() == 0:
        model.save(path)
    hvd.allreduce(tf.zeros(1))  # The file is there.
    loaded = tfc.load_model(path, compression=COMPRESSION)
    assert_starts_with(loaded, expected)
    own, saved = (variables_of(each.optimizer) for each in (loaded, model))
    for ours, theirs in zip(own, saved, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    for ours, theirs in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert_trains_on(loaded, assert_same_on_all_ranks)


def test_model_checkpoint_on_one_rank(folder, assert_same_on_all_ranks):
    path = str(folder / "model_{epoch}.keras")
    callbacks = [tfc.callbacks.PrepareCheckpoint()]
    if hvd.rank() == 0:
        callbacks.append(keras.callbacks.ModelCheckpoint(path))
    model = trained_model(callbacks)
    expected = means(residuals(model))
    loaded = tfc.load_model(path.format(epoch=2), compression=COMPRESSION)
    assert_starts_with(loaded, expected)
    assert_trains_on(loaded, assert_same_on_all_ranks)


@pytest.mark.parametrize("memory", ["residual", pytest.param("none", marks=pytest.mark.long)])
def test_a_schedule_goes_on_where_it_was(folder, memory):
    def schedule():
        sparse = tfc.Compression.topk(0.01, memory=memory, min_elements=64)
        return tfc.Schedule.of_ratios(sparse, [1.0], steps_each=4)

    def payload_bytes(model):
        x, y = make_data(8)
        model.fit(x, y, batch_size=8, verbose=0)  # One step.
        return tfc.stats(model.optimizer).total.payload_bytes

    model = make_model(keras)
    fit(model, tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=schedule()), 32)
    dense_bytes = tfc.stats(model.optimizer).total.payload_bytes / 4
    tfc.prepare_checkpoint(model.optimizer)
    path = str(folder / f"scheduled_{hvd.rank()}.keras")
    model.save(path)
    loaded = tfc.load_model(path, compression=schedule())
    assert payload_bytes(loaded) < dense_bytes / 2


def test_sparse_goes_on_after_its_warm_up_with_its_velocities(folder):
    def compression():
        return tfc.Compression.sparse(0.05, warmup_steps=3, min_elements=64)

    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.Adam(0.01), compression=compression())
    fit(model, optimizer, 32)  # Four steps.
    expected = {
        name: np.stack(means([slot.numpy() for slot in slots]))
        for name, slots in state_of(model.optimizer).memories.by_name().items()
    }
    assert {len(slots) for slots in expected.values()} == {2}
    tfc.prepare_checkpoint(model.optimizer)
    path = str(folder / f"sparse_{hvd.rank()}.keras")
    model.save(path)
    loaded = tfc.load_model(path, compression=compression())
    _, found = state_of(loaded.optimizer).snapshot()
    assert found.keys() == expected.keys()
    for name, slots in found.items():
        np.testing.assert_array_equal(slots, expected[name])
    loaded.fit(*make_data(8), batch_size=8, verbose=0)
    compressed = [each for each in tfc.stats(loaded.optimizer).tensors if each.density < 1]
    assert compressed and all(each.density < 0.08 for each in compressed), (
        "that of the warm-up is 0.3 at first"
    )


def test_tf_train_checkpoint(trained, folder, assert_same_on_all_ranks):
    model, expected = trained
    # Every rank writes its own: they hold the same.
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(folder / f"ckpt_{hvd.rank()}")
    fresh = trained_model(epochs=1)
    tf.train.Checkpoint(model=fresh, optimizer=fresh.optimizer).restore(path).expect_partial()
    assert_starts_with(fresh, expected)
    for ours, theirs in zip(fresh.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert_trains_on(fresh, assert_same_on_all_ranks)


def test_saving_unprepared_warns_and_leaves_residuals_out(folder):
    model = trained_model()
    path = str(folder / f"model_{hvd.rank()}.keras")
    with pytest.warns(UserWarning, match="prepare_checkpoint"):
        model.save(path)
    assert not state_of(tfc.load_model(path, compression=COMPRESSION).optimizer).memories.waiting()
    tfc.prepare_checkpoint(model.optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.save(path)
    x, y = make_data(8)
    model.fit(x, y, verbose=0)  # A step later, the mean is another.
    with pytest.warns(UserWarning, match="prepare_checkpoint"):
        model.save(path)


def test_a_memory_of_another_model_is_refused(trained):
    model, _ = trained
    memories = state_of(model.optimizer).memories
    name = next(iter(memories.by_name()))
    with pytest.raises(ValueError, match="of another model"):
        memories.restore({name: np.zeros((1, 3, 3), np.float32)})


def test_only_our_optimizers_can_be_prepared():
    with pytest.raises(TypeError, match="DistributedOptimizer"):
        tfc.prepare_checkpoint(keras.optimizers.SGD())


def test_load_model_wraps_with_the_options_given(folder):
    model = make_model(keras)
    model.compile(keras.optimizers.SGD(0.5, momentum=0.9), "mse")
    path = str(folder / f"plain_{hvd.rank()}.keras")
    model.save(path)
    loaded = tfc.load_model(path, COMPRESSION, optimizer_options={"op": hvd.Sum})
    assert state_of(loaded.optimizer).options.op == "sum"
    assert loaded.optimizer.get_config()["momentum"] == 0.9


@pytest.mark.skipif(not IS_KERAS_3, reason="keras.Variable is Keras 3's")
def test_a_layer_that_is_frozen_when_training_goes_on(folder):
    """Residuals are found by the variables' paths, and those of a frozen layer wait."""

    def made(names):
        variables = [keras.Variable(np.zeros(100), name=name) for name in names]
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=COMPRESSION)
        return optimizer, variables

    def step(optimizer, variables, value):
        gradients = [tf.range(100.0) * value * (i + 1) for i in range(len(variables))]
        optimizer.apply_gradients(list(zip(gradients, variables, strict=True)))
        return state_of(optimizer).memories.by_name()

    optimizer, variables = made(["first", "second"])
    kept = {name: slots[0].numpy() for name, slots in step(optimizer, variables, 1.0).items()}
    assert sorted(kept) == ["first", "second"]
    tfc.prepare_checkpoint(optimizer)
    path = tf.train.Checkpoint(optimizer=optimizer).save(folder / f"frozen_{hvd.rank()}")
    fresh, variables = made(["second"])
    fresh.build(variables)
    tf.train.Checkpoint(optimizer=fresh).restore(path).expect_partial()
    with pytest.warns(UserWarning, match="residuals of first belong to no variable of this step"):
        found = step(fresh, variables, 0.0)
    # What of it was sent at once is gone, the rest is that of `second`.
    left = found["second"][0].numpy()
    assert ((left == 0) | (left == kept["second"])).all() and left.any()
    assert list(state_of(fresh).memories.waiting()) == ["first"]
