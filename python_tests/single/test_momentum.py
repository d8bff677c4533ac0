"""The optimizer's momentum in the memory: arithmetic on one rank, what files say, what is refused."""

import horovod.tensorflow as hvd
import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfcompress as tfc
from tfcompress.statistics import users_of

hvd.init()
KERASES = pytest.mark.parametrize("kind", [keras, tf_keras], ids=lambda kind: kind.__name__)
SIZES = ((40, 50), (7,))  # Compressed, and small.
STEPS = 12


def gradients(step):
    rng = np.random.default_rng(step)
    return [rng.standard_normal(size).astype(np.float32) for size in SIZES]


def make_variables(kind=keras):
    make = getattr(kind, "Variable", tf.Variable)
    return [make(np.ones(size, np.float32), name=f"v{i}") for i, size in enumerate(SIZES)]


def train(optimizer, steps=STEPS, make_gradients=gradients):
    variables = make_variables(tf_keras if isinstance(optimizer, tf_keras.optimizers.Optimizer) else keras)
    for step in range(steps):
        optimizer.apply_gradients(zip(map(tf.constant, make_gradients(step)), variables, strict=True))
    return [variable.numpy() for variable in variables]


def wrapped(optimizer, compression=None, **options):
    return tfc.DistributedOptimizer(
        optimizer, compression=compression or tfc.Compression.dgc(0.01), **options
    )


def velocities(rate):
    """The memory's at each step."""
    found = [[np.zeros(size, np.float32) for size in SIZES]]
    for step in range(STEPS):
        found.append([np.float32(rate) * v + g for v, g in zip(found[-1], gradients(step), strict=True)])
    return found[1:]


def config(optimizer):
    return {name: value for name, value in optimizer.get_config().items() if name != "name"}


def assert_close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


