"""A rank dies, and the job is not elastic: all others end, with an error that says so."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

import tfcompress as tfc

SCRIPT = pathlib.Path(__file__).with_name("killed_job.py")
SECONDS = 120
pytestmark = pytest.mark.long


def wait_until_dead(pid):
    """horovodrun may return a moment before the last of its ranks has gone."""
    deadline = time.monotonic() + SECONDS
    while pathlib.Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"rank with pid {pid} goes on"
        time.sleep(0.1)


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_the_others_end_with_horovods_error(tmp_path, num_ranks):
    command = ["horovodrun", "-np", str(num_ranks), "-H", f"localhost:{num_ranks}", "--gloo"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    job = subprocess.run(
        [*command, sys.executable, str(SCRIPT), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert job.returncode != 0
    for rank in range(num_ranks):
        wait_until_dead(int((tmp_path / f"pid.{rank}").read_text()))
        if rank != 1:
            error = (tmp_path / f"error.{rank}").read_text()
            assert "Horovod" in error and "shut down" in error, error
    # The checkpoint of the first epoch is whole, and no other one was begun.
    assert [path.name for path in tmp_path.glob("*.keras*")] == ["model_1.keras"]
    loaded = tfc.load_model(tmp_path / "model_1.keras", compression=tfc.Compression.topk(0.01))
    assert loaded.optimizer._tfcompress_step.state.memories.waiting()
