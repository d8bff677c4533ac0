"""Compressors passed to stock Horovod: its tape, and under tf_keras its optimizer too."""

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import pytest
import tensorflow as tf
from stepping import break_packets, random_arrays
from training import IS_KERAS_3, keras

import tfcompress as tfc
from tfcompress.routes.linear import MARKS

# With Keras 3 Horovod's optimizer trains without exchanging anything.
KINDS = ["tape"] if IS_KERAS_3 else ["tape", "optimizer"]
MODES = ["eager", "function"]
EXACT = "nonzero|delta_binary|raw"


def loss_with_gradients(variables, gradients):
    return tf.add_n([tf.reduce_sum(v * g) for v, g in zip(variables, gradients, strict=True)])


class Steps:
    """What Horovod makes of a list of gradients, by its tape or by its optimizer."""

    def __init__(self, kind, mode, compressor, shapes, dtype=tf.float32, **options):
        self.variables = [tf.Variable(tf.zeros(shape, dtype)) for shape in shapes]
        step = {"tape": self._by_tape, "optimizer": self._by_optimizer}[kind]
        self._step = tf.function(step) if mode == "function" else step
        self._compressor, self._options = compressor, options
        if kind == "optimizer":
            self._optimizer = hvd_keras.DistributedOptimizer(
                keras.optimizers.SGD(1.0), compression=compressor, **options
            )

    def __call__(self, gradients):
        """Returns float32 arrays, the reduced gradients."""
        before = [np.float32(variable.numpy()) for variable in self.variables]
        self._step([tf.cast(gradient, self.variables[0].dtype) for gradient in gradients])
        return [old - np.float32(new.numpy()) for old, new in zip(before, self.variables, strict=True)]

    def repair(self):
        """Takes the NaN out of the variables, and out of the momentum that tf_keras keeps for nothing."""
        for variable in (*self.variables, *self._optimizer_variables()):
            if variable.shape == self.variables[0].shape:
                variable.assign(tf.zeros_like(variable))

    def _optimizer_variables(self):
        return self._optimizer.variables() if hasattr(self, "_optimizer") else []

    def _by_tape(self, gradients):
        with tf.GradientTape() as tape:
            loss = loss_with_gradients(self.variables, gradients)
        tape = hvd.DistributedGradientTape(tape, compression=self._compressor, **self._options)
        reduced = tape.gradient(loss, self.variables)
        for variable, gradient in zip(self.variables, reduced, strict=True):
            variable.assign_sub(gradient)

    def _by_optimizer(self, gradients):
        with tf.GradientTape() as tape:
            loss = loss_with_gradients(self.variables, gradients)
        self._optimizer.minimize(loss, self.variables, tape=tape)