class TestArithmetic:
    @KERASES
    @pytest.mark.parametrize("nesterov", [False, True])
    def test_sgd_with_everything_sent_trains_as_without_compression(self, kind, nesterov):
        def make():
            return kind.optimizers.SGD(0.1, momentum=0.8, nesterov=nesterov, weight_decay=0.01)

        assert_close(train(wrapped(make())), train(make()))

    @KERASES
    @pytest.mark.parametrize("name", ["Adam", "AdamW"])
    @pytest.mark.parametrize("amsgrad", [False, True])
    def test_adam_normalises_velocities(self, kind, name, amsgrad):
        """Its second moment would need each step's mean gradient, which no rank has once some wait."""
        make = getattr(kind.optimizers, name)
        ours = train(wrapped(make(0.01, beta_1=0.8, amsgrad=amsgrad)))
        seen = velocities(0.8)
        assert_close(ours, train(make(0.01, beta_1=0.0, amsgrad=amsgrad), make_gradients=lambda i: seen[i]))

    @KERASES
    @pytest.mark.parametrize("weight_decay", [None, 0.5])
    def test_rmsprop_normalises_velocities_and_steps_as_far_as_its_sum(self, kind, weight_decay):
        rate, expected, moment = 0.8, np.ones(SIZES[0]), np.zeros(SIZES[0])
        for step, (velocity, _) in enumerate(velocities(rate)):
            expected -= 0.01 * (weight_decay or 0) * expected  # Apart from gradients.
            moment = 0.9 * moment + 0.1 * velocity**2
            count = (1 - rate ** (step + 1)) / (1 - rate)
            expected -= 0.01 * count * velocity / np.sqrt(moment + 1e-7)
        optimizer = kind.optimizers.RMSprop(0.01, momentum=rate, weight_decay=weight_decay)
        found, _ = train(wrapped(optimizer))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

    def test_a_learning_rate_schedule_is_the_optimizers(self):
        def make(momentum):
            schedule = keras.optimizers.schedules.CosineDecay(0.1, STEPS)
            return keras.optimizers.RMSprop(schedule, momentum=momentum)

        tf_schedule = tf_keras.optimizers.schedules.CosineDecay(0.1, STEPS)
        theirs = tf_keras.optimizers.RMSprop(tf_schedule, momentum=0.5)
        assert_close(train(wrapped(make(0.5))), train(wrapped(theirs)))

    def test_rows_of_tables_keep_the_optimizers_momentum(self):
        tables = []
        for optimizer in (wrapped(keras.optimizers.Adam(0.01)), keras.optimizers.Adam(0.01)):
            table = keras.Variable(np.zeros((500, 4), np.float32), name="table")
            for row in (3, 3, 7):
                rows = tf.IndexedSlices(tf.ones([1, 4]), tf.constant([row]), tf.constant([500, 4]))
                optimizer.apply_gradients([(rows, table)])
            tables.append(table.numpy())
        np.testing.assert_array_equal(*tables)

    def test_variables_of_other_compressors_keep_it(self):
        def make():
            return keras.optimizers.Adam(0.01)

        mixed = {"v1": tfc.Compression.dgc(min_elements=0), "v0": tfc.Compression.topk()}
        ours, plain = train(wrapped(make(), mixed)), train(make())
        np.testing.assert_array_equal(ours[0], plain[0])
        assert (ours[1] != plain[1]).any()

    def test_several_backward_passes_are_one_step_of_the_momentum(self):
        def make():
            return keras.optimizers.SGD(0.1, momentum=0.9)

        def of_two(step):
            return [a + b for a, b in zip(gradients(2 * step), gradients(2 * step + 1), strict=True)]

        ours = train(wrapped(make(), backward_passes_per_step=2))
        assert_close(ours, train(make(), STEPS // 2, of_two))

    @KERASES
    def test_half_precision_has_variables_of_its_own(self, kind):
        trained = []
        for wrap in (wrapped, lambda optimizer: optimizer):
            layer = kind.layers.Dense(50, dtype="mixed_float16")
            layer.build((None, 40))
            layer.set_weights([np.zeros((40, 50)), np.zeros(50)])
            optimizer = wrap(kind.optimizers.SGD(0.1, momentum=0.9))
            for step in range(3):
                kernel = tf.constant(gradients(step)[0])
                optimizer.apply_gradients(zip([kernel, kernel[0]], layer.trainable_variables, strict=True))
            trained.append(layer.get_weights())
        assert_close(*trained)

    @pytest.mark.parametrize("ours_is_inside", [False, True])
    def test_loss_scaling_on_either_side(self, ours_is_inside):
        def scaled(optimizer):
            return keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=4.0)

        inner = keras.optimizers.SGD(0.1, momentum=0.9)
        outer = scaled(wrapped(inner)) if ours_is_inside else wrapped(scaled(inner))
        found = train(outer, make_gradients=lambda step: [4 * gradient for gradient in gradients(step)])
        assert_close(found, train(keras.optimizers.SGD(0.1, momentum=0.9)))

    def test_a_momentum_that_is_given_counts_where_the_optimizer_has_none(self):
        ours = train(wrapped(keras.optimizers.SGD(0.1), tfc.Compression.dgc(0.01, momentum=0.7)))
        assert_close(ours, train(keras.optimizers.SGD(0.1, momentum=0.7)))
        assert_close(
            train(wrapped(keras.optimizers.SGD(0.1))), train(keras.optimizers.SGD(0.1, momentum=0.9))
        )

    @pytest.mark.parametrize("make", [keras.optimizers.RMSprop, keras.optimizers.Adagrad])
    def test_optimizers_without_momentum_need_nothing(self, make):
        train(wrapped(make(0.1)), steps=1)


class TestTheUsersOptimizer:
    @KERASES
    def test_it_stays_what_it_was(self, kind):
        plain = kind.optimizers.SGD(0.1, momentum=0.9, nesterov=True)
        optimizer = wrapped(kind.optimizers.SGD(0.1, momentum=0.9, nesterov=True))
        train(optimizer, steps=1)
        assert type(optimizer).__name__ == "SGD" and optimizer.momentum == 0.9
        assert config(optimizer) == config(plain)
        again = type(optimizer).from_config(optimizer.get_config())
        assert config(again) == config(plain)
        assert_close(train(again), train(plain))

    def test_it_is_told_once(self, capsys):
        for _ in range(2):
            wrapped(keras.optimizers.Adam(0.1, beta_1=0.87))
        told = capsys.readouterr().err
        assert told == "tfcompress: beta_1=0.87 of Adam is in the compression's memory\n"

    @pytest.mark.parametrize("make", [lambda: keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.Adam])
    def test_a_saved_model_is_the_users_with_and_without_this_package(self, tmp_path, make, recwarn):
        model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(50), keras.layers.Dense(1)])
        model.compile(wrapped(make()), "mse")
        x = np.random.default_rng(0).standard_normal((64, 30)).astype(np.float32)
        model.fit(x, x[:, :1], batch_size=16, verbose=0)
        model.save(tmp_path / "model.keras")
        plain = keras.models.load_model(tmp_path / "model.keras")
        assert config(plain.optimizer) == config(make()) and int(plain.optimizer.iterations) == 4
        options = {"name": "mine", "op": hvd.Sum}
        ours = tfc.load_model(tmp_path / "model.keras", tfc.Compression.dgc(0.01), optimizer_options=options)
        assert int(ours.optimizer.iterations) == 4 and config(ours.optimizer) == config(make())
        for each in (model, ours):
            each.fit(x, x[:, :1], batch_size=16, verbose=0, shuffle=False)
        assert_close(model.get_weights(), ours.get_weights())
        assert not [w for w in recwarn if "Skipping variable" in str(w.message)]

    def test_a_checkpoint_goes_on(self, tmp_path):
        def begin():
            variables = make_variables()
            return variables, wrapped(keras.optimizers.Adam(0.01))

        def step(variables, optimizer, numbers):
            for number in numbers:
                pairs = zip(map(tf.constant, gradients(number)), variables, strict=True)
                optimizer.apply_gradients(pairs)

        variables, optimizer = begin()
        optimizer.build(variables)
        step(variables, optimizer, range(5))
        saved = tf.train.Checkpoint(v=[v.value for v in variables], optimizer=optimizer)
        path = saved.write(str(tmp_path / "checkpoint"))
        step(variables, optimizer, range(5, 8))
        others, other = begin()
        other.build(others)
        tf.train.Checkpoint(v=[v.value for v in others], optimizer=other).read(path)
        step(others, other, range(5, 8))
        assert_close([v.numpy() for v in others], [v.numpy() for v in variables])


