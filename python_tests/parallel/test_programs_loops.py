"""Programs with their own training loop around our tape.

With `test_programs_keras.py` and `test_programs_stock.py`: what examples and tests of Horovod and Keras
do, as small as it can be. Each says which program it stands for.
"""

import re

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from programs import Refused, dense_model, exact_mean, numbers, start_alike, tf_variables
from training import IS_KERAS_3, keras, make_variable

import tfcompress as tfc

WITH_MEMORY = "residual|topk:ratio=0.1|delta_binary|raw"
WITHOUT_MEMORY = "topk:ratio=0.1|delta_binary|raw"
SUMMED = "dense|raw|raw"


def squared_error(model, x, y):
    return tf.reduce_mean(tf.square(model(x, training=True) - y))


def make_variable_of(dtype, value):
    return keras.Variable(value, dtype=dtype) if IS_KERAS_3 else tf.Variable(tf.cast(value, dtype))


# Horovod's tensorflow2_mnist_elastic.py: training_step(images, labels, allreduce=True).


@pytest.mark.parametrize("spec", [SUMMED, WITH_MEMORY])
def test_the_exchange_begins_at_the_second_call(spec, assert_same_on_all_ranks):
    model, optimizer = dense_model(), keras.optimizers.SGD(0.01)
    compressor = tfc.Compressor(spec)

    @tf.function
    def step(x, y, allreduce=True):
        with tf.GradientTape() as tape:
            loss = squared_error(model, x, y)
        if allreduce:
            tape = tfc.DistributedGradientTape(tape, compression=compressor)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    step(*numbers(8), allreduce=False)
    start_alike(tf_variables(model.variables))
    for _ in range(3):
        step(*numbers(8))
    assert_same_on_all_ranks(model.get_weights())


# Horovod's tensorflow2_mnist.py: the model and then the optimizer, in the same function as the first step.


def test_two_broadcasts_in_one_function(assert_same_on_all_ranks):
    """They may be pending together; large variables come first, so that the second call does not wait."""
    first = [tf.Variable(tf.fill([size], 1.0 + hvd.rank())) for size in (500_000, 3)]
    second = [tf.Variable(tf.fill([size], 10.0 * (1 + hvd.rank()))) for size in (3, 500_000)]

    @tf.function
    def step(is_first, condition):
        if is_first:
            tfc.broadcast_variables(first, root_rank=0)
            tfc.broadcast_variables(second, root_rank=0)
        if condition:  # A tf.cond: a function of its own.
            tfc.broadcast_variables(first, root_rank=1)

    step(True, tf.constant(False))
    assert_same_on_all_ranks([variable.numpy() for variable in first + second])
    assert second[0].numpy()[0] == 10.0
    first[1].assign_add(tf.fill([3], float(hvd.rank())))
    step(False, tf.constant(True))
    assert first[1].numpy()[0] == 2.0


# Keras' guide "Transfer learning and fine-tuning" as a loop: the head first, then all layers.


@pytest.mark.parametrize("spec", [WITHOUT_MEMORY, WITH_MEMORY])
def test_the_head_first_and_then_all_layers(spec, assert_same_on_all_ranks):
    model, optimizer = dense_model(), keras.optimizers.SGD(0.01)
    compressor = tfc.Compressor(spec)
    start_alike(tf_variables(model.variables))
    if IS_KERAS_3:
        optimizer.build(model.trainable_variables)
    else:
        with tf.init_scope():
            optimizer.build(model.trainable_variables)

    @tf.function
    def step(x, y, whole):
        with tf.GradientTape() as tape:
            loss = squared_error(model, x, y)
        tape = tfc.DistributedGradientTape(tape, compression=compressor)
        variables = model.trainable_variables if whole else model.layers[-1].trainable_variables
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    body = model.layers[0].get_weights()
    for _ in range(2):
        step(*numbers(8), whole=False)
    np.testing.assert_array_equal(model.layers[0].get_weights()[0], body[0])
    for _ in range(2):
        step(*numbers(8), whole=True)
    assert (model.layers[0].get_weights()[0] != body[0]).any()
    assert_same_on_all_ranks(model.get_weights())