@pytest.mark.parametrize("kind", KINDS)
class TestStock:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize(
        ("options", "op"),
        [
            ({}, hvd.Average),
            ({"op": hvd.Sum}, hvd.Sum),
            ({"gradient_predivide_factor": 3.0}, hvd.Average),
            ({"num_groups": 1}, hvd.Average),
            ({"op": hvd.Sum, "groups": 1}, hvd.Sum),
        ],
    )
    @pytest.mark.ranks
    def test_reduction(self, kind, mode, options, op, rng):
        shapes = [[40, 50], [7], [2000]]
        steps = Steps(kind, mode, tfc.Compressor(EXACT), shapes, **options)
        for _ in range(3):
            gradients = random_arrays(rng, shapes)
            for ours, given in zip(steps(gradients), gradients, strict=True):
                exact = hvd.allreduce(tf.constant(given), op=op)
                np.testing.assert_allclose(ours, exact, atol=1e-5)

    @pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
    def test_half_precision(self, kind, dtype, rng):
        given = np.float32(rng.integers(-8, 8, 2000))
        # A gradient of another dtype could not be subtracted from the variable.
        [reduced] = Steps(kind, "eager", tfc.Compressor(EXACT), [[2000]], dtype, op=hvd.Sum)([given])
        expected = hvd.allreduce(tf.constant(given), op=hvd.Sum)
        # Horovod multiplies the mean that it is handed.
        np.testing.assert_allclose(reduced, expected, rtol=0.01, atol=1e-5)

    @pytest.mark.parametrize(
        ("mode", "exchange", "further"),
        [*((mode, "gather", 12) for mode in MODES), ("function", "shard", 30)],  # What sums leave out, too.
    )
    def test_what_is_not_sent_is_sent_later(
        self, kind, mode, exchange, further, rng, assert_same_on_all_ranks
    ):
        compressor = tfc.Compression.topk(0.1, exchange=exchange)
        steps = Steps(kind, mode, compressor, [[2000], [7]])
        given = [rng.standard_normal(2000).astype(np.float32), np.float32(rng.standard_normal(7))]
        first, small = steps(given)
        assert 0 < (first != 0).sum() <= 200 * hvd.size()
        np.testing.assert_allclose(small, hvd.allreduce(tf.constant(given[1])), atol=1e-5)  # min_elements
        rest = [steps([np.zeros(2000, np.float32), np.zeros(7, np.float32)])[0] for _ in range(further)]
        total = sum(rest, first)
        np.testing.assert_allclose(total, hvd.allreduce(tf.constant(given[0])), atol=1e-5)
        assert_same_on_all_ranks([total])
        assert 0 < tfc.stats(compressor).total.payload_bytes < (1 + further) * 4 * 2000 / 4

    @pytest.mark.parametrize(
        ("bad_rank", "value"), [("last", np.nan), ("last", np.inf), ("last", -np.inf), ("all", np.nan)]
    )
    def test_non_finite_gradients_leave_the_residual(self, kind, bad_rank, value, rng):
        steps = Steps(kind, "function", tfc.Compression.topk(0.1), [[2000]])
        given = rng.standard_normal(2000).astype(np.float32)
        [first] = steps([given])
        bad = np.zeros(2000, np.float32)
        if bad_rank == "all" or hvd.rank() == hvd.size() - 1:
            bad[5] = value
        assert np.isnan(steps([bad])[0]).all()
        steps.repair()
        rest = [steps([np.zeros(2000, np.float32)])[0] for _ in range(12)]
        np.testing.assert_allclose(sum(rest, first), hvd.allreduce(tf.constant(given)), atol=1e-5)

    @pytest.mark.parametrize("mode", MODES)
    def test_ranks_with_different_specs(self, kind, mode):
        steps = Steps(kind, mode, tfc.Compression.topk(0.01 + 0.01 * hvd.rank()), [[2000]])
        with pytest.raises(ValueError, match=r"configured differently.*ratio=0\.01.*ratio=0\.02"):
            steps([np.ones(2000, np.float32)])

    def test_a_broken_packet(self, kind, rng, monkeypatch):
        break_packets(monkeypatch, "allgather_packet")
        steps = Steps(kind, "function", tfc.Compression.topk(0.1), [[2000]])
        with pytest.raises(tf.errors.DataLossError, match=f"rank {hvd.size() - 1}, tensor 0.*checksum"):
            steps([rng.standard_normal(2000).astype(np.float32)])
        np.testing.assert_array_equal(steps.variables[0], np.zeros(2000))

    @pytest.mark.parametrize("mode", MODES)
    def test_a_second_model_of_other_shapes_is_refused(self, kind, mode):
        compressor = tfc.Compression.topk(0.1)
        Steps(kind, mode, compressor, [[2000]])([np.ones(2000, np.float32)])
        with pytest.raises(ValueError, match="one compressor for each model"):
            Steps(kind, mode, compressor, [[2001]])([np.ones(2001, np.float32)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
@pytest.mark.ranks
def test_a_sketch_of_each_gradient_is_summed_by_horovod(kind, op, rng, assert_same_on_all_ranks):
    compressor = tfc.Compression.sketched_sgd(20, 5, 200, 4, momentum=0.5, min_elements=64)
    steps = Steps(kind, "function", compressor, [[4000], [7]], op=op)
    velocity, residual, small = (np.zeros(n, np.float32) for n in (4000, 4000, 7))
    for number in range(3):
        gradient = np.float32(rng.standard_normal(4000) + 1000 * (rng.random(4000) < 0.001))
        velocity = np.float32(0.5) * velocity + gradient
        residual = residual + velocity
        small = 0.5 * small + number
        update, bias = steps([gradient, np.full(7, number, np.float32)])
        steps.repair()  # Differences of small numbers.
        assert_same_on_all_ranks([update])
        [applied] = np.nonzero(update)
        assert 0 < len(applied) <= 20
        exact = hvd.allreduce(tf.constant(residual), op=op).numpy()
        np.testing.assert_allclose(update[applied], exact[applied], rtol=1e-4)
        np.testing.assert_allclose(bias, hvd.allreduce(tf.constant(small), op=op), rtol=1e-4)
        residual[applied] = velocity[applied] = 0
    sent = tfc.stats(compressor).tensors[0]
    assert sent.payload_bytes == 3 * 4 * (5 * 200 + MARKS + 4 * 20)
    assert 0 < sent.compression_error < 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["shared_randomk", "dgc", "bf16"])
def test_other_new_compressors(kind, name, rng, assert_same_on_all_ranks):
    compressor = {
        "shared_randomk": lambda: tfc.Compression.shared_randomk(0.1),
        "dgc": lambda: tfc.Compression.dgc(0.1, 0.0),
        "bf16": lambda: tfc.Compression.bf16,
    }[name]()
    steps = Steps(kind, "function", compressor, [[2000]])
    given = rng.standard_normal(2000).astype(np.float32)
    arrived = sum(steps([given if number == 0 else np.zeros(2000, np.float32)])[0] for number in range(25))
    assert_same_on_all_ranks([arrived])
    exact = hvd.allreduce(tf.constant(given)).numpy()
    if name == "shared_randomk":  # 0.9 ** 25 of the elements have not been drawn yet.
        assert 0.85 < np.isclose(arrived, exact, atol=1e-5).mean() <= 1.0
    else:
        np.testing.assert_allclose(arrived, exact, atol={"dgc": 1e-5, "bf16": 0.03}[name])


@pytest.mark.skipif(IS_KERAS_3, reason="with Keras 3 Horovod's optimizer exchanges nothing")
@pytest.mark.parametrize("eagerly", [False, True])
def test_fit_with_the_optimizer(eagerly, rng, assert_same_on_all_ranks):
    model = keras.Sequential([keras.layers.Input((30,)), keras.layers.Dense(40), keras.layers.Dense(1)])
    model.set_weights([np.full(w.shape, 0.01, np.float32) for w in model.get_weights()])
    optimizer = hvd_keras.DistributedOptimizer(
        keras.optimizers.SGD(0.01), compression=tfc.Compression.topk(0.1, min_elements=0)
    )
    model.compile(optimizer, "mse", run_eagerly=eagerly)
    x = rng.standard_normal([52, 30]).astype(np.float32)  # The last batch is smaller.
    history = model.fit(x, x[:, :1], batch_size=8, epochs=3, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert_same_on_all_ranks(model.get_weights())