class TestPlans:
    def test_schedules_and_changes_have_the_optimizers_momentum(self):
        dgc = tfc.Compression.dgc(0.01)
        schedule = tfc.Schedule.of_ratios(dgc, [1.0, 0.1], steps_each=3)
        optimizer = wrapped(keras.optimizers.SGD(0.1, momentum=0.6), schedule)
        plan = optimizer._tfcompress_step.state.plan
        assert plan.boundaries == schedule.boundaries
        assert [policy.memory for policy in plan.policies] == ["momentum:rate=0.6,nesterov=0"] * 3
        tfc.set_compression(optimizer, tfc.Compression.dgc(0.001))
        assert optimizer._tfcompress_step.state.plan.memory == "momentum:rate=0.6,nesterov=0"
        assert_close(train(optimizer), train(keras.optimizers.SGD(0.1, momentum=0.6)))

    def test_a_change_before_the_first_step_may_bring_the_momentum(self):
        optimizer = wrapped(keras.optimizers.SGD(0.1, momentum=0.6), tfc.Compression.topk())
        tfc.set_compression(optimizer, tfc.Compression.dgc())
        assert_close(train(optimizer), train(keras.optimizers.SGD(0.1, momentum=0.6)))

    def test_statistics_are_found_by_the_compressor_that_was_given(self):
        compression = tfc.Compression.dgc()
        optimizer = wrapped(keras.optimizers.Adam(), compression)
        train(optimizer, steps=1)
        assert users_of(compression) == [optimizer._tfcompress_step.state]

    @KERASES
    def test_sparse_has_the_momentum_of_adam(self, kind):
        compression = tfc.Compression.sparse(0.02, warmup_steps=3)
        optimizer = wrapped(kind.optimizers.Adam(0.1, beta_1=0.6), compression)
        plan = optimizer._tfcompress_step.state.plan
        assert [policy.memory for policy in plan.policies] == ["momentum:rate=0.6,nesterov=0"] * 4

    @KERASES
    def test_sparse_leaves_its_momentum_to_sgd(self, kind, capsys):
        for momentum in (0.6, 0.0):
            inner = kind.optimizers.SGD(0.1, momentum=momentum, clipnorm=1e6)
            optimizer = wrapped(inner, tfc.Compression.sparse(0.02, warmup_steps=3))
            plan = optimizer._tfcompress_step.state.plan
            assert [policy.memory for policy in plan.policies] == ["residual"] * 4
            assert "momentum" not in capsys.readouterr().err
            assert_close(train(optimizer), train(kind.optimizers.SGD(0.1, momentum=momentum)))

    @KERASES
    def test_smallest_has_the_momentum_that_the_optimizer_has_and_no_other(self, kind):
        for momentum, memory in ((0.6, "momentum:rate=0.6,nesterov=0"), (0.0, "residual")):
            inner = kind.optimizers.SGD(0.1, momentum=momentum)
            optimizer = wrapped(inner, tfc.Compression.smallest(warmup_steps=3))
            plan = optimizer._tfcompress_step.state.plan
            assert {policy.memory for policy in plan.policies} == {memory}
            assert_close(train(optimizer), train(kind.optimizers.SGD(0.1, momentum=momentum)))

    def test_auto_takes_what_is_sparse_only_if_the_momentum_can_move(self, capsys):
        optimizer = wrapped(keras.optimizers.Adam(), tfc.Compression.auto("sparse"))
        plan = optimizer._tfcompress_step.state.plan
        assert {each.memory_kind for _, schedule in plan.sparse for each in schedule.policies} == {"momentum"}
        assert {each.memory_kind for each in plan.compressors.values()} == {"none", "residual"}
        assert "where what auto() takes has one" in capsys.readouterr().err
        optimizer = wrapped(keras.optimizers.Nadam(), tfc.Compression.auto("sparse"))
        assert optimizer._tfcompress_step.state.plan.sparse == ()
        assert "auto() sends every element, because" in capsys.readouterr().err

    def test_what_waits_without_the_momentum_is_told(self, capsys):
        wrapped(keras.optimizers.Adam(), tfc.Compression.threshold(0.5))
        told = capsys.readouterr().err
        assert "has none of Adam's momentum" in told and "tfc.Compression.sparse()" in told
        for optimizer, compression in (
            (keras.optimizers.SGD(0.1), tfc.Compression.threshold(0.25)),
            (keras.optimizers.Adam(), tfc.Compression.int8()),
            (keras.optimizers.Adam(), tfc.Compression.sparse()),
        ):
            wrapped(optimizer, compression)
            assert "none of Adam's momentum" not in capsys.readouterr().err


