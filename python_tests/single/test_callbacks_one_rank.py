"""Callbacks and statistics in one process: same logs, no exchange, clear errors."""

import math
import warnings

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

import tfcompress as tfc
from tfcompress import accuracy
from tfcompress.callbacks import prepare_checkpoint
from tfcompress.compression_error import COLUMNS as MEASURED
from tfcompress.statistics import COLUMNS, Stats, merge

hvd.init()
keras = tf.keras


def history_with(*callbacks):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.5), compression=tfc.Compression.topk())
    model.compile(optimizer, "mse")
    return model.fit(
        np.ones((8, 3)), np.ones((8, 1)), batch_size=2, verbose=0, callbacks=[*callbacks]
    ).history


def test_one_rank_logs_the_same_keys_and_exchanges_nothing(capsys):
    history = history_with(
        tfc.callbacks.BroadcastVariables(0),
        tfc.callbacks.LearningRateWarmup(0.25, warmup_epochs=1),
        tfc.callbacks.MetricAverage(),
        tfc.callbacks.CompressionStats(),
    )
    assert history.pop("loss")
    assert history == {
        "learning_rate": [0.25],
        "payload_bytes": [0.0],
        "wire_bytes": [0.0],
        "compression_ratio": [1.0],
        "density": [1.0],
        "encode_ms": [0.0],
        "decode_ms": [0.0],
        "communication_ms": [0.0],
        "residual_norm": [0.0],
    }
    assert capsys.readouterr().out.startswith("nothing was exchanged")


@pytest.mark.parametrize("steps_per_execution", [1, 3])
@pytest.mark.parametrize("save_freq", [4, "epoch"])
def test_checkpoints_are_prepared_before_keras_saves(steps_per_execution, save_freq, monkeypatch):
    events = []

    class Checkpoint(keras.callbacks.ModelCheckpoint):
        def _save_model(self, *args, **kwargs):
            events.append("save")

    monkeypatch.setattr(prepare_checkpoint, "prepare_checkpoint", lambda _: events.append("prepare"))
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
    callbacks = [
        tfc.callbacks.PrepareCheckpoint(save_freq),
        Checkpoint("model.weights.h5", save_freq=save_freq, save_weights_only=True),
    ]
    model.fit(np.ones((20, 3)), np.ones((20, 1)), batch_size=2, epochs=2, verbose=0, callbacks=callbacks)
    assert events == ["prepare", "save"] * (len(events) // 2) and len(events) >= 4


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("initial_lr", {"initial_lr": 0.0}),
        ("initial_lr", {"initial_lr": float("nan")}),
        ("warmup_epochs", {"initial_lr": 0.1, "warmup_epochs": 0}),
        ("steps_per_epoch", {"initial_lr": 0.1, "steps_per_epoch": 0}),
    ],
)
def test_warmup_arguments(name, arguments):
    with pytest.raises(ValueError, match=f"{name} must be above 0"):
        tfc.callbacks.LearningRateWarmup(**arguments)


def make_stats(steps, payload_bytes, names=("a", "b"), padding=(0, 0), measured=None, **others):
    sizes = {"dense_bytes": 4000, "dense_wire_bytes": 4000, "elements": 1000, **others}
    row = [{**sizes, "payload_bytes": payload_bytes, "wire_bytes": payload_bytes}.get(c, 0) for c in COLUMNS]
    counts = np.array([[steps, *row]] * len(names))
    measured = np.zeros([len(names), len(MEASURED)]) if measured is None else np.array(measured)
    return Stats(names, counts, 3_000_000 * steps, np.array(padding), measured, ([],) * len(names))


