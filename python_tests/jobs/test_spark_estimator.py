"""Horovod's estimator of Spark, compressing; docs/guides/starting_jobs.md names its packages."""

import importlib.metadata
import pathlib
import re
import sys

import pytest
from launch import run_job

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "launch"
pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _spark_takes_this_python(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


@pytest.mark.parametrize("compression", ["int8", "topk"])
def test_the_estimator_compresses(compression, monkeypatch, tmp_path):
    for package in ("pyspark", "petastorm", "tensorboard"):
        pytest.importorskip(package, reason=f"pip install {package}")
    if not importlib.metadata.version("pyarrow").startswith("10."):
        pytest.skip("pip install pyarrow==10.0.1")
    if importlib.metadata.version("keras").startswith("3."):  # TensorFlow 2.15 has Keras 2 itself.
        pytest.importorskip("tf_keras", reason="pip install tf_keras")
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    monkeypatch.chdir(tmp_path)
    program = [sys.executable, str(FOLDER / "spark_estimator.py"), "--ranks", "2"]
    printed = run_job([*program, "--compression", compression])
    losses, saved = re.search(r"\{'loss': \[(.*)\], 'bytes saved': '(.*) times'\}", printed).groups()
    first, last = map(float, losses.split(","))
    assert last < first and float(saved) > 3
