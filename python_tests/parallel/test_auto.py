"""`Compression.auto()` in training: trials change how gradients travel, and nothing else changes."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper
from training import fit, keras, make_data, make_model

import tfcompress as tfc
from tfcompress import clock, probe
from tfcompress.tuner import Tuner

SHAPES = [(64, 100), (5000,), (7,)]
NAMES = [f"g{i}" for i in range(len(SHAPES))]
ALL = ["none", "fp16", "bf16", "int8", "int4"]
EMPTIES = len(ALL)


@pytest.fixture
def injected(monkeypatch):
    """Sets what is ready and what a step takes in each stage, and returns the stages that were decided on."""

    def inject(seconds, ready=tuple(ALL)):
        stages = []
        expected = {"none": 0.04, **dict.fromkeys(ready, 0.02)}
        found = probe.Finalists(list(ready), list(ready), expected)
        monkeypatch.setattr(probe, "finalists_of", lambda *_: found)
        next_steps, observe = Tuner.next_steps, Tuner.observe

        def note(self, agreed):
            stage, number = next_steps(self, agreed)
            stages.append(stage)
            return stage, number

        monkeypatch.setattr(Tuner, "next_steps", note)
        # The slowest rank's time counts.
        own = (lambda stage: seconds[stage]) if hvd.rank() == 0 else (lambda stage: 0.0)
        monkeypatch.setattr(Tuner, "observe", lambda self, _: observe(self, own(stages[-1])))
        return stages

    return inject


def steps(stepper, rng, count, function=lambda run: run):
    run = function(lambda *gradients: stepper.run(list(gradients), NAMES))
    for _ in range(count):
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES]
        yield arrays, [each.numpy() for each in run(*map(tf.constant, arrays))]


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda run: run, id="eager", marks=pytest.mark.long),
        pytest.param(tf.function, id="function"),
    ],
)
def test_replicas_are_identical_and_nothing_is_lost_over_a_trial(
    injected, rng, assert_same_on_all_ranks, function
):
    stages = injected([1.0, 1.1, 1.1, 1.1, 1.1, 1.0])
    stepper = Stepper(tfc.Compression.auto(min_elements=64), "sum")
    given = [np.zeros(shape, np.float64) for shape in SHAPES]
    applied = [np.zeros(shape, np.float64) for shape in SHAPES]
    for arrays, reduced in steps(stepper, rng, 70, function):
        assert_same_on_all_ranks(reduced)
        for total, own in zip(given, arrays, strict=True):
            total += own
        for total, own in zip(applied, reduced, strict=True):
            total += own
    assert set(stages) == set(range(EMPTIES + 1)) and stages[-1] == 0
    assert stepper.state.stats().choice.startswith("none: 1e+03 ms a step; fp16 1.1e+03")
    slots = {name: slot.numpy() for name, [slot] in stepper.state.memories.by_name().items()}
    for name, total, sent in zip(NAMES, given, applied, strict=True):
        held = slots.get(name, np.zeros_like(total))
        exact = hvd.allreduce(tf.constant(total - held), op=hvd.Sum).numpy()
        # Half precision, where the memory is left alone, rounds; everything else is accounted for.
        np.testing.assert_allclose(sent, exact, atol=0.03 * hvd.size())
        assert not held.any(), "`none` was chosen, and the residual was emptied before"


@pytest.mark.parametrize("function", [lambda run: run, tf.function], ids=["eager", "function"])
def test_a_step_is_timed_from_the_end_of_the_one_before(injected, monkeypatch, rng, function):
    """With all that a user's step does beside the exchange, wherever an executor begins."""
    injected([1.0] * len(ALL) + [1.0])
    timed = []
    monkeypatch.setattr(Tuner, "observe", lambda self, seconds: timed.append(seconds))
    now = tf.Variable(0.0, dtype=tf.float64)
    monkeypatch.setattr(clock, "time_after", lambda tensors: now.read_value())
    stepper = Stepper(tfc.Compression.auto(min_elements=64))
    for _ in steps(stepper, rng, 6, function):
        now.assign_add(7.0)
    assert timed[1:] == [7.0] * 5


def test_what_a_checkpoint_held_is_sent_before_the_memory_is_left_alone(injected, rng):
    stages = injected([0.1, 1.0, 1.0], ready=["none", "int4"])
    # The same on all ranks; only what has two dimensions has a memory.
    held = {NAMES[0]: np.float32(np.random.default_rng(5).standard_normal((1, *SHAPES[0])))}
    stepper = Stepper(tfc.Compression.auto(min_elements=64), "sum")
    stepper.state.resume_pending(7, held)
    first, second = [
        [
            reduced - hvd.allreduce(tf.constant(array), op=hvd.Sum).numpy()
            for array, reduced in zip(*step, strict=True)
        ]
        for step in steps(stepper, rng, 2)
    ]
    for name, in_first, in_second in zip(NAMES, first, second, strict=True):
        np.testing.assert_allclose(in_first, held[name][0] if name in held else 0 * in_first, atol=1e-3)
        np.testing.assert_allclose(in_second, 0 * in_second, atol=1e-3)
    assert stages[1] == 0 and not stepper.state.memories.waiting()


