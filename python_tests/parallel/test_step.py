"""The step: exchange, reduction, memory, statistics, handshake."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper, names_of, random_arrays, reduced, slots_of

import tfcompress as tfc
from tfcompress.comm import Ranks
from tfcompress.state import Parameter

EXACT = ["raw", "bitmap", "delta_binary", "bloom:policy=p0,fpr=0.01"]
SHAPES = [(64, 100), (5000,), (7,), (3, 1000, 2)]


@pytest.mark.parametrize("op", ["average", "sum"])
@pytest.mark.parametrize("index", EXACT)
@pytest.mark.ranks
def test_exact_codecs_equal_horovods_own_reduction(rng, index, op):
    stepper = Stepper(tfc.Compressor(f"nonzero|{index}|raw"), op)
    hvd_op = hvd.Average if op == "average" else hvd.Sum
    for step in range(3):
        arrays = [array * (rng.random(array.shape) < 0.3) for array in random_arrays(rng, SHAPES)]
        for ours, array in zip(reduced(stepper, arrays), arrays, strict=True):
            theirs = hvd.allreduce(tf.constant(array), op=hvd_op, name=f"check{step}").numpy()
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.ranks
def test_results_are_bit_identical_on_all_ranks(rng, assert_same_on_all_ranks):
    for spec in [
        "residual|topk:ratio=0.01|bloom|dexp",
        "residual|topk:ratio=0.05|bloom:policy=p1|quantile",
        "nonzero|sketchml",
    ]:
        stepper = Stepper(tfc.Compressor(spec))
        for _ in range(5):
            results = reduced(stepper, random_arrays(rng, SHAPES))
            assert_same_on_all_ranks(results)


@pytest.fixture
def packets(monkeypatch):
    """The names of packets, as they are gathered."""
    gather, names = Ranks.allgather_packet, []

    def gather_packet(self, packet, name):
        names.append(name)
        return gather(self, packet, name)

    monkeypatch.setattr(Ranks, "allgather_packet", gather_packet)
    return names


@pytest.mark.parametrize("num_groups, num_packets", [(2, 2), (3, 2), (9, 4)])
def test_gradients_are_the_same_in_several_packets(rng, packets, num_groups, num_packets):
    compressor = tfc.Compressor("residual|topk:ratio=0.05|delta_binary|qsgd", min_elements=0)
    whole, grouped = Stepper(compressor), Stepper(compressor, num_groups=num_groups)
    for _ in range(2):
        arrays = random_arrays(rng, SHAPES)
        expected = reduced(whole, arrays)
        packets.clear()
        for ours, one in zip(reduced(grouped, arrays), expected, strict=True):
            np.testing.assert_array_equal(ours, one)
        assert len(set(packets)) == num_packets


def test_what_is_not_finite_in_one_packet_leaves_the_memory_of_all(rng):
    stepper = Stepper(tfc.Compression.topk(0.1, min_elements=0), num_groups=2)
    arrays = random_arrays(rng, SHAPES)
    reduced(stepper, arrays)
    before = slots_of(stepper)
    arrays[0][0, 0] = np.nan
    results = reduced(stepper, arrays)
    assert not np.isfinite(results[0]).any()
    for after, value in zip(slots_of(stepper), before, strict=True):
        np.testing.assert_array_equal(after, value)


@pytest.mark.parametrize("name", sorted(name for name in vars(tfc.Compression) if not name.startswith("_")))
def test_replicas_of_every_preset_are_bit_identical(name, rng, assert_same_on_all_ranks):
    preset = getattr(tfc.Compression, name)
    stepper = Stepper(preset() if callable(preset) else preset)
    for _ in range(2):
        arrays = random_arrays(rng, SHAPES)
        results = reduced(stepper, arrays)
        assert all(np.isfinite(result).all() and result.any() for result in results)
        assert_same_on_all_ranks(results)


@pytest.mark.ranks
def test_residual_conserves_the_sum_of_gradients(rng):
    """What arrives over many steps plus what is pending equals what went in."""
    stepper = Stepper(tfc.Compressor("residual|topk:ratio=0.02|delta_binary|fp16"), hvd.Sum)
    shape = (4000,)
    given, arrived = np.zeros(shape), np.zeros(shape)
    for _ in range(20):
        array = rng.standard_normal(shape).astype(np.float32)
        given += array
        arrived += reduced(stepper, [array])[0]
    [[slot]] = stepper.state.memories.by_name().values()
    given = hvd.allreduce(tf.constant(given), op=hvd.Sum).numpy()
    pending = hvd.allreduce(tf.constant(slot.numpy().astype(np.float64)), op=hvd.Sum).numpy()
    np.testing.assert_allclose(arrived + pending, given, atol=1e-3)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
@pytest.mark.ranks
def test_half_precision_gradients(rng, dtype, assert_same_on_all_ranks):
    stepper = Stepper(tfc.Compressor("nonzero|bitmap|raw"))
    gradients = [tf.cast(rng.standard_normal(shape), dtype) for shape in SHAPES]
    results = stepper.run(gradients, names_of(gradients))
    for result, gradient in zip(results, gradients, strict=True):
        assert result.dtype == dtype
        mean = hvd.allreduce(tf.cast(gradient, tf.float32), op=hvd.Average).numpy()
        np.testing.assert_allclose(tf.cast(result, tf.float32).numpy(), mean, rtol=1e-2, atol=1e-2)
    assert_same_on_all_ranks([tf.cast(result, tf.float32).numpy() for result in results])


@pytest.mark.ranks
def test_other_kinds_of_gradients_go_through_horovod(rng):
    stepper = Stepper(tfc.Compression.topk(0.1))
    rank, ranks = hvd.rank(), hvd.size()
    rows = tf.IndexedSlices(tf.ones([2, 3]) * (rank + 1.0), tf.constant([rank, 5]), tf.constant([9, 3]))
    gradients = [
        None,
        tf.constant([1, 2, 3], tf.int32),
        tf.constant([1.0 + 2.0j * rank], tf.complex64),
        rows,
        tf.constant([2.0 * rank], tf.float64),
        tf.constant(rng.standard_normal(2000).astype(np.float32)),
    ]
    names = names_of(gradients)
    result = Stepper(tfc.Compression.topk(0.1), hvd.Sum).run(gradients, names)
    assert result[0] is None
    assert result[1].numpy().tolist() == [ranks, 2 * ranks, 3 * ranks]
    total = ranks * (ranks - 1)
    np.testing.assert_allclose(result[2].numpy(), [ranks + 1.0j * total])
    dense_rows = tf.convert_to_tensor(result[3]).numpy()
    np.testing.assert_allclose(dense_rows[5], np.full(3, ranks * (ranks + 1) / 2))
    np.testing.assert_allclose(result[4].numpy(), [total])
    assert result[5].shape == (2000,)
    averaged = stepper.run([gradients[2]], ["g"])[0]
    np.testing.assert_allclose(averaged.numpy(), [1.0 + 1.0j * (ranks - 1)])


def test_a_gradient_that_appears_later(rng):
    stepper = Stepper(tfc.Compression.topk(0.1))
    array = tf.constant(rng.standard_normal(3000).astype(np.float32))
    first = stepper.run([array, None], ["a", "b"])
    second = stepper.run([array, array], ["a", "b"])
    assert first[1] is None and second[1].shape == (3000,)
    with pytest.raises(ValueError, match="expected that of its variable"):
        stepper.run([array[:100], array], ["a", "b"])


@pytest.mark.ranks
def test_non_finite_on_one_rank_reaches_all_and_spares_the_memory(rng, assert_same_on_all_ranks):
    stepper = Stepper(tfc.Compression.topk(0.1, min_elements=0))
    array = rng.standard_normal(3000).astype(np.float32)
    reduced(stepper, [array])
    before = stepper.state.memories.by_name()["g0"][0].numpy()
    broken = array.copy()
    if hvd.rank() == hvd.size() - 1:
        broken[17] = np.inf
    [result] = reduced(stepper, [broken])
    assert not np.isfinite(result).any()
    after = stepper.state.memories.by_name()["g0"][0].numpy()
    if hvd.rank() == hvd.size() - 1:
        np.testing.assert_array_equal(after, before)
    assert np.isfinite(after).all()
    [result] = reduced(stepper, [array])
    assert np.isfinite(result).all()
    assert_same_on_all_ranks([result])


@pytest.mark.ranks
def test_memories_of_a_rank_that_joined_an_elastic_job_later(monkeypatch):
    """It has none of variables that others trained before, and counts as zeros in their mean."""
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    state = Stepper(tfc.Compression.topk(0.1, min_elements=1)).state
    for name in ["now", "before"] if hvd.rank() == 0 else ["now"]:
        [slot] = state.memories.slots_of(Parameter(name, name, tf.TensorShape([3])), "residual", 1, False)
        slot.assign([2.0, 4.0, 6.0])
    state.prepare_memories()
    np.testing.assert_array_equal(state.pending()["now"], [[2, 4, 6]])
    np.testing.assert_allclose(state.pending()["before"], np.array([[2, 4, 6]]) / hvd.size())


@pytest.mark.ranks
def test_empty_and_scalar_tensors(rng):
    stepper = Stepper(tfc.Compression.topk(0.1, min_elements=0), hvd.Sum)
    arrays = [np.zeros((0, 4), np.float32), np.float32(hvd.rank() + 1.0), np.ones((1,), np.float32)]
    empty, scalar, one = reduced(stepper, arrays)
    assert empty.shape == (0, 4)
    assert scalar.shape == () and scalar == hvd.size() * (hvd.size() + 1) / 2
    assert one.tolist() == [hvd.size()]


@pytest.mark.ranks
def test_ranks_with_different_specs_raise_everywhere_at_the_first_step(rng):
    ratio = 0.01 if hvd.rank() == 0 else 0.02
    stepper = Stepper(tfc.Compression.topk(ratio))
    with pytest.raises(ValueError, match=r"ratio=0\.01.* rank 0 .*ratio=0\.02.* rank 1"):
        reduced(stepper, [rng.standard_normal(5000).astype(np.float32)])


def test_ranks_with_different_shapes_raise_everywhere(rng):
    stepper = Stepper(tfc.Compression.topk(0.1))
    with pytest.raises(ValueError, match="gradient 0 is"):
        reduced(stepper, [np.zeros(2000 + (hvd.rank() == 1), np.float32)])


def test_compressed_against_uncompressed_rank_raises_everywhere():
    compressor = tfc.Compression.none if hvd.rank() == 0 else tfc.Compression.topk()
    stepper = Stepper(compressor)
    with pytest.raises(ValueError, match="configured differently"):
        reduced(stepper, [np.zeros(2000, np.float32)])


def test_statistics_count_what_was_really_sent(rng):
    compressor = tfc.Compression.topk(0.01)
    stepper = Stepper(compressor)
    arrays = random_arrays(rng, SHAPES)
    frames = [len(tfc.encode(a, compressor.route("", "float32", a.shape).spec)) for a in arrays]
    reduced(stepper, arrays)
    stats = stepper.state.stats()
    assert [t.payload_bytes for t in stats.tensors] == frames
    assert [t.dense_bytes for t in stats.tensors] == [4 * a.size for a in arrays]
    # The packet is padded to a length that changes seldom.
    padding = stats.total.payload_bytes - sum(frames)
    assert 0 <= padding < 64 and stats.total.payload_bytes % 64 == 0
    # A ring: what all others sent comes in, and as much goes out.
    everyone = hvd.allgather(tf.constant([stats.total.payload_bytes])).numpy().sum()
    assert stats.total.wire_bytes == 2 * (everyone - stats.total.payload_bytes)
    ring = sum(4 * 4 * a.size * (hvd.size() - 1) // hvd.size() for a in arrays)
    assert stats.total.dense_wire_bytes == ring
    assert stats.total.ratio == ring / stats.total.wire_bytes
    assert stats.total.encode_nanoseconds > 0 and stats.total.decode_nanoseconds > 0
    assert "total" in str(stats)


def test_linear_presets_are_all_reduced(rng):
    array = rng.standard_normal(3000).astype(np.float32)
    mean = hvd.allreduce(tf.constant(array), op=hvd.Average).numpy()
    plain = Stepper(tfc.Compression.none)
    np.testing.assert_array_equal(reduced(plain, [array])[0], mean)
    assert plain.state.stats().total.payload_bytes == 4 * 3000
    half = Stepper(tfc.Compression.fp16, gradient_predivide_factor=2.0)
    np.testing.assert_allclose(reduced(half, [array])[0], mean, atol=2e-3)
    assert half.state.stats().total.payload_bytes == 2 * 3000


@pytest.mark.parametrize(("num_values", "quantum"), [(10, 64), (3000, 512), (20_000, 2048), (40_000, 1)])
@pytest.mark.ranks
def test_packets_are_padded_to_lengths_that_change_seldom(num_values, quantum):
    stepper = Stepper(tfc.Compressor("nonzero|bitmap|raw", min_elements=0))
    array = np.ones(num_values, np.float32)
    array[0] = 0
    mean = reduced(stepper, [array])[0]
    np.testing.assert_array_equal(mean, array)
    stats = stepper.state.stats()
    assert 0 <= stats.total.payload_bytes - stats.tensors[0].payload_bytes < quantum
    assert stats.total.payload_bytes % quantum == 0
