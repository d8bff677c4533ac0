"""Rows of tables summed by their owners, with one residual for both encodings."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper, break_packets, slots_of, sum_over_ranks

import tfcompress as tfc
from tfcompress.route import Transport

# Rows and width of each table; the last one has fewer rows than there may be ranks.
TABLES = [(1000, 8), (300, 33), (2, 600)]
NAMES = [f"table{i}" for i in range(len(TABLES))]
EXACT = "nonzero|delta_binary|raw"


def sharded(spec=EXACT, **arguments):
    return tfc.Compressor(spec, exchange="shard", min_elements=0, **arguments)


def slices_of(rng, num_rows, width, dtype=tf.float32):
    ids = rng.integers(0, num_rows, 40)
    ids[:3] = num_rows - 1  # Duplicates, and a row that all ranks touch.
    values = rng.standard_normal((40, width)).astype(np.float32)
    return tf.IndexedSlices(tf.cast(values, dtype), tf.constant(ids), tf.constant([num_rows, width]))


def gradients_of(rng, dtype=tf.float32):
    return [slices_of(rng, *shape, dtype) for shape in TABLES]


def dense(gradients):
    """Gradients as arrays of their tables' shapes, summed in float32."""

    def array_of(gradient):
        if isinstance(gradient, tf.Tensor):
            return tf.cast(gradient, tf.float32).numpy()
        values = tf.cast(gradient.values, tf.float32)
        return tf.math.unsorted_segment_sum(values, gradient.indices, gradient.dense_shape[0]).numpy()

    return [array_of(gradient) for gradient in gradients]


@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum])
@pytest.mark.ranks
def test_rows_are_exact_and_stay_rows(rng, op, assert_same_on_all_ranks):
    stepper = Stepper(sharded(), op)
    for _ in range(2):
        gradients = gradients_of(rng)
        results = stepper.run(gradients, NAMES)
        assert isinstance(results[0], tf.IndexedSlices)
        for result, own in zip(results, dense(gradients), strict=True):
            expected = sum_over_ranks(own) / (hvd.size() if op == hvd.Average else 1)
            np.testing.assert_allclose(tf.convert_to_tensor(result).numpy(), expected, atol=1e-5)
        assert_same_on_all_ranks(dense(results))


@pytest.mark.parametrize(
    "spec", ["nonzero|sketchml", "nonzero|delta_binary|qsgd", "topk|bloom:policy=p0|raw"]
)
def test_lossy_codecs(rng, spec, assert_same_on_all_ranks):
    gradients = gradients_of(rng)
    results = dense(Stepper(sharded(spec)).run(gradients, NAMES))
    for result, own in zip(results, dense(gradients), strict=True):
        mean = sum_over_ranks(own) / hvd.size()
        assert np.sum(result * mean) > 0.3 * np.sum(mean * mean)
    assert_same_on_all_ranks(results)