def test_derived_numbers():
    stats = make_stats(2, 100, sent_elements=10, encode_nanoseconds=6_000_000)
    assert stats.tensors[0].ratio == 40.0 and stats.total.ratio == 40.0
    assert stats.tensors[0].density == 0.01 and stats.total.density == 0.01
    assert stats.tensors[0].milliseconds("encode") == 3.0
    assert stats.total.milliseconds("encode") == 6.0 and stats.total.milliseconds("communication") == 3.0
    assert stats.total.steps == 2 and stats.total.per_step("payload_bytes") == 100.0
    assert "moves 4,000 (40.0 times fewer), payload 100 of 4,000 B, density 0.01" in stats.summary()
    # Everything was held back: infinitely fewer bytes; nothing was there: no fewer.
    assert make_stats(1, 0).total.ratio == float("inf")
    assert make_stats(1, 0, dense_bytes=0, dense_wire_bytes=0, elements=0).total.ratio == 1.0


def test_padding_counts_in_the_total_alone():
    stats = make_stats(2, 100, padding=(7, 9))
    assert [tensor.payload_bytes for tensor in stats.tensors] == [100, 100]
    assert (stats.total.payload_bytes, stats.total.wire_bytes) == (207, 209)
    assert stats.since(stats).total.payload_bytes == 0
    assert merge([stats, stats]).total.wire_bytes == 418


def test_joined_statistics():
    stats = merge([make_stats(2, 100), make_stats(3, 50, names=("c", "d"))])
    assert stats.names == ("a", "b", "c", "d")
    assert [(t.steps, t.payload_bytes) for t in stats.tensors] == [(2, 100), (2, 100), (3, 50), (3, 50)]
    assert stats.total.steps == 3 and stats.total.communication_nanoseconds == 15_000_000
    nothing = merge([])
    assert nothing.tensors == () and nothing.total.steps == 0 and nothing.total.density == 1.0
    assert stats.since(nothing).total == stats.total


def test_equal_names_are_added():
    stats = merge([make_stats(2, 100), make_stats(3, 50, names=("b", "c"))])
    assert [(t.name, t.steps, t.payload_bytes) for t in stats.tensors] == [
        ("a", 2, 100),
        ("b", 5, 150),
        ("c", 3, 50),
    ]
    assert stats.total.steps == 5 and stats.total.payload_bytes == 300 and stats.total.elements == 4000
    assert stats.total.communication_nanoseconds == 15_000_000


def test_equal_names_in_one_part_stay_apart():
    parts = [make_stats(2, 100, names=("a", "a")), make_stats(3, 50, names=("a",))]
    before = [part.counts.copy() for part in parts]
    stats = merge(parts)
    assert [(t.name, t.steps, t.payload_bytes) for t in stats.tensors] == [("a", 5, 150), ("a", 2, 100)]
    for part, counts in zip(parts, before, strict=True):
        np.testing.assert_array_equal(part.counts, counts)


def test_differences_need_the_same_source():
    other = make_stats(1, 1, names=("a", "c"))
    with pytest.raises(ValueError, match="another source"):
        make_stats(2, 100).since(other)
    with pytest.raises(ValueError, match="another source"):
        merge([]).since(other)


def test_errors_and_ratios_are_those_of_the_norms():
    """Of "b" nothing was measured, as without a memory."""
    stats = make_stats(100, 50, measured=[[64, 4, 25, 16, 1000, 10], [0] * 6])
    measured, other = stats.tensors
    assert (measured.compression_error, measured.residual_ratio) == (4 / 5, 4 / 2)
    assert measured.delay_steps == 100.0
    assert other.compression_error is None and other.residual_ratio is None and other.delay_steps is None
    assert stats.total.compression_error == 4 / 5
    assert "2 times the gradient's; error 0.8" in stats.summary()
    assert str(stats).splitlines()[1].split()[-2:] == ["0.8", "2"]

    both = make_stats(1, 50, measured=[[64, 4, 25, 16, 1000, 0], [64, 5, 11, 2, 3000, 200]])
    assert both.total.compression_error == pytest.approx(math.sqrt(18 / 36))
    assert both.total.residual_ratio == pytest.approx(math.sqrt(18 / 9))
    assert both.tensors[0].delay_steps == math.inf, "nothing was sent"
    assert both.total.delay_steps == 20.0


