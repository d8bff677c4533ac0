"""What a job meets beyond the happy path, on Keras 3 and on tf_keras alike."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from training import IS_KERAS_3, fit, keras, make_data, make_model, make_variable, topk

import tfcompress as tfc
from tfcompress.checkpoint import state_of

EXACT = tfc.Compressor("nonzero|bitmap|raw", min_elements=0)


def one_variable(optimizer, steps):
    """Applies rank-dependent gradients to one variable; returns it and the gradients of all ranks."""
    variable = make_variable(np.zeros(2000))
    rng = np.random.default_rng(0)
    everyone = rng.standard_normal((steps, hvd.size(), 2000)).astype(np.float32)

    @tf.function
    def step(gradient):
        optimizer.apply_gradients([(gradient, variable)])

    for gradients in everyone:
        step(tf.constant(gradients[hvd.rank()]))
    return variable.numpy(), everyone


class TestReduction:
    @pytest.mark.parametrize("compression", [EXACT, tfc.Compression.none], ids=["packed", "all-reduced"])
    @pytest.mark.parametrize("average", [False, True])
    def test_backward_passes_per_step(self, compression, average, assert_same_on_all_ranks):
        optimizer = tfc.DistributedOptimizer(
            keras.optimizers.SGD(1.0),
            compression=compression,
            backward_passes_per_step=3,
            average_aggregated_gradients=average,
        )
        result, gradients = one_variable(optimizer, steps=7)
        expected = -gradients[:6].sum(axis=0).mean(axis=0) / (3 if average else 1)  # The 7th waits.
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
        assert_same_on_all_ranks([result])
        assert tfc.stats(optimizer).total.steps == 2
        assert int(optimizer.iterations.numpy()) == 7  # All passes, as Horovod counts.

    def test_a_pass_without_a_gradient_keeps_the_sum_of_the_others(self):
        optimizer = tfc.DistributedOptimizer(
            keras.optimizers.SGD(1.0), compression=EXACT, backward_passes_per_step=2
        )
        first, second = make_variable(np.zeros(3)), make_variable(np.zeros(3))
        optimizer.apply_gradients([(tf.ones(3), first), (tf.ones(3), second)])
        optimizer.apply_gradients([(tf.ones(3), first), (None, second)])
        np.testing.assert_allclose(-first.numpy(), 2.0)
        np.testing.assert_allclose(-second.numpy(), 1.0)

    def test_ranks_with_different_numbers_of_passes(self):
        optimizer = tfc.DistributedOptimizer(
            keras.optimizers.SGD(1.0), compression=EXACT, backward_passes_per_step=2 + hvd.rank()
        )
        with pytest.raises(ValueError, match="backward_passes_per_step is 2 on rank 0 and 3 on rank 1"):
            one_variable(optimizer, steps=1)  # Traced, all ranks exchange in one branch.

    def test_one_more_optimizer_on_one_rank(self, assert_same_on_all_ranks):
        """A model that rank 0 loads for evaluation takes no number from the names of collectives."""
        for _ in range(2 if hvd.rank() == 0 else 0):
            tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=EXACT)
        for compression in (EXACT, tfc.Compression.none):
            optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=compression)
            result, gradients = one_variable(optimizer, steps=2)
            np.testing.assert_allclose(result, -gradients.mean(axis=1).sum(axis=0), rtol=1e-4, atol=1e-5)
            assert_same_on_all_ranks([result])

    def test_backward_passes_of_an_embedding_are_refused(self):
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(), backward_passes_per_step=2)
        slices = tf.IndexedSlices(tf.ones([1, 4]), tf.constant([0]), tf.constant([8, 4]))
        with pytest.raises(ValueError, match="sparse_as_dense"):
            optimizer.apply_gradients([(slices, make_variable(np.zeros((8, 4))))])
        with pytest.raises(ValueError, match="at least 1"):
            tfc.DistributedOptimizer(keras.optimizers.SGD(), backward_passes_per_step=0)

    @pytest.mark.parametrize("compression", [EXACT, tfc.Compression.none], ids=["packed", "all-reduced"])
    @pytest.mark.ranks
    def test_a_process_set_exchanges_among_its_ranks(self, compression):
        members = hvd.size() - 1  # Horovod has a set of all ranks already.
        process_set = hvd.add_process_set(range(members))
        try:
            optimizer = tfc.DistributedOptimizer(
                keras.optimizers.SGD(1.0), compression=compression, process_set=process_set
            )
            if hvd.rank() >= members:
                with pytest.raises(ValueError, match="not in the process set"):
                    one_variable(optimizer, steps=1)
            else:
                result, gradients = one_variable(optimizer, steps=3)
                expected = -gradients[:, :members].mean(axis=1).sum(axis=0)
                np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
        finally:
            hvd.remove_process_set(process_set)

    @pytest.mark.parametrize(
        "num_groups, compression", [(1, tfc.Compression.none), (2, tfc.Compression.none), (2, EXACT)]
    )
    def test_groups(self, num_groups, compression, assert_same_on_all_ranks):
        model = make_model(keras)
        options = {"compression": compression, "num_groups": num_groups}
        fit(model, tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), **options), 48, epochs=2)
        assert_same_on_all_ranks(model.get_weights())

    @pytest.mark.parametrize("scaled", [True, False])
    @pytest.mark.ranks
    def test_local_variables_stay_local(self, scaled):
        optimizer = tfc.DistributedOptimizer(
            keras.optimizers.SGD(1.0), compression=EXACT, scale_local_gradients=scaled
        )
        local, shared = make_variable(np.zeros(3)), make_variable(np.zeros(3))
        optimizer.register_local_var(local)
        own = tf.fill([3], float(hvd.rank() + 1))
        optimizer.apply_gradients([(own, local), (own, shared)])
        np.testing.assert_allclose(-local.numpy(), (hvd.rank() + 1) / (hvd.size() if scaled else 1))
        np.testing.assert_allclose(-shared.numpy(), (hvd.size() + 1) / 2)

    @pytest.mark.parametrize("sparse_as_dense", [False, True])
    @pytest.mark.ranks
    def test_embeddings(self, sparse_as_dense, assert_same_on_all_ranks):
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [
                keras.layers.Input((4,)),
                keras.layers.Embedding(50, 8),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        model.compile(
            tfc.DistributedOptimizer(
                keras.optimizers.SGD(0.1), compression=EXACT, sparse_as_dense=sparse_as_dense
            ),
            "mse",
        )
        x = np.random.default_rng(hvd.rank()).integers(0, 50, (32, 4))
        history = model.fit(x, x[:, :1] * 0.01, batch_size=8, epochs=4, verbose=0)
        assert history.history["loss"][-1] < history.history["loss"][0]
        assert_same_on_all_ranks(model.get_weights())

    def test_other_reductions_are_refused(self):
        for op in (hvd.Min, hvd.Max, hvd.Product, hvd.Adasum):
            with pytest.raises(ValueError, match="not defined"):
                tfc.DistributedOptimizer(keras.optimizers.SGD(), op=op)


class TestLossScaling:
    @staticmethod
    def scaler(optimizer):
        options = {} if IS_KERAS_3 else {"dynamic": True}
        maker = keras.optimizers if IS_KERAS_3 else keras.mixed_precision
        return maker.LossScaleOptimizer(optimizer, initial_scale=4.0, **options)

    @pytest.mark.parametrize("ours_outside", [False, True])
    @pytest.mark.parametrize(("bad_rank", "value"), [(0, np.nan), (1, np.inf), (None, -np.inf)])
    def test_one_rank_overflows_and_all_skip(self, ours_outside, bad_rank, value, assert_same_on_all_ranks):
        if ours_outside:
            optimizer = tfc.DistributedOptimizer(self.scaler(keras.optimizers.SGD(1.0)), compression=topk())
        else:
            optimizer = self.scaler(tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=topk()))
        variable = make_variable(np.zeros(2000))
        rng = np.random.default_rng(hvd.rank())

        @tf.function
        def step(gradient):
            optimizer.apply_gradients([(gradient, variable)])

        step(tf.constant(rng.standard_normal(2000).astype(np.float32)))
        before = variable.numpy()
        bad = rng.standard_normal(2000).astype(np.float32)
        if bad_rank in (hvd.rank(), None):
            bad[7] = value
        step(tf.constant(bad))
        np.testing.assert_array_equal(variable.numpy(), before)
        scale = optimizer.dynamic_scale if IS_KERAS_3 else optimizer.loss_scale
        assert float(scale.numpy()) == 2.0
        step(tf.constant(rng.standard_normal(2000).astype(np.float32)))
        assert np.isfinite(variable.numpy()).all() and (variable.numpy() != before).any()
        assert_same_on_all_ranks([variable.numpy()])

    def test_mixed_float16_policy(self, assert_same_on_all_ranks):
        """Keras puts its LossScaleOptimizer around ours by itself."""
        keras.mixed_precision.set_global_policy("mixed_float16")
        try:
            model = make_model(keras)
            optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=topk())
            fit(model, optimizer, 48, epochs=2)
            assert type(model.optimizer).__name__.startswith("LossScaleOptimizer")
        finally:
            keras.mixed_precision.set_global_policy("float32")
        assert state_of(model.optimizer).stats().total.steps > 0
        assert_same_on_all_ranks(model.get_weights())


class TestOptimizers:
    @pytest.mark.skipif(not IS_KERAS_3, reason="tf_keras keeps exclusions elsewhere")
    def test_what_a_configuration_does_not_hold_stays(self):
        """The given object is wrapped, not copied: exclusions, attributes, functions."""
        plain = keras.optimizers.AdamW(lambda: 0.5, weight_decay=0.9)
        kernel, bias = make_variable(np.ones(3), "kernel"), make_variable(np.ones(3), "bias")
        plain.exclude_from_weight_decay(var_list=[bias])
        plain.note = "kept"
        optimizer = tfc.DistributedOptimizer(plain, compression=EXACT)
        assert optimizer is plain and optimizer.note == "kept"
        optimizer.apply_gradients([(tf.zeros(3), kernel), (tf.zeros(3), bias)])
        np.testing.assert_allclose(kernel.numpy(), 0.55)
        np.testing.assert_allclose(bias.numpy(), 1.0)


class TestModels:
    @pytest.mark.skipif(not IS_KERAS_3, reason="an argument of Keras 3's optimizers")
    def test_gradient_accumulation_steps(self, assert_same_on_all_ranks):
        optimizer = tfc.DistributedOptimizer(
            keras.optimizers.SGD(1.0, gradient_accumulation_steps=2), compression=EXACT
        )
        result, gradients = one_variable(optimizer, steps=4)
        np.testing.assert_allclose(result, -gradients.mean(axis=1).sum(axis=0) / 2, rtol=1e-4, atol=1e-5)
        assert_same_on_all_ranks([result])

    def test_xla_is_refused(self):
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(), compression=topk())
        with pytest.raises(RuntimeError, match="jit_compile=False"):
            fit(make_model(keras), optimizer, 48, jit_compile=True)

    def test_a_layer_frozen_half_way_keeps_its_residual(self, assert_same_on_all_ranks):
        model = make_model(keras)
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=topk())
        fit(model, optimizer, 48, epochs=2)
        memories = state_of(optimizer).memories.by_name()
        kept = [slots[0].numpy() for slots in memories.values()]
        first, _, second, *_ = [slots[0] for slots in memories.values()]
        x, y = make_data(16)
        thawed = list(model.trainable_variables)

        def step(variables):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x) - y))
            sources = [v.value if IS_KERAS_3 else v for v in variables]
            optimizer.apply_gradients(zip(tape.gradient(loss, sources), variables, strict=True))

        step(thawed[2:])
        np.testing.assert_array_equal(first.numpy(), kept[0])
        assert (second.numpy() != kept[2]).any()
        step(thawed)
        assert (first.numpy() != kept[0]).any()
        assert_same_on_all_ranks(model.get_weights())

    def test_a_none_gradient(self):
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=EXACT)
        used, unused = make_variable(np.zeros(3)), make_variable(np.zeros(3))
        optimizer.apply_gradients([(None, unused), (tf.ones(3), used)])
        assert unused.numpy().tolist() == [0, 0, 0] and used.numpy().tolist() == [-1, -1, -1]

    def test_a_model_with_two_inputs_and_two_outputs(self, assert_same_on_all_ranks):
        inputs = [keras.Input((20,), name=name) for name in ("left", "right")]
        hidden = keras.layers.concatenate([keras.layers.Dense(40)(each) for each in inputs])
        outputs = [keras.layers.Dense(1, name=name)(hidden) for name in ("up", "down")]
        model = keras.Model(inputs, outputs)
        model.compile(
            tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=topk()), loss=["mse", "mse"]
        )
        x, y = make_data(16)
        callbacks = [tfc.callbacks.BroadcastVariables(0)]
        model.fit([x, x], [y, y], batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
        assert_same_on_all_ranks(model.get_weights())

    def test_two_lists_of_gradients_in_each_step_before_a_broadcast(self, assert_same_on_all_ranks):
        """As in Horovod's examples, where variables are broadcast after the first step."""
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=topk())
        variables = [make_variable(np.full(2000, hvd.rank())) for _ in range(2)]
        for step in range(2):
            for several in (variables, variables[:1]):
                optimizer.apply_gradients([(tf.ones(2000), variable) for variable in several])
            if step == 0:
                tfc.broadcast_variables(variables)
        assert_same_on_all_ranks([variable.numpy() for variable in variables])

    @pytest.mark.parametrize("num_compressors", [1, 2])
    def test_two_optimizers_in_one_step_share_nothing(self, num_compressors, assert_same_on_all_ranks):
        """As in a GAN."""
        compressors = ([topk()] * 2, [topk(), topk()])[num_compressors - 1]
        optimizers = [
            tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=each) for each in compressors
        ]
        variables = [make_variable(np.zeros(2000)) for _ in optimizers]

        @tf.function
        def step(gradient):
            for optimizer, variable, sign in zip(optimizers, variables, (1.0, -1.0), strict=True):
                optimizer.apply_gradients([(sign * gradient, variable)])

        rng = np.random.default_rng(hvd.rank())
        for _ in range(5):
            step(tf.constant(rng.standard_normal(2000).astype(np.float32)))
        first, second = (variable.numpy() for variable in variables)
        np.testing.assert_array_equal(first, -second)
        assert_same_on_all_ranks([first, second])

    def test_non_finite_gradients_without_loss_scaling(self, assert_same_on_all_ranks):
        """The variable becomes non-finite everywhere, as without compression; the memory does not."""
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=topk())
        variable = make_variable(np.zeros(2000))
        optimizer.apply_gradients([(tf.ones(2000), variable)])
        [[slot]] = state_of(optimizer).memories.by_name().values()
        before = slot.numpy()
        bad = np.full(2000, np.inf if hvd.rank() == 1 else 1.0, np.float32)
        optimizer.apply_gradients([(tf.constant(bad), variable)])
        assert np.isnan(variable.numpy()).all()
        np.testing.assert_array_equal(slot.numpy(), before)
        assert_same_on_all_ranks([variable.numpy()])