def test_a_later_trace_keeps_the_residual():
    """What the first trace held back arrives through the second one: head and body share nothing else."""
    variables = [tf.Variable(tf.zeros([2000])), tf.Variable(tf.zeros([3000]))]
    compressor = tfc.Compressor(WITH_MEMORY, min_elements=0)
    given = [
        np.random.default_rng(10 * i + hvd.rank()).standard_normal(v.shape[0])
        for i, v in enumerate(variables)
    ]
    given = [np.float32(each) for each in given]

    @tf.function
    def step(scale, whole):
        trained = variables if whole else variables[:1]
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(v * g) * scale for v, g in zip(trained, given, strict=False)])
        tape = tfc.DistributedGradientTape(tape, compression=compressor)
        for variable, gradient in zip(trained, tape.gradient(loss, trained), strict=True):
            variable.assign_sub(gradient)

    step(tf.constant(1.0), whole=False)
    step(tf.constant(0.0), whole=False)
    for _ in range(12):  # 10 % of the elements a step.
        step(tf.constant(0.0), whole=True)
    np.testing.assert_allclose(-variables[0].numpy(), exact_mean(given[0]), atol=1e-5)


# Horovod's tensorflow2_synthetic_benchmark.py with our tape: the compressor is made in the step.


def test_a_compressor_made_inside_the_step_keeps_one_state(assert_same_on_all_ranks):
    variable = tf.Variable(tf.zeros([2000]))
    given = np.float32(np.random.default_rng(hvd.rank()).standard_normal(2000))

    @tf.function
    def step(scale, first_batch):
        compression = tfc.Compression.topk(0.1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * given) * scale
        tape = tfc.DistributedGradientTape(tape, compression=compression)
        variable.assign_sub(tape.gradient(loss, [variable])[0])
        if first_batch:
            tfc.broadcast_variables([variable], root_rank=0)

    step(tf.constant(1.0), first_batch=True)
    for _ in range(12):
        step(tf.constant(0.0), first_batch=False)
    assert_same_on_all_ranks([variable.numpy()])
    np.testing.assert_allclose(-variable.numpy(), exact_mean(given), atol=1e-5)


@pytest.mark.parametrize("spec", [SUMMED, WITH_MEMORY])
def test_statistics_of_a_tape_made_inside_a_function(spec):
    """By the compressor, which the program holds; the tape lives inside the function."""
    variable, compressor = tf.Variable(tf.zeros([2000])), tfc.Compressor(spec)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * (1.0 + hvd.rank()))
        tape = tfc.DistributedGradientTape(tape, compression=compressor)
        variable.assign_sub(tape.gradient(loss, [variable])[0])

    for _ in range(3):
        step()
    total = tfc.stats(compressor).total
    assert total.steps == 3
    assert total.payload_bytes > 0


# Several losses, each with gradients of its own: multi-task learning, gradient penalties.


@pytest.mark.parametrize("spec", [SUMMED, WITHOUT_MEMORY, WITH_MEMORY])
def test_two_gradients_of_the_same_variables_in_one_function(spec):
    """They may be pending together, and nothing but their names tells them apart."""
    variable, compressor = tf.Variable(tf.zeros([300_000])), tfc.Compressor(spec.replace("0.1", "1.0"))
    given = np.random.default_rng(hvd.rank()).standard_normal([2, 300_000]).astype(np.float32)

    @tf.function
    def step():
        with tf.GradientTape(persistent=True) as tape:
            losses = [tf.reduce_sum(variable * given[0]), tf.reduce_sum(variable * given[1])]
        tape = tfc.DistributedGradientTape(tape, compression=compressor)
        return [tape.gradient(loss, variable) for loss in losses]

    for _ in range(3):
        for gradient, own in zip(step(), given, strict=True):
            np.testing.assert_allclose(gradient, exact_mean(own), atol=1e-6)


# Horovod's own arguments, in Horovod's order, as hvd.DistributedGradientTape takes them.


