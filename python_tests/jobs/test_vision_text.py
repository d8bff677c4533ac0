"""cifar10.py and text_lm.py learn on two ranks, from what needs no files."""

import json
import os
import pathlib

import pytest
from launch import horovodrun

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.skipif(
    os.environ.get("TF_USE_LEGACY_KERAS") == "1", reason="the examples are programs for Keras 3"
)


def result_of(tmp_path, program, *arguments):
    path = tmp_path / "result.json"
    horovodrun(2, EXAMPLES / program, "--epochs", 2, "--output", path, *arguments)
    [result] = json.loads(path.read_text())
    assert result["ranks"] == 2 and result["replicas_identical"]
    assert result["curve"][1]["loss"] < result["curve"][0]["loss"]
    return result


@pytest.mark.long
@pytest.mark.parametrize(
    "optimizer", [(), ("--optimizer", "adam", "--learning-rate", 0.003)], ids=["momentum", "adam"]
)
def test_resnet20_on_made_up_images(tmp_path, optimizer):
    result = result_of(tmp_path, "cifar10.py", "--compression", "topk", "--steps", 12, *optimizer)
    assert result["steps"] == 24
    assert result["dense_bytes_per_step"] == 4 * 269_722
    assert 20 * result["payload_bytes_per_step"] < result["dense_bytes_per_step"]
    assert 0 <= result["metrics"]["test_accuracy"] <= 1


def test_transformer_on_the_manual_of_python(tmp_path):
    small = ("--model", "transformer", "--layers", 1, "--width", 32, "--context", 32, "--steps", 20)
    result = result_of(tmp_path, "text_lm.py", "--compression", "topk(ratio=0.1)", *small)
    metrics = result["metrics"]
    assert 1 < metrics["bits_per_character"] < 7  # 8 bits are what knowing nothing takes.
    assert metrics["perplexity"] == pytest.approx(2 ** metrics["bits_per_character"])
    assert result["payload_bytes_per_step"] < result["dense_bytes_per_step"] / 3