def test_a_gradient_of_zeros_leaves_what_waits():
    [tensor] = make_stats(1, 50, names=("a",), measured=[[64, 0, 25, 16, 10, 1]]).tensors
    assert (tensor.compression_error, tensor.residual_ratio) == (4 / 5, math.inf)


def test_the_latest_measurement_counts():
    older, newer = [[64, 4, 25, 16, 10, 1]], [[128, 4, 25, 9, 10, 1]]
    for order in ([older, newer], [newer, older]):
        parts = [make_stats(1, 1, names=("a",), measured=each) for each in order]
        assert merge(parts).total.compression_error == 3 / 5
    now = make_stats(1, 1, names=("a",), measured=newer)
    assert now.since(make_stats(1, 1, names=("a",), measured=older)).total.compression_error == 3 / 5


def stats_of_errors(*errors):
    rows = [[64, 0.01, 1.0, error * error, 1000, 1] for error in errors]
    names = tuple(f"layer_{i}/kernel" for i in range(len(errors)))
    return make_stats(500, 50, names=names, measured=rows)


class Holder:
    """Something that statistics are of."""


def test_too_much_that_waits_is_told_once_for_each_holder():
    holder = Holder()
    unsafe = stats_of_errors(0.9, 0.995, 0.99)
    with pytest.warns(tfc.AccuracyWarning) as told:
        accuracy.warn_of_loss([holder], unsafe)
        accuracy.warn_of_loss([holder], unsafe)
    [warning] = told
    message = str(warning.message)
    assert message.startswith(
        "layer_1/kernel (and 1 more): the compression error is 0.9950 (safe: below 0.9875)"
    )
    assert "the residual 9.95 times the gradient" in message
    assert "waits some 1000 steps" in message and "tfc.Schedule.warmup" in message
    assert warning.filename == __file__
    with pytest.warns(tfc.AccuracyWarning):
        accuracy.warn_of_loss([Holder()], unsafe)


def test_too_few_steps_are_told_once():
    """A thousand elements for each that is sent: 20,000 steps."""
    holder, safe = Holder(), stats_of_errors(0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accuracy.warn_of_loss([holder], safe)
        accuracy.warn_of_loss([holder], safe, planned_steps=20_000)
        dense = make_stats(1, 50, names=("a",), measured=[[64, 4, 25, 1, 1000, 1000]])
        accuracy.warn_of_loss([holder], dense, planned_steps=3)
        nothing_sent = make_stats(1, 50, names=("a",), measured=[[64, 1, 1, 0.9, 1000, 0]])
        accuracy.warn_of_loss([holder], nothing_sent, planned_steps=3)
        accuracy.warn_of_loss([holder], stats_of_errors(0.4), planned_steps=3)
        accuracy.warn_of_loss([holder], make_stats(2, 100), planned_steps=3)
    with pytest.warns(tfc.AccuracyWarning) as told:
        accuracy.warn_of_loss([holder], safe, planned_steps=19_999)
        accuracy.warn_of_loss([holder], safe, planned_steps=19_999)
    [warning] = told
    message = str(warning.message)
    assert message.startswith("training is to end after 19,999 steps, and an element waits some 1000 ")
    assert "fewer than some 20,000 steps" in message and "tfc.Compression.int8()" in message


def test_what_is_safe_is_not_told(monkeypatch):
    holder = Holder()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accuracy.warn_of_loss([holder], stats_of_errors(0.0, accuracy.LARGEST_SAFE_ERROR - 1e-6))
        accuracy.warn_of_loss([holder], make_stats(2, 100))
        monkeypatch.setattr(accuracy.comm, "leads", lambda: False)
        accuracy.warn_of_loss([holder], stats_of_errors(0.999))