def gradient_by(make_tape):
    variable = tf.Variable(tf.zeros([3, 4]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable) * (1.0 + hvd.rank())
    return make_tape(tape, variable).gradient(loss, [variable])[0].numpy()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("device_dense", "/cpu:0"),
        ("device_sparse", "/cpu:0"),
        ("compression", "hvd.Compression.none"),
        ("compression", "hvd.Compression.fp16"),
        ("sparse_as_dense", True),
        ("op", hvd.Average),
        ("gradient_predivide_factor", 2.0),
        ("num_groups", 2),
        ("groups", 2),
        ("groups", "all variables"),
        ("process_set", hvd.global_process_set),
        ("scale_local_gradients", True),
    ],
)
def test_horovods_arguments_of_the_tape(name, value):
    """Each is taken, and the gradient is the average, or refused in the first call by its name."""

    def make_tape(tape, variable):
        given = [[variable]] if value == "all variables" else value
        if name == "compression":
            given = getattr(hvd.Compression, value.rsplit(".", 1)[1])
        return tfc.DistributedGradientTape(tape, **{name: given})

    try:
        gradient = gradient_by(make_tape)
    except Refused as error:
        assert name != "compression", error  # hvd.Compression.none and .fp16 are taken.
        assert name in str(error), error
        assert "unexpected keyword" not in str(error), error
        return
    np.testing.assert_allclose(gradient, np.full([3, 4], (1.0 + hvd.size()) / 2), rtol=1e-3)


def test_horovods_order_of_the_tapes_arguments():
    """hvd.DistributedGradientTape(gradtape, device_dense, device_sparse, compression, sparse_as_dense)."""
    compressor = tfc.Compression.none
    try:
        gradient = gradient_by(lambda tape, _: tfc.DistributedGradientTape(tape, "", "", compressor, True))
    except Refused as error:
        assert re.search("by name|keyword|compression=", str(error)), error
        assert "positional arguments but" not in str(error), "Python's sentence does not say what to do"
        return
    np.testing.assert_allclose(gradient, np.full([3, 4], (1.0 + hvd.size()) / 2), rtol=1e-6)


@pytest.mark.parametrize("kind", ["none", "zero"])
def test_unconnected_gradients(kind):
    """As tf.GradientTape.gradient: a GAN's step asks for gradients of what the loss does not see."""
    used, unused = tf.Variable(tf.ones([2000])), tf.Variable(tf.ones([5]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(used * (1.0 + hvd.rank()))
    tape = tfc.DistributedGradientTape(tape, compression=tfc.Compressor("nonzero|delta_binary|raw"))
    gradients = tape.gradient(loss, [used, unused], unconnected_gradients=tf.UnconnectedGradients(kind))
    np.testing.assert_allclose(gradients[0], np.full(2000, (1.0 + hvd.size()) / 2), rtol=1e-6)
    if kind == "none":
        assert gradients[1] is None
    else:
        np.testing.assert_array_equal(gradients[1], np.zeros(5))


def test_gradients_of_local_sources_apart():
    """PartialDistributedGradientTape of Horovod's tests, with our tape in it."""
    variables = [tf.Variable([1.0]), tf.Variable([1.0])]
    with tf.GradientTape() as tape:
        loss = (hvd.rank() + 1.0) * tf.add_n([tf.reduce_sum(variable) for variable in variables])
    tape = tfc.DistributedGradientTape(tape, scale_local_gradients=False)
    tape.register_local_source(variables[0])
    [(local, of_local)], [(shared, of_shared)] = tape.get_local_and_global_gradients(loss, variables)
    assert local is variables[0]
    assert shared is variables[1]
    assert of_local.numpy() == hvd.rank() + 1
    assert of_shared.numpy() == (hvd.size() + 1) / 2


@pytest.mark.parametrize("name", ["jacobian", "batch_jacobian"])
def test_jacobians_are_refused(name):
    """They would be this rank's alone, from a tape whose gradients are all ranks'."""
    source = tf.Variable(tf.ones([2, 3]))
    with tf.GradientTape(persistent=True) as tape:
        target = source * 2.0
    tape = tfc.DistributedGradientTape(tape, compression=tfc.Compression.topk())
    with pytest.raises(Refused, match=name):
        getattr(tape, name)(target, source)


# Horovod's tensorflow2_mnist.py: the first broadcast, after the first step or before it, or forgotten.


def loop(variables, by, broadcast_after=None, steps=4, local=()):
    """Steps of one size; returns at the end, or raises what stops the program."""
    plain = keras.optimizers.SGD(0.1)
    compressor = tfc.Compression.topk(0.1, min_elements=0)
    optimizer = tfc.DistributedOptimizer(plain, compression=compressor) if by == "optimizer" else plain
    for variable in local if by == "optimizer" else ():
        optimizer.register_local_var(variable)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(v * (1.0 + hvd.rank())) for v in tf_variables(variables)])
        if by == "tape":
            tape = tfc.DistributedGradientTape(tape, compression=compressor)
            for variable in local:
                tape.register_local_source(variable)
        gradients = tape.gradient(loss, tf_variables(variables))
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    for number in range(steps):
        if broadcast_after == number:
            tfc.broadcast_variables(variables, root_rank=0)
        step()


