"""Saving with some ranks and going on with others loses nothing of what waits in the residuals."""

import functools
import pathlib

import numpy as np
import pytest
from launch import horovodrun
from resume_job import mean_gradient

SCRIPT = pathlib.Path(__file__).with_name("resume_job.py")
MIDDLE, END = 10, 20


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Makes the folder of a training that two ranks began, one for each exchange."""

    @functools.cache
    def train(exchange):
        folder = tmp_path_factory.mktemp("saved")
        horovodrun(2, SCRIPT, exchange, folder, 0, MIDDLE)
        return folder

    return train


def assert_conserved(path, num_steps):
    """What was applied and what still waits are the sum of the mean gradients; returns both."""
    arrays = np.load(path)
    expected = sum(mean_gradient(step) for step in range(num_steps))
    np.testing.assert_allclose(arrays["applied"] + arrays["pending"], expected, atol=1e-4)
    return arrays


# More ranks, as many, and one rank alone.
@pytest.mark.parametrize(
    ("exchange", "ranks_after"),
    [
        ("gather", 3),
        ("shard", 3),
        pytest.param("gather", 2, marks=pytest.mark.long),
        pytest.param("gather", 1, marks=pytest.mark.long),
        pytest.param("shard", 1, marks=pytest.mark.long),
    ],
)
def test_another_number_of_ranks_goes_on(exchange, ranks_after, saved):
    folder = saved(exchange)
    middle = assert_conserved(folder / f"until_{MIDDLE}.npz", MIDDLE)
    assert np.abs(middle["pending"]).sum() > np.abs(middle["applied"]).sum()

    horovodrun(ranks_after, SCRIPT, exchange, folder, MIDDLE, END)
    end = assert_conserved(folder / f"until_{END}.npz", END)
    # One rank alone leaves nothing pending.
    assert end["pending"].any() == (ranks_after > 1)
