"""Starts jobs for the tests beside it."""

import os
import pathlib
import subprocess
import sys

TIMEOUT_SECONDS = 300


def horovodrun(num_ranks: int, script: pathlib.Path, *arguments: object) -> str:
    """Runs a script on so many ranks of this machine; returns what it printed, and fails if it fails."""
    command = ["horovodrun", "-np", str(num_ranks), "-H", f"localhost:{num_ranks}", "--gloo"]
    return run_job([*command, sys.executable, str(script), *map(str, arguments)])


def run_job(command: list[str]) -> str:
    """Runs a command; returns what it printed, and fails if it fails."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    job = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert job.returncode == 0, job.stdout[-3000:] + job.stderr[-3000:]
    return job.stdout
