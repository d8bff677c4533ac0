"""Callbacks, on whichever Keras TensorFlow brings: Keras 3, tf_keras or Keras 2."""

import csv
import re
import warnings

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from training import make_data, make_model

import tfcompress as tfc

keras = tf.keras

STEPS, BATCH_SIZE = 6, 8
PER_STEP = ["payload_bytes", "wire_bytes", "encode_ms", "decode_ms", "communication_ms"]
HELD = ["residual_norm", "compression_error", "residual_ratio", "delay_steps"]
KEYS = {*PER_STEP, "compression_ratio", "density", *HELD}


class Recorder(keras.callbacks.Callback):
    """Calls a function of epoch or batch and logs at the hooks named, and keeps what it returns."""

    def __init__(self, hooks, record):
        super().__init__()
        self.seen = []
        for hook in hooks:
            setattr(self, hook, lambda number, logs=None: self.seen.append(record(number, logs)))


def topk_optimizer(inner=None, ratio=0.05):
    inner = inner or keras.optimizers.SGD(0.01)
    return tfc.DistributedOptimizer(inner, compression=tfc.Compression.topk(ratio, min_elements=64))


def compiled(optimizer, **options):
    model = make_model(keras)
    model.compile(optimizer, "mse", **options)
    return model


def fit(model, callbacks, epochs=2, **options):
    x, y = make_data(STEPS * BATCH_SIZE)
    return model.fit(
        x,
        y,
        batch_size=BATCH_SIZE,
        epochs=epochs,
        callbacks=[tfc.callbacks.BroadcastVariables(0), *callbacks],
        **{"verbose": 0, **options},
    )


@pytest.fixture(scope="module")
def fitted():
    """A model that has trained, and trains on without being traced again: statistics are of one `fit`."""
    model = compiled(topk_optimizer())
    fit(model, [], epochs=1)
    return model


def test_compression_stats_of_an_epoch_are_of_that_epoch():
    optimizer = topk_optimizer()
    readings = Recorder(["on_epoch_begin", "on_epoch_end"], lambda *args: tfc.stats(optimizer))
    history = fit(compiled(optimizer), [readings, tfc.callbacks.CompressionStats(summary=False)], 3).history
    assert KEYS <= history.keys()
    for epoch in range(3):
        before, after = readings.seen[2 * epoch : 2 * epoch + 2]
        assert after.total.steps - before.total.steps == STEPS
        counters = [f"{k.removesuffix('_ms')}_nanoseconds" if k.endswith("_ms") else k for k in PER_STEP]
        for key, counter in zip(PER_STEP, counters, strict=True):
            counted = getattr(after.total, counter) - getattr(before.total, counter)
            scale = 1e6 if key.endswith("_ms") else 1
            assert history[key][epoch] == pytest.approx(counted / STEPS / scale)
            assert counted > 0
        assert history["residual_norm"][epoch] == pytest.approx(after.total.residual_norm)
    # 5 % of the kernels of 1280 and 2048 elements and of the bias of 64; all of the three that are smaller.
    sent, elements = 64 + 102 + 3 + 32 + 32 + 1, 1280 + 2048 + 64 + 32 + 32 + 1
    assert history["density"] == [sent / elements] * 3
    total = tfc.stats(optimizer).total
    assert sum(history["payload_bytes"]) * STEPS == pytest.approx(total.payload_bytes)
    ring = 4 * 4 * elements * (hvd.size() - 1) / hvd.size()  # In and out of a rank, by all-reduce.
    assert history["compression_ratio"] == pytest.approx(ring / np.array(history["wire_bytes"]), rel=1e-3)


def test_compression_stats_of_batches_are_means_of_the_epoch_so_far(fitted):
    hooks = ["on_epoch_begin", "on_train_batch_end"]
    counters = Recorder(hooks, lambda *args: tfc.stats(fitted.optimizer).total)
    logged = Recorder(["on_train_batch_end"], lambda batch, logs: dict(logs))
    fit(fitted, [counters, tfc.callbacks.CompressionStats(summary=False), logged])
    for epoch in range(2):
        begin, *readings = counters.seen[epoch * (STEPS + 1) : (epoch + 1) * (STEPS + 1)]
        logs = logged.seen[epoch * STEPS : (epoch + 1) * STEPS]
        for number, (reading, log) in enumerate(zip(readings, logs, strict=True), start=1):
            sent = reading.payload_bytes - begin.payload_bytes
            assert log["payload_bytes"] == pytest.approx(sent / number)
            assert "residual_norm" not in log and "loss" in log


