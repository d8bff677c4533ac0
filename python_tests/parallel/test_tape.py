"""Our tape, and stock Horovod's tape with our compressors."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

import tfcompress as tfc
from tfcompress.tape import states_of

EXACT = "nonzero|delta_binary|raw"


def make_variables():
    return [
        tf.Variable(tf.zeros([40, 50])),
        tf.Variable(tf.zeros([6])),
        tf.Variable(tf.zeros([2000])),
    ]


def local_gradients(step):
    rng = np.random.default_rng(1000 * step + hvd.rank())
    return [rng.standard_normal(v.shape).astype(np.float32) for v in make_variables()]


def loss_with_gradients(variables, gradients):
    return tf.add_n([tf.reduce_sum(v * g) for v, g in zip(variables, gradients, strict=True)])


def exact_average(gradients):
    return [hvd.allreduce(tf.constant(g)).numpy() for g in gradients]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.ranks
def test_our_tape_averages(traced):
    variables = make_variables()
    compressor = tfc.Compressor(EXACT)

    def step(*gradients):
        with tfc.DistributedGradientTape(tf.GradientTape(), compression=compressor) as tape:
            loss = loss_with_gradients(variables, gradients)
        return tape.gradient(loss, variables)

    run = tf.function(step) if traced else step
    for number in range(3):
        gradients = local_gradients(number)
        for ours, exact in zip(run(*map(tf.constant, gradients)), exact_average(gradients), strict=True):
            np.testing.assert_allclose(ours.numpy(), exact, rtol=1e-6, atol=1e-6)


def test_structure_of_sources_is_kept():
    variables = {"a": tf.Variable(tf.ones([3])), "b": [tf.Variable(tf.ones([2]))]}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variables["a"]) + 2 * tf.reduce_sum(variables["b"][0])
    tape = tfc.DistributedGradientTape(tape, compression=tfc.Compression.topk())
    gradients = tape.gradient(loss, variables)
    assert gradients["a"].numpy().tolist() == [1, 1, 1]
    assert gradients["b"][0].numpy().tolist() == [2, 2]


KEPT = tfc.Compression.topk(0.1, min_elements=0)


def another(number):
    ratio = 0.1 + 0.01 * (number % 6)
    return tfc.Compression.topk(ratio, min_elements=0, exclude=lambda name, shape: False)


@pytest.mark.parametrize(
    "compressor_of",
    [
        pytest.param(lambda number: KEPT, id="kept"),
        pytest.param(lambda number: tfc.Compression.topk(0.1, min_elements=0), id="made anew"),
        pytest.param(another, id="another ratio, and a function"),
    ],
)
def test_residual_survives_from_tape_to_tape(compressor_of):
    """A new tape, and even a new compressor, at every step: the state is the variable's."""
    variable = tf.Variable(tf.zeros([2000]))
    given, arrived = np.zeros(2000), np.zeros(2000)
    for number in range(18):
        gradient = local_gradients(number)[2] if number < 5 else np.zeros(2000, np.float32)
        given += gradient
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * gradient)
        tape = tfc.DistributedGradientTape(tape, compression=compressor_of(number), op=hvd.Sum)
        arrived += tape.gradient(loss, [variable])[0].numpy()
    assert len(states_of([variable])) == 1
    np.testing.assert_allclose(arrived, hvd.allreduce(tf.constant(given), op=hvd.Sum).numpy(), atol=1e-4)


@pytest.mark.parametrize("traced", [False, True])
def test_stock_tape_keeps_the_residual_over_retracing(traced, assert_same_on_all_ranks):
    """A smaller last batch traces anew; what was pending before must still arrive."""
    variable = tf.Variable(tf.zeros([2000]))
    compressor = tfc.Compression.topk(0.1, min_elements=0)

    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.reduce_sum(batch, axis=0) * variable)
        tape = hvd.DistributedGradientTape(tape, compression=compressor, op=hvd.Sum)
        return tape.gradient(loss, [variable])[0]

    run = tf.function(step) if traced else step
    given, arrived = np.zeros(2000), np.zeros(2000)
    rng = np.random.default_rng(hvd.rank())
    for number in range(20):
        rows = 3 if number % 3 == 2 else 4
        batch = rng.standard_normal([rows, 2000]).astype(np.float32) * (number < 7)
        given += batch.sum(axis=0)
        result = run(tf.constant(batch.astype(np.float32))).numpy()
        arrived += result
    assert_same_on_all_ranks([arrived])
    np.testing.assert_allclose(arrived, hvd.allreduce(tf.constant(given), op=hvd.Sum).numpy(), atol=1e-3)
    assert tfc.stats(compressor).total.payload_bytes > 0


def test_stock_tape_replicas_and_linear_presets(assert_same_on_all_ranks):
    variables = make_variables()
    for compressor in [tfc.Compression.none, tfc.Compression.fp16, tfc.Compression.deepreduce(0.1)]:
        gradients = local_gradients(1)
        with tf.GradientTape() as tape:
            loss = loss_with_gradients(variables, gradients)
        tape = hvd.DistributedGradientTape(tape, compression=compressor)
        results = [g.numpy() for g in tape.gradient(loss, variables)]
        assert_same_on_all_ranks(results)
        if compressor.is_summed:
            for ours, exact in zip(results, exact_average(gradients), strict=True):
                np.testing.assert_allclose(ours, exact, atol=2e-3)


def test_our_tape_of_tensors_alone_keeps_no_memory():
    """Nothing would find the residual again: each call would drop what the one before has left out."""

    def gradients_of(compression, *sizes):
        watched = [tf.ones([size]) for size in sizes]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            loss = tf.add_n([tf.constant(0.0), *(tf.reduce_sum(each**2) for each in watched)])
        return tfc.DistributedGradientTape(tape, compression=compression).gradient(loss, watched)

    for compression in (tfc.Compression.bf16, tfc.Compression.topk(), {"kernel": tfc.Compression.topk()}):
        assert gradients_of(compression) == []
        np.testing.assert_array_equal(gradients_of(compression, 3)[0], [2, 2, 2])
    np.testing.assert_array_equal(gradients_of(tfc.Compression.bf16, 2000)[0], np.full(2000, 2))
    with pytest.raises(ValueError, match="none of these sources is a variable"):
        gradients_of(tfc.Compression.topk(), 2000)


def test_memory_outside_a_function_is_refused():
    with pytest.raises(ValueError, match="tf.function"):
        hvd.allreduce(tf.zeros([2000]), compression=tfc.Compression.topk())
