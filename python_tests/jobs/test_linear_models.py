"""Linear models on sparse rows learn, and their gradients stay sparse."""

import json
import pathlib

import pytest
from launch import horovodrun

SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "linear_models.py"
LIBSVM = "".join(f"{'+1' if row % 2 else '-1'} {1 + row % 2}:1 {3 + row % 5}:0.5\n" for row in range(203))


def test_learns_from_synthetic_rows(tmp_path):
    output = tmp_path / "result.json"
    horovodrun(
        2,
        SCRIPT,
        *("--compression", "none", "skcompress", "--dimensions", 100_000, "--rows", 16_384),
        *("--batch-size", 512, "--epochs", 2, "--learning-rate", 0.05, "--output", output),
    )
    none, skcompress = json.loads(output.read_text())
    for result in (none, skcompress):
        assert result["replicas_identical"]
        assert result["steps"] == 32 and result["parameters"] == 100_000
        assert result["curve"][1]["loss"] < result["curve"][0]["loss"] < 0.6931
        assert result["metrics"]["test_accuracy"] > 0.6
        # A float and an index for each of the touched rows, not for all 100,000.
        assert result["dense_bytes_per_step"] < 512 * 30 * 12 < 4 * 100_000
    assert none["payload_bytes_per_step"] == none["dense_bytes_per_step"]
    assert 4 * skcompress["payload_bytes_per_step"] < none["payload_bytes_per_step"]


@pytest.mark.long
@pytest.mark.parametrize("model", ["svm", "linear"])
def test_streams_a_file_whose_rows_do_not_divide_evenly(tmp_path, model):
    (tmp_path / "rows").write_text(LIBSVM)
    output = tmp_path / "result.json"
    horovodrun(
        2,
        SCRIPT,
        *("--data-dir", tmp_path, "--data", "rows", "--model", model, "--dimensions", 7, "--batch-size", 8),
        *("--epochs", 20, "--learning-rate", 0.1, "--compression", "topk", "--output", output),
    )
    [result] = json.loads(output.read_text())
    assert result["replicas_identical"]
    # Three of four rows are for training: 153 of 203, nine batches of 8 for each of two ranks.
    assert result["steps"] == 20 * 9
    if model == "svm":
        assert result["metrics"]["test_accuracy"] == 1
    else:
        assert result["metrics"]["test_squared_error"] < 0.05
