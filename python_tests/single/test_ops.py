"""The TensorFlow ops: that they bind the core as documented (the codecs have tests in C++)."""

import numpy as np
import pytest
import tensorflow as tf

from tfcompress import ops

EXACT = "residual|topk:ratio=0.1|delta_binary|raw"
SPECS = [
    EXACT,
    "residual|topk:ratio=0.1|bloom:policy=p2|dexp",
    "residual|topk:ratio=0.1|bitmap|fp16",
    "residual|nonzero|sketchml",
    "residual|dense|raw|quantile",
]


def gradient_of(n: int, seed: int = 0, dtype: tf.DType = tf.float32) -> tf.Tensor:
    return tf.cast(np.random.default_rng(seed).standard_normal(n), dtype)


def slot_of(n: int, seed: int | None = None) -> tf.Variable:
    return tf.Variable(tf.zeros(n) if seed is None else gradient_of(n, seed), trainable=False)


def encode(gradient: tf.Tensor, slots=(), spec: str = "dense|raw|raw", seed: int = 7) -> tf.Tensor:
    frame, nanoseconds = ops.encode(gradient, slots, tf.constant(seed, tf.int64), spec)
    assert nanoseconds.shape == []
    return frame


def decode_sum(packets, num_ranks=1, scale=1.0, shapes=((1000,),), dtypes=(tf.float32,)):
    sums, _, _ = ops.decode_sum(packets, num_ranks, scale, list(shapes), list(dtypes))
    return sums


def with_byte_flipped(packet: tf.Tensor, position: int) -> tf.Tensor:
    changed = packet.numpy()
    changed[position] ^= 1
    return tf.constant(changed)


