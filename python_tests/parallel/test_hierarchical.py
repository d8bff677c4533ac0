"""Two levels: sums within hosts, compressed exchanges between them. Four ranks play two hosts of two."""

import json

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper, break_packets, names_of, random_arrays, run, slots_of, sum_over_ranks
from training import keras

import tfcompress as tfc
from tfcompress import levels
from tfcompress.checkpoint import state_of

SHAPES = [(64, 100), (5000,), (7,), (3, 50, 40), (1,)]
SPECS = [
    "residual|dense|raw|block_int:bits=8",
    "residual|topk:ratio=0.02|delta_binary|raw",
    "momentum|topk:ratio=0.02|rowcol|ecsq",
    "dense|raw|qsgd",
    "residual|topk:ratio=0.05|bloom|dexp",
]
PER_HOST = 2
OWN = type("Own", (tfc.CustomCodec,), {"encode": None, "decode": None})()
pytestmark = pytest.mark.ranks
needs_four = pytest.mark.skipif(hvd.size() != 4, reason="two hosts of two ranks")


@pytest.fixture(autouse=True)
def hosts(monkeypatch):
    """Ranks 0 and 1 are on one host, 2 and 3 on another one."""
    monkeypatch.setattr(levels, "host_number", lambda: hvd.rank() // PER_HOST)


def make(compression, op=None, **options):
    if isinstance(compression, str):
        compression = tfc.Compressor(compression, min_elements=0, exchange=options.pop("exchange", "gather"))
    return Stepper(compression, op, hierarchical=True, **options)


def pending(stepper):
    """What all ranks together still have to send of each gradient."""
    return {name: sum_over_ranks(each.numpy())[0] for name, each in stepper.state.memories.whole().items()}


@needs_four
@pytest.mark.parametrize("op", ["average", "sum"])
@pytest.mark.parametrize("exchange", ["gather", "shard", "all-reduce"])
def test_exact_codecs_equal_horovods_own_reduction(rng, op, exchange):
    compression = tfc.Compression.none
    if exchange != "all-reduce":
        compression = tfc.Compressor("nonzero|bitmap|raw", exchange=exchange)
    stepper = make(compression, op)
    for _ in range(2):
        arrays = random_arrays(rng, SHAPES)
        for ours, array in zip(run(stepper, arrays), arrays, strict=True):
            expected = sum_over_ranks(array) / (hvd.size() if op == "average" else 1)
            np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-5, atol=1e-5)


@needs_four
@pytest.mark.parametrize("exchange", ["gather", "shard"])
@pytest.mark.parametrize("spec", SPECS)
def test_replicas_are_bit_identical(rng, spec, exchange, assert_same_on_all_ranks):
    stepper = make(spec, exchange=exchange)
    step = tf.function(lambda *arrays: run(stepper, arrays))
    for _ in range(3):
        results = step(*map(tf.constant, random_arrays(rng, SHAPES)))
        assert_same_on_all_ranks([each.numpy() for each in results])


@needs_four
@pytest.mark.parametrize("exchange", ["gather", "shard"])
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.startswith("residual")])
def test_what_is_applied_and_what_is_pending_are_all_that_was_given(rng, spec, exchange):
    stepper = make(spec, hvd.Sum, exchange=exchange)
    given = [np.zeros(shape) for shape in SHAPES]
    arrived = [np.zeros(shape) for shape in SHAPES]
    for _ in range(8):
        arrays = random_arrays(rng, SHAPES)
        for i, (array, applied) in enumerate(zip(arrays, run(stepper, arrays), strict=True)):
            given[i] += sum_over_ranks(array)
            arrived[i] += applied.numpy()
    for left, went_in, came_out in zip(pending(stepper).values(), given, arrived, strict=True):
        np.testing.assert_allclose(came_out + left, went_in, atol=3e-3)


@needs_four
def test_each_rank_keeps_the_residual_of_its_part_alone(rng):
    stepper = make(SPECS[1])
    run(stepper, random_arrays(rng, SHAPES))
    first = hvd.rank() % PER_HOST == 0
    shapes = [slot.shape for slot in slots_of(stepper)]
    assert shapes == [(32, 100), (2500,), (3 if first else 4,), (75, 40), (0 if first else 1,)]


@needs_four
@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("spec", [SPECS[0], SPECS[2]])
def test_a_rank_that_is_not_finite_rolls_all_back(rng, spec, rank):
    """Its element is in the part of one rank of each host: the other ones are told within the host."""
    stepper = make(spec)
    run(stepper, random_arrays(rng, SHAPES))
    before = slots_of(stepper)
    arrays = random_arrays(rng, SHAPES)
    if hvd.rank() == rank:
        arrays[0].flat[3] = np.inf
    results = run(stepper, arrays)
    assert np.isnan(results[0].numpy()).all()
    assert np.isfinite(results[1].numpy()).all()
    for old, new in zip(before, slots_of(stepper), strict=True):
        np.testing.assert_array_equal(old, new)


