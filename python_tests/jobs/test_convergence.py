"""The benchmark of convergence runs, and its compressors learn."""

import json
import pathlib

from launch import horovodrun

SCRIPT = pathlib.Path(__file__).parents[2] / "benchmarks" / "convergence.py"


def test_digits_in_a_few_epochs(tmp_path):
    output = horovodrun(2, SCRIPT, "--epochs", 4, "--seeds", 1, "--batch-size", 16, "--output", tmp_path)
    result = json.loads((tmp_path / "convergence_digits.json").read_text())
    rows = {row["compressor"]: row for row in result["rows"]}
    assert set(rows) == {"none", "topk", "dgc", "sketched_sgd"}
    for name, row in rows.items():
        assert row["accuracy"] > 80 and name in output
        assert (row["ratio"] > 3) == (name != "none")
    assert (tmp_path / "convergence_digits.png").stat().st_size > 10_000
