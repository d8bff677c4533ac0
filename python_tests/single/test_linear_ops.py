"""The TensorFlow ops of linear specs: that they bind the core as documented (it has tests of its own)."""

import numpy as np
import pytest
import tensorflow as tf

from tfcompress import _core, ops

SKETCH = "count_sketch:rows=5,columns=3000,k=20,candidates=4"
SPECS = [SKETCH, "count_sketch:rows=3,columns=500,k=30,recovery=heavymix", "shared_randomk:ratio=0.1"]
SEED = 7


def vector_of(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def tensors_of(flat: np.ndarray) -> list[tf.Tensor]:
    """A vector of 1000 elements in pieces of every shape."""
    pieces = np.split(flat, [1, 1, 301, 307])
    return [
        tf.reshape(piece, shape)
        for piece, shape in zip(pieces, [[], [0, 3], [10, 30], [2, 3], [693]], strict=True)
    ]


def seed_of(seed: int = SEED) -> tf.Tensor:
    return tf.constant(seed, tf.int64)


def assert_same_bits(found, expected) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


class TestLinearEncode:
    @pytest.mark.parametrize("spec", SPECS)
    def test_tensors_are_one_vector(self, spec):
        flat = vector_of(1000)
        payload, nanoseconds = ops.linear_encode(tensors_of(flat), seed_of(), spec)
        assert_same_bits(payload, _core.linear_encode(flat, spec, SEED))
        assert_same_bits(ops.linear_encode([flat], seed_of(), spec)[0], payload)
        assert nanoseconds.shape == [] and nanoseconds > 0

    def test_uses_every_bit_of_the_seed(self):
        flat = vector_of(1000)
        payloads = {
            ops.linear_encode([flat], seed_of(seed), SKETCH)[0].numpy().tobytes()
            for seed in (0, 1, -1, 2**62, -(2**63))
        }
        assert len(payloads) == 5
        found = ops.linear_encode([flat], seed_of(-1), SKETCH)[0]
        assert_same_bits(found, _core.linear_encode(flat, SKETCH, 2**64 - 1))

    @pytest.mark.parametrize("spec", SPECS)
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_a_bad_element_anywhere_makes_it_all_nan(self, spec, bad):
        for place in (0, 500, 999):
            flat = vector_of(1000)
            flat[place] = bad
            payload, _ = ops.linear_encode(tensors_of(flat), seed_of(), spec)
            assert np.isnan(payload).all()

    def test_many_at_once_on_the_shared_thread_pool(self):
        vectors = [vector_of(200_000, i) for i in range(12)]

        @tf.function
        def step(vectors):
            return [ops.linear_encode([vector], seed_of(), SKETCH)[0] for vector in vectors]

        for found, vector in zip(step(vectors), vectors, strict=True):
            assert_same_bits(found, _core.linear_encode(vector, SKETCH, SEED, num_threads=1))

    def test_empty_vector(self):
        payload, _ = ops.linear_encode([tf.zeros([0])], seed_of(), SKETCH)
        assert_same_bits(payload, np.zeros(15000, np.float32))
        assert ops.linear_encode([tf.zeros([0])], seed_of(), SPECS[2])[0].shape == [0]

    def test_refuses_other_specs(self):
        for spec, message in [
            ("topk|raw|raw", "names no linear codec"),
            ("count_sketch:rows=2", "must be an odd integer"),
        ]:
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                ops.linear_encode([tf.ones(4)], seed_of(), spec)
        with pytest.raises(tf.errors.InvalidArgumentError, match="can never be framed"):
            ops.encode(tf.ones(4), [], seed_of(), SKETCH)


class TestLinearRecover:
    @pytest.mark.parametrize("spec", SPECS)
    def test_same_as_the_core(self, spec):
        flat = vector_of(1000)
        payload, _ = ops.linear_encode([flat], seed_of(), spec)
        indices, values, nanoseconds = ops.linear_recover(payload, 1000, seed_of(), spec)
        expected_indices, expected_values = _core.linear_recover(payload.numpy(), 1000, spec, SEED)
        assert_same_bits(indices, expected_indices.astype(np.int64))
        assert_same_bits(values, expected_values)
        assert nanoseconds.shape == [] and nanoseconds > 0

    def test_two_rounds_apply_the_largest_sums(self):
        ranks = [vector_of(1000, rank) for rank in range(3)]
        for rank in ranks:
            rank[[3, 500, 999]] += np.float32([40, -50, 60])
        spec = "count_sketch:rows=7,columns=2000,k=3,candidates=10"
        summed = tf.add_n([ops.linear_encode([rank], seed_of(), spec)[0] for rank in ranks])
        candidates, estimates, _ = ops.linear_recover(summed, 1000, seed_of(), spec)
        assert candidates.shape == estimates.shape == [30]
        exact = tf.add_n([tf.gather(rank, candidates) for rank in ranks])
        kept = ops.select_largest(exact, 3)
        assert tf.gather(candidates, kept).numpy().tolist() == [3, 500, 999]
        np.testing.assert_allclose(tf.gather(exact, kept), sum(ranks)[[3, 500, 999]], rtol=1e-6)

    @pytest.mark.parametrize("spec", SPECS)
    def test_a_sum_with_nan_recovers_nan(self, spec):
        payload, _ = ops.linear_encode([vector_of(1000)], seed_of(), spec)
        summed = tf.tensor_scatter_nd_update(payload, [[0]], [np.nan])
        indices, values, _ = ops.linear_recover(summed, 1000, seed_of(), spec)
        assert indices.shape == values.shape and np.isnan(values).all()

    def test_refuses_a_payload_of_another_size(self):
        for size, n in [(14999, 1000), (0, 1000), (15000, -1), (15000, 2**31)]:
            with pytest.raises(tf.errors.InvalidArgumentError):
                ops.linear_recover(tf.zeros([size]), n, seed_of(), SKETCH)
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected 100 for 1000 elements"):
            ops.linear_recover(tf.zeros([99]), 1000, seed_of(), SPECS[2])


class TestShapes:
    def test_are_known_where_spec_and_sizes_are(self):
        @tf.function(input_signature=[tf.TensorSpec([10, 100]), tf.TensorSpec([50])])
        def step(a, b):
            payload, _ = ops.linear_encode([a, b], seed_of(), SKETCH)
            indices, values, _ = ops.linear_recover(payload, 1050, seed_of(), SKETCH)
            kept = ops.select_largest(values, 20)
            shapes = [x.shape.as_list() for x in (payload, indices, values, kept)]
            assert shapes == [[15000], [80], [80], [20]]
            return payload

        step.get_concrete_function()

    def test_are_not_where_they_are_not(self):
        @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec([], tf.string)])
        def step(a, spec):
            payload, nanoseconds = ops.linear_encode([a], seed_of(), spec)
            indices, values, _ = ops.linear_recover(payload, tf.size(a, tf.int64), seed_of(), spec)
            kept = ops.select_largest(values, tf.size(a, tf.int64))
            assert {tuple(x.shape.as_list()) for x in (payload, indices, values, kept)} == {(None,)}
            assert nanoseconds.shape == []
            return payload

        step.get_concrete_function()

    def test_spec_may_change_from_step_to_step(self):
        spec, flat = tf.Variable(SKETCH), vector_of(1000)

        @tf.function
        def step():
            return ops.linear_encode([flat], seed_of(), spec)[0]

        for changed in [*SPECS, SKETCH]:
            spec.assign(changed)
            assert_same_bits(step(), _core.linear_encode(flat, changed, SEED))

    def test_a_spec_that_is_none_fails_when_traced(self):
        @tf.function
        def step():
            return ops.linear_encode([tf.ones(4)], seed_of(), "count_sketch:rows=2")[0]

        with pytest.raises(ValueError, match="odd integer"):
            step()