@needs_four
def test_with_everything_sent_the_momentum_is_that_of_the_mean(rng):
    stepper = make("momentum:rate=0.5|dense|raw|raw")
    velocities = [np.zeros(shape) for shape in SHAPES]
    for _ in range(3):
        arrays = random_arrays(rng, SHAPES)
        for i, ours in enumerate(run(stepper, arrays)):
            velocities[i] = 0.5 * velocities[i] + sum_over_ranks(arrays[i]) / hvd.size()
            np.testing.assert_allclose(ours.numpy(), velocities[i], rtol=1e-4, atol=1e-5)


@needs_four
def test_what_is_reported_moves_between_hosts(rng):
    stepper = make(tfc.Compression.int8(min_elements=0))
    n = 64 * 1024
    run(stepper, random_arrays(rng, [(64, 1024)]))
    [row] = stepper.state.stats().tensors
    frame = n / PER_HOST * (1 + 2 / 256)
    assert row.dense_bytes == 4 * n
    assert row.payload_bytes == pytest.approx(frame, rel=0.02)
    assert row.wire_bytes == pytest.approx(2 * frame, rel=0.02)  # Once out, once in.
    assert row.sent_elements == n / PER_HOST


@needs_four
def test_stages_of_a_schedule_hand_on_what_is_pending(rng, assert_same_on_all_ranks):
    schedule = tfc.Schedule(
        [(2, tfc.Compression.none), (2, tfc.Compressor(SPECS[1], exchange="shard"))],
        then=tfc.Compressor(SPECS[0]),
    )
    stepper = make(schedule, hvd.Sum)
    given = arrived = np.zeros(SHAPES[0])
    for _ in range(6):
        [array] = random_arrays(rng, SHAPES[:1])
        [applied] = run(stepper, [array])
        assert_same_on_all_ranks([applied.numpy()])
        given, arrived = given + sum_over_ranks(array), arrived + applied.numpy()
    np.testing.assert_allclose(arrived + pending(stepper)["g0"], given, atol=1e-3)


@needs_four
def test_half_precision_and_rows_of_tables_in_one_step(rng, assert_same_on_all_ranks):
    dense = tf.cast(random_arrays(rng, [(40, 50)])[0], tf.bfloat16)
    rows = tf.IndexedSlices(tf.ones([2, 8]), tf.constant([hvd.rank(), 9]), tf.constant([10, 8]))
    whole = tf.fill([3], hvd.rank())
    stepper = make("nonzero|bitmap|raw")
    reduced = stepper.run([dense, rows, whole], ["dense", "table", "integers"])
    assert reduced[0].dtype == tf.bfloat16
    table = tf.convert_to_tensor(reduced[1]).numpy()
    np.testing.assert_allclose(table[:, 0], [0.25] * 4 + [0] * 5 + [1])
    assert_same_on_all_ranks([tf.cast(reduced[0], tf.float32).numpy(), table, reduced[2].numpy()])


@needs_four
def test_residuals_are_saved_as_those_of_one_level_are(rng):
    """Their mean over ranks; each rank starts with its own part of all that is pending."""
    stepper = make(SPECS[1])
    for _ in range(3):
        run(stepper, random_arrays(rng, SHAPES))
    owed = pending(stepper)
    stepper.state.prepare_memories()
    saved = stepper.state.pending()
    for name, left in owed.items():
        np.testing.assert_allclose(saved[name][0], left / hvd.size(), rtol=1e-5, atol=1e-6)
    for other in (make(SPECS[1]), Stepper(tfc.Compressor(SPECS[1], min_elements=0))):
        other.state.resume_pending(3, saved)
        zeros = [np.zeros(shape, np.float32) for shape in SHAPES]
        applied = run(other, zeros)
        for name, left, now in zip(names_of(SHAPES), owed.values(), applied, strict=True):
            after = pending(other)[name] / hvd.size() + now.numpy()
            np.testing.assert_allclose(after, left / hvd.size(), rtol=1e-4, atol=1e-5)
        other.state.resume_pending(3, saved)  # Slots that are there already.
        for name, left in owed.items():
            np.testing.assert_allclose(pending(other)[name], left, rtol=1e-4, atol=1e-4)


@needs_four
def test_a_model_trains(assert_same_on_all_ranks):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.layers.Input((20,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(1)]
    )
    compression = tfc.Compression.sparse(0.05, warmup_steps=4)
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.Adam(0.01), compression=compression, hierarchical=True
    )
    model.compile(optimizer, "mse", jit_compile=False)
    data = np.random.default_rng(hvd.rank())
    x = data.standard_normal((128, 20)).astype(np.float32)
    callbacks = [tfc.callbacks.BroadcastVariables(0), tfc.callbacks.PrepareCheckpoint()]
    history = model.fit(x, x[:, :1], batch_size=16, epochs=6, verbose=0, callbacks=callbacks)
    losses = history.history["loss"]
    assert losses[-1] < 0.3 * losses[0]
    assert_same_on_all_ranks(model.get_weights())
    assert state_of(optimizer).pending()


