"""Local steps, on Keras 3 and on tf_keras alike: ranks train apart, and go on from the same bits."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from training import IS_KERAS_3, keras, make_data, make_model, make_variable, topk

import tfcompress as tfc
from tfcompress.checkpoint import state_of
from tfcompress.keras_objects import rounds_of

NESTEROV = tfc.OuterStep(0.7, momentum=0.9, nesterov=True)
SIZE = 3000


def mean(array):
    return hvd.allreduce(tf.constant(array), op=hvd.Average).numpy()


def are_alike(array):
    bits = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    return bool((hvd.allgather(tf.constant(bits[np.newaxis])).numpy() == bits).all())


class Loop:
    """A custom loop over one variable, whose gradients are given, by SGD at a rate of 1."""

    def __init__(self, steps, optimizer=None, **options):
        self.variable = make_variable(np.zeros(SIZE))
        inner = keras.optimizers.SGD(1.0) if optimizer is None else optimizer
        self.optimizer = tfc.LocalSteps(inner, steps, **options)

        @tf.function
        def step(gradient):
            self.optimizer.apply_gradients([(gradient, self.variable)])

        self.step = step

    def take(self, gradients):
        for gradient in gradients:
            self.step(tf.constant(gradient))
        return self.variable.numpy()

    def residual(self):
        [[slot]] = state_of(self.optimizer).memories.by_name().values()
        return slot.numpy()


def gradients_of(rng, num_steps):
    return rng.standard_normal([num_steps, SIZE]).astype(np.float32)


COMPRESSIONS = {
    "none": tfc.Compression.none,
    "int8": tfc.Compression.int8(),
    "topk": tfc.Compression.topk(0.05),
    "shard": tfc.Compression.int4(exchange="shard"),
    "linear": tfc.Compression.shared_randomk(0.1),
}


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("name", "outer"),
    [*((name, None) for name in COMPRESSIONS), ("none", NESTEROV), ("shard", NESTEROV)],
)
def test_ranks_are_alike_after_each_round_and_apart_within(name, outer, rng):
    loop = Loop(3, keras.optimizers.Adam(0.01), compression=COMPRESSIONS[name], outer=outer)
    for number, gradient in enumerate(gradients_of(rng, 9), start=1):
        assert are_alike(loop.take([gradient])) == (number % 3 == 0)
    assert tfc.stats(loop.optimizer).total.steps == 3
    assert int(loop.optimizer.iterations) == 9


@pytest.mark.ranks
def test_rounds_of_one_step_of_sgd_are_steps_with_averaged_gradients(rng):
    gradients = gradients_of(rng, 3)
    expected = -sum(mean(gradient) for gradient in gradients)
    np.testing.assert_allclose(Loop(1).take(gradients), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.ranks
@pytest.mark.parametrize("nesterov", [False, True])
def test_the_outer_step_is_sgd_with_momentum_on_the_mean_difference(nesterov, rng):
    gradients, weights, velocity = gradients_of(rng, 6), np.zeros(SIZE), np.zeros(SIZE)
    found = Loop(2, outer=tfc.OuterStep(0.7, momentum=0.9, nesterov=nesterov)).take(gradients)
    for begin in (0, 2, 4):
        difference = mean(gradients[begin : begin + 2].sum(axis=0))
        velocity = 0.9 * velocity + difference
        weights -= 0.7 * (difference + 0.9 * velocity if nesterov else velocity)
    np.testing.assert_allclose(found, weights, rtol=1e-4, atol=1e-4)


@pytest.mark.ranks
def test_what_was_applied_and_what_waits_is_all_that_ranks_have_done(rng):
    loop, gradients = Loop(4, compression=topk(0.02)), gradients_of(rng, 12)
    sent = -loop.take(gradients)
    assert 0 < np.count_nonzero(sent) < SIZE / 2
    np.testing.assert_allclose(sent + mean(loop.residual()), mean(gradients.sum(axis=0)), atol=1e-4)


def test_feedback_decays_from_round_to_round(rng):
    gradients = gradients_of(rng, 4)
    kept, decayed = (Loop(4, compression=topk(0.02), feedback_decay=factor) for factor in (1.0, 0.5))
    np.testing.assert_array_equal(kept.take(gradients), decayed.take(gradients))
    np.testing.assert_array_equal(0.5 * kept.residual(), decayed.residual())


@pytest.mark.ranks
def test_a_round_that_ends_early_is_a_round(rng):
    gradients = gradients_of(rng, 7)
    loop = Loop(5)
    loop.take(gradients[:2])
    tfc.end_round(loop.optimizer)
    assert are_alike(loop.variable.numpy())
    np.testing.assert_allclose(-loop.variable.numpy(), mean(gradients[:2].sum(axis=0)), atol=1e-5)
    before = loop.variable.numpy()
    tfc.end_round(loop.optimizer)  # Nothing has begun.
    np.testing.assert_array_equal(before, loop.variable.numpy())
    assert not are_alike(loop.take(gradients[2:6]))  # The next round has five steps again.
    assert are_alike(loop.take(gradients[6:]))


def test_weights_that_are_assigned_between_rounds_count(rng):
    gradients = gradients_of(rng, 2)
    loop = Loop(1)
    loop.take(gradients[:1])
    loop.variable.assign(np.full(SIZE, 7.0, np.float32))
    np.testing.assert_allclose(loop.take(gradients[1:]), 7 - mean(gradients[1]), atol=1e-5)


@pytest.mark.parametrize("outer", [pytest.param(None, marks=pytest.mark.long), NESTEROV])
def test_fit_ends_rounds_with_epochs_and_before_validation(outer, assert_same_on_all_ranks):
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential(
        [keras.Input((20,)), keras.layers.Dense(64), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    )
    optimizer = tfc.LocalSteps(keras.optimizers.Adam(0.02), 4, compression=topk(), outer=outer)
    model.compile(optimizer, "mse")
    seen = []

    class Look(keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            seen.append(model.get_weights())

        def on_epoch_end(self, epoch, logs=None):
            seen.append(model.get_weights())

    x, y = make_data(44)  # Six batches an epoch, the last one smaller.
    same = {"validation_data": (x[:8], y[:8])} if hvd.rank() == 0 else {}  # Not on all ranks.
    callbacks = [tfc.callbacks.BroadcastVariables(0), Look()]
    history = model.fit(x, y, batch_size=8, epochs=3, verbose=0, callbacks=callbacks, **same)
    if hvd.rank() == 0:
        assert len(seen) == 6
        for tested, ended in zip(seen[::2], seen[1::2], strict=True):
            for a, b in zip(tested, ended, strict=True):
                np.testing.assert_array_equal(a, b)
    for weights in seen[1::2] if hvd.rank() == 0 else seen:
        assert_same_on_all_ranks(weights)
    assert_same_on_all_ranks(model.get_weights())
    assert tfc.stats(optimizer).total.steps == 6
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_a_model_that_its_first_batch_builds(assert_same_on_all_ranks):
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Dense(64), keras.layers.Dense(1)])
    model.compile(tfc.LocalSteps(keras.optimizers.SGD(0.01), 3), "mse")
    x, y = make_data(56)
    model.fit(x, y, batch_size=8, verbose=0, callbacks=[tfc.callbacks.BroadcastVariables(0)])
    assert_same_on_all_ranks(model.get_weights())


def test_the_end_of_fit_ends_a_round_without_a_callback(assert_same_on_all_ranks):
    model = make_model(keras)
    tfc.broadcast_variables(model.variables)
    model.compile(tfc.LocalSteps(keras.optimizers.SGD(0.01), 100), "mse")
    x, y = make_data(16)
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    assert_same_on_all_ranks(model.get_weights())


def test_embeddings_go_as_dense_differences(assert_same_on_all_ranks):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Embedding(100, 16), keras.layers.Flatten()])
    model.add(keras.layers.Dense(1))
    model.compile(tfc.LocalSteps(keras.optimizers.SGD(0.1), 2, compression=topk()), "mse")
    x = np.random.default_rng(hvd.rank()).integers(0, 100, (32, 3))
    model.fit(x, x[:, :1] / 100.0, batch_size=8, verbose=0, callbacks=[tfc.callbacks.BroadcastVariables(0)])
    assert_same_on_all_ranks(model.get_weights())


class TableLoop(Loop):
    """A custom loop over a table, of which each step touches some rows, by SGD at a rate of 1."""

    SHAPE = (1000, 8)

    def __init__(self, steps, **options):
        self.variable = make_variable(np.zeros(self.SHAPE))
        self.optimizer = tfc.LocalSteps(keras.optimizers.SGD(1.0), steps, **options)

        @tf.function
        def step(values, rows):
            self.optimizer.apply_gradients([(tf.IndexedSlices(values, rows, self.SHAPE), self.variable)])

        self.step = step

    def touch(self, values, rows):
        for some, those in zip(values, rows, strict=True):
            self.step(tf.constant(some), tf.constant(those))
        return self.variable.numpy()

    def waiting(self):
        slots = [slot for own in state_of(self.optimizer).memories.by_name().values() for slot in own]
        return sum((mean(slot.numpy()).reshape(self.SHAPE) for slot in slots), np.zeros(self.SHAPE))


def touched(rng, num_steps):
    """Values and rows of steps; rows come twice in a step, and some on all ranks."""
    rows = rng.integers(0, 40, [num_steps, 30])
    values = rng.standard_normal([num_steps, 30, 8]).astype(np.float32)
    dense = np.zeros([num_steps, *TableLoop.SHAPE])
    for step in range(num_steps):
        np.add.at(dense[step], rows[step], values[step])
    return values, rows, dense.sum(axis=0).astype(np.float32)


ROWS = {
    "none": tfc.Compression.none,
    "int8": tfc.Compression.int8(min_elements=16),
    "shard": tfc.Compression.int4(min_elements=16, exchange="shard"),
    "topk": tfc.Compression.topk(0.3, min_elements=16),
}
# Rows have no residual with `int8`.
ROUNDING = {"int8": 0.1}


@pytest.mark.ranks
@pytest.mark.parametrize("name", ROWS)
def test_embeddings_can_go_as_the_rows_that_a_round_has_changed(name, rng):
    loop = TableLoop(2, compression=ROWS[name], sparse_as_dense=False)
    values, rows, dense = touched(rng, 4)
    sent = -loop.touch(values, rows)
    assert are_alike(sent) and tfc.stats(loop.optimizer).total.steps == 2
    assert tfc.stats(loop.optimizer).total.payload_bytes < 0.2 * 2 * 4 * sent.size
    waiting = loop.waiting()
    assert np.count_nonzero(waiting) > 0 or name in ("none", "int8")
    np.testing.assert_allclose(sent + waiting, mean(dense), atol=ROUNDING.get(name, 1e-5))


@pytest.mark.ranks
def test_a_round_that_changes_no_row_on_a_rank_is_a_round(rng):
    loop = TableLoop(1, compression=ROWS["int8"], sparse_as_dense=False)
    values, rows, dense = touched(rng, 1)
    own = hvd.rank() == 0
    sent = -loop.touch(values * np.float32(own), rows)
    np.testing.assert_allclose(sent, mean(dense * np.float32(own)), atol=ROUNDING["int8"])
    assert are_alike(sent) and np.count_nonzero(sent) > 0


def test_a_round_of_rows_goes_on_from_a_checkpoint_without_a_step(folder, rng):
    values, rows, _ = touched(rng, 2)
    loop, restored = (TableLoop(5, compression=ROWS["topk"], sparse_as_dense=False) for _ in range(2))
    loop.touch(values, rows)
    path = str(folder / f"rank{hvd.rank()}")
    with pytest.warns(match="within a round|one rank's weights"):
        tf.train.Checkpoint(optimizer=loop.optimizer, table=loop.variable).write(path)
    tf.train.Checkpoint(optimizer=restored.optimizer, table=restored.variable).read(path)
    restored.optimizer.build([restored.variable])
    for each in (loop, restored):
        tfc.end_round(each.optimizer)
    np.testing.assert_array_equal(loop.variable.numpy(), restored.variable.numpy())
    assert tfc.stats(restored.optimizer).total.payload_bytes == tfc.stats(loop.optimizer).total.payload_bytes


def test_ranks_that_began_differently_are_stopped_at_the_first_round():
    model = make_model(keras)
    model.compile(tfc.LocalSteps(keras.optimizers.SGD(0.01), 2), "mse")
    x, y = make_data(16)
    with pytest.raises(tf.errors.InvalidArgumentError, match="train different models"):
        model.fit(x, y, batch_size=8, verbose=0)


def test_ranks_with_rounds_of_different_length_are_refused():
    loop = Loop(1 + hvd.rank())
    with pytest.raises(ValueError, match="local steps is 1 on rank 0"):
        loop.take(np.ones([1, SIZE], np.float32))
        tfc.end_round(loop.optimizer)
        loop.take(np.ones([1, SIZE], np.float32))


def compiled(model, steps=4):
    optimizer = tfc.LocalSteps(keras.optimizers.Adam(0.01), steps, compression=topk(), outer=NESTEROV)
    model.compile(optimizer, "mse")
    return model


def trained(num_batches):
    model = compiled(make_model(keras))
    tfc.broadcast_variables(model.variables)
    train(model, num_batches)
    return model


def train(model, num_batches, begin=0):
    """Steps without `fit`, whose end ends a round."""
    x, y = make_data(80)
    for batch in range(begin, begin + num_batches):
        part = slice(8 * batch, 8 * batch + 8)
        model.train_on_batch(x[part], y[part])


def assert_goes_on_alike(model, loaded):
    for each in (model, loaded):
        train(each, 3, begin=6)
    for ours, theirs in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


OPTIONS = {"steps": 4, "outer": NESTEROV}


@pytest.mark.parametrize("num_taken", [pytest.param(0, marks=pytest.mark.long), 2])
def test_a_saved_model_goes_on_within_its_round(folder, num_taken, assert_same_on_all_ranks):
    """Each rank saves and loads its own file; residuals aside, which come back as their mean."""
    model = compiled(make_model(keras))
    model.optimizer.build(model.trainable_variables)
    tfc.broadcast_variables(model.variables)
    train(model, 4 + num_taken)
    tfc.prepare_checkpoint(model.optimizer)
    for [slot] in state_of(model.optimizer).memories.by_name().values():
        slot.assign(mean(slot.numpy()))
    path = str(folder / f"model_{num_taken}_{hvd.rank()}.keras")
    if num_taken:
        with pytest.warns(UserWarning, match="after 2 local steps of a round"):
            model.save(path)
    else:
        model.save(path)
    loaded = tfc.load_model(path, topk(), optimizer_options=OPTIONS)
    assert rounds_of(loaded.optimizer).num_taken() == num_taken
    assert_goes_on_alike(model, loaded)
    tfc.end_round(loaded.optimizer)
    assert_same_on_all_ranks(loaded.get_weights())
    assert keras.models.load_model(path).optimizer.iterations.numpy() == 4 + num_taken  # Without the package.


@pytest.mark.long
def test_tf_train_checkpoint_within_a_round(folder, assert_same_on_all_ranks):
    model = trained(6)
    tfc.prepare_checkpoint(model.optimizer)
    for [slot] in state_of(model.optimizer).memories.by_name().values():
        slot.assign(mean(slot.numpy()))
    with pytest.warns(UserWarning, match="after 2 local steps of a round"):
        path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(folder / f"c_{hvd.rank()}")
    fresh = compiled(make_model(keras))
    fresh.optimizer.build(fresh.trainable_variables)
    tf.train.Checkpoint(model=fresh, optimizer=fresh.optimizer).restore(path).expect_partial()
    assert_goes_on_alike(model, fresh)
    tfc.end_round(fresh.optimizer)
    assert_same_on_all_ranks(fresh.get_weights())


@pytest.mark.long
def test_model_checkpoint_saves_what_all_ranks_have(folder, assert_same_on_all_ranks):
    model = compiled(make_model(keras))
    path = str(folder / "of_epoch.keras")
    callbacks = [tfc.callbacks.BroadcastVariables(0), tfc.callbacks.PrepareCheckpoint()]
    if hvd.rank() == 0:
        callbacks.append(keras.callbacks.ModelCheckpoint(path))
    x, y = make_data(48)
    model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
    hvd.allreduce(tf.zeros(1))  # The file is there.
    loaded = tfc.load_model(path, topk(), optimizer_options=OPTIONS)
    for ours, theirs in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    loaded.fit(x, y, batch_size=8, verbose=0, callbacks=[tfc.callbacks.BroadcastVariables(0)])
    assert_same_on_all_ranks(loaded.get_weights())


def test_a_schedule_counts_rounds(rng):
    schedule = tfc.Schedule([(2, tfc.Compression.topk(1.0))], then=tfc.Compression.topk(0.01))
    loop = Loop(3, compression=schedule)
    sent = []
    for _ in range(4):
        loop.take(gradients_of(rng, 3))
        sent.append(tfc.stats(loop.optimizer).total.sent_elements)
    assert np.diff([0, *sent]).tolist() == [SIZE, SIZE, SIZE // 100, SIZE // 100]


def test_another_compression_from_the_next_round_on(rng):
    loop = Loop(2, compression=tfc.Compression.topk(0.5))
    loop.take(gradients_of(rng, 2))
    tfc.set_compression(loop.optimizer, tfc.Compression.topk(0.01))
    loop.take(gradients_of(rng, 2))
    assert tfc.stats(loop.optimizer).total.sent_elements == SIZE // 2 + SIZE // 100


@pytest.mark.skipif(not IS_KERAS_3, reason="tf_keras has a LossScaleOptimizer of its own kind")
@pytest.mark.parametrize("outside", [True, False])
def test_loss_scaling_outside_and_inside(outside, rng):
    inner = keras.optimizers.SGD(1.0)
    if outside:
        optimizer = keras.optimizers.LossScaleOptimizer(tfc.LocalSteps(inner, 2), initial_scale=8.0)
    else:
        optimizer = tfc.LocalSteps(keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0), 2)
    variable, gradients = make_variable(np.zeros(SIZE)), gradients_of(rng, 4)
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(8.0 * gradient), variable)])
    np.testing.assert_allclose(-variable.numpy(), mean(gradients.sum(axis=0)), atol=1e-4)
