"""Codecs in Python under Horovod: the same steps as those of the core."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper, random_arrays, reduced, run, slots_of, sum_over_ranks
from training import fit, keras, make_model

import tfcompress as tfc

SHAPES = [(64, 100), (5000,), (7,)]


class Exact(tfc.CustomCodec):
    def encode(self, values, seed):
        return values.tobytes()

    def decode(self, encoded, shape, seed):
        return encoded.view(np.float32)


class Signs(tfc.CustomCodec):
    """One bit an element, and their mean magnitude."""

    def encode(self, values, seed):
        scale = np.array([np.abs(values).mean()], np.float32)
        return np.concatenate([scale.view(np.uint8), np.packbits(values >= 0)])

    def decode(self, encoded, shape, seed):
        [scale] = encoded[:4].view(np.float32)
        signs = np.unpackbits(encoded[4:], count=int(np.prod(shape)))
        return scale * (2.0 * signs - 1)


def compressor(codec, memory="residual", **options):
    return tfc.Compressor(f"{memory}|dense|raw|raw", codec=codec, min_elements=64, **options)


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
@pytest.mark.parametrize("memory", ["none", "residual"])
@pytest.mark.ranks
def test_a_codec_that_is_exact_is_the_uncompressed_step(op, memory, rng, assert_same_on_all_ranks):
    stepper, plain = Stepper(compressor(Exact(), memory), op), Stepper(tfc.Compression.none, op)
    for _ in range(2):
        arrays = random_arrays(rng, SHAPES)
        found = reduced(stepper, arrays)
        assert_same_on_all_ranks(found)
        for one, other in zip(found, run(plain, arrays), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert not any(slot.any() for slot in slots_of(stepper))


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16], ids=["float32", "float16"])
@pytest.mark.parametrize("function", [lambda call: call, tf.function], ids=["eager", "function"])
def test_nothing_is_lost(dtype, function, rng, assert_same_on_all_ranks):
    stepper = Stepper(compressor(Signs()), "sum")
    step = function(lambda *arrays: run(stepper, arrays, dtype))
    given, applied = ([np.zeros(shape) for shape in SHAPES] for _ in range(2))
    for _ in range(5):
        arrays = [np.float32(np.float16(each)) for each in random_arrays(rng, SHAPES)]
        results = [each.numpy() for each in step(*map(tf.constant, arrays))]
        assert_same_on_all_ranks(results)
        for i, (array, result) in enumerate(zip(arrays, results, strict=True)):
            given[i] += sum_over_ranks(array)
            applied[i] += result
    held = [sum_over_ranks(slot) for slot in slots_of(stepper)]
    for i in (0, 1):
        assert held[i].any()
        np.testing.assert_allclose(given[i] - held[i], applied[i], atol=1e-4 if dtype == tf.float32 else 0.1)
    total = stepper.state.stats().total
    payload = sum(4 + -(-np.prod(shape) // 8) for shape in SHAPES[:2])
    assert [each.payload_bytes for each in stepper.state.stats().tensors[:2]] == [5 * 804, 5 * 629]
    assert 5 * payload < total.payload_bytes < 5 * (payload + 250)  # Headers, and what is small.


def test_a_gradient_that_is_not_finite_leaves_the_residuals(rng):
    stepper = Stepper(compressor(Signs()))
    run(stepper, random_arrays(rng, SHAPES))
    before = slots_of(stepper)
    arrays = random_arrays(rng, SHAPES)
    if hvd.rank() == 1:
        arrays[1][3] = np.nan
    assert not any(np.isfinite(each).any() for each in reduced(stepper, arrays)[:2])
    for one, other in zip(before, slots_of(stepper), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_broken_packet_leaves_the_residuals(rng, monkeypatch):
    from tfcompress.comm import Ranks

    stepper = Stepper(compressor(Signs()))
    run(stepper, random_arrays(rng, SHAPES))
    before = slots_of(stepper)
    honest = Ranks.allgather_packet

    def broken(self, packet, name):
        packets = honest(self, packet, name)
        return tf.concat([packets[:-1], packets[-1:] ^ 1], axis=0) if name.endswith("custom") else packets

    monkeypatch.setattr(Ranks, "allgather_packet", broken)
    with pytest.raises(ValueError, match=rf"rank {hvd.size() - 1} is damaged"):
        run(stepper, random_arrays(rng, SHAPES))
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"rank {hvd.size() - 1} is damaged"):
        tf.function(lambda *arrays: run(stepper, arrays))(*random_arrays(rng, SHAPES))
    for one, other in zip(before, slots_of(stepper), strict=True):
        np.testing.assert_array_equal(one, other)


def test_ranks_with_different_codecs_are_told(rng):
    stepper = Stepper(compressor(Signs() if hvd.rank() else Exact()))
    with pytest.raises(ValueError, match="Exact"):
        run(stepper, random_arrays(rng, SHAPES))


def test_rows_of_tables_travel_in_frames(rng):
    stepper = Stepper(compressor(Signs()), "sum")
    rows = np.float32(rng.standard_normal((3, 8)))
    slices = tf.IndexedSlices(tf.constant(rows), tf.constant([1, 5, 1]), tf.constant([200, 8]))
    [result] = stepper.run([slices], ["table"])
    expected = sum_over_ranks(tf.convert_to_tensor(slices).numpy())
    np.testing.assert_allclose(tf.convert_to_tensor(result), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(tfc.DistributedOptimizer, id="ours"),
        pytest.param(hvd.DistributedOptimizer, id="stock", marks=pytest.mark.long),
    ],
)
def test_a_model_trains(wrap, assert_same_on_all_ranks):
    own = keras if wrap is tfc.DistributedOptimizer else pytest.importorskip("tf_keras")
    model = make_model(own)
    optimizer = wrap(own.optimizers.SGD(0.01), compression=compressor(Signs()))
    options = {"jit_compile": False} if wrap is tfc.DistributedOptimizer else {}
    history = fit(model, optimizer, 640, epochs=3, batch_size=16, **options)
    assert history.history["loss"][-1] < 0.6 * history.history["loss"][0]
    assert_same_on_all_ranks([np.asarray(each) for each in model.get_weights()])
