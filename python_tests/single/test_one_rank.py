"""One process: everything trains normally and nothing is sent; wrong use says what is wrong."""

import subprocess
import sys
import warnings

import horovod.tensorflow as hvd
import keras
import numpy as np
import pytest
import tensorflow as tf

import tfcompress as tfc
from tfcompress import comm, notices
from tfcompress.checkpoint import state_of
from tfcompress.state import parameter_of
from tfcompress.step_state import StepState

hvd.init()
make_variable = getattr(keras, "Variable", tf.Variable)  # Keras 2 has TensorFlow's.


def trained_weights(optimizer):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(50), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    x = np.random.default_rng(0).standard_normal((64, 30)).astype(np.float32)
    callbacks = [tfc.callbacks.BroadcastVariables(0)]
    model.fit(x, x[:, :1], epochs=3, verbose=0, shuffle=False, callbacks=callbacks)
    return model.get_weights()


def test_one_rank_trains_as_the_plain_optimizer_and_sends_nothing():
    wrapped = tfc.DistributedOptimizer(keras.optimizers.Adam(0.01), compression=tfc.Compression.topk(0.01))
    for ours, plain in zip(
        trained_weights(wrapped), trained_weights(keras.optimizers.Adam(0.01)), strict=True
    ):
        np.testing.assert_array_equal(ours, plain)
    assert tfc.stats(wrapped).total.payload_bytes == 0


@pytest.mark.parametrize("compression", [tfc.Compression.dgc(0.01, 0.8), tfc.Compression.sketched_sgd(k=10)])
def test_one_rank_has_the_momentum_that_the_optimizer_must_not_have(compression):
    wrapped = tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=compression)
    plain = keras.optimizers.SGD(0.01, momentum=0.8 if "topk" in compression.spec else 0.9)
    for ours, theirs in zip(trained_weights(wrapped), trained_weights(plain), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert tfc.stats(wrapped).total.payload_bytes == 0


def test_one_rank_clips_and_leaves_local_variables_alone():
    variables = [make_variable(np.zeros(2000, np.float32), name=name) for name in ("kernel", "local")]
    compression = tfc.Compression.dgc(0.01, 0.5, clip_norm=1.0, min_elements=0)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=compression)
    optimizer.register_local_var(variables[1])
    for _ in range(2):
        optimizer.apply_gradients([(tf.ones([2000]), variable) for variable in variables])
    clipped = 1 / np.sqrt(2000)
    np.testing.assert_allclose(variables[0].numpy(), -clipped * (1 + 1.5), rtol=1e-5)
    np.testing.assert_allclose(variables[1].numpy(), -2.0)


def test_one_rank_densifies_embeddings_as_several_do():
    table = make_variable(np.zeros((50, 4), np.float32), name="table")
    compression = tfc.Compression.dgc(0.01, 0.5, min_elements=0)
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.SGD(1.0), compression=compression, sparse_as_dense=True
    )
    rows = tf.IndexedSlices(tf.ones([1, 4]), tf.constant([3]), tf.constant([50, 4]))
    notices.warn_once.cache_clear()
    with pytest.warns(tfc.AccuracyWarning, match="sparse_as_dense=True"):
        optimizer.apply_gradients([(rows, table)])
    optimizer.apply_gradients([(rows, table)])
    expected = np.zeros((50, 4))
    expected[3] = -2.5
    np.testing.assert_allclose(table.numpy(), expected)


NOT_WARNED_OF = {
    "residual": tfc.Compression.topk(min_elements=0),
    "every element": tfc.Compression.int8(min_elements=0),
    "excluded": tfc.Compression.sparse(min_elements=0, exclude=["table"]),
    "another compressor": {"table": tfc.Compression.int8(), ".": tfc.Compression.dgc(min_elements=0)},
    "small": tfc.Compression.sparse(),
}


@pytest.mark.parametrize("compression", NOT_WARNED_OF.values(), ids=NOT_WARNED_OF)
def test_dense_tables_are_not_warned_of_where_nothing_was_lost(compression):
    table = make_variable(np.zeros((50, 4), np.float32), name="table")
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.Adam(), compression=compression, sparse_as_dense=True
    )
    rows = tf.IndexedSlices(tf.ones([1, 4]), tf.constant([3]), tf.constant([50, 4]))
    notices.warn_once.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", tfc.AccuracyWarning)
        optimizer.apply_gradients([(rows, table)])


def test_the_wrapped_optimizer_keeps_class_and_configuration():
    plain = keras.optimizers.SGD(0.5, momentum=0.9, nesterov=True)
    wrapped = tfc.DistributedOptimizer(plain, compression=tfc.Compression.topk())
    assert isinstance(wrapped, keras.optimizers.SGD)
    assert wrapped.get_config() == plain.get_config()
    restored = keras.optimizers.deserialize(keras.optimizers.serialize(wrapped))
    assert type(restored) is keras.optimizers.SGD