class TestEncode:
    @pytest.mark.parametrize("spec", SPECS)
    def test_what_is_not_decoded_stays_in_the_slot(self, spec):
        gradient, slot = gradient_of(1000), slot_of(1000, seed=1)
        compensated = gradient + slot
        (decoded,) = decode_sum(encode(gradient, [slot], spec))
        np.testing.assert_allclose(decoded + slot, compensated, rtol=0, atol=1e-6)

    def test_exact_codec_keeps_the_very_bits_that_it_does_not_send(self):
        gradient, slot = gradient_of(1000), slot_of(1000, seed=1)
        compensated = gradient + slot
        (decoded,) = decode_sum(encode(gradient, [slot], EXACT))
        sent = decoded != 0
        assert np.count_nonzero(sent) == 100
        np.testing.assert_array_equal(decoded, tf.where(sent, compensated, 0))
        np.testing.assert_array_equal(slot, tf.where(sent, 0, compensated))

    def test_updates_the_variable_and_not_what_was_read_from_it(self):
        slot = slot_of(1000, seed=1)
        earlier = slot.read_value()
        copy = earlier.numpy().copy()
        encode(gradient_of(1000), [slot], EXACT)
        np.testing.assert_array_equal(earlier, copy)
        assert np.any(slot.numpy() != copy)

    def test_updates_a_variable_that_is_also_accessed_sparsely(self):
        slot = slot_of(1000)
        slot.scatter_update(tf.IndexedSlices([2.0], [5]))  # From here on in copy-on-read mode.
        gradient = gradient_of(1000)
        compensated = gradient + slot
        (decoded,) = decode_sum(encode(gradient, [slot], EXACT))
        np.testing.assert_array_equal(decoded + slot, compensated)

    @pytest.mark.parametrize("spec", SPECS)
    def test_graph_and_eager_agree(self, spec):
        @tf.function
        def step(gradient, slot, seed):
            return ops.encode(gradient, [slot], seed, spec)[0]

        eager_slot, graph_slot = slot_of(1000), slot_of(1000)
        for round_ in range(3):
            gradient, seed = gradient_of(1000, round_), tf.constant(round_, tf.int64)
            eager = ops.encode(gradient, [eager_slot], seed, spec)[0]
            np.testing.assert_array_equal(step(gradient, graph_slot, seed), eager)
        np.testing.assert_array_equal(graph_slot, eager_slot)

    def test_steps_of_one_function_run_in_order(self):
        slot, expected = slot_of(1000), slot_of(1000)
        seed = tf.constant(0, tf.int64)

        @tf.function
        def two_steps(gradient):
            first, _ = ops.encode(gradient, [slot], seed, EXACT)
            second, _ = ops.encode(gradient, [slot], seed, EXACT)
            return first, second, slot.read_value()

        gradient = gradient_of(1000)
        frames = [ops.encode(gradient, [expected], seed, EXACT)[0] for _ in range(2)]
        *found, residual = two_steps(gradient)
        np.testing.assert_array_equal(tf.concat(found, 0), tf.concat(frames, 0))
        np.testing.assert_array_equal(residual, expected)

    def test_many_at_once_on_the_shared_thread_pool(self):
        n, num_tensors = 300_000, 16  # Several blocks each, so that all want the pool.
        slots = [slot_of(n) for _ in range(num_tensors)]
        seed = tf.constant(0, tf.int64)

        @tf.function
        def step(gradients):
            return [ops.encode(g, [slot], seed, EXACT)[0] for g, slot in zip(gradients, slots, strict=True)]

        gradients = [gradient_of(n, i) for i in range(num_tensors)]
        for frame, gradient in zip(step(gradients), gradients, strict=True):
            np.testing.assert_array_equal(frame, encode(gradient, [slot_of(n)], EXACT, seed=0))

    @pytest.mark.parametrize("shape", [[], [0], [1], [10, 0, 3], [4, 5, 50]])
    def test_takes_any_shape(self, shape):
        gradient, slot = tf.ones(shape), tf.Variable(tf.zeros(shape))
        frame = encode(gradient, [slot], "residual|nonzero|raw|raw")
        (decoded,) = decode_sum(frame, shapes=[tf.constant(shape, tf.int64)])
        np.testing.assert_array_equal(decoded, gradient)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("spec", SPECS)
    def test_nonfinite_gradient_leaves_the_slot_and_decodes_to_nan(self, spec, bad):
        slot = slot_of(1000, seed=1)
        before = slot.numpy()
        gradient = tf.tensor_scatter_nd_update(gradient_of(1000), [[999]], [bad])
        (decoded,) = decode_sum(encode(gradient, [slot], spec))
        np.testing.assert_array_equal(slot, before)
        assert np.all(np.isnan(decoded))

    def test_shape_inference(self):
        @tf.function(input_signature=[tf.TensorSpec(None)])
        def step(gradient):
            frame, nanoseconds = ops.encode(gradient, [], tf.constant(0, tf.int64), "dense|raw|raw")
            assert frame.shape.as_list() == [None]
            assert nanoseconds.shape.as_list() == []
            assert (frame.dtype, nanoseconds.dtype) == (tf.uint8, tf.int64)
            return frame

        step.get_concrete_function()

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("topk|nonsense|raw", "unknown index codec 'nonsense'; known: raw, bitmap"),
            ("topk:ratio=2|raw|raw", r"parameter 'ratio' of 'topk' must be a number in \(0, 1\]"),
            ("topk", "has 1 parts; a spec is"),
        ],
    )
    def test_bad_spec(self, spec, message):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            encode(gradient_of(10), [], spec)

    def test_number_of_slots_must_be_the_memorys(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="needs 1 slots, got 0"):
            encode(gradient_of(10), [], EXACT)
        with pytest.raises(tf.errors.InvalidArgumentError, match="needs 0 slots, got 1"):
            encode(gradient_of(10), [slot_of(10)], "dense|raw|raw")

    def test_slot_of_another_size(self):
        message = "slot 0 has 11 elements, the gradient has 10"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            encode(gradient_of(10), [slot_of(11)], EXACT)

    def test_slot_of_another_dtype(self):
        slot = tf.Variable(tf.zeros(10, tf.float16))
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be float32, got half"):
            encode(gradient_of(10), [slot], EXACT)

    def test_uninitialized_slot(self):
        class Handle:
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[10], shared_name="never_set")

        with pytest.raises(tf.errors.FailedPreconditionError, match="slot 0 is not .*initialized"):
            encode(gradient_of(10), [Handle], EXACT)

    def test_unsupported_dtype(self):
        with pytest.raises((tf.errors.InvalidArgumentError, TypeError)):
            encode(tf.zeros(10, tf.float64))

    def test_seed_must_be_a_scalar(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="seed must be a scalar"):
            ops.encode(gradient_of(10), [], tf.zeros([2], tf.int64), "dense|raw|raw")


