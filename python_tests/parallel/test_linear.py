"""Linear compressors and momentum correction, on Keras 3 and on tf_keras alike."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper, all_ranks, reduced
from training import fit, keras, make_model, make_variable

import tfcompress as tfc
from tfcompress.checkpoint import state_of
from tfcompress.routes.linear import MARKS

SIZE = 4000


def sketched(k=20, rows=5, columns=200, p=4, **options):
    return tfc.Compression.sketched_sgd(k, rows, columns, p, min_elements=64, **options)


COMPRESSORS = {
    "sketched_sgd": sketched,
    "heavymix": lambda **options: sketched(recovery="heavymix", **options),
    "nesterov": lambda **options: sketched(nesterov=True, **options),
    "shared_randomk": lambda **options: tfc.Compression.shared_randomk(0.05, min_elements=64, **options),
    "dgc": lambda **options: tfc.Compression.dgc(0.01, min_elements=64, **options),
    "dgc_clipped": lambda **options: tfc.Compression.dgc(0.01, clip_norm=20.0, min_elements=64, **options),
}


# One for each way: a sketch and its second round, a plain sum, frames and clipping. What the others change
# is tested below without a model (heavymix, dgc), or in the core (nesterov).
_QUICK = ("sketched_sgd", "shared_randomk", "dgc_clipped")


@pytest.mark.parametrize(
    "name", [name if name in _QUICK else pytest.param(name, marks=pytest.mark.long) for name in COMPRESSORS]
)
def test_replicas_are_identical_and_learn(name, assert_same_on_all_ranks):
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=COMPRESSORS[name]())
    history = fit(model, optimizer, 76, epochs=4, jit_compile=False).history  # The last batch is smaller.
    assert_same_on_all_ranks(model.get_weights())
    assert history["loss"][-1] < 0.8 * history["loss"][0]


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
@pytest.mark.parametrize("parts", [[SIZE], [1000, 2500, 500]])
@pytest.mark.parametrize("recovery", ["top", "heavymix"])
@pytest.mark.ranks
def test_sketched_sgd_is_algorithm_3(op, parts, recovery, rng, assert_same_on_all_ranks):
    """One vector, whatever the tensors; k elements of the sum of the velocities that were kept back."""
    k, rate = 20, 0.9
    stepper = Stepper(sketched(k=k, momentum=rate, recovery=recovery, exclude=()), op)
    velocity, residual = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    for _ in range(4):
        gradient = np.float32(rng.standard_normal(SIZE) + 1000 * (rng.random(SIZE) < 0.001))
        velocity = np.float32(rate) * velocity + gradient
        residual = residual + velocity
        update = np.concatenate(reduced(stepper, np.split(gradient, np.cumsum(parts)[:-1])))
        assert_same_on_all_ranks([update])
        [applied] = np.nonzero(update)
        assert 0 < len(applied) <= k
        exact = all_ranks(residual).sum(axis=0) / (hvd.size() if op == hvd.Average else 1)
        np.testing.assert_allclose(update[applied], exact[applied], rtol=1e-5)
        if recovery == "top":  # Of the heaviest elements of the sum nearly all are found.
            heaviest = np.argsort(-np.abs(exact))[:4]
            assert np.isin(heaviest, applied).sum() >= 3
        residual[applied] = velocity[applied] = 0
    held = stepper.state.snapshot()[1]
    np.testing.assert_allclose(np.concatenate([held[i][0] for i in sorted(held)]), residual, rtol=1e-5)
    np.testing.assert_allclose(np.concatenate([held[i][1] for i in sorted(held)]), velocity, rtol=1e-5)


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
@pytest.mark.ranks
def test_shared_randomk_loses_nothing(op, rng, assert_same_on_all_ranks):
    stepper = Stepper(tfc.Compression.shared_randomk(0.1, min_elements=0), op)
    given, arrived = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    for step in range(12):
        gradient = np.float32(rng.integers(-8, 8, SIZE)) if step < 5 else np.zeros(SIZE, np.float32)
        given += gradient
        [update] = reduced(stepper, [gradient])
        assert (update != 0).sum() <= SIZE // 10
        arrived += update
    [residual] = stepper.state.snapshot()[1]["g0"]
    scale = 1 / hvd.size() if op == hvd.Average else 1
    pending = all_ranks(residual).sum(axis=0) * scale
    np.testing.assert_allclose(arrived + pending, all_ranks(given).sum(axis=0) * scale, atol=1e-4)
    assert_same_on_all_ranks([arrived])


def test_dgc_keeps_velocities_and_masks_what_was_sent(rng):
    rate = 0.5
    stepper = Stepper(tfc.Compression.dgc(0.01, rate, min_elements=0), hvd.Sum)
    velocity, residual = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    for _ in range(3):
        gradient = np.float32(rng.standard_normal(SIZE))
        velocity = np.float32(rate) * velocity + gradient
        residual = residual + velocity
        sent = np.sort(np.argsort(-np.abs(residual), kind="stable")[: SIZE // 100])
        expected = np.zeros(SIZE, np.float32)
        expected[sent] = residual[sent]
        [update] = reduced(stepper, [gradient])
        np.testing.assert_allclose(update, all_ranks(expected).sum(axis=0), rtol=1e-5, atol=1e-6)
        residual[sent] = velocity[sent] = 0


def test_local_clipping_bounds_the_norm_of_all_gradients_together(rng):
    limit = 2.0
    compressor = tfc.Compression.dgc(1.0, 0.0, clip_norm=limit, min_elements=0)
    stepper = Stepper(compressor, hvd.Sum)
    gradients = [np.float32(rng.standard_normal(n) * (10 if hvd.rank() == 0 else 1e-3)) for n in (3000, 40)]
    norm = np.linalg.norm(np.concatenate(gradients))
    bound = limit / np.sqrt(hvd.size())
    scale = min(1, bound / norm)
    assert (scale < 1) == (hvd.rank() == 0)
    for given, update in zip(gradients, reduced(stepper, gradients), strict=True):
        np.testing.assert_allclose(update, all_ranks(given * np.float32(scale)).sum(axis=0), rtol=1e-4)


def test_stock_horovod_clips_small_gradients_too(rng):
    variable, compressor = tf.Variable(tf.zeros([40])), tfc.Compression.topk(0.1, clip_norm=2.0)
    gradient = np.float32(10 * rng.standard_normal(40))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable * gradient)
    [update] = hvd.DistributedGradientTape(tape, compression=compressor, op=hvd.Sum).gradient(
        loss, [variable]
    )
    clipped = gradient * np.float32(2 / np.sqrt(hvd.size()) / np.linalg.norm(gradient))
    np.testing.assert_allclose(update, all_ranks(clipped).sum(axis=0), rtol=1e-4)


@pytest.mark.parametrize("compressor", [sketched(), tfc.Compression.dgc(0.01, min_elements=64)])
def test_small_tensors_have_the_momentum_too(compressor):
    """The optimizer has none, so what travels uncompressed follows plain momentum SGD."""
    stepper, velocity = Stepper(compressor, hvd.Average), 0.0
    for step in range(4):
        gradient = np.full(10, step + hvd.rank(), np.float32)
        velocity = 0.9 * velocity + gradient
        [_, update] = reduced(stepper, [np.ones(SIZE, np.float32), gradient])
        np.testing.assert_allclose(update, all_ranks(np.float32(velocity)).mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize("nesterov", [False, True])
def test_with_everything_sent_sgd_trains_as_without_compression(nesterov, assert_same_on_all_ranks, rng):
    steps = [[np.float32(rng.standard_normal(size)) for size in (SIZE, 10)] for _ in range(6)]

    def train(compression):
        sgd = keras.optimizers.SGD(0.1, momentum=0.8, nesterov=nesterov, weight_decay=0.01)
        optimizer = tfc.DistributedOptimizer(sgd, compression=compression)
        variables = [make_variable(np.ones(size), f"kernel{size}") for size in (SIZE, 10)]
        for gradients in steps:
            optimizer.apply_gradients(zip(map(tf.constant, gradients), variables, strict=True))
        return [variable.numpy() for variable in variables]

    ours = train(tfc.Compression.dgc(1.0, min_elements=64))
    assert_same_on_all_ranks(ours)
    for weights, expected in zip(ours, train(tfc.Compression.none), strict=True):
        np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-5)


def test_adams_momentum_is_the_memorys_of_one_tensor_and_its_own_of_another(assert_same_on_all_ranks, rng):
    def train(optimizer, gradients_of):
        variables = [make_variable(np.zeros(SIZE), "kernel"), make_variable(np.zeros(10), "bias")]
        for step in range(4):
            optimizer.apply_gradients(zip(gradients_of(step), variables, strict=True))
        return [variable.numpy() for variable in variables]

    def mine(step):
        return [tf.constant(np.float32((step + hvd.rank()) * vector)) for vector in directions]

    directions = [rng.standard_normal(SIZE), np.ones(10)]
    compression = {"kernel": tfc.Compression.dgc(0.1, min_elements=64)}
    optimizer = tfc.DistributedOptimizer(keras.optimizers.Adam(0.01), compression=compression)
    kernel, bias = train(optimizer, mine)
    _, expected = train(keras.optimizers.Adam(0.01), lambda step: [hvd.allreduce(g) for g in mine(step)])
    np.testing.assert_allclose(bias, expected, rtol=1e-6)
    assert_same_on_all_ranks([kernel, bias])
    [velocities] = state_of(optimizer).snapshot()[1].values()
    assert velocities.shape == (2, SIZE)
    assert 0 < (kernel != 0).sum() <= 4 * hvd.size() * SIZE // 10


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize(("bad_rank", "value"), [("last", np.nan), ("last", np.inf), ("all", -np.inf)])
def test_non_finite_gradients_leave_all_slots(name, bad_rank, value, rng):
    stepper = Stepper(COMPRESSORS[name](exclude=()))
    reduced(stepper, [np.float32(rng.standard_normal(SIZE)), np.ones(5, np.float32)])
    _, before = stepper.state.snapshot()
    assert all(np.abs(each).sum() > 0 for each in [before["g0"]])
    bad = np.float32(rng.standard_normal(SIZE))
    if bad_rank == "all" or hvd.rank() == hvd.size() - 1:
        bad[17] = value
    assert np.isnan(reduced(stepper, [bad, np.ones(5, np.float32)])[0]).all()
    _, after = stepper.state.snapshot()
    np.testing.assert_array_equal(after["g0"], before["g0"])
    good = reduced(stepper, [np.float32(rng.standard_normal(SIZE)), np.ones(5, np.float32)])
    assert np.isfinite(good[0]).all()


@pytest.mark.parametrize("name", ["sketched_sgd", "shared_randomk"])
def test_traffic_is_that_of_the_payload_and_the_second_round(name, rng):
    stepper = Stepper(COMPRESSORS[name](exclude=()))
    reduced(stepper, [np.float32(rng.standard_normal(SIZE))])
    total = stepper.state.stats().total
    floats = {"sketched_sgd": 5 * 200 + 4 * 20, "shared_randomk": SIZE // 20}[name]
    assert total.payload_bytes == 4 * (floats + MARKS)  # On any number of ranks.
    assert total.wire_bytes == 4 * total.payload_bytes * (hvd.size() - 1) // hvd.size()


def test_half_precision_payloads(rng, assert_same_on_all_ranks):
    full, half = (Stepper(sketched(exclude=(), payload_dtype=d)) for d in ("float32", "float16"))
    gradient = np.float32(rng.standard_normal(SIZE))
    [exact], [rounded] = (reduced(each, [gradient]) for each in (full, half))
    assert half.state.stats().total.payload_bytes * 2 == full.state.stats().total.payload_bytes
    both = (exact != 0) & (rounded != 0)
    assert both.sum() > 10
    np.testing.assert_allclose(rounded[both], exact[both], rtol=2e-2)
    assert_same_on_all_ranks([rounded])


def test_a_sketch_larger_than_the_gradients_is_not_made(rng):
    stepper = Stepper(sketched(columns=10_000, momentum=0.5), hvd.Sum)
    velocity = 0.0
    for _ in range(3):
        gradient = np.float32(rng.standard_normal(SIZE))
        velocity = np.float32(0.5) * velocity + gradient
        [update] = reduced(stepper, [gradient])
        np.testing.assert_allclose(update, all_ranks(velocity).sum(axis=0), rtol=1e-4, atol=1e-5)
    assert stepper.state.stats().total.per_step("payload_bytes") == 4 * SIZE


def test_ranks_with_different_seeds_are_found():
    stepper = Stepper(sketched(seed=hvd.rank()))
    with pytest.raises(ValueError, match="configured differently.*seed 0.*seed 1"):
        reduced(stepper, [np.ones(SIZE, np.float32)])


def test_embeddings_go_as_rows_beside_a_sketch(assert_same_on_all_ranks):
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=sketched())
    table, kernel = make_variable(np.zeros([500, 4]), "table"), make_variable(np.zeros(SIZE), "kernel")
    rows = tf.IndexedSlices(tf.ones([3, 4]), tf.constant([1, 7, 7]), tf.constant([500, 4]))
    optimizer.apply_gradients([(rows, table), (tf.random.normal([SIZE]), kernel)])
    expected = np.zeros([500, 4], np.float32)
    expected[1], expected[7] = -1, -2
    np.testing.assert_allclose(table.numpy(), expected, atol=1e-6)
    assert_same_on_all_ranks([kernel.numpy()])


def test_warmup_lowers_the_ratio_epoch_by_epoch(rng):
    schedule = tfc.Schedule.warmup(tfc.Compression.dgc(0.01, min_elements=0), steps_per_epoch=2)
    stepper = Stepper(schedule)
    sent = []
    for _ in range(8):
        before = stepper.state.stats().total.sent_elements
        reduced(stepper, [np.float32(rng.standard_normal(SIZE))])
        sent.append(stepper.state.stats().total.sent_elements - before)
    ratios = [0.25, 0.25, 0.0625, 0.0625, 0.015625, 0.015625, 0.01, 0.01]  # 0.004 is below the end.
    np.testing.assert_allclose(np.array(sent) / SIZE, ratios, rtol=0.02)


@pytest.mark.parametrize("name", ["sketched_sgd", "dgc"])
@pytest.mark.ranks
def test_residual_and_velocity_are_saved_as_means(name, tmp_path, rng):
    def trained(num_steps):
        variable = make_variable(np.zeros(SIZE), "kernel")
        compression = COMPRESSORS[name](exclude=())
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=compression)
        for _ in range(num_steps):
            optimizer.apply_gradients([(tf.constant(np.float32(rng.standard_normal(SIZE))), variable)])
        return variable, optimizer

    variable, optimizer = trained(3)
    tfc.prepare_checkpoint(optimizer)
    path = tf.train.Checkpoint(optimizer=optimizer).save(tmp_path / f"rank_{hvd.rank()}")
    _, mine = state_of(optimizer).snapshot()
    _, fresh = trained(1)
    tf.train.Checkpoint(optimizer=fresh).restore(path).expect_partial()
    steps, restored = state_of(fresh).snapshot()
    assert steps == 3 and restored["kernel"].shape == (2, SIZE)
    mean = all_ranks(mine["kernel"]).mean(axis=0)
    np.testing.assert_allclose(restored["kernel"], mean, rtol=1e-5, atol=1e-6)
    assert np.abs(restored["kernel"][1]).sum() > 0


def test_a_bad_gradient_that_travels_otherwise_takes_the_whole_step_back(rng):
    """The kernel's payload, the packet of the bias and the all-reduced one are one transaction."""
    compression = {
        "kernel": sketched(),
        "bias": tfc.Compression.topk(0.1, min_elements=64),
        "": tfc.Compression.none,
    }
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=compression)
    variables = [make_variable(np.zeros(SIZE), name) for name in ("kernel", "bias", "plain")]

    def step(bad=None):
        gradients = [np.float32(rng.standard_normal(SIZE)) for _ in variables]
        if bad is not None and hvd.rank() == hvd.size() - 1:
            gradients[bad][3] = np.nan
        optimizer.apply_gradients(list(zip(map(tf.constant, gradients), variables, strict=True)))
        return state_of(optimizer).snapshot()[1]

    before = step()
    assert sorted(before) == ["bias", "kernel"]
    for bad in range(3):
        after = step(bad)
        for name in before:
            np.testing.assert_array_equal(after[name], before[name])


