"""The TensorFlow ops: that they bind the core as documented (the codecs have tests in C++)."""

import numpy as np
import pytest
import tensorflow as tf

import tfcompress as tfc
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


def encode_with_slots(gradient: tf.Tensor, slots, spec: str | tf.Tensor, seed: int = 7):
    frame, num_sent, nanoseconds, new_slots = ops.encode(gradient, slots, tf.constant(seed, tf.int64), spec)
    assert num_sent.shape == nanoseconds.shape == []
    assert [new.shape for new in new_slots] == [slot.shape for slot in slots]
    return frame, *new_slots


def encode(gradient: tf.Tensor, slots=(), spec: str = "dense|raw|raw", seed: int = 7) -> tf.Tensor:
    return encode_with_slots(gradient, slots, spec, seed)[0]


def decode_sum(packets, num_ranks=1, scale=1.0, shapes=((1000,),), dtypes=(tf.float32,)):
    return ops.decode_sum(packets, num_ranks, scale, list(shapes), list(dtypes))[0]


def with_bad_element(gradient: tf.Tensor, bad: float) -> tf.Tensor:
    return tf.tensor_scatter_nd_update(gradient, [[gradient.shape[0] - 1]], [bad])


def assert_same_bits(found, expected) -> None:
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def with_byte_flipped(packet: tf.Tensor, position: int) -> tf.Tensor:
    changed = packet.numpy()
    changed[position] ^= 1
    return tf.constant(changed)


