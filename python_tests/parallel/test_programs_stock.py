"""Programs that keep Horovod's own wrappers and pass them our compressors; see `test_programs_loops.py`."""

import re

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import pytest
import tensorflow as tf
from programs import Refused, dense_model, exact_mean, fit, numbers, text_model, words
from training import IS_KERAS_3, keras

import tfcompress as tfc

v1 = tf.compat.v1

COMPRESSORS = {
    "none": lambda: tfc.Compression.none,
    "fp16": lambda: tfc.Compression.fp16,
    "qsgd": lambda: tfc.Compression.qsgd(min_elements=0),
    "topk": lambda: tfc.Compression.topk(0.1, min_elements=0),
    "shared_randomk": lambda: tfc.Compression.shared_randomk(0.1, min_elements=0),
}


# Horovod's tensorflow_mnist.py and tensorflow_word2vec.py, and deepmd-kit's trainer: graphs and sessions.


@pytest.fixture(params=["of TF2", "of TF1"])
def shapes(request):
    """`tf.disable_v2_behavior()` makes other shapes, whose dimensions are objects."""
    if request.param == "of TF1":
        v1.disable_v2_tensorshape()
    yield
    v1.enable_v2_tensorshape()


@pytest.mark.usefixtures("shapes")
@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_graph_with_a_session(name, assert_same_on_all_ranks):
    """Trains, what is held back arriving later, or is refused as the graph is built, saying what to use."""
    given = np.float32(np.random.default_rng(hvd.rank()).standard_normal(400))
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("w", initializer=np.full(400, hvd.rank(), np.float32))
        scale = v1.placeholder(tf.float32, [])
        loss = tf.reduce_sum(variable * given) * scale
        optimizer = hvd.DistributedOptimizer(
            v1.train.GradientDescentOptimizer(1.0), compression=COMPRESSORS[name]()
        )
        try:
            train = optimizer.minimize(loss, var_list=[variable])
        except Refused as error:
            assert name not in ("none", "fp16"), error
            assert re.search(r"compat\.v1|TF1|[Ss]ession", str(error)), error
            assert "SymbolicTensor" not in str(error), error
            assert re.search(r"\buse\b|tfc\.", str(error)), error
            return
        session.run(v1.global_variables_initializer())
        session.run(hvd.broadcast_global_variables(0))
        start = session.run(variable)
        for number in range(60 if name == "shared_randomk" else 12):
            session.run(train, {scale: float(number == 0)})
        arrived = start - session.run(variable)
    assert_same_on_all_ranks([arrived])
    tolerance = {"none": 1e-5, "fp16": 5e-3, "qsgd": 0.5}.get(name, 1e-5)
    close = np.isclose(arrived, exact_mean(given), atol=tolerance)
    assert close.mean() > (0.95 if name == "shared_randomk" else 0.999)


def test_a_graph_whose_variables_are_initialised_before_it_is_complete(assert_same_on_all_ranks):
    """Horovod's tensorflow_synthetic_benchmark.py; seeds of random codecs differ from step to step."""
    given = np.float32(np.random.default_rng(hvd.rank()).standard_normal(400))
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("w", initializer=np.zeros(400, np.float32))
        session.run(v1.global_variables_initializer())
        compressor = tfc.Compressor("randomk:ratio=0.1|raw|raw", min_elements=0)
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), compression=compressor)
        train = optimizer.minimize(tf.reduce_sum(variable * given), var_list=[variable])
        for _ in range(2):
            session.run(train)
        moved = session.run(variable)
    assert_same_on_all_ranks([moved])
    assert 40 * hvd.size() < np.count_nonzero(moved) <= 80 * hvd.size()


@pytest.mark.parametrize("name", COMPRESSORS)
def test_our_tape_in_a_graph_with_a_session(name, assert_same_on_all_ranks):
    """As `test_partial_distributed_gradient_tape` of Horovod does; the same promise as above."""
    given = np.float32(np.random.default_rng(hvd.rank()).standard_normal(400))
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("w", initializer=np.zeros(400, np.float32))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * given)
        tape = tfc.DistributedGradientTape(tape, compression=COMPRESSORS[name]())
        try:
            train = variable.assign_sub(tape.gradient(loss, [variable])[0])
        except Refused as error:
            assert name not in ("none", "fp16"), error
            assert re.search(r"compat\.v1|TF1|[Ss]ession", str(error)), error
            return
        session.run(v1.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        arrived = -session.run(variable) / 3
    assert_same_on_all_ranks([arrived])
    tolerance = {"none": 1e-5, "fp16": 5e-3}.get(name, 0.5)
    np.testing.assert_allclose(arrived, exact_mean(given), atol=tolerance)


def test_our_wrapper_refuses_the_optimizers_of_such_graphs():
    with pytest.raises(Refused, match=r"compat\.v1|TF1"):
        tfc.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.1), compression=tfc.Compression.topk())


