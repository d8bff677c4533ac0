"""The jobs of examples/launch on Ray and Spark; docs/guides/starting_jobs.md names their packages."""

import pathlib
import re
import sys

import pytest
from launch import run_job

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "launch"
pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("program", "packages"), [("ray_job.py", ["ray"]), ("spark_job.py", ["pyspark", "pyarrow", "fsspec"])]
)
def test_two_ranks_train(program, packages):
    for package in packages:
        pytest.importorskip(package, reason=f"pip install {package}")
    printed = run_job([sys.executable, str(FOLDER / program), "--ranks", "2"])
    assert "'rank': 0, 'ranks': 2" in printed and "'rank': 1, 'ranks': 2" in printed


def test_the_estimator_compresses(monkeypatch):
    for package in ("pyspark", "petastorm"):
        pytest.importorskip(package, reason=f"pip install {package}")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    printed = run_job([sys.executable, str(FOLDER / "spark_estimator.py"), "--ranks", "2"])
    losses, saved = re.search(r"\{'loss': \[(.*)\], 'bytes saved': '(.*) times'\}", printed).groups()
    first, last = map(float, losses.split(","))
    assert last < first and float(saved) > 3
