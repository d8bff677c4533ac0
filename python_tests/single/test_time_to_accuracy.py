"""What benchmarks/time_to_accuracy.py makes of curves, without a network."""

import io
import json
import pathlib
import sys

import pytest
import rich.console

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import time_to_accuracy  # noqa: E402


def run(name, accuracies, seconds_per_epoch, bandwidth="1gbit", seed=1):
    curve = [
        {
            "metrics": {"test_accuracy": accuracy},
            "seconds": seconds_per_epoch * (i + 1),
            "wire_bytes": 1e6 * (i + 1),
        }
        for i, accuracy in enumerate(accuracies)
    ]
    return {
        "bandwidth": bandwidth,
        "compression": name,
        "seed": seed,
        "metrics": curve[-1]["metrics"],
        "curve": curve,
    }


RUNS = [
    run("none", [0.5, 0.86, 0.88], 10),
    run("none", [0.5, 0.88, 0.90], 12, seed=2),
    run("small", [0.5, 0.8895, 0.89], 2),
    run("small", [0.5, 0.8895, 0.89], 4, seed=2),
    run("worse", [0.5, 0.6, 0.88], 1),
    run("none", [0.8, 0.85, 0.90], 100, "100mbit"),
    run("small", [0.9, 0.90, 0.91], 3, "100mbit"),
]


def test_times_are_those_at_which_the_mean_over_seeds_arrives():
    rows = time_to_accuracy.summarise(RUNS, within=0.001)
    found = [(row["bandwidth"], row["compression"], row["seconds"], row["faster"]) for row in rows]
    assert found == [
        ("1gbit", "none", 33, 1),
        ("1gbit", "small", 6, 5.5),
        ("1gbit", "worse", None, None),
        ("100mbit", "none", 300, 1),
        ("100mbit", "small", 3, 100),
    ]
    assert rows[0]["final"] == pytest.approx(0.89)
    assert (rows[1]["training_seconds"], rows[1]["megabytes"]) == (9, 3)


def test_from_a_file_it_writes_numbers_table_and_figure(tmp_path, monkeypatch, capsys):
    shared = {"workload": "mnist_mlp", "ranks": 2, "parameters": 1000}
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({**shared, "runs": RUNS}))
    words = ["time_to_accuracy.py", "--from", str(path), "--name", "mine", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*words, "--within", "0.02"])
    time_to_accuracy.main()
    written = json.loads((tmp_path / "time_to_accuracy_mine.json").read_text())
    assert [row["seconds"] for row in written["rows"]] == [22, 6, 3, 300, 3]
    assert (tmp_path / "time_to_accuracy_mine.png").stat().st_size > 10_000
    assert "mnist_mlp, 2 ranks, 1,000 parameters" in capsys.readouterr().out


def test_the_table_says_what_does_not_arrive():
    result = {"workload": "x", "ranks": 2, "parameters": 1, "within": 0.001}
    console = rich.console.Console(width=120, record=True, file=io.StringIO())
    console.print(time_to_accuracy.table({**result, "rows": time_to_accuracy.summarise(RUNS, 0.001)}))
    [worse] = [line for line in console.export_text().splitlines() if "worse" in line]
    assert "not reached" in worse
