"""Saving with some ranks and going on with others loses nothing of what waits in the residuals."""

import pathlib

import numpy as np
import pytest
from launch import horovodrun
from resume_job import mean_gradient

SCRIPT = pathlib.Path(__file__).with_name("resume_job.py")
MIDDLE, END = 10, 20


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a training that two ranks began."""
    folder = tmp_path_factory.mktemp("saved")
    horovodrun(2, SCRIPT, folder, 0, MIDDLE)
    return folder


def assert_conserved(path, num_steps):
    """What was applied and what still waits are the sum of the mean gradients; returns both."""
    arrays = np.load(path)
    expected = sum(mean_gradient(step) for step in range(num_steps))
    np.testing.assert_allclose(arrays["applied"] + arrays["pending"], expected, atol=1e-4)
    return arrays


# More ranks, as many, and one rank alone.
@pytest.mark.parametrize(
    "ranks_after", [3, *(pytest.param(ranks, marks=pytest.mark.long) for ranks in (2, 1))]
)
def test_another_number_of_ranks_goes_on(ranks_after, saved):
    middle = assert_conserved(saved / f"until_{MIDDLE}.npz", MIDDLE)
    assert np.abs(middle["pending"]).sum() > np.abs(middle["applied"]).sum()

    horovodrun(ranks_after, SCRIPT, saved, MIDDLE, END)
    end = assert_conserved(saved / f"until_{END}.npz", END)
    # One rank alone leaves nothing pending.
    assert end["pending"].any() == (ranks_after > 1)
