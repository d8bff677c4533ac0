"""Programs that train with `fit`, and what they do to models and optimizers; see `test_programs_loops.py`."""

import contextlib
import functools
import re

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from programs import (
    Refused,
    dense_model,
    exact_mean,
    fit,
    numbers,
    start_alike,
    text_model,
    tf_variables,
    words,
)
from training import keras, make_variable

import tfcompress as tfc

# Every preset of the README with its defaults; one for each way that a gradient travels, and for each
# memory. Of the others, which take long, `test_step.py` shows that replicas are the same, and
# single/test_ops.py that the ops take gradients without a static shape.
PRESETS = (
    "none fp16 bf16 topk threshold deepreduce randomk shared_randomk dgc sketched_sgd sketchml skcompress "
    "fastsgd threelc qsgd terngrad onebit zipml logquant"
).split()
_QUICK = ("none", "bf16", "topk", "qsgd", "shared_randomk", "dgc", "sketched_sgd")
SOME_PRESETS = [name if name in _QUICK else pytest.param(name, marks=pytest.mark.long) for name in PRESETS]


def preset(name, **arguments):
    if name == "threshold":
        arguments.setdefault("tau", 1e-6)  # Gradients of the tiny models are smaller than the default.
    found = getattr(tfc.Compression, name)
    return found(**arguments) if callable(found) else found


def wrapped(compression, optimizer=None, **options):
    optimizer = keras.optimizers.SGD(0.1) if optimizer is None else optimizer
    return tfc.DistributedOptimizer(optimizer, compression=compression, **options)


# Keras' "Text classification with Transformer" and "Text generation with a miniature GPT".


def transformer():
    layers = keras.layers
    keras.utils.set_random_seed(hvd.rank())
    inputs = layers.Input((6,), dtype="int32")
    x = layers.Embedding(60, 16)(inputs)
    attended = layers.MultiHeadAttention(num_heads=2, key_dim=8)(x, x)
    x = layers.LayerNormalization()(layers.Add()([x, attended]))
    forward = layers.Dense(16)(layers.Dense(64, activation="relu")(x))
    x = layers.LayerNormalization()(layers.Add()([x, forward]))
    outputs = layers.Dense(1, activation="sigmoid")(layers.GlobalAveragePooling1D()(x))
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize("name", ["topk", pytest.param("dgc", marks=pytest.mark.long)])
def test_a_transformer_trains(name, assert_same_on_all_ranks):
    model = transformer()
    model.compile(wrapped(preset(name)), "binary_crossentropy")
    fit(model, words(20))
    assert_same_on_all_ranks(model.get_weights())


@functools.cache
def one_text_model():
    model = text_model()
    start_alike(tf_variables(model.variables))
    return model