def test_ranks_at_different_steps_agree_on_the_latest_at_first(rng, assert_same_on_all_ranks):
    stepper = Stepper(COMPRESSORS["shared_randomk"]())
    if hvd.rank() == 0:
        stepper.state.resume(100, {})
    assert_same_on_all_ranks(reduced(stepper, [np.float32(rng.standard_normal(SIZE))]))
    assert stepper.state.steps() == 101


def test_ranks_that_come_to_be_at_different_steps_are_found(rng):
    stepper = Stepper(COMPRESSORS["shared_randomk"]())
    gradient = np.float32(rng.standard_normal(SIZE))
    reduced(stepper, [gradient])
    stepper.state.resume(100 + hvd.rank(), {})
    with pytest.raises(tf.errors.InvalidArgumentError, match="ranks are at different steps"):
        reduced(stepper, [gradient])


@pytest.mark.parametrize("size", [SIZE, 40])
def test_what_half_precision_rounds_away_stays_pending(size):
    """1e-8 is below what float16 holds; the smaller vector travels as it is."""
    compressor = tfc.Compression.shared_randomk(0.5, payload_dtype="float16", min_elements=0)
    stepper = Stepper(compressor, hvd.Sum)
    arrived = sum(reduced(stepper, [np.full(size, 1e-8, np.float32)])[0] for _ in range(20))
    [residual] = stepper.state.snapshot()[1]["g0"]
    total = arrived + all_ranks(residual).sum(axis=0)
    np.testing.assert_allclose(total, np.full(size, 20e-8 * hvd.size()), rtol=1e-3)