class TestCompensate:
    @pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16])
    def test_residual_and_momentum(self, dtype):
        gradient = tf.constant([[1, 2], [3, -4]], dtype)
        residual, velocity = tf.Variable(tf.ones([2, 2])), tf.constant([[2.0, 2], [4, 4]])
        (after,), finite = ops.compensate(gradient, [residual], "residual|" + SKETCH)
        assert after.numpy().tolist() == [[2, 3], [4, -3]] and finite
        slots, finite = ops.compensate(gradient, [residual, velocity], "momentum:rate=0.5|" + SKETCH)
        assert slots[1].numpy().tolist() == [[2, 3], [5, -2]] and finite
        assert slots[0].numpy().tolist() == [[3, 4], [6, -1]]
        assert residual.numpy().tolist() == [[1, 1], [1, 1]]

    def test_without_memory_it_only_looks(self):
        slots, finite = ops.compensate(tf.ones(3), [], SKETCH)
        assert slots == [] and finite
        assert not ops.compensate(tf.constant([1, np.inf]), [], SKETCH)[1]

    @pytest.mark.parametrize("bad", [np.nan, -np.inf, 3.4e38])
    def test_what_is_not_finite_leaves_the_slots(self, bad):
        slots = [tf.constant([1, -0.0, 3.4e38]), tf.constant([-0.0, 5, 3.4e38])]
        for memory, count in (("residual", 1), ("momentum", 2)):
            after, finite = ops.compensate(tf.constant([1, 2, bad]), slots[:count], f"{memory}|{SKETCH}")
            assert not finite
            for slot, expected in zip(after, slots, strict=False):
                assert_same_bits(slot, expected)

    def test_same_as_a_whole_frame_that_sends_nothing(self):
        gradient, slots = vector_of(1000), [vector_of(1000, 1), vector_of(1000, 2)]
        back = "threshold:tau=1e9|raw|raw"
        *_, expected = ops.encode(gradient, slots, seed_of(), f"momentum:nesterov=1|{back}")
        found, _ = ops.compensate(gradient, slots, f"momentum:nesterov=1|{SKETCH}")
        for a, b in zip(found, expected, strict=True):
            assert_same_bits(a, b)

    def test_refuses_wrong_slots(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="needs 2 slots, got 1"):
            ops.compensate(tf.ones(3), [tf.ones(3)], "momentum|" + SKETCH)
        with pytest.raises(tf.errors.InvalidArgumentError, match="slot 0 has 2 elements"):
            ops.compensate(tf.ones(3), [tf.ones(2)], "residual|" + SKETCH)
        with pytest.raises(tf.errors.InvalidArgumentError, match="unknown"):
            ops.compensate(tf.ones(3), [tf.ones(3)], "unknown|topk|raw|raw")

    def test_takes_the_memory_of_a_framed_spec_too(self):
        [after], finite = ops.compensate(tf.ones(3), [tf.ones(3)], "residual|topk|raw|raw")
        assert finite and after.numpy().tolist() == [2, 2, 2]

    def test_shape_inference(self):
        @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec([None, 4])])
        def step(gradient, slot):
            (after,), finite = ops.compensate(gradient, [slot], "residual|" + SKETCH)
            assert after.shape.as_list() == [None, 4] and finite.shape == []
            return after

        step.get_concrete_function()