@pytest.mark.parametrize("name", SOME_PRESETS)
def test_every_preset_takes_gradients_without_a_static_shape(name, assert_same_on_all_ranks):
    """A dense layer on 3-D input has the gradient shape (None, 40) where a batch's size is not static."""
    model, optimizer = one_text_model(), wrapped(preset(name))
    start = model.get_weights()

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.int32), tf.TensorSpec([None, 1])])
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        gradients = tape.gradient(loss, tf_variables(model.trainable_variables))
        assert not all(gradient.shape.is_fully_defined() for gradient in gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    step(*words(8))
    assert_same_on_all_ranks(model.get_weights())
    for before, after in zip(start, model.get_weights(), strict=True):
        assert np.isfinite(after).all()
        assert (before != after).any()


# Keras' guides: save, load, go on training. Horovod's keras_imagenet_resnet50.py loads with hvd.load_model.


@pytest.fixture
def saved(tmp_path):
    """A trained model, and the file that it is in."""
    model = dense_model()
    model.compile(wrapped(tfc.Compression.topk(0.1)), "mse")
    fit(model, numbers(8))
    path = str(tmp_path / f"model_{hvd.rank()}.keras")
    tfc.prepare_checkpoint(model.optimizer)
    model.save(path)
    return path


def test_a_model_loaded_without_our_optimizer_does_not_train_apart(saved):
    loaded = keras.models.load_model(saved)
    for callback in (tfc.callbacks.BroadcastVariables(0), tfc.callbacks.MetricAverage()):
        with pytest.raises(Refused, match=r"tfc\.load_model"):
            fit(loaded, numbers(8), [callback])


def test_a_model_loaded_with_load_model_trains_on(saved, assert_same_on_all_ranks):
    loaded = tfc.load_model(saved, compression=tfc.Compression.topk(0.1))
    fit(loaded, numbers(8))
    assert_same_on_all_ranks(loaded.get_weights())


# Horovod's test of its broadcast callback.


def test_a_model_with_nothing_to_train_may_have_any_optimizer(assert_same_on_all_ranks):
    model = dense_model()
    for layer in model.layers:
        layer.trainable = False
    model.compile("sgd", "mse")
    fit(model, numbers(8))
    assert_same_on_all_ranks(model.get_weights())


# Keras' beginner's examples: compile(optimizer="adam").


def tf_keras_model(**options):
    """Of plain tf_keras, where TensorFlow's own Keras is Keras 3; built by its first batch."""
    model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
    optimizer = wrapped(tfc.Compression.topk(0.1, min_elements=1), tf_keras.optimizers.SGD(0.01))
    model.compile(optimizer, "mse", **options)
    return model


def test_load_model_takes_the_keras_that_wrote_the_file(tmp_path, assert_same_on_all_ranks):
    model = tf_keras_model()
    fit(model, numbers(20))
    path = str(tmp_path / "model.keras")
    tfc.prepare_checkpoint(model.optimizer)
    model.save(path)
    loaded = tfc.load_model(path, tfc.Compression.topk(0.1, min_elements=1))
    assert isinstance(loaded, tf_keras.Model)
    fit(loaded, numbers(20))
    assert_same_on_all_ranks(loaded.get_weights())


def test_a_model_without_variables_takes_several_steps_at_once(assert_same_on_all_ranks):
    """The first broadcast comes after as many steps, so the check of replicas has to wait for it."""
    model = tf_keras_model(steps_per_execution=2)
    fit(model, numbers(48))
    assert_same_on_all_ranks(model.get_weights())


def test_an_optimizer_given_to_compile_as_a_string_does_not_train_apart():
    model = dense_model()
    model.compile("adam", "mse")
    with pytest.raises(Refused, match=r"tfc\.DistributedOptimizer"):
        fit(model, numbers(8))


def test_an_optimizer_given_to_our_wrapper_as_a_string(assert_same_on_all_ranks):
    """Works as in `compile`, or the error shows how an optimizer is made."""
    model = dense_model()
    try:
        optimizer = wrapped(tfc.Compression.topk(0.1), "adam")
    except Refused as error:
        assert re.search(r"optimizers\.(Adam|get)\b", str(error)), error
        return
    model.compile(optimizer, "mse")
    fit(model, numbers(8))
    assert_same_on_all_ranks(model.get_weights())


class WithTape(keras.Model):
    """Keras' guide "Customizing what happens in fit()", with our tape and a plain optimizer."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        tape = tfc.DistributedGradientTape(tape, compression=self.compressor)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def test_our_tape_in_a_train_step_needs_no_wrapped_optimizer(assert_same_on_all_ranks):
    plain = dense_model()
    model = WithTape(plain.inputs, plain.outputs)
    object.__setattr__(model, "compressor", tfc.Compression.topk(0.1))
    model.compile(keras.optimizers.SGD(0.01))
    fit(model, numbers(20), epochs=2)
    assert_same_on_all_ranks(model.get_weights())


# One optimizer object for two models: GAN and fine-tuning examples of Keras.


def test_an_optimizer_that_another_model_has_used_works_or_is_refused(assert_same_on_all_ranks):
    optimizer = wrapped(tfc.Compression.topk(0.1))
    first, second = dense_model(), text_model()
    first.compile(optimizer, "mse")
    fit(first, numbers(8))
    second.compile(optimizer, "binary_crossentropy")
    try:
        fit(second, words(8))
    except (*Refused, KeyError) as error:
        assert re.search(r"new|own|each model|another|optimizer\.build", str(error)), error
        return
    assert_same_on_all_ranks(second.get_weights())


def test_an_optimizer_that_is_wrapped_twice_works_or_is_refused():
    plain = keras.optimizers.SGD(1.0)
    first = wrapped(tfc.Compression.topk(1.0), plain)
    try:
        second = wrapped(tfc.Compression.topk(1.0), plain)
    except Refused as error:
        assert re.search("wrapped|new optimizer|DistributedOptimizer", str(error)), error
        return
    gradient = tf.fill([2000], 1.0 + hvd.rank())
    for optimizer in (first, second):
        variable = make_variable(np.zeros(2000))
        optimizer.apply_gradients([(gradient, variable)])
        np.testing.assert_allclose(-variable.numpy(), exact_mean(gradient), rtol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_legacy_optimizers_work_or_are_refused(name, assert_same_on_all_ranks):
    """Horovod's test_tensorflow2_keras.py, test_legacy_optimizer."""
    tf_keras.utils.set_random_seed(0)  # No callback broadcasts: all ranks start alike.
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(32,))])
    try:
        optimizer = wrapped(tfc.Compression.topk(0.1), getattr(tf_keras.optimizers.legacy, name)(0.01))
        model.compile(optimizer, "mse")
        for _ in range(2):
            model.train_on_batch(*numbers(8))
    except Refused as error:
        assert "legacy" in str(error), error
        assert re.search(
            rf"optimizers\.{name}\b|tf_keras\.optimizers|hvd\.DistributedOptimizer", str(error)
        ), error
        return
    tfc.broadcast_variables(model.variables, root_rank=0)
    model.train_on_batch(*numbers(8))
    assert_same_on_all_ranks(model.get_weights())


