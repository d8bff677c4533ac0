"""The jobs of examples/launch on Ray and Spark; docs/guides/starting_jobs.md names their packages."""

import os
import pathlib
import subprocess
import sys

import pytest
from launch import TIMEOUT_SECONDS

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "launch"
pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("program", "packages"), [("ray_job.py", ["ray"]), ("spark_job.py", ["pyspark", "pyarrow", "fsspec"])]
)
def test_two_ranks_train(program, packages):
    for package in packages:
        pytest.importorskip(package, reason=f"pip install {package}")
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, str(FOLDER / program), "--ranks", "2"]
    job = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert job.returncode == 0, job.stdout[-3000:] + job.stderr[-3000:]
    assert "'rank': 0, 'ranks': 2" in job.stdout and "'rank': 1, 'ranks': 2" in job.stdout
