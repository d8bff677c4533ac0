"""What examples/text_lm.py is made of: the text, its windows, the models."""

import argparse
import gzip

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("keras", minversion="3")
import keras
import text_lm
import workload

hvd.init()
CONTEXT = 8


def make_model(name):
    return text_lm.MODELS[name](CONTEXT, 16, 2)


def test_texts_of_a_file_or_a_folder(tmp_path):
    (tmp_path / "a.txt").write_bytes("häuser".encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"trees"))
    (tmp_path / "c.pdf").write_bytes(b"no text")
    assert text_lm.read_text(tmp_path / "b.txt.gz") == b"trees"
    assert text_lm.read_text(tmp_path).decode() == "häuser\ntrees"
    with pytest.raises(ValueError, match="expected .txt or .gz"):
        text_lm.read_text(tmp_path / "c.pdf")
    with pytest.raises(ValueError, match="expected .txt or .gz"):
        text_lm.read_text(tmp_path / "nowhere.txt")


def test_text_that_comes_with_python():
    text = text_lm.read_text(None)
    assert len(text) > 100_000 and b"assignment" in text


def test_windows_and_the_bytes_that_follow():
    inputs, targets = text_lm.windows(bytes(range(18)), CONTEXT)
    np.testing.assert_array_equal(inputs.ravel(), np.arange(16))
    np.testing.assert_array_equal(targets, inputs + 1)
    assert len(text_lm.windows(bytes(16), CONTEXT)[0]) == 1  # Nothing follows the second one.


def test_train_and_test_share_no_byte():
    train, test = text_lm.split(bytes(range(200)), CONTEXT)
    assert train[1].max() < test[0].min()
    with pytest.raises(ValueError, match="smaller --context"):
        text_lm.split(bytes(20), CONTEXT)


def test_characters_are_those_of_utf8():
    text = "Größe, 长度, длина"
    assert text_lm.num_characters(np.frombuffer(text.encode(), np.uint8)) == len(text)


@pytest.mark.parametrize("name", text_lm.MODELS)
def test_models_do_not_see_what_they_predict(name):
    model = make_model(name)
    text = np.random.default_rng(0).integers(256, size=(1, CONTEXT), dtype=np.uint8)
    changed = text.copy()
    changed[0, 5] ^= 1
    before, after = (model(each).numpy()[0] for each in (text, changed))
    np.testing.assert_allclose(before[:5], after[:5], atol=1e-6)
    assert (np.abs(before[5:] - after[5:]).max(axis=1) > 1e-5).all()  # And what came before, they see.


@pytest.mark.parametrize("name", text_lm.MODELS)
def test_only_the_embedding_has_a_gradient_of_rows(name):
    model = make_model(name)
    inputs, targets = text_lm.windows(bytes(range(33)), CONTEXT)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.GradientTape() as tape:
        value = loss(targets, model(inputs, training=True))
    variables = model.trainable_variables
    gradients = tape.gradient(value, [variable.value for variable in variables])
    rows = [v.path for v, g in zip(variables, gradients, strict=True) if isinstance(g, tf.IndexedSlices)]
    assert len(rows) == 1 and "embedding" in rows[0]


def test_place_changes_what_the_transformer_says():
    logits = make_model("transformer")(np.full((1, CONTEXT), 7, np.uint8)).numpy()[0]
    assert np.abs(logits[0] - logits[1]).max() > 1e-4


def test_width_must_suit_the_heads():
    with pytest.raises(ValueError, match="4 heads"):
        text_lm.MODELS["transformer"](CONTEXT, 30, 1)


def test_more_than_there_is_in_a_batch_is_an_error():
    arguments = argparse.Namespace(batch_size=5, seed=1)
    with pytest.raises(SystemExit, match="take a smaller one"):
        workload.batches((np.zeros((4, CONTEXT)), np.zeros((4, CONTEXT))), arguments)