# Horovod's test_tensorflow2_keras.py: test_gradient_aggregation, test_sparse_as_dense_with_grad_aggregation.


@pytest.mark.parametrize("compression", ["none", "topk"])
@pytest.mark.parametrize("sparse_as_dense", [False, True])
def test_two_backward_passes_of_an_embedding(compression, sparse_as_dense, assert_same_on_all_ranks):
    model = text_model(width=8)
    model.set_weights([hvd.broadcast(tf.constant(w), 0).numpy() for w in model.get_weights()])
    start = model.get_weights()
    compressor = tfc.Compression.none
    if compression == "topk":
        compressor = tfc.Compression.topk(1.0, min_elements=0)  # Everything is sent.
    optimizer = wrapped(
        compressor,
        keras.optimizers.SGD(1.0),
        backward_passes_per_step=2,
        sparse_as_dense=sparse_as_dense,
    )
    model.compile(optimizer, "mse")
    x, y = words(8)
    batches = [(x[:4], y[:4]), (x[4:], y[4:]), (x[:4], y[:4])]
    expected = [np.zeros_like(w) for w in start]
    for batch, labels in batches[:2]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(batch, training=True) - labels))
        gradients = tape.gradient(loss, tf_variables(model.trainable_variables))
        for total, gradient in zip(expected, gradients, strict=True):
            total += exact_mean(gradient)
    for number, (batch, labels) in enumerate(batches):
        try:
            model.train_on_batch(batch, labels)
        except Refused as error:
            assert not sparse_as_dense, error  # Without it Horovod refuses, too.
            assert "sparse_as_dense=True" in str(error), error
            return
        # Every pass counts, the ones between two exchanges as well: as Horovod's wrapper counts.
        assert int(optimizer.iterations.numpy()) == number + 1
        applied = expected if number > 0 else [np.zeros_like(w) for w in start]
        for before, after, update in zip(start, model.get_weights(), applied, strict=True):
            np.testing.assert_allclose(before - after, update, atol=1e-5)
    assert_same_on_all_ranks(model.get_weights())


# Optimizers whose second moments meet sparse gradients: Adafactor in Keras' T5 and BART examples.


@contextlib.contextmanager
def no_warning_of(word):
    with pytest.warns(UserWarning) as caught:
        import warnings

        warnings.warn("so that there is one", UserWarning, stacklevel=1)
        yield
    assert not any(word in str(each.message) for each in caught)


@pytest.mark.skipif(not hasattr(keras.optimizers, "Adafactor"), reason="this Keras has no Adafactor")
@pytest.mark.parametrize("name", ["none", "topk"])
def test_adafactor_with_topk_says_that_it_does_not_train(name):
    model = dense_model()
    warns = pytest.warns(UserWarning, match="Adafactor") if name == "topk" else no_warning_of("Adafactor")
    with warns:
        model.compile(wrapped(preset(name), keras.optimizers.Adafactor(0.01)), "mse")
        fit(model, numbers(8))