def test_compression_stats_reach_csv_files_and_progress_bars(fitted, tmp_path, capsys):
    path = tmp_path / "log.csv"
    stats = tfc.callbacks.CompressionStats()
    history = fit(fitted, [stats, keras.callbacks.CSVLogger(path)], verbose=2).history
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["payload_bytes"]) for row in rows] == history["payload_bytes"]
    assert rows[0].keys() >= KEYS
    output = capsys.readouterr().out
    assert output.count("residual_norm: ") == 2
    # The summary is one line, on one rank.
    assert output.count("times fewer") == (hvd.rank() == 0)
    assert f"{2 * STEPS} steps" in output or hvd.rank() != 0


def test_compression_stats_without_summary(fitted, capsys):
    fit(fitted, [tfc.callbacks.CompressionStats(summary=False)])
    assert capsys.readouterr().out == ""


def test_the_summary_is_of_this_training(fitted, capsys):
    fit(fitted, [tfc.callbacks.CompressionStats()], epochs=1)
    output = capsys.readouterr().out
    assert output.startswith(f"{STEPS} steps") if hvd.rank() == 0 else not output


def test_compression_stats_per_variable():
    optimizer = topk_optimizer()
    callback = tfc.callbacks.CompressionStats(per_variable=True, summary=False)
    history = fit(compiled(optimizer), [callback], epochs=1).history
    tensors = tfc.stats(optimizer).tensors
    assert len(tensors) == 6
    for tensor in tensors:
        assert history[f"payload_bytes/{tensor.name}"] == [tensor.per_step("payload_bytes")]
        assert history[f"density/{tensor.name}"] == [tensor.density]
        for key in HELD:
            value = getattr(tensor, key)
            assert history.get(f"{key}/{tensor.name}") == (None if value is None else [pytest.approx(value)])
        assert f"communication_ms/{tensor.name}" not in history
    assert any("kernel" in tensor.name and tensor.residual_norm > 0 for tensor in tensors)


@pytest.mark.parametrize(
    ("ratio", "told"),
    [
        (1.0, []),
        (0.05, [f"training is to end after {3 * STEPS} steps, .*tfc.Compression.sparse()"]),
        (0.001, ["kernel.*tfc.Compression.sparse()", f"training is to end after {3 * STEPS} steps"]),
    ],
)
def test_compression_stats_warn_once_on_one_rank_where_accuracy_suffers(ratio, told):
    model = compiled(topk_optimizer(ratio=ratio))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(model, [tfc.callbacks.CompressionStats(summary=False)], epochs=3)
    messages = [str(each.message) for each in caught if each.category is tfc.AccuracyWarning]
    assert len(messages) == (len(told) if hvd.rank() == 0 else 0)
    assert all(any(re.search(each, message) for message in messages) for each in told if messages)


def test_compression_stats_need_a_source_of_statistics(fitted):
    with pytest.raises(TypeError, match="no statistics"):
        fit(fitted, [tfc.callbacks.CompressionStats(keras.optimizers.SGD())])


def test_compression_stats_of_an_explicit_source(fitted):
    callback = tfc.callbacks.CompressionStats(fitted.optimizer, summary=False)
    history = fit(compiled(topk_optimizer()), [callback]).history
    assert history["payload_bytes"] == [0.0, 0.0] and history["residual_norm"][0] > 0


@pytest.mark.ranks
def test_metric_average(assert_same_on_all_ranks):
    before = Recorder(["on_epoch_end"], lambda epoch, logs: dict(logs))
    x, y = make_data(20)
    history = fit(
        compiled(topk_optimizer(), metrics=["mae"]),
        [before, tfc.callbacks.MetricAverage()],
        validation_data=(x, y),
    ).history
    assert set(history) == {"loss", "mae", "val_loss", "val_mae"}
    for name, values in history.items():
        assert_same_on_all_ranks([np.array(values)])
        local = np.array([logs[name] for logs in before.seen])
        assert abs(local - values).max() > 0, "metrics of different data"
        np.testing.assert_allclose(values, hvd.allreduce(tf.constant(local)).numpy(), rtol=1e-6)


