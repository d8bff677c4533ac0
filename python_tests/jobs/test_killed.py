"""A rank dies, and the job is not elastic: all others end, with an error that says so."""

import os
import pathlib
import subprocess
import sys

import pytest

import tfcompress as tfc

SCRIPT = pathlib.Path(__file__).with_name("killed_job.py")
SECONDS = 120


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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
        assert not is_alive(int((tmp_path / f"pid.{rank}").read_text()))
        if rank != 1:
            error = (tmp_path / f"error.{rank}").read_text()
            assert "Horovod" in error and "shut down" in error, error
    # The checkpoint of the first epoch is whole, and no other one was begun.
    assert [path.name for path in tmp_path.glob("*.keras*")] == ["model_1.keras"]
    loaded = tfc.load_model(tmp_path / "model_1.keras", compression=tfc.Compression.topk(0.01))
    assert loaded.optimizer._tfcompress_aggregator.tensors.waiting()