WAYS = ["tape", "optimizer"]


@pytest.mark.parametrize("by", WAYS)
def test_a_forgotten_broadcast_stops_the_program(by):
    variables = [make_variable(np.full(200, float(hvd.rank())))]
    with pytest.raises(Refused, match=r"broadcast_variables|BroadcastVariables"):
        loop(variables, by)


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("steps_before", [0, 1])
def test_a_broadcast_before_or_after_the_first_step(by, steps_before, assert_same_on_all_ranks):
    variables = [make_variable(np.full(200, float(hvd.rank()))), make_variable(np.full(3, float(hvd.rank())))]
    loop(variables, by, broadcast_after=steps_before)
    assert_same_on_all_ranks([v.numpy() for v in variables])


@pytest.mark.parametrize("by", WAYS)
def test_variables_that_are_left_to_each_rank_may_differ(by, assert_same_on_all_ranks):
    """Horovod's test_model_parallel_model: an embedding's shard on each rank, a dense layer on all."""
    shared, mine = make_variable(np.zeros(200)), make_variable(np.full(20, float(hvd.rank())))
    loop([shared, mine], by, local=[tf_variables([mine])[0] if by == "tape" else mine])
    assert_same_on_all_ranks([shared.numpy()])
    own = hvd.rank() - 4 * 0.1 * (1.0 + hvd.rank()) / hvd.size()  # Scaled like an average, as Horovod does.
    np.testing.assert_allclose(mine.numpy(), np.full(20, own), rtol=1e-5)


DTYPES = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "bool",
]


@pytest.mark.parametrize("root_rank", [0, 1])
def test_broadcast_variables_of_every_dtype(root_rank, assert_same_on_all_ranks):
    values = np.array([0, 1, 1, 0]) if hvd.rank() == root_rank else np.array([1, 0, 0, 0])
    variables = [make_variable_of(dtype, values) for dtype in DTYPES]
    tfc.broadcast_variables(variables, root_rank=root_rank)
    for dtype, variable in zip(DTYPES, variables, strict=True):
        now = tf_variables([variable])[0]
        assert now.dtype.name == dtype
        np.testing.assert_array_equal(tf.cast(now, tf.int32), [0, 1, 1, 0], err_msg=dtype)


def test_broadcast_variables_of_a_model_and_its_optimizer(assert_same_on_all_ranks):
    """With seed generators (uint32) and moving statistics, as `model.variables` has them."""
    keras.utils.set_random_seed(hvd.rank())
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((32,)),
            layers.Dense(8),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(1),
        ]
    )
    optimizer = keras.optimizers.Adam(0.01 * (1 + hvd.rank()))
    optimizer.build(model.trainable_variables)
    state = optimizer.variables if IS_KERAS_3 else optimizer.variables()
    tfc.broadcast_variables(model.variables, root_rank=0)
    tfc.broadcast_variables(state, root_rank=0)
    assert_same_on_all_ranks(
        [tf.convert_to_tensor(v).numpy() for v in tf_variables([*model.variables, *state])]
    )


def test_moving_statistics_may_differ(assert_same_on_all_ranks):
    """BatchNorm's are each rank's own, as with Horovod: the check of the first steps leaves them alone."""
    keras.utils.set_random_seed(7)
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((32,)), layers.Dense(48), layers.BatchNormalization(), layers.Dense(1)]
    )
    compressor, optimizer = tfc.Compression.topk(0.1), keras.optimizers.SGD(0.01)
    start_alike(tf_variables(model.variables))

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = squared_error(model, x, y)
        tape = tfc.DistributedGradientTape(tape, compression=compressor)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for _ in range(4):
        step(*numbers(8))
    assert_same_on_all_ranks([v.numpy() for v in model.trainable_variables])
