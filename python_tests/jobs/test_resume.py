"""Saving with some ranks and going on with others loses nothing of what waits in the residuals."""

import pathlib

import numpy as np
import pytest
from launch import horovodrun
from resume_job import mean_gradient

SCRIPT = pathlib.Path(__file__).with_name("resume_job.py")
MIDDLE, END = 10, 20


@pytest.mark.parametrize("ranks_after", [3, 2, 1])
def test_another_number_of_ranks_goes_on(ranks_after, tmp_path):
    horovodrun(2, SCRIPT, tmp_path, 0, MIDDLE)
    saved = np.load(tmp_path / f"until_{MIDDLE}.npz")
    assert np.abs(saved["pending"]).sum() > np.abs(saved["applied"]).sum()
    expected = sum(mean_gradient(step) for step in range(MIDDLE))
    np.testing.assert_allclose(saved["applied"] + saved["pending"], expected, atol=1e-4)

    horovodrun(ranks_after, SCRIPT, tmp_path, MIDDLE, END)
    resumed = np.load(tmp_path / f"until_{END}.npz")
    expected = sum(mean_gradient(step) for step in range(END))
    np.testing.assert_allclose(resumed["applied"] + resumed["pending"], expected, atol=1e-4)
    # One rank alone leaves nothing pending.
    assert resumed["pending"].any() == (ranks_after > 1)
