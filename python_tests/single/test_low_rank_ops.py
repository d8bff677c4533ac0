"""The ops of low-rank factors beside NumPy, over several steps of several ranks in one process."""

import numpy as np
import oracle_low_rank
import pytest
import tensorflow as tf

from tfcompress import _core, ops

RANKS, RANK = 2, 3
# A dense kernel and one of a convolution, whose matrix is 90 x 20.
SHAPES = [(70, 50), (3, 3, 10, 20)]


def seed_of(number=1):
    return tf.constant(number, tf.int64)


def gradient_of(shape, step, rank):
    """What ranks have in common, and noise."""
    common, own = np.random.default_rng(step), np.random.default_rng([step, rank])
    return np.float32(common.standard_normal(shape) + 0.5 * own.standard_normal(shape))


def reduce_all(matrices, factors, scale=1.0):
    """One exchange: the decoded matrices and residuals of each rank, and the right factors of all."""
    lefts = [ops.low_rank_left(own, factors, seed_of(), RANK)[0] for own in matrices]
    summed = tf.add_n(lefts) / len(lefts)
    lefts, rights, _ = zip(*[ops.low_rank_right(own, summed, RANK) for own in matrices], strict=True)
    right = tf.add_n(rights) / len(rights)
    found = [
        ops.low_rank_decode(own, left, right, scale, RANK) for own, left in zip(matrices, lefts, strict=True)
    ]
    sizes = [RANK * shape[-1] for shape in SHAPES]
    factors = [tf.reshape(each, [RANK, -1]) for each in tf.split(right, sizes)]
    return [each[0] for each in found], [each[1] for each in found], factors, found[0][2]


def test_steps_are_those_of_the_paper():
    factors = [
        tf.constant(np.float32(np.random.default_rng(9).standard_normal([RANK, s[-1]]))) for s in SHAPES
    ]
    expected_factors = [factor.numpy().T for factor in factors]
    residuals = [[tf.zeros(shape) for shape in SHAPES] for _ in range(RANKS)]
    expected = [[np.zeros([np.prod(s[:-1]), s[-1]])] * RANKS for s in SHAPES]
    for step in range(5):
        gradients = [[gradient_of(shape, step, rank) for shape in SHAPES] for rank in range(RANKS)]
        matrices = [
            [g + e for g, e in zip(*pairs, strict=True)] for pairs in zip(gradients, residuals, strict=True)
        ]
        decoded, residuals, factors, finite = reduce_all(matrices, factors)
        assert finite
        for i, shape in enumerate(SHAPES):
            flat = [own[i].reshape(-1, shape[-1]) for own in gradients]
            mean, expected[i], expected_factors[i] = oracle_low_rank.step(
                flat, expected[i], expected_factors[i]
            )
            for rank in range(RANKS):
                np.testing.assert_array_equal(decoded[rank][i], decoded[0][i])
                np.testing.assert_allclose(decoded[rank][i], mean.reshape(shape), atol=2e-4)
                np.testing.assert_allclose(residuals[rank][i], expected[i][rank].reshape(shape), atol=2e-4)


def test_the_scale_is_of_what_is_decoded_alone():
    matrices = [[tf.constant(gradient_of(shape, 0, rank)) for shape in SHAPES] for rank in range(RANKS)]
    factors = [tf.zeros([RANK, shape[-1]]) for shape in SHAPES]
    once, residuals, _, _ = reduce_all(matrices, factors)
    twice, same, _, _ = reduce_all(matrices, factors, scale=2.0)
    for i in range(len(SHAPES)):
        np.testing.assert_array_equal(twice[1][i], 2 * once[1][i])
        np.testing.assert_array_equal(same[1][i], residuals[1][i])
        np.testing.assert_allclose(residuals[1][i] + once[1][i], matrices[1][i], atol=1e-6)


def test_factors_of_zeros_are_drawn_by_the_seed():
    matrices, zeros = [tf.constant(gradient_of((70, 50), 0, 0))], [tf.zeros([RANK, 50])]
    first, again, other = (ops.low_rank_left(matrices, zeros, seed_of(s), RANK)[0] for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.all(first.numpy() != other.numpy())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_makes_everything_nan(bad):
    matrices = [[tf.constant(gradient_of(shape, 0, rank)) for shape in SHAPES] for rank in range(RANKS)]
    matrices[1][0] = tf.tensor_scatter_nd_update(matrices[1][0], [[0, 7]], [bad])
    decoded, _, _, finite = reduce_all(matrices, [tf.zeros([RANK, shape[-1]]) for shape in SHAPES])
    assert not finite and all(np.isnan(each).all() for own in decoded for each in own)


def test_refuses_other_sizes():
    matrix, errors = tf.ones([20, 30]), tf.errors.InvalidArgumentError
    with pytest.raises(errors, match="at least two dimensions|at least rank 2"):
        ops.low_rank_left([tf.ones([20])], [tf.ones([RANK, 20])], seed_of(), RANK)
    with pytest.raises(errors, match="right factor 0 has 60 floats, expected 90"):
        ops.low_rank_left([matrix], [tf.ones([2, 30])], seed_of(), RANK)
    with pytest.raises(errors, match="left factors of 61 floats, expected 60"):
        ops.low_rank_right([matrix], tf.ones([61]), RANK)
    with pytest.raises(errors, match="right factors of 91 floats, expected 90"):
        ops.low_rank_decode([matrix], tf.ones([60]), tf.ones([91]), 1.0, RANK)


def test_the_bytes_are_those_of_the_format():
    """The example of FORMAT.md."""
    matrix, right = np.float32([[1, 2], [3, 4], [5, 6]]), np.float32([0, 2])
    left = _core.low_rank_left(matrix, right, 1)
    assert left.tobytes() == bytes.fromhex("00000040 00008040 0000c040")
    basis, right = _core.low_rank_right(matrix, left, 1)
    assert right.tobytes() == bytes.fromhex("e426bc40 5077ef40")
    decoded = _core.low_rank_decode(matrix, basis, right, 1)
    np.testing.assert_allclose(decoded, np.outer(basis, right), rtol=1e-6)
    with pytest.raises(ValueError, match="last_right has 3 floats, expected 2"):
        _core.low_rank_left(matrix, np.ones(3, np.float32), 1)


def test_shapes_are_known_where_those_of_the_matrices_are():
    @tf.function(input_signature=[tf.TensorSpec([4, 5, 6]), tf.TensorSpec([None, 8])])
    def step(a, b):
        left, time = ops.low_rank_left([a, b], [tf.zeros([2, 6]), tf.zeros([2, 8])], seed_of(), 2)
        basis, right, _ = ops.low_rank_right([a], left, 2)
        decoded, residuals, finite, _ = ops.low_rank_decode([a], basis, right, 1.0, 2)
        assert left.shape.as_list() == [None] and time.shape == finite.shape == []
        assert [x.shape.as_list() for x in (basis, right)] == [[40], [12]]
        assert decoded[0].shape == residuals[0].shape == a.shape
        assert ops.low_rank_decode([a], basis, right, 1.0, 2, keeps_residuals=False)[1] == []
        return right

    step.get_concrete_function()
