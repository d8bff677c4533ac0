"""The optimizer's momentum in the memory: arithmetic on one rank, what files say, what is refused."""

import horovod.tensorflow as hvd
import keras
import numpy as np
import pytest
import tensorflow as tf

import tfcompress as tfc

hvd.init()
SIZES = ((40, 50), (7,))
STEPS = 12


def gradients(step):
    rng = np.random.default_rng(step)
    return [tf.constant(rng.standard_normal(size).astype(np.float32)) for size in SIZES]


def train(optimizer, steps=STEPS):
    variables = [keras.Variable(np.zeros(size, np.float32), name=f"v{i}") for i, size in enumerate(SIZES)]
    for step in range(steps):
        optimizer.apply_gradients(zip(gradients(step), variables, strict=True))
    return [np.asarray(variable) for variable in variables]


def wrapped(optimizer, **arguments):
    return tfc.DistributedOptimizer(optimizer, compression=tfc.Compression.dgc(0.01, **arguments))


def config(optimizer):
    return {name: value for name, value in optimizer.get_config().items() if name != "name"}


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.5, 0.9])
def test_sgd_with_everything_sent_trains_as_without_compression(momentum, nesterov):
    def make():
        return keras.optimizers.SGD(0.1, momentum=momentum, nesterov=nesterov, weight_decay=0.01)

    assert_equal(train(wrapped(make())), train(make()))


@pytest.mark.parametrize("make", [keras.optimizers.Adam, keras.optimizers.AdamW])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_sees_velocities(make, amsgrad):
    """Its second moment is of the velocity then, which nobody can undo once elements are sent late."""
    velocities = [np.zeros(size, np.float32) for size in SIZES]
    plain = make(0.01, beta_1=0.0, amsgrad=amsgrad)
    variables = [keras.Variable(np.zeros(size, np.float32)) for size in SIZES]
    for step in range(STEPS):
        velocities = [np.float32(0.8) * v + g for v, g in zip(velocities, gradients(step), strict=True)]
        plain.apply_gradients(zip(map(tf.constant, velocities), variables, strict=True))
    assert_equal(train(wrapped(make(0.01, beta_1=0.8, amsgrad=amsgrad))), [np.asarray(v) for v in variables])


def test_the_memorys_own_momentum_counts_where_the_optimizer_has_none():
    moved = train(wrapped(keras.optimizers.SGD(0.1, momentum=0.7)))
    assert_equal(moved, train(wrapped(keras.optimizers.SGD(0.1), momentum=0.7)))


def test_a_memory_without_momentum_leaves_the_optimizers():
    optimizer = keras.optimizers.Adam(0.1)
    tfc.DistributedOptimizer(optimizer, compression=tfc.Compression.topk())
    assert optimizer.beta_1 == 0.9


def test_it_is_told_once(capsys):
    for _ in range(2):
        wrapped(keras.optimizers.Adam(0.1, beta_1=0.87))
    told = capsys.readouterr().err
    assert told == "tfcompress: beta_1=0.87 of Adam moved into the compression's memory\n"


def test_the_configuration_is_the_users():
    optimizer = wrapped(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True))
    assert type(optimizer).__name__ == "SGD" and optimizer.momentum == 0.0
    assert config(optimizer) == config(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True))
    again = type(optimizer).from_config(optimizer.get_config())
    assert again.momentum == 0.0 and again.get_config()["momentum"] == 0.9
    assert_equal(train(again), train(optimizer))


@pytest.mark.parametrize("make", [lambda: keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.Adam])
def test_a_saved_model_is_the_users_with_and_without_this_package(tmp_path, make, recwarn):
    model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(50), keras.layers.Dense(1)])
    model.compile(wrapped(make()), "mse")
    x = np.random.default_rng(0).standard_normal((64, 30)).astype(np.float32)
    model.fit(x, x[:, :1], batch_size=16, verbose=0)
    model.save(tmp_path / "model.keras")
    plain = keras.models.load_model(tmp_path / "model.keras")
    assert config(plain.optimizer) == config(make()) and int(plain.optimizer.iterations) == 4
    ours = tfc.load_model(tmp_path / "model.keras", tfc.Compression.dgc(0.01))
    assert int(ours.optimizer.iterations) == 4 and config(ours.optimizer) == config(make())
    for each in (model, ours):
        each.fit(x, x[:, :1], batch_size=16, verbose=0, shuffle=False)
    assert_equal(model.get_weights(), ours.get_weights())
    assert not [w for w in recwarn if "Skipping variable" in str(w.message)]


def test_a_loss_scale_optimizer_is_looked_into():
    inner = keras.optimizers.SGD(0.1, momentum=0.9)
    outer = wrapped(keras.mixed_precision.LossScaleOptimizer(inner))
    assert inner.momentum == 0.0 and outer.get_config()["inner_optimizer"]["config"]["momentum"] == 0.9


def test_schedules_and_changes_have_the_optimizers_momentum():
    dgc = tfc.Compression.dgc(0.01)
    schedule = tfc.Schedule.of_ratios(dgc, [1.0, 0.1], steps_each=3)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.6), compression=schedule)
    plan = optimizer._tfcompress_step.state.plan
    assert plan.boundaries == schedule.boundaries
    assert [policy.memory for policy in plan.policies] == ["momentum:rate=0.6,nesterov=0"] * 3
    tfc.set_compression(optimizer, tfc.Compression.dgc(0.001))
    assert optimizer._tfcompress_step.state.plan.memory == "momentum:rate=0.6,nesterov=0"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: keras.optimizers.RMSprop(0.1, momentum=0.9), "RMSprop has momentum=0.9"),
        (lambda: keras.optimizers.Nadam(0.1), "Nadam has beta_1=0.9"),
        (lambda: keras.optimizers.Adamax(0.1), "Adamax has beta_1=0.9"),
        (lambda: keras.optimizers.Lion(0.1), "Lion has beta_1=0.9"),
        (lambda: keras.optimizers.Lamb(0.1), "Lamb has beta_1=0.9"),
    ],
)
def test_what_cannot_move_is_refused_by_name(make, named):
    with pytest.raises(ValueError, match=rf"{named}, which cannot move.*int4\(\)"):
        wrapped(make())


def test_variables_without_momentum_are_refused():
    with pytest.raises(ValueError, match="exclude="):
        tfc.DistributedOptimizer(
            keras.optimizers.SGD(0.1, momentum=0.9), compression={"kernel": tfc.Compression.dgc()}
        )


def test_optimizers_without_momentum_need_nothing():
    for make in (keras.optimizers.RMSprop, keras.optimizers.Adagrad, keras.optimizers.SGD):
        train(wrapped(make(0.1)), steps=1)
