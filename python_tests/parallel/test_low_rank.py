"""PowerSGD under Horovod: two sums a step, one transaction, and a right factor that all ranks have."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper, all_ranks, random_arrays, reduced
from training import keras, make_variable

import tfcompress as tfc
from tfcompress.checkpoint import state_of
from tfcompress.wire import allreduce_bytes

RANK = 2
# Matrices, one of a convolution, and what travels as it is: too narrow, and of one dimension.
SHAPES = [(40, 60), (3, 3, 8, 16), (200, 2), (50,)]
FACTORS = RANK * (40 + 60 + 72 + 16)
EXACT = 200 * 2 + 50


def powersgd(rank=RANK, **options):
    return tfc.Compression.powersgd(rank, min_elements=0, **options)


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
@pytest.mark.ranks
def test_a_step_projects_the_sum_and_the_residual_keeps_the_rest(op, rng, assert_same_on_all_ranks):
    stepper, scale = Stepper(powersgd(), op), 1 / hvd.size() if op == hvd.Average else 1
    residuals = [np.zeros(shape, np.float32) for shape in SHAPES[:2]]
    for _ in range(3):
        gradients = random_arrays(rng, SHAPES)
        results = reduced(stepper, gradients)
        assert_same_on_all_ranks(results)
        held = stepper.state.snapshot()[1]
        for i, before in enumerate(residuals):
            compensated = scale * all_ranks(gradients[i] + before).astype(np.float64).sum(axis=0)
            columns = SHAPES[i][-1]
            # The rows of what is applied are in the space that the right factor spans, and nothing is lost.
            basis, _ = np.linalg.qr(np.float64(held[f"g{i}:factor_{RANK}"][0]).T)
            applied = np.float64(results[i]).reshape(-1, columns)
            np.testing.assert_allclose(applied @ basis @ basis.T, applied, atol=1e-4)
            left, values, _ = np.linalg.svd(applied)
            assert values[RANK] < 1e-4 < values[RANK - 1]
            left = left[:, :RANK]
            projected = left @ left.T @ compensated.reshape(-1, columns)
            np.testing.assert_allclose(applied, projected, atol=1e-4)
            after = scale * all_ranks(held[f"g{i}"][0]).astype(np.float64).sum(axis=0)
            np.testing.assert_allclose(compensated, results[i] + after, atol=1e-4)
        for i in (2, 3):
            exact = scale * all_ranks(gradients[i]).sum(axis=0)
            np.testing.assert_allclose(results[i], exact, rtol=1e-5, atol=1e-5)
        residuals = [held[f"g{i}"][0] for i in range(2)]
    total = stepper.state.stats().total
    assert total.payload_bytes == 3 * 4 * (FACTORS + EXACT)  # On any number of ranks.
    floats = [RANK * (40 + 60), RANK * (72 + 16), 200 * 2, 50]
    assert total.wire_bytes == 3 * sum(allreduce_bytes(4 * each, hvd.size()) for each in floats)
    assert total.sent_elements == 3 * (FACTORS + EXACT)


@pytest.mark.parametrize(("memory", "bad"), [("residual", 0), ("none", 3)])
def test_non_finite_gradients_leave_residuals_and_factors(memory, bad, rng):
    """Also where the gradient that is not finite travels as it is."""
    stepper = Stepper(powersgd(memory=memory))
    reduced(stepper, random_arrays(rng, SHAPES))
    before = stepper.state.snapshot()[1]
    assert len(before) == (4 if memory == "residual" else 2)
    gradients = random_arrays(rng, SHAPES)
    if hvd.rank() == hvd.size() - 1:
        gradients[bad].reshape(-1)[7] = np.nan
    assert np.isnan(reduced(stepper, gradients)[bad]).any()
    after = stepper.state.snapshot()[1]
    for name, values in before.items():
        np.testing.assert_array_equal(after[name], values)
    assert all(np.isfinite(each).all() for each in reduced(stepper, random_arrays(rng, SHAPES)))


def test_half_precision_loses_nothing_either(rng, assert_same_on_all_ranks):
    stepper = Stepper(powersgd(payload_dtype="float16"))
    gradients = random_arrays(rng, SHAPES)
    results = reduced(stepper, gradients)
    assert_same_on_all_ranks(results)
    after = all_ranks(stepper.state.snapshot()[1]["g0"][0]).mean(axis=0)
    np.testing.assert_allclose(all_ranks(gradients[0]).mean(axis=0), results[0] + after, atol=1e-5)
    assert stepper.state.stats().total.payload_bytes == 2 * FACTORS + 4 * EXACT


def test_a_schedule_changes_the_rank_and_keeps_the_residual(rng, assert_same_on_all_ranks):
    schedule = tfc.Schedule([(1, tfc.Compression.none), (1, powersgd(4))], then=powersgd(1, warm_start=False))
    stepper = Stepper(schedule)
    given, arrived, sent = [], [], []
    for _ in range(3):
        gradients = random_arrays(rng, SHAPES)
        given.append(all_ranks(gradients[0]).mean(axis=0))
        arrived.append(reduced(stepper, gradients)[0])
        sent.append(stepper.state.stats().total.payload_bytes)
    assert_same_on_all_ranks(arrived)
    np.testing.assert_allclose(arrived[0], given[0], atol=1e-6)
    held = stepper.state.snapshot()[1]
    assert sorted(held) == ["g0", "g0:factor_4", "g1", "g1:factor_4", "g2"]
    np.testing.assert_allclose(sum(given), sum(arrived) + all_ranks(held["g0"][0]).mean(axis=0), atol=1e-5)
    # Of rank 1 the factors of the narrow matrix are smaller, too.
    assert np.diff(sent).tolist() == [4 * (2 * FACTORS + EXACT), 4 * (FACTORS // 2 + 200 + 2 + 50)]


def test_residuals_and_factors_are_in_checkpoints(tmp_path, rng):
    def trained(num_steps):
        variable = make_variable(np.zeros(SHAPES[0]), "kernel")
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), compression=powersgd())
        for _ in range(num_steps):
            gradient = tf.constant(np.float32(rng.standard_normal(SHAPES[0])))
            optimizer.apply_gradients([(gradient, variable)])
        return optimizer

    optimizer = trained(3)
    tfc.prepare_checkpoint(optimizer)
    path = tf.train.Checkpoint(optimizer=optimizer).save(tmp_path / f"rank_{hvd.rank()}")
    mine, fresh = state_of(optimizer).snapshot()[1], trained(1)
    tf.train.Checkpoint(optimizer=fresh).restore(path).expect_partial()
    steps, restored = state_of(fresh).snapshot()
    assert steps == 3
    np.testing.assert_allclose(restored["kernel"], all_ranks(mine["kernel"]).mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(restored["kernel:factor_2"], mine["kernel:factor_2"], rtol=1e-6)


def test_ranks_with_different_ranks_of_factors_are_found():
    with pytest.raises(ValueError, match="configured differently.*rank=1.*rank=2"):
        reduced(Stepper(powersgd(1 + hvd.rank())), [np.ones(SHAPES[0], np.float32)])


def test_stock_horovod_has_two_sums_for_each_gradient(rng):
    variable, compressor = tf.Variable(tf.zeros(SHAPES[0])), powersgd()

    @tf.function
    def step(gradient):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * gradient)
        return hvd.DistributedGradientTape(tape, compression=compressor).gradient(loss, [variable])[0]

    ours, theirs = Stepper(powersgd()), []
    for _ in range(2):
        gradient = np.float32(rng.standard_normal(SHAPES[0]))
        theirs.append(step(tf.constant(gradient)).numpy())
        np.testing.assert_allclose(theirs[-1], reduced(ours, [gradient])[0], atol=1e-6)
    assert tfc.stats(compressor).total.payload_bytes == 2 * 4 * RANK * (40 + 60)