def test_metric_average_lets_other_callbacks_decide_alike(assert_same_on_all_ranks):
    """Left to its own metric, one rank would lower its learning rate and the others would not."""

    def report(epoch, logs):
        logs["own"] = float(epoch) if hvd.rank() == 0 else -3.0 * epoch

    callbacks = [
        Recorder(["on_epoch_end"], report),
        tfc.callbacks.MetricAverage(),
        keras.callbacks.ReduceLROnPlateau("own", factor=0.5, patience=1, mode="max"),
    ]
    model = compiled(topk_optimizer(keras.optimizers.SGD(0.25)))
    fit(model, callbacks, epochs=3)
    rate = float(model.optimizer.learning_rate.numpy())
    assert rate == 0.0625
    assert_same_on_all_ranks([np.array(rate), *model.get_weights()])


def test_metric_average_of_odd_values():
    callback = tfc.callbacks.MetricAverage()
    ranks = hvd.size()
    logs = {
        "nan": float("nan") if hvd.rank() == 0 else 1.0,
        "float32": np.float32(hvd.rank()),
        "integer": hvd.rank(),
        "infinite": float("inf"),
        "text": f"rank {hvd.rank()}",
        "vector": np.arange(3),
        "only here": 1.0 if hvd.rank() == 0 else None,
    }
    callback.on_epoch_end(0, logs)
    assert np.isnan(logs["nan"]) and logs["infinite"] == float("inf")
    assert logs["float32"] == logs["integer"] == (ranks - 1) / 2
    assert logs["text"] == f"rank {hvd.rank()}" and logs["vector"].tolist() == [0, 1, 2]
    assert logs["only here"] == (1.0 if hvd.rank() == 0 else None)


def test_metric_average_of_different_metrics_raises_everywhere():
    last = hvd.size() - 1
    logs = {"loss": 1.0, **({"extra": 1.0} if hvd.rank() == last else {"missing": 1.0})}
    message = rf"rank {last} lacks \['missing'\] of rank 0, which lacks \['extra'\]"
    if last > 1:
        message = "rank [0-9] lacks"
    with pytest.raises(ValueError, match=message):
        tfc.callbacks.MetricAverage().on_epoch_end(0, logs)
    assert logs["loss"] == 1.0


def record_rates(hook="on_train_batch_begin"):
    def rate(*args):
        return float(recorder.model.optimizer.learning_rate.numpy())

    recorder = Recorder([hook], rate)
    return recorder


@pytest.mark.parametrize(
    "scaled",
    [
        pytest.param(False, id="plain"),
        pytest.param(True, id="LossScaleOptimizer", marks=pytest.mark.long),
    ],
)
def test_warmup_raises_the_learning_rate_step_by_step(scaled, capsys):
    inner = keras.optimizers.Adam(1e-3)
    optimizer = topk_optimizer(keras.mixed_precision.LossScaleOptimizer(inner) if scaled else inner)
    rates, target, ranks = record_rates(), 0.25, hvd.size()
    warmup = tfc.callbacks.LearningRateWarmup(target, warmup_epochs=2, verbose=1)
    history = fit(compiled(optimizer), [warmup, rates], epochs=3).history
    steps = np.minimum(np.arange(1, 3 * STEPS + 1) / (2 * STEPS), 1.0)
    np.testing.assert_allclose(rates.seen, target / ranks * (1 + steps * (ranks - 1)), rtol=1e-6)
    assert target / ranks < rates.seen[0] < 1.5 * target / ranks and rates.seen[-1] == target
    assert history["learning_rate"][:2] == pytest.approx([rates.seen[STEPS - 1], target])
    output = capsys.readouterr().out
    assert ("Epoch 2: learning rate warmed up to 0.25" in output) == (hvd.rank() == 0)


def test_warmup_leaves_the_learning_rate_alone_when_it_is_over():
    lower = Recorder(
        ["on_epoch_end"], lambda epoch, logs: epoch == 0 and model.optimizer.learning_rate.assign(0.125)
    )
    rates = record_rates()
    model = compiled(topk_optimizer())
    fit(model, [tfc.callbacks.LearningRateWarmup(0.25, warmup_epochs=0.5), lower, rates])
    assert rates.seen[: STEPS // 2 - 1] < [0.25] * (STEPS // 2 - 1)
    assert rates.seen[STEPS // 2 - 1 :] == [0.25] * (STEPS // 2 + 1) + [0.125] * STEPS


def test_warmup_ends_at_its_target_with_several_steps_an_execution():
    rates = record_rates("on_epoch_begin")
    model = compiled(topk_optimizer(), steps_per_execution=4)
    fit(model, [tfc.callbacks.LearningRateWarmup(0.25, warmup_epochs=1), rates])
    assert rates.seen[1] == 0.25


def test_warmup_does_not_repeat_when_training_is_resumed():
    rates = record_rates()
    model = compiled(topk_optimizer(keras.optimizers.SGD(0.0625)))
    fit(model, [tfc.callbacks.LearningRateWarmup(0.25, warmup_epochs=2), rates], epochs=4, initial_epoch=3)
    assert rates.seen == [0.0625] * STEPS


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "LossScaleOptimizer"])
def test_warmup_of_a_schedule_is_refused(scaled):
    inner = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9))
    optimizer = topk_optimizer(keras.mixed_precision.LossScaleOptimizer(inner) if scaled else inner)
    with pytest.raises(ValueError, match="but it is a ExponentialDecay"):
        fit(compiled(optimizer), [tfc.callbacks.LearningRateWarmup(0.1)])