@needs_four
def test_a_tape():
    weights = tf.Variable(tf.zeros([64, 64]))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((weights - tf.cast(hvd.rank(), tf.float32)) ** 2)
        tape = tfc.DistributedGradientTape(tape, compression=tfc.Compression.int8(), hierarchical=True)
        [gradient] = tape.gradient(loss, [weights])
        weights.assign_sub(500.0 * gradient)

    for _ in range(30):
        step()
    np.testing.assert_allclose(weights.numpy(), 1.5, atol=0.02)


@needs_four
def test_ranks_of_which_one_has_one_level(rng):
    stepper = Stepper(tfc.Compressor(SPECS[0]), hierarchical=hvd.rank() != 1)
    with pytest.raises(ValueError, match="hierarchical is True on rank 0 and False on rank 1"):
        run(stepper, random_arrays(rng, SHAPES))


@needs_four
@pytest.mark.parametrize(
    ("compression", "message"),
    [
        (tfc.Compression.auto(), "hierarchical=True does not work with Compression.auto"),
        (tfc.Compression.sketched_sgd(), "hierarchical=True does not work with linear codecs"),
        (tfc.Compression.powersgd(), "hierarchical=True does not work with linear codecs"),
        (tfc.Compressor("dense|raw|raw", codec=OWN), "nor with codecs in Python"),
    ],
)
def test_what_cannot_have_two_levels(rng, compression, message):
    with pytest.raises(ValueError, match=message):
        run(make(compression), random_arrays(rng, SHAPES))


def test_not_in_elastic_jobs(rng, monkeypatch):
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    with pytest.raises(ValueError, match="hierarchical=True does not work in elastic jobs"):
        run(make(SPECS[0]), random_arrays(rng, SHAPES))


def test_not_with_a_process_set():
    with pytest.raises(ValueError, match="leave out process_set"):
        make(SPECS[0], process_set=hvd.global_process_set)


@pytest.mark.skipif(hvd.size() != 3, reason="two ranks on one host, one on another")
def test_hosts_of_different_sizes(rng):
    with pytest.raises(ValueError, match="equally many ranks on all hosts, got 1 to 2"):
        run(make(SPECS[0]), random_arrays(rng, SHAPES))


@pytest.mark.parametrize("hosts_of", ["all", "each"])
def test_one_host_or_one_rank_a_host_is_as_without(rng, monkeypatch, hosts_of, assert_same_on_all_ranks):
    monkeypatch.setattr(levels, "host_number", lambda: 0 if hosts_of == "all" else hvd.rank())
    arrays = random_arrays(rng, SHAPES)
    ours = run(make(SPECS[1]), arrays)
    flat = run(Stepper(tfc.Compressor(SPECS[1], min_elements=0)), arrays)
    for one, other in zip(ours, flat, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert_same_on_all_ranks([each.numpy() for each in ours])


@needs_four
def test_without_process_sets_the_program_is_told_what_to_do(rng, monkeypatch):
    def refuse(ranks):
        raise ValueError("Set HOROVOD_DYNAMIC_PROCESS_SETS=1")

    monkeypatch.setattr(levels, "_sets", {})
    monkeypatch.setattr(hvd, "add_process_set", refuse)
    with pytest.raises(ValueError, match=r"hvd.init\(process_sets=tfc.host_process_sets.*HOROVOD_DYNAMIC"):
        run(make(SPECS[0]), random_arrays(rng, SHAPES))


@needs_four
def test_a_broken_frame_stops_the_ranks_that_got_it(rng, monkeypatch):
    """Here on all ranks, so that none waits."""
    stepper = make(SPECS[0])
    run(stepper, random_arrays(rng, SHAPES))
    before = slots_of(stepper)
    break_packets(monkeypatch, "allgather_packet")
    with pytest.raises(tf.errors.DataLossError, match="rank 1, tensor .*checksum"):
        run(stepper, random_arrays(rng, SHAPES))
    for old, new in zip(before, slots_of(stepper), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("per_host", "size", "groups"), [(1, 4, []), (4, 4, []), (2, 4, [[0, 1], [2, 3], [0, 2], [1, 3]])]
)
def test_process_sets_for_horovods_init(monkeypatch, per_host, size, groups):
    monkeypatch.setattr(levels, "_sets", {})
    assert [each.ranks for each in tfc.host_process_sets(per_host, size)] == groups
    assert [list(ranks) for ranks in levels._sets] == groups


def test_ranks_that_do_not_fill_hosts():
    with pytest.raises(ValueError, match="4 ranks are not hosts of 3 each"):
        tfc.host_process_sets(3, 4)


def test_settings_are_compared_before_lists_of_gradients():
    from tfcompress.handshake import _difference

    first = {"gradients": [], "hierarchical": True, "number of gradients": 0}
    other = json.loads('{"gradients": [1], "hierarchical": false, "number of gradients": 1}')
    assert _difference(1, first, other) == "hierarchical is True on rank 0 and False on rank 1"