@pytest.mark.parametrize("value", ["fp16", "block_int:bits=4"])
@pytest.mark.ranks
def test_both_encodings_conserve_the_sum_of_gradients(rng, value):
    """What arrives over many steps plus what is pending on all ranks equals what went in."""
    compressor = sharded(f"topk|delta_binary|{value}", row_sparsifier="topk:ratio=0.3", row_residual=True)
    stepper = Stepper(compressor, hvd.Sum)

    @tf.function
    def step(values, ids):
        columns = zip(values, ids, TABLES, strict=True)
        return stepper.run([tf.IndexedSlices(v, i, tf.constant(shape)) for v, i, shape in columns], NAMES)

    given = [np.zeros(shape) for shape in TABLES]
    arrived = [np.zeros(shape) for shape in TABLES]
    for _ in range(8):
        gradients = gradients_of(rng)
        for total, own in zip(given, dense(gradients), strict=True):
            total += own
        results = step([each.values for each in gradients], [each.indices for each in gradients])
        for total, result in zip(arrived, results, strict=True):
            total += tf.convert_to_tensor(result).numpy()
    slots = stepper.state.memories.by_name()
    for name, went_in, came_out in zip(NAMES, given, arrived, strict=True):
        [slot] = slots[name]
        pending = sum_over_ranks(slot.numpy())
        assert np.abs(pending).max() > 1e-2
        np.testing.assert_allclose(came_out + pending, sum_over_ranks(went_in), atol=2e-3)


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.ranks
def test_a_rank_that_is_not_finite_rolls_all_back(rng, everywhere):
    """Also the rows that only the second encoding has changed."""
    compressor = sharded("topk|delta_binary|fp16", row_sparsifier="topk:ratio=0.3", row_residual=True)
    stepper = Stepper(compressor)
    stepper.run(gradients_of(rng), NAMES)
    before = slots_of(stepper)
    gradients = gradients_of(rng)
    if everywhere or hvd.rank() == hvd.size() - 1:
        bad = gradients[0]
        values = tf.tensor_scatter_nd_update(bad.values, [[7, 3]], [np.nan])
        gradients[0] = tf.IndexedSlices(values, bad.indices, bad.dense_shape)
    results = dense(stepper.run(gradients, NAMES))
    assert np.isnan(results[0]).any() and np.isfinite(results[1]).all()
    for old, new in zip(before, slots_of(stepper), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_gradients(rng, dtype, assert_same_on_all_ranks):
    gradients = gradients_of(rng, dtype)
    results = Stepper(sharded()).run(gradients, NAMES)
    assert all(result.dtype == dtype for result in results)
    for result, own in zip(dense(results), dense(gradients), strict=True):
        np.testing.assert_allclose(result, sum_over_ranks(own) / hvd.size(), rtol=2**-8, atol=1e-4)
    assert_same_on_all_ranks(dense(results))


@pytest.mark.ranks
def test_rows_that_all_touch_cost_the_same_on_any_number_of_ranks(rng):
    rows, width = 960, 16
    gradient = tf.IndexedSlices(
        tf.constant(rng.standard_normal((rows, width)), tf.float32),
        tf.range(rows),
        tf.constant([rows * hvd.size() + 1, width]),  # So many that the result stays rows.
    )
    stepper = Stepper(sharded("nonzero|delta_binary|fp16"))
    [result] = stepper.run([gradient], ["table"])
    assert isinstance(result, tf.IndexedSlices)
    [row] = stepper.state.stats().tensors
    share = (hvd.size() - 1) / hvd.size()
    frame = rows * width * 2
    assert row.wire_bytes == pytest.approx(4 * frame * share, rel=0.1)  # Two hops, in and out.
    assert row.payload_bytes == pytest.approx(frame, rel=0.1)  # Own rows and sums, not sent to itself.
    assert row.sent_elements == pytest.approx(rows * width * (1 + 1 / hvd.size()), rel=0.01)


@pytest.mark.ranks
def test_auto_shards_what_grows_from_four_ranks_on(rng):
    """Rows of tables, and a dense gradient of which all is sent that is not zero."""
    stepper = Stepper(tfc.Compressor(EXACT, exchange="auto", min_elements=0))
    dense_gradient = tf.constant(rng.standard_normal((40, 50)), tf.float32)
    stepper.run([*gradients_of(rng), dense_gradient], [*NAMES, "kernel"])
    [stages] = stepper.state._stages.values()
    *tables, kernel = [route.transport for route in stages.branches[0]]
    assert set(tables) == {Transport.GATHER if hvd.size() < 4 else Transport.SHARD_ROWS}
    assert kernel is (Transport.GATHER if hvd.size() < 4 else Transport.SHARD)


@pytest.mark.ranks
@pytest.mark.skipif(hvd.size() < 3, reason="a process set of one rank exchanges nothing")
def test_a_process_set_shards_among_its_ranks(rng, some_ranks):
    """Their numbers in the set, and not among all ranks, say which rows they own."""
    gradients = gradients_of(rng)
    own = dense(gradients)
    if hvd.rank() == 0:
        results = own = [np.zeros_like(each) for each in own]
    else:
        stepper = Stepper(sharded(), hvd.Sum, process_set=some_ranks)
        results = dense(stepper.run(gradients, NAMES))
    for result, array in zip(results, own, strict=True):
        expected = sum_over_ranks(array)
        if hvd.rank():
            np.testing.assert_allclose(result, expected, atol=1e-5)


def test_a_broken_sum_is_named(rng, monkeypatch):
    stepper = Stepper(sharded())
    stepper.run(gradients_of(rng)[:2], NAMES[:2])
    break_packets(monkeypatch, "allgather_packet")
    with pytest.raises(tf.errors.DataLossError, match=f"rank {hvd.size() - 1}, tensor 1.*checksum"):
        stepper.run(gradients_of(rng)[:2], NAMES[:2])


def test_a_broken_piece_is_an_error_on_all_ranks(rng, monkeypatch):
    """Only the rank that sums it can see it."""
    stepper = Stepper(sharded())
    stepper.run(gradients_of(rng)[:2], NAMES[:2])
    break_packets(monkeypatch, "alltoall_packet", rank=0)
    message = "rank 0 could not sum its shard: rank .*, tensor 1.*checksum"
    with pytest.raises(tf.errors.DataLossError, match=message):
        stepper.run(gradients_of(rng)[:2], NAMES[:2])


def test_a_schedule_from_gather_to_shard_keeps_the_residual(rng):
    arguments = {"row_sparsifier": "topk:ratio=0.3", "row_residual": True, "min_elements": 0}
    gather, shard = (
        tfc.Compressor("topk|raw|fp16", exchange=each, **arguments) for each in ("gather", "shard")
    )
    stepper = Stepper(tfc.Schedule([(2, gather)], then=shard), hvd.Sum)
    given = arrived = np.zeros(TABLES[0])
    for _ in range(5):
        gradient = slices_of(rng, *TABLES[0])
        given = given + tf.convert_to_tensor(gradient).numpy()
        [result] = stepper.run([gradient], NAMES[:1])
        arrived = arrived + tf.convert_to_tensor(result).numpy()
    [[slot]] = stepper.state.memories.by_name().values()
    np.testing.assert_allclose(arrived + sum_over_ranks(slot.numpy()), sum_over_ranks(given), atol=2e-3)


def test_rows_and_dense_gradients_in_one_step(rng):
    """Each takes its own two collectives."""
    stepper = Stepper(sharded(), hvd.Sum)
    gradients, array = gradients_of(rng), rng.standard_normal((64, 20)).astype(np.float32)
    *tables, kernel = stepper.run([*gradients, tf.constant(array)], [*NAMES, "kernel"])
    np.testing.assert_allclose(kernel.numpy(), sum_over_ranks(array), rtol=1e-5, atol=1e-5)
    for result, own in zip(tables, dense(gradients), strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(result).numpy(), sum_over_ranks(own), rtol=1e-5, atol=1e-5
        )
