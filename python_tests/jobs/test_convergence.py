"""The benchmark of convergence runs, its compressors learn, and recommended ones keep the accuracy."""

import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "benchmarks" / "convergence.py"


def compare(folder, compressions, *example):
    """Returns the rows of the example on the digits, on two ranks, by compressor."""
    options = ["-np", "2", "--seeds", "1", "--output", str(folder), "--compression", *compressions]
    subprocess.run([sys.executable, str(SCRIPT), *options, "--", *example], check=True)
    result = json.loads((folder / "convergence_mnist_mlp.json").read_text())
    rows = {row["compression"]: row for row in result["rows"]}
    assert tuple(rows) == compressions
    return rows


@pytest.mark.long
def test_digits_in_a_few_epochs(tmp_path):
    example = ["--epochs", "4", "--batch-size", "16", "--hidden", "256", "128"]
    training = ["--optimizer", "momentum", "--learning-rate", "0.02"]
    compressions = ("none", "topk", "dgc(0.01)", "sketched_sgd(500,5,1000,4)")
    for name, row in compare(tmp_path, compressions, *example, *training).items():
        assert row["mean"] > 0.8
        assert (row["ratio"] > 3) == (name != "none")
    assert (tmp_path / "convergence_mnist_mlp.png").stat().st_size > 10_000


@pytest.mark.long
def test_recommended_presets_keep_the_accuracy(tmp_path):
    """Five of the 360 test images are 1.4 points; `topk` of 0.1 % loses many more in these 352 steps."""
    recommended = ("int8", "int4", "sparse", "compact")
    rows = compare(tmp_path, ("none", *recommended, "topk(0.001)"), "--epochs", "16", "--decay")
    none = rows["none"]["mean"]
    assert none > 0.96
    assert all(rows[name]["mean"] > none - 0.014 for name in recommended), rows
    assert rows["topk(0.001)"]["mean"] < none - 0.014
    assert rows["int4"]["ratio"] > 7 and rows["sparse"]["ratio"] > 20 and rows["compact"]["ratio"] > 30