class TestRefused:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: keras.optimizers.Nadam(0.1), "Nadam has beta_1=0.9.*every step"),
            (lambda: keras.optimizers.Adamax(0.1), "Adamax has beta_1=0.9.*divisor"),
            (lambda: keras.optimizers.Lion(0.1), "Lion has beta_1=0.9.*signs"),
            (lambda: keras.optimizers.Lamb(0.1), "Lamb has beta_1=0.9.*norm"),
            (lambda: keras.optimizers.Muon(0.1), "Muon has .*orthogonal"),
            (lambda: keras.optimizers.ScheduleFreeAdamW(0.1), "ScheduleFreeAdamW has .*averages weights"),
            (lambda: keras.optimizers.RMSprop(momentum=0.9, centered=True), "centered=True"),
            (lambda: tf_keras.optimizers.legacy.Adam(0.1), r"legacy: make one of tf_keras\.optimizers\.Adam"),
            (lambda: tf_keras.optimizers.Adam(0.1, beta_1=lambda: 0.9), "it is no number"),
        ],
    )
    def test_what_cannot_move(self, make, message):
        with pytest.raises(ValueError, match=rf"{message}.*Use SGD, Adam.*int4\(\)"):
            wrapped(make())

    def test_a_second_momentum(self):
        for compression in (tfc.Compression.dgc(momentum=0.9), tfc.Compressor("momentum|topk|raw|raw")):
            with pytest.raises(ValueError, match=r"both.*Adam has beta_1=0\.9.*dgc\(\)"):
                wrapped(keras.optimizers.Adam(), compression)

    @pytest.mark.parametrize(
        ("setting", "value", "remedy"),
        [
            ("clipnorm", 1.0, "clip_norm"),
            ("global_clipnorm", 1.0, "clip_norm"),
            ("clipvalue", 1.0, "clip_norm"),
            ("gradient_accumulation_steps", 2, "backward_passes_per_step"),
        ],
    )
    def test_what_is_for_gradients_and_would_get_velocities(self, setting, value, remedy):
        with pytest.raises(ValueError, match=f"Adam has {setting}={value}.*{remedy}="):
            wrapped(keras.optimizers.Adam(**{setting: value}))

    def test_nothing_of_it_without_a_momentum_in_the_memory(self):
        optimizer = wrapped(keras.optimizers.Lamb(0.1, clipnorm=1.0), tfc.Compression.topk())
        assert optimizer.beta_1 == 0.9