class TestDecodeSum:
    def test_mean_of_several_tensors_and_ranks(self):
        num_ranks, shapes = 3, [[20, 50], [7], []]
        random = np.random.default_rng(0)
        gradients = [
            [tf.constant(random.standard_normal(shape, np.float32)) for shape in shapes]
            for _ in range(num_ranks)
        ]
        packets = tf.concat([encode(g) for rank in gradients for g in rank], 0)
        sums, num_bytes, nanoseconds = ops.decode_sum(
            packets, num_ranks, 0.25, [tf.constant(s, tf.int64) for s in shapes], [tf.float32] * 3
        )
        for i, found in enumerate(sums):
            # scale is a power of two: the order of summation is all that rounds.
            expected = np.zeros(shapes[i], np.float32)
            for rank in range(num_ranks):
                expected += np.float32(0.25) * gradients[rank][i].numpy()
            np.testing.assert_array_equal(found, expected)
        assert sum(num_bytes.numpy()) == packets.shape[0]
        assert nanoseconds.shape == [3]

    @pytest.mark.parametrize("n", [1000, 300_000])
    def test_equals_numpy_mean(self, n):
        gradients = [gradient_of(n, rank) for rank in range(4)]
        packets = tf.concat([encode(g) for g in gradients], 0)
        (mean,) = decode_sum(packets, 4, 0.25, [[n]])
        np.testing.assert_allclose(mean, np.mean(gradients, axis=0), rtol=1e-5, atol=1e-7)

    @pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
    def test_half_precision(self, dtype):
        gradient = gradient_of(1000, dtype=dtype)
        (decoded,) = decode_sum(encode(gradient), dtypes=[dtype])
        assert decoded.dtype == dtype
        np.testing.assert_array_equal(decoded, gradient)

    @pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
    def test_half_precision_keeps_a_float32_residual(self, dtype):
        gradient, slot = gradient_of(1000, dtype=dtype), slot_of(1000)
        (decoded,) = decode_sum(encode(gradient, [slot], EXACT), dtypes=[dtype])
        np.testing.assert_array_equal(tf.cast(decoded, tf.float32) + slot, tf.cast(gradient, tf.float32))

    def test_one_nonfinite_rank_makes_its_tensor_nan_and_no_other(self):
        bad = tf.constant([1.0, np.inf])
        good = tf.constant([1.0, 2.0])
        packets = tf.concat([encode(g) for g in (good, good, bad, good)], 0)
        first, second = decode_sum(packets, 2, 0.5, [[2], [2]], [tf.float32] * 2)
        assert np.all(np.isnan(first))
        np.testing.assert_array_equal(second, good)

    def test_graph_and_eager_agree(self):
        packets = tf.concat([encode(gradient_of(1000, rank)) for rank in range(2)], 0)
        (eager,) = decode_sum(packets, 2, 0.5)
        (graph,) = tf.function(decode_sum)(packets, 2, 0.5)
        np.testing.assert_array_equal(graph, eager)

    def test_shape_inference(self):
        @tf.function
        def step(packets, unknown):
            sums, num_bytes, nanoseconds = ops.decode_sum(
                packets, 1, 1.0, [[3, 4], unknown], [tf.float32, tf.float16]
            )
            assert [s.shape.as_list() for s in sums] == [[3, 4], [None, None]]
            assert [s.dtype for s in sums] == [tf.float32, tf.float16]
            assert num_bytes.shape.as_list() == nanoseconds.shape.as_list() == [2]
            return sums

        step.get_concrete_function(tf.TensorSpec([None], tf.uint8), tf.TensorSpec([2], tf.int64))

    def test_number_of_dtypes_must_be_that_of_shapes(self):
        packets = encode(gradient_of(1000))
        with pytest.raises(tf.errors.InvalidArgumentError, match="2 dtypes for 1 shapes"):
            decode_sum(packets, dtypes=[tf.float32] * 2)
        with pytest.raises(ValueError, match="2 dtypes for 1 shapes"):
            tf.function(decode_sum).get_concrete_function(packets, dtypes=(tf.float32,) * 2)

    @pytest.fixture
    def packets(self):
        """Two ranks of two tensors with 1000 and 10 elements."""
        frames = [encode(gradient_of(n, rank)) for rank in range(2) for n in (1000, 10)]
        return tf.concat(frames, 0)

    shapes_and_dtypes = ([[1000], [10]], [tf.float32] * 2)

    @pytest.mark.parametrize("position", [0, 4, 8, 12, 16, 30, 40, -1, -20])
    def test_changed_bytes_are_data_loss(self, packets, position):
        with pytest.raises(tf.errors.DataLossError):
            decode_sum(with_byte_flipped(packets, position), 2, 1.0, *self.shapes_and_dtypes)

    def test_data_loss_names_rank_and_tensor(self, packets):
        with pytest.raises(tf.errors.DataLossError, match="rank 1, tensor 1: checksum"):
            decode_sum(with_byte_flipped(packets, -1), 2, 1.0, *self.shapes_and_dtypes)
        with pytest.raises(tf.errors.DataLossError, match="rank 0, tensor 0: not a .* frame"):
            decode_sum(with_byte_flipped(packets, 0), 2, 1.0, *self.shapes_and_dtypes)

    @pytest.mark.parametrize("num_bytes", [0, 1, 43, 44, 1000, -1])
    def test_truncated_packets_are_data_loss(self, packets, num_bytes):
        with pytest.raises(tf.errors.DataLossError, match=r"rank \d, tensor \d: truncated"):
            decode_sum(packets[:num_bytes], 2, 1.0, *self.shapes_and_dtypes)

    def test_bytes_left_over_are_data_loss(self, packets):
        with pytest.raises(tf.errors.DataLossError, match="3 bytes too many"):
            decode_sum(tf.concat([packets, [0, 0, 0]], 0), 2, 1.0, *self.shapes_and_dtypes)

    def test_another_number_of_elements_is_data_loss(self, packets):
        message = "rank 0, tensor 1: frame of 10 elements, expected 11"
        with pytest.raises(tf.errors.DataLossError, match=message):
            decode_sum(packets, 2, 1.0, [[1000], [11]], [tf.float32] * 2)

    def test_another_dtype_is_data_loss(self, packets):
        message = "rank 0, tensor 0: frame of float32, expected float16"
        with pytest.raises(tf.errors.DataLossError, match=message):
            decode_sum(packets, 2, 1.0, [[1000], [10]], [tf.float16, tf.float32])

    def test_bad_arguments(self):
        packets = encode(gradient_of(1000))
        with pytest.raises(tf.errors.InvalidArgumentError, match="num_ranks must be at least 1"):
            decode_sum(packets, num_ranks=0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="num_ranks must be a scalar"):
            decode_sum(packets, num_ranks=[1])
        with pytest.raises(tf.errors.InvalidArgumentError, match="packets must be 1-D"):
            decode_sum(packets[tf.newaxis])
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode_sum(packets, shapes=[[-1]])
