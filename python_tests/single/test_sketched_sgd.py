"""Sketched-SGD (Algorithm 3) on a least-squares problem that is small enough to follow by hand.

N = 4 rows x_i = (i d, ..., i d + d - 1) with targets i, the loss is the sum of squares, W workers have equal
runs of rows, the learning rate is 0.005, the start is zero. For d = 2 the gradients of two workers are

    (8 w0 + 12 w1 - 4, 12 w0 + 20 w1 - 6)   and   (104 w0 + 124 w1 - 52, 124 w0 + 148 w1 - 62),

and for d = 1 that of all rows is 28 (w - 1). The settings are the seven of the authors' own tests, whose
numbers agree with these but for three second steps: for d = 1 theirs, 0.3808, moves twice as far as
0.005 times the gradient -24.08, and for k = 1 theirs, -0.3008, moves against the gradient of that element.
"""

import numpy as np
import pytest

from tfcompress import _core

RATE, NUM_ROWS = 0.005, 4


def gradients(weights, num_workers):
    """float32 [workers, d]."""
    d = len(weights)
    inputs = np.arange(NUM_ROWS * d, dtype=np.float64).reshape(NUM_ROWS, d)
    errors = inputs @ weights - np.arange(NUM_ROWS)
    parts = np.split(2 * errors[:, np.newaxis] * inputs, num_workers)
    return np.float32([part.sum(axis=0) for part in parts])


def trajectory(d, num_workers, k, rows, columns, candidates, seed, momentum=0.0, num_steps=2):
    """The weights after each step; `candidates` 0 has no second round and applies estimates."""
    spec = f"count_sketch:rows={rows},columns={columns},k={k},candidates={max(candidates, 1)}"
    weights, found = np.zeros(d), []
    velocity, residual = np.zeros([2, num_workers, d], np.float32)
    for step in range(num_steps):
        velocity = np.float32(momentum) * velocity + gradients(weights, num_workers)
        residual = residual + velocity
        summed = sum(_core.linear_encode(each, spec, seed=seed + step) for each in residual)
        indices, values = _core.linear_recover(summed, d, spec, seed=seed + step)
        if candidates:
            values = residual[:, indices].sum(axis=0)
            kept = np.sort(np.argsort(-np.abs(values), kind="stable")[:k])
            indices, values = indices[kept], values[kept]
        weights[indices] -= RATE * values
        residual[:, indices] = velocity[:, indices] = 0
        found.append(weights.copy())
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("d", "num_workers", "k", "rows", "columns", "candidates", "expected"),
    [
        (1, 1, 1, 1, 1, 0, [[0.14], [0.2604]]),
        (1, 2, 1, 1, 1, 0, [[0.14], [0.2604]]),
        (2, 1, 2, 9, 1000, 0, [[0.28, 0.34], [0.172, 0.204]]),
        (2, 1, 2, 1, 1, 1, [[0.28, 0.34], [0.172, 0.204]]),
        (2, 2, 2, 9, 1000, 0, [[0.28, 0.34], [0.172, 0.204]]),
        # The first element waits: -4 - 52, then 0.08 - 9.84 of the second gradients on top.
        (2, 2, 1, 9, 1000, 0, [[0, 0.34], [0.3288, 0.34]]),
        (2, 2, 1, 9, 1000, 2, [[0, 0.34], [0.3288, 0.34]]),
    ],
)
def test_trajectories(d, num_workers, k, rows, columns, candidates, expected, seed):
    found = trajectory(d, num_workers, k, rows, columns, candidates, seed)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_single_cell_without_second_round():
    """Both elements get the cell's content, 56 + 68 or 56 - 68, each with its own sign."""
    found = {
        tuple(np.round(trajectory(2, 1, 2, 1, 1, 0, seed, num_steps=1)[0], 6).tolist()) for seed in range(40)
    }
    assert found == {(0.62, 0.62), (-0.06, 0.06)}


@pytest.mark.parametrize("seed", range(5))
def test_momentum_is_masked_where_it_was_applied(seed):
    """Velocities after step two: 0.9 (-4) + 0.08 and 0.9 (-52) - 9.84; the other element starts anew."""
    found = trajectory(2, 2, 1, 9, 1000, 1, seed, momentum=0.9)
    waited = (-4 - 3.52) + (-52 - 56.64)
    np.testing.assert_allclose(found, [[0, 0.34], [-RATE * waited, 0.34]], rtol=1e-5)
    everything = trajectory(2, 2, 2, 9, 1000, 1, seed, momentum=0.9)
    np.testing.assert_allclose(everything, [[0.28, 0.34], [0.172, 0.204]], rtol=1e-5)
