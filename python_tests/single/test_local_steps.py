"""Local steps in one process, and what they refuse."""

import horovod.tensorflow as hvd
import keras
import numpy as np
import pytest

import tfcompress as tfc
from tfcompress import local_steps

hvd.init()


def trained_weights(optimizer):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(50), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    x = np.random.default_rng(0).standard_normal((56, 30)).astype(np.float32)
    callbacks = [tfc.callbacks.BroadcastVariables(0)]
    model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0, shuffle=False, callbacks=callbacks)
    return model.get_weights()


def assert_equal(ours, theirs, **tolerance):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, **(tolerance or {"rtol": 0}))


@pytest.mark.parametrize("compression", [tfc.Compression.none, tfc.Compression.topk(0.01)])
def test_one_rank_trains_as_the_plain_optimizer_and_sends_nothing(compression):
    wrapped = tfc.LocalSteps(keras.optimizers.Adam(0.01), 3, compression=compression)
    assert_equal(trained_weights(wrapped), trained_weights(keras.optimizers.Adam(0.01)))
    assert tfc.stats(wrapped).total.payload_bytes == 0


def test_rows_of_one_rank_are_those_of_the_plain_optimizer():
    def trained(optimizer):
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Embedding(100, 16), keras.layers.Flatten(), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((3,)), *layers])
        model.compile(optimizer, "mse")
        x = np.random.default_rng(0).integers(0, 100, (32, 3))
        model.fit(x, x[:, :1] / 100, batch_size=8, epochs=2, verbose=0, shuffle=False)
        return model.get_weights()

    topk = tfc.Compression.topk(0.1, min_elements=16)
    wrapped = tfc.LocalSteps(keras.optimizers.SGD(0.1), 3, compression=topk, sparse_as_dense=False)
    assert_equal(trained(wrapped), trained(keras.optimizers.SGD(0.1)))


def test_one_rank_takes_the_outer_step():
    """Rounds of one step of SGD at a rate of 0.5 outside are SGD with half the rate."""
    wrapped = tfc.LocalSteps(keras.optimizers.SGD(0.02), 1, outer=tfc.OuterStep(0.5))
    plain = keras.optimizers.SGD(0.01)
    assert_equal(trained_weights(wrapped), trained_weights(plain), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("arguments", [{"rate": 0}, {"momentum": 1}, {"momentum": -0.1}, {"nesterov": True}])
def test_outer_steps_out_of_range(arguments):
    with pytest.raises(ValueError, match="outer"):
        tfc.OuterStep(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"feedback_decay": 0.0}, "feedback_decay must be above 0"),
        ({"feedback_decay": 1.5}, "feedback_decay must be above 0"),
        ({"compression": tfc.Compression.auto()}, "choose a preset"),
        ({"compression": tfc.Compression.dgc(0.01)}, "momentum in its memory"),
        ({"optimizer": keras.optimizers.SGD(use_ema=True)}, "use_ema"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tfc.LocalSteps(**{"optimizer": keras.optimizers.SGD(), "steps": 2, **arguments})


def test_an_optimizer_is_distributed_once():
    for first, second in (
        (tfc.DistributedOptimizer, tfc.LocalSteps),
        (tfc.LocalSteps, tfc.DistributedOptimizer),
    ):
        wrapped = first(keras.optimizers.SGD(), **({"steps": 2} if first is tfc.LocalSteps else {}))
        with pytest.raises(ValueError, match="distributed already|wrapped already"):
            second(wrapped, **({"steps": 2} if second is tfc.LocalSteps else {}))


def test_an_optimizer_that_has_been_used_is_refused():
    used = keras.optimizers.SGD()
    used.build([keras.Variable(np.zeros(3, np.float32))])
    with pytest.raises(ValueError, match="used already"):
        tfc.LocalSteps(used, 2)


def test_elastic_jobs_are_refused(monkeypatch):
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    with pytest.raises(ValueError, match="elastic"):
        tfc.LocalSteps(keras.optimizers.SGD(), 2)


def test_other_kinds_are_type_errors():
    with pytest.raises(TypeError, match="Keras optimizer"):
        tfc.LocalSteps("adam", 2)
    with pytest.raises(TypeError, match=r"tfc\.OuterStep"):
        tfc.LocalSteps(keras.optimizers.SGD(), 2, outer=keras.optimizers.SGD(0.7))
    with pytest.raises(TypeError, match=r"tfc\.LocalSteps"):
        tfc.end_round(keras.optimizers.SGD())


def test_sparse_has_a_residual_here():
    assert local_steps.checked_plan(tfc.Compression.sparse()) is not None


def test_a_copy_by_configuration_takes_local_steps_too():
    optimizer = tfc.LocalSteps(keras.optimizers.Adam(0.25), 2)
    copy = type(optimizer).from_config(optimizer.get_config())
    assert type(copy).__name__ == "Adam" and float(copy.learning_rate) == 0.25
    tfc.end_round(copy)
