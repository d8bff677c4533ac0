"""examples/ncf.py on two ranks: it learns, and what rows and dense tables send."""

import json
import pathlib

import pytest
from launch import horovodrun

SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "ncf.py"
DEEPREDUCE = "nonzero|bloom:policy=p0,fpr=0.6|qsgd:bits=7,bucket=512"
SMALL = ["--factors", 16, "--tower", 32, 16, "--epochs", 2, "--batch-size", 512, "--learning-rate", 0.01]


@pytest.mark.parametrize("tables", [[], pytest.param(["--dense-tables"], marks=pytest.mark.long)])
def test_synthetic_interactions_in_a_few_steps(tmp_path, tables):
    path = tmp_path / "result.json"
    horovodrun(2, SCRIPT, *SMALL, *tables, "--compression", "none", DEEPREDUCE, "--output", path)
    plain, compressed = json.loads(path.read_text())
    for result in (plain, compressed):
        assert result["replicas_identical"] and result["dense_tables"] == bool(tables)
        first, last = result["curve"]
        assert last["loss"] < first["loss"]
        # By chance it would be 0.1.
        assert result["metrics"]["hr@10"] > 0.25 and 0.1 < result["metrics"]["ndcg@10"] < 1
    assert plain["payload_bytes_per_step"] == plain["dense_bytes_per_step"]
    if tables:
        assert plain["dense_bytes_per_step"] == 4 * plain["parameters"]
    # About 7 of 32 bits for each element of the rows that are touched.
    assert compressed["payload_bytes_per_step"] < plain["payload_bytes_per_step"] / 3