class TestEncode:
    @pytest.mark.parametrize("spec", SPECS)
    def test_what_is_not_decoded_is_in_the_new_slot(self, spec):
        gradient, slot = gradient_of(1000), slot_of(1000, seed=1)
        frame, new_slot = encode_with_slots(gradient, [slot], spec)
        (decoded,) = decode_sum(frame)
        np.testing.assert_array_equal(new_slot, (gradient + slot) - decoded)

    @pytest.mark.parametrize("spec", SPECS)
    def test_number_of_elements_is_that_of_the_frame(self, spec):
        seed = tf.constant(7, tf.int64)
        frame, num_sent, *_ = ops.encode(gradient_of(1000), [slot_of(1000)], seed, spec)
        assert num_sent.numpy().astype("<u4").tobytes() == frame.numpy()[16:20].tobytes()

    def test_exact_codec_keeps_the_very_bits_that_it_does_not_send(self):
        gradient, slot = gradient_of(1000), slot_of(1000, seed=1)
        compensated = gradient + slot
        frame, new_slot = encode_with_slots(gradient, [slot], EXACT)
        (decoded,) = decode_sum(frame)
        sent = decoded != 0
        assert np.count_nonzero(sent) == 100
        np.testing.assert_array_equal(decoded, tf.where(sent, compensated, 0))
        np.testing.assert_array_equal(new_slot, tf.where(sent, 0, compensated))

    @pytest.mark.parametrize("spec", SPECS)
    @pytest.mark.parametrize("bad", [None, np.nan])
    def test_only_reads_the_slots(self, spec, bad):
        gradient, slot = gradient_of(1000), slot_of(1000, seed=1)
        if bad is not None:
            gradient = with_bad_element(gradient, bad)
        tensor = slot.read_value()
        before, gradient_before = slot.numpy().copy(), gradient.numpy().copy()
        of_variable = encode_with_slots(gradient, [slot], spec)
        of_tensor = encode_with_slots(gradient, [tensor], spec)
        for kept, expected in ((slot, before), (tensor, before), (gradient, gradient_before)):
            assert_same_bits(kept, expected)
        for a, b in zip(of_variable, of_tensor, strict=True):
            assert_same_bits(a, b)

    def test_new_slots_do_not_follow_the_slots(self):
        slot = slot_of(1000, seed=1)
        _, new_slot = encode_with_slots(gradient_of(1000), [slot], EXACT)
        copy = new_slot.numpy().copy()
        slot.assign(new_slot)
        slot.assign_add(tf.ones(1000))
        assert_same_bits(new_slot, copy)

    @pytest.mark.parametrize("spec", SPECS)
    def test_graph_and_eager_agree(self, spec):
        @tf.function
        def step(gradient, slot, seed):
            frame, *_, (new_slot,) = ops.encode(gradient, [slot], seed, spec)
            slot.assign(new_slot)
            return frame

        eager_slot, graph_slot = slot_of(1000), slot_of(1000)
        for round_ in range(3):
            gradient, seed = gradient_of(1000, round_), tf.constant(round_, tf.int64)
            eager = step.python_function(gradient, eager_slot, seed)
            np.testing.assert_array_equal(step(gradient, graph_slot, seed), eager)
            np.testing.assert_array_equal(graph_slot, eager_slot)

    def test_a_step_that_is_dropped_can_be_repeated(self):
        slot = slot_of(1000, seed=1)

        @tf.function
        def step(gradient, succeeded):
            frame, *_, (new_slot,) = ops.encode(gradient, [slot], tf.constant(0, tf.int64), EXACT)
            slot.assign(tf.where(succeeded, new_slot, slot))
            return frame

        gradient, before = gradient_of(1000), slot.numpy().copy()
        dropped = step(gradient, False)
        assert_same_bits(slot, before)
        np.testing.assert_array_equal(step(gradient, True), dropped)
        assert np.any(slot.numpy() != before)

    def test_many_at_once_on_the_shared_thread_pool(self):
        n, num_tensors = 300_000, 16  # Several blocks each, so that all want the pool.
        slots = [slot_of(n, seed=100 + i) for i in range(num_tensors)]

        @tf.function
        def step(gradients):
            return [encode_with_slots(g, [slot], EXACT) for g, slot in zip(gradients, slots, strict=True)]

        gradients = [gradient_of(n, i) for i in range(num_tensors)]
        for found, gradient, slot in zip(step(gradients), gradients, slots, strict=True):
            for a, b in zip(found, encode_with_slots(gradient, [slot], EXACT), strict=True):
                np.testing.assert_array_equal(a, b)

    @pytest.mark.parametrize("shape", [[], [0], [1], [10, 0, 3], [4, 5, 50]])
    def test_takes_any_shape(self, shape):
        gradient, slot = tf.ones(shape), tf.Variable(tf.zeros(shape))
        frame = encode(gradient, [slot], "residual|nonzero|raw|raw")
        (decoded,) = decode_sum(frame, shapes=[tf.constant(shape, tf.int64)])
        np.testing.assert_array_equal(decoded, gradient)

    def test_codecs_know_the_last_dimension(self):
        """The bytes are those of the array of this shape, and fewer than those of a vector."""
        columns = np.random.default_rng(1).standard_t(2, [60, 1])
        gradient = (columns * np.random.default_rng(2).standard_t(2, [2, 1, 80])).astype(np.float32)
        spec = "topk:ratio=0.05|rowcol|ecsq"
        frame = encode(tf.constant(gradient), spec=spec).numpy().tobytes()
        assert frame == tfc.encode(gradient, spec, seed=7)
        assert len(frame) < 0.8 * len(tfc.encode(gradient.ravel(), spec, seed=7))

    def test_slots_keep_their_shape(self):
        gradient, slot = tf.ones([2, 3]), slot_of(6, seed=1)
        _, new_slot = encode_with_slots(gradient, [slot], EXACT)
        assert new_slot.shape == [6]

    # In a function nobody else holds the gradient: its memory becomes the new slot.
    @pytest.mark.parametrize("factor", [1.0, np.nan])
    @pytest.mark.parametrize("spec", [*SPECS, "momentum|topk:ratio=0.1|delta_binary|raw"])
    def test_gradient_whose_memory_is_taken(self, spec, factor):
        gradient, slots = gradient_of(1000), [slot_of(1000, seed=1), slot_of(1000, seed=2)]
        slots = slots[: 2 if spec.startswith("momentum") else 1]
        step = tf.function(lambda gradient: encode_with_slots(gradient * factor, slots, spec))
        expected = encode_with_slots(gradient * factor, slots, spec)
        for found, wanted in zip(step(gradient), expected, strict=True):
            assert_same_bits(found, wanted)
        assert_same_bits(gradient, gradient_of(1000))

    def test_gradient_that_others_read_stays_as_it_is(self):
        slot = slot_of(1000, seed=1)

        @tf.function
        def step(given):
            gradient = given * 2.0
            frame, new_slot = encode_with_slots(gradient, [slot], EXACT)
            with tf.control_dependencies([frame]):
                return new_slot, tf.reshape(gradient, [10, 100])

        given = gradient_of(1000)
        new_slot, gradient = step(given)
        assert_same_bits(new_slot, encode_with_slots(given * 2.0, [slot], EXACT)[1])
        assert_same_bits(gradient, given * 2.0)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("spec", SPECS)
    def test_nonfinite_gradient_repeats_the_slot_and_decodes_to_nan(self, spec, bad):
        slot = tf.tensor_scatter_nd_update(gradient_of(1000, 1), [[0]], [-0.0])
        frame, new_slot = encode_with_slots(with_bad_element(gradient_of(1000), bad), [slot], spec)
        assert_same_bits(new_slot, slot)
        (decoded,) = decode_sum(frame)
        assert np.all(np.isnan(decoded))

    def test_gradient_that_overflows_the_slot_repeats_it(self):
        largest = tf.constant([1.0, np.finfo(np.float32).max])
        frame, new_slot = encode_with_slots(largest, [largest], "residual|dense|raw|raw")
        assert_same_bits(new_slot, largest)
        assert np.all(np.isnan(decode_sum(frame, shapes=[[2]])))

    @pytest.mark.parametrize("slots", [[], [None, 4]])
    def test_shape_inference(self, slots):
        @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(slots)])
        def step(gradient, slot):
            frame, num_sent, nanoseconds, new_slots = ops.encode(
                gradient, [slot], tf.constant(0, tf.int64), EXACT
            )
            assert frame.shape.as_list() == [None]
            assert num_sent.shape.as_list() == nanoseconds.shape.as_list() == []
            assert [new.shape.as_list() for new in new_slots] == [slots]
            assert (frame.dtype, num_sent.dtype, nanoseconds.dtype) == (tf.uint8, tf.int64, tf.int64)
            assert [new.dtype for new in new_slots] == [tf.float32]
            return frame

        step.get_concrete_function()

    def test_spec_may_change_from_step_to_step(self):
        spec, slot = tf.Variable(EXACT, trainable=False), slot_of(1000)
        num_traces = 0

        @tf.function
        def step(gradient):
            nonlocal num_traces
            num_traces += 1
            return encode_with_slots(gradient, [slot], spec)

        for i, changed in enumerate([*SPECS, EXACT, EXACT, SPECS[1]]):
            spec.assign(changed)
            gradient = gradient_of(1000, i)
            frame, new_slot = step(gradient)
            expected_frame, expected_slot = encode_with_slots(gradient, [slot], changed)
            assert_same_bits(frame, expected_frame)
            assert_same_bits(new_slot, expected_slot)
            slot.assign(new_slot)
        assert num_traces == 1

    def test_bad_spec_at_run_time(self):
        spec, slot = tf.Variable(EXACT, trainable=False), slot_of(10)
        step = tf.function(lambda gradient: encode_with_slots(gradient, [slot], spec))
        good = step(gradient_of(10))
        spec.assign("residual|topk|nonsense|raw")
        with pytest.raises(tf.errors.InvalidArgumentError, match="'nonsense'; known: raw, bitmap"):
            step(gradient_of(10))
        spec.assign("topk|raw|raw")
        with pytest.raises(tf.errors.InvalidArgumentError, match="needs 0 slots, got 1"):
            step(gradient_of(10))
        spec.assign(EXACT)
        for a, b in zip(step(gradient_of(10)), good, strict=True):
            assert_same_bits(a, b)

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

    def test_bad_arguments(self):
        for slots, spec, message in (
            ([], EXACT, "needs 1 slots, got 0"),
            ([slot_of(10)], "dense|raw|raw", "needs 0 slots, got 1"),
            ([slot_of(11)], EXACT, "slot 0 has 11 elements, the gradient has 10"),
            ([], [EXACT], "spec must be a scalar"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                encode(gradient_of(10), slots, spec)
        with pytest.raises(ValueError, match="requested dtype float32"):
            encode(gradient_of(10), [tf.zeros(10, tf.float16)], EXACT)
        with pytest.raises((tf.errors.InvalidArgumentError, TypeError)):
            encode(tf.zeros(10, tf.float64))
        with pytest.raises(tf.errors.InvalidArgumentError, match="seed must be a scalar"):
            ops.encode(gradient_of(10), [], tf.zeros([2], tf.int64), "dense|raw|raw")
        with pytest.raises(ValueError, match="must be rank 0"):
            tf.function(encode).get_concrete_function(tf.zeros(10), [], tf.constant([EXACT]))


class TestDecodeSum:
    def test_sums_of_earlier_steps_stay_as_they_are(self):
        n = (32 << 20) // 4 + 1  # Large enough for the op to use the memory of a sum again.
        frames = [encode(tf.fill([n], float(i)), spec="dense|raw|uniform") for i in range(4)]
        decode = tf.function(lambda frame: decode_sum(frame, shapes=[[n]])[0])
        kept = decode(frames[1])
        for i in (0, 2, 3):
            assert np.all(decode(frames[i]) == i)
        assert np.all(kept == 1)

    def test_mean_of_several_tensors_and_ranks(self):
        num_ranks, shapes = 3, [[20, 50], [7], []]
        random = np.random.default_rng(0)
        gradients = [
            [tf.constant(random.standard_normal(shape, np.float32)) for shape in shapes]
            for _ in range(num_ranks)
        ]
        packets = tf.concat([encode(g) for rank in gradients for g in rank], 0)
        sums, num_bytes, nanoseconds, finite = ops.decode_sum(
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
        np.testing.assert_array_equal(finite, [True] * 3)

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
        frame, new_slot = encode_with_slots(gradient, [slot], EXACT)
        (decoded,) = decode_sum(frame, dtypes=[dtype])
        assert new_slot.dtype == tf.float32
        np.testing.assert_array_equal(tf.cast(decoded, tf.float32) + new_slot, tf.cast(gradient, tf.float32))

    def test_one_nonfinite_rank_makes_its_tensor_nan_and_no_other(self):
        bad = tf.constant([1.0, np.inf])
        good = tf.constant([1.0, 2.0])
        packets = tf.concat([encode(g) for g in (good, good, bad, good)], 0)
        (first, second), _, _, finite = ops.decode_sum(packets, 2, 0.5, [[2], [2]], [tf.float32] * 2)
        assert np.all(np.isnan(first))
        np.testing.assert_array_equal(second, good)
        assert finite.dtype == tf.bool
        np.testing.assert_array_equal(finite, [False, True])

    @pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16])
    def test_finite_is_of_the_gradients_and_not_of_the_sum(self, dtype):
        largest = tf.fill([2], dtype.max)
        packets = tf.concat([encode(largest)] * 2, 0)
        (total,), _, _, finite = ops.decode_sum(packets, 2, 1.0, [[2]], [dtype])
        assert np.all(np.isinf(tf.cast(total, tf.float32)))
        np.testing.assert_array_equal(finite, [True])

    def test_graph_and_eager_agree(self):
        packets = tf.concat([encode(gradient_of(1000, rank)) for rank in range(2)], 0)
        (eager,) = decode_sum(packets, 2, 0.5)
        (graph,) = tf.function(decode_sum)(packets, 2, 0.5)
        np.testing.assert_array_equal(graph, eager)

    def test_shape_inference(self):
        @tf.function
        def step(packets, unknown):
            sums, num_bytes, nanoseconds, finite = ops.decode_sum(
                packets, 1, 1.0, [[3, 4], unknown], [tf.float32, tf.float16]
            )
            assert [s.shape.as_list() for s in sums] == [[3, 4], [None, None]]
            assert [s.dtype for s in sums] == [tf.float32, tf.float16]
            assert all(measured.shape.as_list() == [2] for measured in (num_bytes, nanoseconds, finite))
            assert [m.dtype for m in (num_bytes, nanoseconds, finite)] == [tf.int64, tf.int64, tf.bool]
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
        with pytest.raises(tf.errors.DataLossError, match="rank 1, tensor 1: (the )?checksum"):
            decode_sum(with_byte_flipped(packets, -1), 2, 1.0, *self.shapes_and_dtypes)
        with pytest.raises(tf.errors.DataLossError, match="rank 0, tensor 0: not a .* frame"):
            decode_sum(with_byte_flipped(packets, 0), 2, 1.0, *self.shapes_and_dtypes)

    @pytest.mark.parametrize("num_bytes", [0, 1, 43, 44, 1000, -1])
    def test_truncated_packets_are_data_loss(self, packets, num_bytes):
        with pytest.raises(tf.errors.DataLossError, match=r"rank \d, tensor \d: truncated"):
            decode_sum(packets[:num_bytes], 2, 1.0, *self.shapes_and_dtypes)

    def test_packets_of_something_else_are_data_loss(self, packets):
        with pytest.raises(tf.errors.DataLossError, match="3 bytes too many"):
            decode_sum(tf.concat([packets, [1, 0, 0]], 0), 2, 1.0, *self.shapes_and_dtypes)
        for sizes, dtype, message in (
            ([1000, 11], tf.float32, "rank 0, tensor 1: frame of 10 elements, expected 11"),
            ([1000, 10], tf.float16, "rank 0, tensor 0: frame of float32, expected float16"),
        ):
            with pytest.raises(tf.errors.DataLossError, match=message):
                decode_sum(packets, 2, 1.0, [[size] for size in sizes], [dtype, tf.float32])

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


class TestPositions:
    """Some frames of packets that hold others too."""

    @pytest.fixture
    def packets(self):
        """Two ranks of three tensors with 1000, 10 and 1000 elements."""
        sizes = (1000, 10, 1000)
        return tf.concat([encode(gradient_of(n, 10 * rank + n % 7)) for rank in range(2) for n in sizes], 0)

    def test_takes_the_frames_at_the_positions(self, packets):
        everything = decode_sum(packets, 2, 0.5, [[1000], [10], [1000]], [tf.float32] * 3)
        for positions in ([0], [1], [2], [0, 2], [1, 2], [0, 1, 2]):
            shapes = [everything[i].shape.as_list() for i in positions]
            found, num_bytes, _, finite = ops.decode_sum(
                packets, 2, 0.5, shapes, [tf.float32] * len(positions), positions, num_frames=3
            )
            for i, tensor in zip(positions, found, strict=True):
                np.testing.assert_array_equal(tensor, everything[i])
            assert num_bytes.shape == finite.shape == [len(positions)]

    @pytest.mark.parametrize("positions", [[3], [-1], [0, 0], [1, 0], [0]])
    def test_refuses_other_positions(self, packets, positions):
        shapes = [[1000]] * max(2, len(positions))
        with pytest.raises(tf.errors.InvalidArgumentError, match="positions"):
            ops.decode_sum(packets, 2, 0.5, shapes, [tf.float32] * len(shapes), positions, num_frames=3)

    def test_errors_name_the_position(self, packets):
        with pytest.raises(tf.errors.DataLossError, match="rank 0, tensor 1: frame of 10 elements"):
            ops.decode_sum(packets, 2, 0.5, [[1000]], [tf.float32], [1], num_frames=3)
        with pytest.raises(tf.errors.DataLossError, match="rank 1, tensor 2: (the )?checksum"):
            changed = with_byte_flipped(packets, -1)
            ops.decode_sum(changed, 2, 0.5, [[1000]], [tf.float32], [2], num_frames=3)


class TestPadding:
    """Packets of three ranks, each with a dense tensor, a table and another dense tensor."""

    num_ranks = 3

    @pytest.fixture
    def packets(self):
        return [
            tf.concat(
                [
                    encode(gradient_of(1000, rank)),
                    encode_rows(*slices_of(100, seed=rank), 100),
                    encode(gradient_of(10, rank), spec="nonzero|sketchml"),
                ],
                0,
            )
            for rank in range(self.num_ranks)
        ]

    def padded(self, packets, *paddings) -> tf.Tensor:
        parts = [part for pair in zip(packets, paddings, strict=True) for part in pair]
        return tf.concat([tf.cast(part, tf.uint8) for part in parts], 0)

    def decode(self, packets: tf.Tensor) -> list[np.ndarray]:
        sums, num_bytes, _, finite = ops.decode_sum(
            packets, self.num_ranks, 0.5, [[1000], [10]], [tf.float32] * 2, [0, 2], num_frames=3
        )
        rows, values, table_bytes, _, table_finite, _ = ops.decode_rows(
            packets, self.num_ranks, 0.5, 100, [4], tf.float32, position=1, num_frames=3
        )
        found = (*sums, num_bytes, finite, rows, values, table_bytes, table_finite)
        return [tensor.numpy() for tensor in found]

    @pytest.mark.parametrize("lengths", [(1, 1, 1), (0, 5, 0), (44, 0, 1000), (0, 0, 100_000)])
    def test_zeros_after_a_packet_change_nothing(self, packets, lengths):
        expected = self.decode(tf.concat(packets, 0))
        found = self.decode(self.padded(packets, *(tf.zeros(n) for n in lengths)))
        for a, b in zip(found, expected, strict=True):
            assert_same_bits(a, b)

    @pytest.mark.parametrize(
        ("paddings", "message"),
        [
            (([1], [], []), "rank 1, tensor 0: "),
            (([0, 0], [0, 0, 255], [0]), "rank 2, tensor 0: "),
            (([], [], [0, 0, 1]), "packets: 1 bytes too many"),
            (([], [], [0, 1, 0, 0]), "packets: 3 bytes too many"),
        ],
    )
    def test_other_bytes_are_data_loss(self, packets, paddings, message):
        padded = self.padded(packets, *paddings)
        arguments = padded, self.num_ranks, 1.0
        with pytest.raises(tf.errors.DataLossError, match=message):
            ops.decode_sum(*arguments, [[10]], [tf.float32], [2], num_frames=3)
        with pytest.raises(tf.errors.DataLossError, match=message):
            ops.decode_rows(*arguments, 100, [4], tf.float32, position=1, num_frames=3)

    def test_zeros_inside_a_packet_are_data_loss(self):
        frames = [encode(gradient_of(10)), tf.zeros(3, tf.uint8), encode(gradient_of(10))]
        with pytest.raises(tf.errors.DataLossError, match="rank 0, tensor 1: "):
            decode_sum(tf.concat(frames, 0), 1, 1.0, [[10], [10]], [tf.float32] * 2)


def slices_of(num_rows: int, row_shape=(4,), count: int = 50, seed: int = 0, dtype=tf.float32):
    """Values and indices of a gradient in which rows repeat."""
    random = np.random.default_rng(seed)
    indices = random.integers(0, num_rows, count)
    indices[count // 2 :] = random.choice(indices, count - count // 2)
    return tf.cast(random.standard_normal((count, *row_shape)), dtype), tf.constant(indices, tf.int64)


def encode_rows(values, indices, num_rows, residual=(), spec="dense|raw|raw", row_sparsifier="dense", seed=7):
    frame, nanoseconds, num_bytes, num_sent = ops.encode_rows(
        values,
        indices,
        tf.constant(num_rows, tf.int64),
        residual,
        tf.constant(seed, tf.int64),
        spec,
        row_sparsifier,
    )
    assert nanoseconds.shape == num_sent.shape == [] and num_bytes.shape == [1]
    return frame


def decode_rows(packets, num_rows, num_ranks=1, scale=1.0, row_shape=(4,), dtype=tf.float32, **position):
    rows, values, num_bytes, nanoseconds, finite, error = ops.decode_rows(
        packets, num_ranks, scale, num_rows, list(row_shape), dtype, **position
    )
    assert rows.dtype == num_bytes.dtype == nanoseconds.dtype == tf.int64 and finite.dtype == tf.bool
    assert error.dtype == tf.uint8 and error.shape.rank == 1
    assert num_bytes.shape == nanoseconds.shape == finite.shape == []
    return rows, values


def to_table(rows, values, num_rows: int) -> np.ndarray:
    return tf.scatter_nd(rows[:, tf.newaxis], values, [num_rows, *values.shape[1:]]).numpy()


class TestRows:
    @pytest.mark.parametrize("row_shape", [(), (1,), (4,), (2, 3)])
    @pytest.mark.parametrize("index_dtype", [tf.int32, tf.int64])
    def test_equals_unsorted_segment_sum(self, row_shape, index_dtype):
        values, indices = slices_of(100, row_shape)
        frame = encode_rows(values, tf.cast(indices, index_dtype), 100)
        rows, found = decode_rows(frame, 100, row_shape=row_shape)
        np.testing.assert_array_equal(rows, np.unique(indices))
        expected = tf.math.unsorted_segment_sum(values, indices, 100)
        np.testing.assert_array_equal(found, tf.gather(expected, rows))

    @pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
    def test_half_precision(self, dtype):
        values, indices = slices_of(100, dtype=dtype)
        rows, found = decode_rows(encode_rows(values, indices, 100), 100, dtype=dtype)
        assert found.dtype == dtype
        expected = tf.math.unsorted_segment_sum(tf.cast(values, tf.float32), indices, 100)
        np.testing.assert_array_equal(found, tf.cast(tf.gather(expected, rows), dtype))

    def test_mean_of_several_ranks_among_other_frames(self):
        packets, expected = [], np.zeros((100, 4), np.float32)
        for rank in range(3):
            values, indices = slices_of(100, seed=rank)
            packets += [encode(gradient_of(1000, rank)), encode_rows(values, indices, 100)]
            expected += np.float32(0.25) * tf.math.unsorted_segment_sum(values, indices, 100).numpy()
        packets = tf.concat(packets, 0)
        rows, found = decode_rows(packets, 100, 3, 0.25, position=1, num_frames=2)
        np.testing.assert_array_equal(to_table(rows, found, 100), expected)
        dense, *_ = ops.decode_sum(packets, 3, 0.25, [[1000]], [tf.float32], [0], num_frames=2)
        assert dense[0].shape == [1000]

    @pytest.mark.parametrize("spec", SPECS)
    def test_what_is_not_decoded_stays_in_the_residual(self, spec):
        residual = tf.Variable(tf.reshape(gradient_of(400, 3), [100, 4]), trainable=False)
        for step in range(3):
            values, indices = slices_of(100, seed=step)
            before = residual.numpy()
            frame = encode_rows(values, indices, 100, [residual], spec, "topk:ratio=0.3", seed=step)
            decoded = to_table(*decode_rows(frame, 100), 100)
            compensated = tf.math.unsorted_segment_sum(values, indices, 100).numpy() + before
            np.testing.assert_array_equal(residual, compensated - decoded)

    def test_updates_the_variable_and_not_what_was_read_from_it(self):
        residual = tf.Variable(tf.ones([100, 4]))
        earlier = residual.read_value()
        encode_rows(*slices_of(100), 100, [residual], row_sparsifier="topk:ratio=0.1")
        np.testing.assert_array_equal(earlier, tf.ones([100, 4]))
        assert np.any(residual.numpy() != 1)

    def test_updates_a_variable_that_is_also_accessed_sparsely(self):
        residual = tf.Variable(tf.zeros([100, 4]))
        # From here on in copy-on-read mode.
        residual.scatter_update(tf.IndexedSlices([[2.0, 2.0, 2.0, 2.0]], [5]))
        encode_rows(tf.ones([1, 4]), tf.constant([5]), 100, [residual], row_sparsifier="threshold:tau=100")
        np.testing.assert_array_equal(residual[5], [3, 3, 3, 3])

    def test_uninitialized_residual(self):
        class Handle:
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[100, 4], shared_name="never_set")

        with pytest.raises(tf.errors.FailedPreconditionError, match="residual is not .*initialized"):
            encode_rows(*slices_of(100), 100, [Handle])

    def test_row_sparsifier_chooses_by_norm(self):
        values = tf.constant([[3.0, 4.0], [0.0, 1.0], [2.0, 0.0]])
        frame = encode_rows(values, tf.constant([9, 5, 7]), 10, row_sparsifier="threshold:tau=2")
        rows, found = decode_rows(frame, 10, row_shape=(2,))
        np.testing.assert_array_equal(rows, [7, 9])
        np.testing.assert_array_equal(found, [[2, 0], [3, 4]])

    def test_nonfinite_gradient_leaves_the_residual_and_decodes_to_nan(self):
        residual = tf.Variable(tf.ones([100, 4]))
        values, indices = slices_of(100)
        bad = tf.tensor_scatter_nd_update(values, [[3, 1]], [np.inf])
        frame = encode_rows(bad, indices, 100, [residual])
        np.testing.assert_array_equal(residual, tf.ones([100, 4]))
        rows, found = decode_rows(frame, 100)
        np.testing.assert_array_equal(rows, [0])
        assert np.all(np.isnan(found)) and found.shape == [1, 4]
        rows, found = decode_rows(tf.concat([encode_rows(values, indices, 100), frame], 0), 100, 2)
        np.testing.assert_array_equal(rows, np.unique(indices))
        assert np.all(np.isnan(found))

    @pytest.mark.parametrize("spec", ["dense|raw|raw", "dense|sketchml"])
    def test_finite_tells_of_all_ranks(self, spec):
        values, indices = slices_of(100)
        good = encode_rows(values, indices, 100, spec=spec)
        bad = encode_rows(tf.fill(values.shape, np.nan), indices, 100, spec=spec)
        for frames, expected in (([good, good], True), ([good, bad], False), ([bad, good], False)):
            *_, finite, _ = ops.decode_rows(tf.concat(frames, 0), 2, 0.5, 100, [4], tf.float32)
            assert bool(finite) is expected

    def test_owners_get_their_rows(self):
        values, indices = slices_of(100)
        frames, _, num_bytes, num_sent = ops.encode_rows(
            values, indices, 100, [], 7, "dense|raw|raw", num_owners=3
        )
        assert num_bytes.shape == [3] and int(num_sent) == 4 * len(np.unique(indices))
        expected = tf.math.unsorted_segment_sum(values, indices, 100)
        for owner, frame in enumerate(tf.split(frames, num_bytes)):
            rows, found = decode_rows(frame, 100)
            np.testing.assert_array_equal(rows, [i for i in np.unique(indices) if i % 3 == owner])
            np.testing.assert_array_equal(found, tf.gather(expected, rows))
        with pytest.raises(tf.errors.InvalidArgumentError, match="num_owners must be at least 1, got 0"):
            ops.encode_rows(values, indices, 100, [], 7, "dense|raw|raw", num_owners=0)

    def test_an_error_is_told_and_fails_where_it_arrives(self):
        frame = encode_rows(*slices_of(100), 100)
        arguments = 1, 1.0, 100, [4], tf.float32
        rows, values, *_, error = ops.decode_rows(frame[:-1], *arguments, tells_errors=True)
        assert rows.shape == [0] and values.shape == [0, 4] and error.shape[0] > 0
        with pytest.raises(
            tf.errors.DataLossError, match="rank 0 could not sum its shard: rank 0, tensor 0: "
        ):
            ops.decode_rows(error, *arguments)

    def test_spec_may_change_from_step_to_step(self):
        spec, num_traces = tf.Variable(EXACT, trainable=False), 0

        @tf.function
        def step(values, indices):
            nonlocal num_traces
            num_traces += 1
            return encode_rows(values, indices, 100, spec=spec)

        values, indices = slices_of(100)
        for changed in [*SPECS, EXACT]:
            spec.assign(changed)
            assert_same_bits(step(values, indices), encode_rows(values, indices, 100, spec=changed))
        assert num_traces == 1
        spec.assign("topk|nonsense|raw")
        with pytest.raises(tf.errors.InvalidArgumentError, match="'nonsense'; known: raw, bitmap"):
            step(values, indices)

    def test_no_slices(self):
        frame = encode_rows(tf.zeros([0, 2, 3]), tf.zeros([0], tf.int32), 100)
        rows, values = decode_rows(frame, 100, row_shape=(2, 3))
        assert rows.shape == [0] and values.shape == [0, 2, 3]

    def test_a_table_of_ten_million_rows(self):
        values, indices = slices_of(10_000_000, (16,), 1000)
        rows, found = decode_rows(encode_rows(values, indices, 10_000_000), 10_000_000, row_shape=(16,))
        np.testing.assert_array_equal(rows, np.unique(indices))
        assert found.shape == [rows.shape[0], 16]

    def test_graph_and_eager_agree(self):
        @tf.function
        def step(values, indices, residual):
            frame = encode_rows(values, indices, 100, [residual], EXACT, "topk:ratio=0.3")
            return (frame, *decode_rows(frame, 100))

        eager, graph = tf.Variable(tf.zeros([100, 4])), tf.Variable(tf.zeros([100, 4]))
        for round_ in range(3):
            values, indices = slices_of(100, seed=round_)
            for a, b in zip(
                step(values, indices, graph), step.python_function(values, indices, eager), strict=True
            ):
                np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(graph, eager)

    def test_shape_inference(self):
        @tf.function(input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int64)])
        def step(values, indices):
            frame = encode_rows(values, indices, 100)
            assert frame.shape.as_list() == [None]
            rows, found = decode_rows(frame, 100)
            assert rows.shape.as_list() == [None]
            assert found.shape.as_list() == [None, 4]
            return found

        step.get_concrete_function()
        with pytest.raises(ValueError, match="must be equal"):
            tf.function(encode_rows).get_concrete_function(tf.zeros([3, 2]), tf.zeros([4], tf.int32), 9)

    @pytest.mark.parametrize("index", [100, -1])
    def test_rows_outside_the_table(self, index):
        with pytest.raises(tf.errors.InvalidArgumentError, match="slice 1 belongs to row .*outside"):
            encode_rows(tf.zeros([2, 4]), tf.constant([5, index]), 100)

    def test_bad_arguments(self):
        values, indices = slices_of(100)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"codes every element .*sparse_as_dense"):
            encode_rows(values, indices, 100, spec="dense|threelc")
        with pytest.raises(tf.errors.InvalidArgumentError, match="unknown row sparsifier 'all'"):
            encode_rows(values, indices, 100, row_sparsifier="all")
        with pytest.raises(tf.errors.InvalidArgumentError, match="unknown index codec"):
            encode_rows(values, indices, 100, spec="topk|nonsense|raw")
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="residual has 99 elements, the table has 400"
        ):
            encode_rows(values, indices, 100, [slot_of(99)])
        with pytest.raises(tf.errors.InvalidArgumentError, match="residual must be float32, got half"):
            encode_rows(values, indices, 100, [tf.Variable(tf.zeros([100, 4], tf.float16))])
        with pytest.raises(tf.errors.InvalidArgumentError, match="at most one residual"):
            encode_rows(values, indices, 100, [slot_of(400), slot_of(400)])
        with pytest.raises(tf.errors.InvalidArgumentError, match="at least one element"):
            encode_rows(tf.zeros([3, 0]), tf.constant([1, 2, 3]), 100)
        with pytest.raises(tf.errors.InvalidArgumentError, match="num_rows must not be negative"):
            encode_rows(values, indices, -1)

    def test_frames_of_something_else_are_data_loss(self):
        frame = encode_rows(*slices_of(100), 100)
        with pytest.raises(tf.errors.DataLossError, match="rank 0, tensor 0: frame of a table of 100 rows"):
            decode_rows(frame, 101)
        with pytest.raises(tf.errors.DataLossError, match="rows of 4 elements, expected 5"):
            decode_rows(frame, 100, row_shape=(5,))
        with pytest.raises(tf.errors.DataLossError, match="frame of 100 rows, expected 100 elements"):
            decode_sum(frame, shapes=[[100]])
        with pytest.raises(tf.errors.DataLossError, match="a frame of a dense tensor, expected one of rows"):
            decode_rows(encode(gradient_of(400)), 100)
        for position in (0, 20, 44, 50, -1):
            with pytest.raises(tf.errors.DataLossError):
                decode_rows(with_byte_flipped(frame, position), 100)
        with pytest.raises(tf.errors.InvalidArgumentError, match="positions must ascend"):
            decode_rows(frame, 100, position=1)