# Horovod's tensorflow2_synthetic_benchmark.py: compressor and tape are made in the step, with a Python flag.


@pytest.mark.parametrize("name", ["topk"])
def test_the_stock_tape_with_a_compressor_made_inside_the_function(name, assert_same_on_all_ranks):
    variables = [tf.Variable(tf.zeros([2000])), tf.Variable(tf.zeros([7]))]
    given = [np.float32(np.random.default_rng(hvd.rank()).standard_normal(v.shape[0])) for v in variables]

    @tf.function
    def step(first_batch):
        compression = COMPRESSORS[name]()
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(v * g) for v, g in zip(variables, given, strict=True)])
        tape = hvd.DistributedGradientTape(tape, compression=compression)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(gradient)
        if first_batch:
            tfc.broadcast_variables(variables, root_rank=0)

    step(first_batch=True)
    for _ in range(2):
        step(first_batch=False)
    assert_same_on_all_ranks([v.numpy() for v in variables])
    assert all((v.numpy() != 0).any() for v in variables)


@pytest.mark.parametrize("name", ["none", "qsgd", "topk"])
def test_the_stock_tape_in_a_later_trace(name, assert_same_on_all_ranks):
    """Horovod's tensorflow2_mnist_elastic.py with our compressor: the exchange begins at the second call."""
    variables, compressor = [tf.Variable(tf.zeros([2000])), tf.Variable(tf.zeros([7]))], COMPRESSORS[name]()
    given = [np.float32(np.random.default_rng(hvd.rank()).standard_normal(v.shape[0])) for v in variables]

    @tf.function
    def step(allreduce):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(v * g) for v, g in zip(variables, given, strict=True)])
        if allreduce:
            tape = hvd.DistributedGradientTape(tape, compression=compressor)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(gradient if allreduce else tf.zeros_like(gradient))

    step(allreduce=False)
    for _ in range(2):
        step(allreduce=True)
    assert_same_on_all_ranks([v.numpy() for v in variables])
    assert all((v.numpy() != 0).any() for v in variables)


# Horovod's tensorflow2_keras_mnist.py on Keras 3, where its optimizer exchanges nothing.


@pytest.mark.skipif(not IS_KERAS_3, reason="with tf_keras Horovod's optimizer does exchange")
@pytest.mark.parametrize("callback", [None, "BroadcastVariables", "CompressionStats"])
def test_the_stock_optimizer_on_keras_3_is_refused(callback):
    """By the compressor, or by whichever of our callbacks is there."""
    model = dense_model()
    callbacks = [getattr(tfc.callbacks, callback)()] if callback else []
    with pytest.raises(Refused, match=r"tfc\.DistributedOptimizer"):
        optimizer = hvd_keras.DistributedOptimizer(
            keras.optimizers.SGD(0.01), compression=tfc.Compression.topk(0.1)
        )
        model.compile(optimizer, "mse")
        fit(model, numbers(16), callbacks)


@pytest.mark.skipif(not IS_KERAS_3, reason="with tf_keras Horovod's optimizer does exchange")
def test_our_callbacks_refuse_the_stock_optimizer_without_a_compressor():
    model = dense_model()
    model.compile(hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse")
    with pytest.raises(Refused, match=r"tfc\.DistributedOptimizer"):
        fit(model, numbers(16))


@pytest.mark.skipif(IS_KERAS_3, reason="with Keras 3 Horovod's optimizer exchanges nothing")
@pytest.mark.parametrize("compression", ["hvd.none", "none", "topk"])
def test_our_callbacks_take_the_stock_optimizer_of_tf_keras(compression, assert_same_on_all_ranks):
    """It is distributed, though not by us."""
    given = hvd.Compression.none if compression == "hvd.none" else COMPRESSORS[compression]()
    model = dense_model()
    model.compile(hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=given), "mse")
    fit(model, numbers(20), [tfc.callbacks.BroadcastVariables(0), tfc.callbacks.MetricAverage()], epochs=2)
    assert_same_on_all_ranks(model.get_weights())


# Horovod's test_tensorflow2_keras.py: test_sparse_as_dense.


@pytest.mark.skipif(IS_KERAS_3, reason="with Keras 3 Horovod's optimizer exchanges nothing")
@pytest.mark.parametrize("name", ["none", "qsgd", "topk"])
def test_the_stock_optimizer_with_an_embedding(name, assert_same_on_all_ranks):
    """Trains, or names our wrapper: Horovod does not tell a compressor the variable, whose shape is known."""
    model = text_model()
    optimizer = hvd_keras.DistributedOptimizer(
        keras.optimizers.SGD(0.01), compression=COMPRESSORS[name](), sparse_as_dense=True
    )
    model.compile(optimizer, "mse")
    try:
        fit(model, words(20))
    except Refused as error:
        assert name not in ("none", "fp16"), error
        assert "tfc.DistributedOptimizer" in str(error), error
        return
    assert_same_on_all_ranks(model.get_weights())
