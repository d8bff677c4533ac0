"""The benchmark of convergence runs, and its compressors learn."""

import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "benchmarks" / "convergence.py"
COMPRESSIONS = ("none", "topk", "dgc(0.01)", "sketched_sgd(500,5,1000,4)")


@pytest.mark.long
def test_digits_in_a_few_epochs(tmp_path):
    options = ["-np", "2", "--seeds", "1", "--output", str(tmp_path), "--compression", *COMPRESSIONS]
    example = ["--epochs", "4", "--batch-size", "16", "--hidden", "256", "128"]
    training = ["--optimizer", "momentum", "--learning-rate", "0.02"]
    subprocess.run([sys.executable, str(SCRIPT), *options, "--", *example, *training], check=True)
    result = json.loads((tmp_path / "convergence_mnist_mlp.json").read_text())
    rows = {row["compression"]: row for row in result["rows"]}
    assert tuple(rows) == COMPRESSIONS
    for name, row in rows.items():
        assert row["mean"] > 0.8
        assert (row["ratio"] > 3) == (name != "none")
    assert (tmp_path / "convergence_mnist_mlp.png").stat().st_size > 10_000