def test_a_sum_is_saved_as_a_sum(tmp_path, rng):
    def made():
        variable = make_variable(np.zeros(SIZE), "kernel")
        compression = tfc.Compression.topk(0.01, min_elements=0)
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=compression, op=hvd.Sum)
        optimizer.apply_gradients([(tf.constant(np.float32(rng.standard_normal(SIZE))), variable)])
        return optimizer

    optimizer, fresh = made(), made()
    tfc.prepare_checkpoint(optimizer)
    owed = all_ranks(state_of(optimizer).snapshot()[1]["kernel"][0]).sum(axis=0)
    np.testing.assert_allclose(state_of(optimizer).pending()["kernel"][0], owed, rtol=1e-5, atol=1e-6)
    path = tf.train.Checkpoint(optimizer=optimizer).save(tmp_path / f"rank_{hvd.rank()}")
    tf.train.Checkpoint(optimizer=fresh).restore(path).expect_partial()
    parts = state_of(fresh).snapshot()[1]["kernel"][0]
    np.testing.assert_allclose(all_ranks(parts).sum(axis=0), owed, rtol=1e-4, atol=1e-5)


def test_changes_that_a_traced_step_cannot_follow_are_refused(rng):
    stepper = Stepper(tfc.Compression.shared_randomk(0.1, exclude=["bias"]))
    gradients = [tf.constant(np.float32(rng.standard_normal(SIZE))) for _ in range(2)]
    stepper.run(gradients, ["kernel", "bias"])
    for other in (
        tfc.Compression.shared_randomk(0.1),
        tfc.Compression.shared_randomk(0.1, exclude=["bias", "kernel"]),
        tfc.Compression.shared_randomk(0.2, exclude=["bias"]),
        tfc.Compression.shared_randomk(0.1, exclude=["bias"], clip_norm=1.0),
        tfc.Compression.topk(0.1, exclude=["bias"]),
    ):
        with pytest.raises(ValueError, match="cannot change|memory of another kind"):
            stepper.state.change(other)
    stepper.state.change(tfc.Compression.shared_randomk(0.1, exclude=["bias"]))