def test_warmup_needs_the_number_of_steps():
    x, y = make_data(STEPS * BATCH_SIZE)

    def batches():
        for start in range(0, len(x), BATCH_SIZE):
            yield x[start : start + BATCH_SIZE], y[start : start + BATCH_SIZE]

    signature = (tf.TensorSpec([None, 20]), tf.TensorSpec([None, 1]))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    model = compiled(topk_optimizer())
    broadcast = tfc.callbacks.BroadcastVariables(0)
    with pytest.raises(ValueError, match="pass steps_per_epoch"):
        model.fit(data, verbose=0, callbacks=[tfc.callbacks.LearningRateWarmup(0.1)])
    rates = record_rates("on_train_batch_end")
    warmup = tfc.callbacks.LearningRateWarmup(0.25, 1, steps_per_epoch=STEPS)
    model.fit(data, verbose=0, callbacks=[broadcast, warmup, rates])
    assert len(rates.seen) == STEPS and rates.seen[-1] == 0.25


def optimizer_state(optimizer):
    owned = optimizer.variables
    arrays = [variable.numpy() for variable in (owned() if callable(owned) else owned)]
    # Keras 3 lists the learning rate and the loss scale too, tf_keras does not.
    scale = getattr(optimizer, "dynamic_scale", getattr(optimizer, "loss_scale", tf.constant(0.0)))
    return [optimizer.learning_rate.numpy(), scale.numpy(), *arrays]


_INSIDE = pytest.param("ours around LossScale", marks=pytest.mark.long)


@pytest.mark.parametrize("wrapped", ["plain", _INSIDE, "LossScale around ours"])
def test_broadcast_variables(wrapped, assert_same_on_all_ranks):
    """Learning rate, moments and loss scale are those of rank 0; residuals stay those of each rank."""
    optimizer = keras.optimizers.Adam(0.01 * (hvd.rank() + 1))
    if wrapped == "ours around LossScale":
        scale = 2.0 ** (hvd.rank() + 3)
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=scale)
    optimizer = ours = topk_optimizer(optimizer)
    if wrapped == "LossScale around ours":
        optimizer = keras.mixed_precision.LossScaleOptimizer(ours)
    model = compiled(optimizer)
    states = Recorder(["on_train_batch_begin"], lambda *args: optimizer_state(model.optimizer))
    fit(model, [states], epochs=1)
    rate, scale, *others = states.seen[0]
    assert rate == np.float32(0.01) and scale == {"plain": 0, "ours around LossScale": 8}.get(wrapped, 2**15)
    assert len(others) > 2 * len(model.trainable_variables), "Adam's moments are there before the first step"
    for state in states.seen:
        assert_same_on_all_ranks(state)
    assert_same_on_all_ranks(model.get_weights())

    memories = ours._tfcompress_step.state.memories.by_name().values()
    residuals = [slot for slots in memories for slot in slots]
    before = [residual.numpy() for residual in residuals]
    assert len(before) == 3 and all(residual.any() for residual in before)
    callback = tfc.callbacks.BroadcastVariables(hvd.size() - 1)
    callback.set_model(model)
    callback.on_train_begin()
    for residual, kept in zip(residuals, before, strict=True):
        np.testing.assert_array_equal(residual.numpy(), kept)
    everyone = hvd.allgather(tf.constant(before[0].reshape(1, -1))).numpy()
    assert not (everyone[0] == everyone[1]).all(), "residuals of different data"


@pytest.mark.long
def test_statistics_are_found_inside_a_loss_scale_optimizer():
    optimizer = keras.mixed_precision.LossScaleOptimizer(topk_optimizer())
    history = fit(compiled(optimizer), [tfc.callbacks.CompressionStats(summary=False)], epochs=1).history
    assert history["payload_bytes"][0] > 0 and tfc.stats(optimizer).total.steps == STEPS