# Horovod's tensorflow_word2vec.py and Keras' text examples: most of the gradient is an embedding's.


def test_topk_compresses_the_rows_of_an_embedding(assert_same_on_all_ranks):
    model = keras.Sequential(
        [
            keras.layers.Input((50,), dtype="int32"),
            keras.layers.Embedding(2000, 32),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    optimizer = wrapped(tfc.Compression.topk(0.01))
    model.compile(optimizer, "mse")
    rng = np.random.default_rng(hvd.rank())
    x = rng.integers(0, 2000, [32, 50]).astype(np.int32)
    fit(model, (x, np.ones([32, 1], np.float32)))
    assert_same_on_all_ranks(model.get_weights())
    [table] = [each for each in tfc.stats(optimizer).tensors if "embedding" in each.name]
    touched = 4 * sum(len(np.unique(batch)) for batch in np.split(x, 4)) * 32
    # As rows that go whole they are `touched` bytes; a hundredth of them, with numbers and headers, is
    # far below a fifth.
    assert 0 < table.payload_bytes < touched / 5


# Horovod's own arguments, as its examples and tests pass them.


def test_horovods_compression_is_taken(assert_same_on_all_ranks):
    """Horovod's tensorflow2_keras_synthetic_benchmark.py, --fp16-allreduce and without."""
    payloads = []
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        model = dense_model()
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.01), compression=compression)
        model.compile(optimizer, "mse")
        fit(model, numbers(8))
        assert_same_on_all_ranks(model.get_weights())
        payloads.append(tfc.stats(optimizer).total.payload_bytes)
    assert payloads[1] == payloads[0] / 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "DistributedSGD"),
        ("device_dense", "/cpu:0"),
        ("device_sparse", "/cpu:0"),
        ("groups", 2),
        ("groups", "all variables"),
        ("num_groups", 2),
        ("average_aggregated_gradients", True),
        ("gradient_predivide_factor", 2.0),
        ("sparse_as_dense", True),
        ("op", hvd.Average),
        ("process_set", hvd.global_process_set),
        ("scale_local_gradients", True),
    ],
)
def test_horovods_arguments_of_the_optimizer(name, value):
    """Each is taken, and the gradients are the averages, or refused in the first call by its name."""
    variables = [make_variable(np.zeros([3, 4]))]
    try:
        given = [tf_variables(variables)] if value == "all variables" else value
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), **{name: given})
    except Refused as error:
        assert name in str(error), error
        assert "unexpected keyword" not in str(error), error
        return
    gradient = tf.fill([3, 4], 1.0 + hvd.rank())
    optimizer.apply_gradients([(gradient, variables[0])])
    np.testing.assert_allclose(-variables[0].numpy(), exact_mean(gradient), rtol=1e-6)


def test_horovods_order_of_the_optimizers_arguments(assert_same_on_all_ranks):
    """hvd.DistributedOptimizer(optimizer, name, device_dense, device_sparse, compression)."""
    try:
        optimizer = tfc.DistributedOptimizer(
            keras.optimizers.SGD(1.0), "DistributedSGD", "", "", tfc.Compression.none
        )
    except Refused as error:
        assert re.search("by name|keyword|compression=", str(error)), error
        assert "positional arguments but" not in str(error), "Python's sentence does not say what to do"
        return
    model = dense_model()
    model.compile(optimizer, "mse")
    fit(model, numbers(8))
    assert_same_on_all_ranks(model.get_weights())


def test_horovods_local_variables_of_the_first_broadcast(assert_same_on_all_ranks):
    """Horovod's test_broadcast_global_variables_callback_with_local_vars."""
    model, optimizer = dense_model(), wrapped(tfc.Compression.none)
    model.compile(optimizer, "mse")
    body, head = model.layers[0], model.layers[-1]
    try:
        callback = tfc.callbacks.BroadcastVariables(0, local_variables=body.variables)
    except Refused as error:
        assert "local_variables" in str(error), error
        assert "unexpected keyword" not in str(error), error
        return
    for variable in body.trainable_variables:
        optimizer.register_local_var(variable)
    fit(model, numbers(8), [callback])
    assert_same_on_all_ranks(head.get_weights())
    kernels = hvd.allgather(tf.constant(body.get_weights()[0])[np.newaxis]).numpy()
    assert (kernels[0] != kernels[1]).any()