class TestMomentumFrames:
    def test_encode_keeps_two_slots(self):
        gradient, slots = vector_of(1000), [vector_of(1000, 1), vector_of(1000, 2)]
        spec = "momentum:rate=0.5|topk:ratio=0.1|raw|raw"
        frame, *_, (residual, velocity) = ops.encode(gradient, slots, seed_of(), spec)
        (decoded,), *_ = ops.decode_sum(frame, 1, 1.0, [[1000]], [tf.float32])
        sent = decoded.numpy() != 0
        assert np.count_nonzero(sent) == 100
        expected_velocity = np.float32(0.5) * slots[1] + gradient
        assert_same_bits(velocity, np.where(sent, np.float32(0), expected_velocity))
        assert_same_bits(residual, np.where(sent, np.float32(0), slots[0] + expected_velocity))

    def test_with_everything_sent_it_is_momentum_sgd(self):
        slots, velocity = [tf.zeros(50), tf.zeros(50)], np.zeros(50, np.float32)
        for step in range(4):
            gradient = vector_of(50, step)
            frame, *_, slots = ops.encode(gradient, slots, seed_of(), "momentum|dense|raw|raw")
            velocity = np.float32(0.9) * velocity + gradient
            assert_same_bits(ops.decode_sum(frame, 1, 1.0, [[50]], [tf.float32])[0][0], velocity)
            assert_same_bits(slots[0], np.zeros(50, np.float32))


class TestSelectLargest:
    @pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
    def test_exact_count_and_ties_by_position(self, size):
        values = np.random.default_rng(1).integers(-50, 51, size).astype(np.float32)
        for count in {0, min(1, size), size // 3, size}:
            expected = np.sort(np.argsort(-np.abs(values), kind="stable")[:count])
            assert_same_bits(ops.select_largest(values, count), expected.astype(np.int64))

    def test_nan_and_inf_are_largest(self):
        values = tf.constant([1, np.inf, 3e38, np.nan, -np.inf])
        assert ops.select_largest(values, 1).numpy().tolist() == [3]
        assert ops.select_largest(values, 3).numpy().tolist() == [1, 3, 4]

    @pytest.mark.parametrize("count", [-1, 5, 2**40])
    def test_refuses_counts_out_of_range(self, count):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"count must be in \[0, 4\]"):
            ops.select_largest(tf.ones(4), tf.constant(count, tf.int64))