def test_a_gradient_that_is_not_finite_waits_in_no_memory(injected, rng):
    """Also where the step that would have emptied the memory is the one that rolls back."""
    stages = injected([1.0, 9.0, 9.0, 0.5, 0.5, 1.0], ready=["none", "int8", "int4"])
    stepper = Stepper(tfc.Compression.auto(min_elements=64))
    for i, (_, reduced) in enumerate(steps(stepper, rng, 9)):
        assert all(np.isfinite(each).all() for each in reduced), i
    arrays = [np.full(shape, np.nan if hvd.rank() == 1 else 1.0, np.float32) for shape in SHAPES]
    before = stepper.state.snapshot()[1]
    stepper.run([tf.constant(each) for each in arrays], NAMES)
    after = stepper.state.snapshot()[1]
    assert stages[-1] == 3 and any(each.any() for each in before.values()), "the step was to empty it"
    assert all((before[name] == after[name]).all() for name in before)


def test_one_finalist_is_the_preset(injected, rng):
    stages = injected([1.0], ready=["int4"])
    stepper = Stepper(tfc.Compression.auto(min_elements=64))
    same = Stepper(tfc.Compression.int4(min_elements=64))
    for (_, a), (_, b) in zip(
        steps(stepper, np.random.default_rng(hvd.rank()), 3),
        steps(same, np.random.default_rng(hvd.rank()), 3),
        strict=True,
    ):
        assert all((x == y).all() for x, y in zip(a, b, strict=True))
    assert stages == [] and stepper.state.stats().choice == (
        "int4: its exchange is expected to take 20 ms a step; none 40"
    )


def test_links_and_codecs_are_measured(rng):
    """The real probe: numbers that ranks share, and a model that trains whatever they are."""
    found = probe.finalists_of(
        tfc.Compression.auto(),
        [("w", "float32", (1000, 1000), False)],
        Stepper(tfc.Compression.none)._ranks,
        "p",
    )
    assert found.first and set(found.first) <= set(found.ready) <= set(ALL)
    assert list(found.seconds) == ALL and all(seconds > 0 for seconds in found.seconds.values())
    gathered = hvd.allgather_object(found)
    assert all(each == gathered[0] for each in gathered)


def test_a_model_trains_and_tells_its_choice(injected, assert_same_on_all_ranks, capfd):
    injected([1.0, 1.0, 1.0, 0.5, 1.0, 1.0])
    model = make_model(keras)
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.SGD(0.01), compression=tfc.Compression.auto(min_elements=64)
    )
    history = fit(model, optimizer, 640, epochs=2, batch_size=16, jit_compile=False)
    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
    assert_same_on_all_ranks([np.asarray(each) for each in model.get_weights()])
    assert "auto took int8: 500 ms a step" in tfc.stats(optimizer).summary()
    told = "Compression.auto() on" in capfd.readouterr().err
    assert told == (hvd.rank() == 0)
    # What the user sets later counts, also in the step that is traced.
    tfc.set_compression(optimizer, tfc.Compression.int4(min_elements=64))
    before = tfc.stats(optimizer)
    model.fit(*make_data(640), batch_size=16, epochs=1, verbose=0, shuffle=False)
    sent = tfc.stats(optimizer).since(before).total
    assert sent.payload_bytes < 0.3 * sent.dense_bytes
    assert tfc.stats(optimizer).choice == ""
    with pytest.raises(ValueError, match="measures before the first step"):
        tfc.set_compression(optimizer, tfc.Compression.auto())


@pytest.mark.parametrize("ready", [pytest.param(["sparse"], marks=pytest.mark.long), ["none", "int4"]])
def test_the_momentum_is_in_the_memory_only_of_what_is_sparse(injected, assert_same_on_all_ranks, ready):
    injected([1.0, 0.8, 1.0], ready=ready)
    model = make_model(keras)
    compression = tfc.Compression.auto("sparse", ratio=0.5, warmup_steps=50, min_elements=16)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.Adam(0.01), compression=compression)
    history = fit(model, optimizer, 640, epochs=2, batch_size=4, jit_compile=False)
    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
    assert_same_on_all_ranks([np.asarray(each) for each in model.get_weights()])
    stats = tfc.stats(optimizer)
    is_sparse = ready == ["sparse"]
    assert max(len(own) for own in stats.slots) == (2 if is_sparse else 1)
    assert stats.choice.startswith("sparse: its exchange is expected" if is_sparse else "int4: 800 ms")


def test_one_made_anew_at_every_step_measures_once(monkeypatch):
    found, calls = probe.Finalists(["int4"], ["int4"], {"none": 0.04, "int4": 0.02}), []
    monkeypatch.setattr(probe, "finalists_of", lambda *_: calls.append(1) or found)
    variable = tf.Variable(tf.zeros([64, 64]))
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable)
        tape = tfc.DistributedGradientTape(tape, compression=tfc.Compression.auto())
        tape.gradient(loss, [variable])
    assert tfc.stats(tape).total.steps == 3 and len(calls) == 1


def test_ranks_that_allow_different_things_are_told():
    allow = "sparse" if hvd.rank() else "dense"
    stepper = Stepper(tfc.Compression.auto(allow))
    with pytest.raises(ValueError, match="auto is"):
        stepper.run([tf.ones([2000])], ["g"])