def test_one_rank_tape():
    variable = tf.Variable([1.0, 2.0])
    with tfc.DistributedGradientTape(tf.GradientTape(), compression=tfc.Compression.topk()) as tape:
        loss = tf.reduce_sum(variable * variable)
    assert tape.gradient(loss, variable).numpy().tolist() == [2.0, 4.0]
    assert tfc.stats(tape).total.steps == 0


def test_a_variable_is_not_taken_for_one_that_is_gone():
    """Python gives the address of one that is deleted to the next."""
    keys = set()
    for _ in range(50):
        keys.add(parameter_of(tf.Variable(tf.zeros([3]), name="head")).key)
    assert len(keys) == 50


def test_wrong_arguments():
    with pytest.raises(TypeError, match="expected a Keras optimizer"):
        tfc.DistributedOptimizer("sgd")
    with pytest.raises(TypeError, match="functions: call it"):
        tfc.DistributedOptimizer(keras.optimizers.SGD(), compression=tfc.Compression.topk)
    with pytest.raises(TypeError, match=r"tfc\.Compressor"):
        tfc.DistributedGradientTape(tf.GradientTape(), compression="topk")
    with pytest.raises(ValueError, match=r"hvd\.Average or hvd\.Sum"):
        tfc.DistributedOptimizer(keras.optimizers.SGD(), op=hvd.Max)
    with pytest.raises(ValueError, match="gradient_predivide_factor"):
        tfc.DistributedOptimizer(keras.optimizers.SGD(), op=hvd.Sum, gradient_predivide_factor=2.0)
    with pytest.raises(TypeError, match="no statistics"):
        tfc.stats(keras.optimizers.SGD())


def test_a_used_optimizer_is_refused():
    used = keras.optimizers.SGD()
    used.build([tf.Variable([0.0])])
    with pytest.raises(ValueError, match="has been used"):
        tfc.DistributedOptimizer(used)


NOT_INITIALISED = """
import keras, tensorflow as tf, tfcompress as tfc
optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(), compression=tfc.Compression.topk())
try:
    optimizer.apply_gradients([(tf.ones(3), tf.Variable(tf.zeros(3)))])
except RuntimeError as error:
    assert "hvd.init()" in str(error), error
else:
    raise SystemExit("no error")
"""


def test_horovod_not_initialised():
    subprocess.run([sys.executable, "-c", NOT_INITIALISED], check=True)


@pytest.mark.parametrize("exchange, transport", [("auto", "SHARD"), ("shard", "SHARD"), ("gather", "GATHER")])
def test_elastic_jobs_shard_on_any_number_of_ranks(exchange, transport, monkeypatch):
    """What ranks have traced stays as their number changes, and new ones have to do the same."""
    variable = tf.Variable(tf.zeros([3000]), name="kernel")
    state = StepState(tfc.Compression.topk(exchange=exchange))
    monkeypatch.setattr(comm, "is_elastic", lambda: True)
    [route] = state.stages_of([tf.zeros([3000])], [parameter_of(variable)], state.plan).all_routes()
    assert route.transport.name == transport


def test_a_rank_alone_in_an_elastic_job_sums_all_shards(monkeypatch):
    monkeypatch.setattr(comm, "is_elastic", lambda: True)
    compression = tfc.Compression.topk(0.1, exchange="shard")
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=compression)
    kernel = make_variable(np.zeros(3000, np.float32), name="kernel")
    gradient = np.random.default_rng(1).standard_normal(3000).astype(np.float32)
    optimizer.apply_gradients([(tf.constant(gradient), kernel)])
    [waiting] = state_of(optimizer).snapshot()[1].values()
    assert np.count_nonzero(kernel.numpy()) == 300
    np.testing.assert_array_equal(waiting[0] - kernel.numpy(), gradient)


@pytest.mark.parametrize("is_elastic", [False, True])
def test_auto_takes_int8_where_nothing_can_be_measured(is_elastic, monkeypatch, capsys):
    notices.tell.cache_clear()
    parameters = [parameter_of(tf.Variable(tf.zeros([30, 100]), name="kernel"))]
    monkeypatch.setattr(comm, "is_elastic", lambda: is_elastic)
    chosen, int8 = (
        state.stages_of([tf.zeros([30, 100])], parameters, state.plan)
        for state in (StepState(tfc.Compression.auto()), StepState(tfc.Compression.int8()))
    )
    assert chosen.key() == int8.key()
    assert "Compression.auto() on 1 ranks took int8, unmeasured" in capsys.readouterr().err
