"""What benchmarks/time_to_accuracy.py makes of curves, without a network."""

import json
import pathlib
import sys

import fill_tables
import pytest
import time_to_accuracy


def run(name, accuracies, seconds_per_epoch, bandwidth="1gbit", seed=1):
    curve = [
        {"metrics": {"test_accuracy": accuracy}, "seconds": seconds_per_epoch * i, "wire_bytes": 1e6 * i}
        for i, accuracy in enumerate(accuracies, start=1)
    ]
    own = {"bandwidth": bandwidth, "compression": name, "seed": seed}
    return {**own, "metrics": curve[-1]["metrics"], "curve": curve}


RUNS = [
    run("none", [0.5, 0.86, 0.88], 10),
    run("none", [0.5, 0.88, 0.90], 12, seed=2),
    run("small", [0.5, 0.8895, 0.89], 2),
    run("small", [0.5, 0.8895, 0.89], 4, seed=2),
    run("worse", [0.5, 0.6, 0.88], 1),
    run("none", [0.8, 0.85, 0.90], 100, "100mbit"),
    run("small", [0.9, 0.90, 0.91], 3, "100mbit"),
    run("worse", [0.5, 0.6, 0.7], 2, "100mbit"),
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
        ("100mbit", "worse", None, None),
    ]
    assert rows[0]["final"] == pytest.approx(0.89)
    assert (rows[1]["training_seconds"], rows[1]["training_megabytes"]) == (9, 3)
    assert (rows[1]["megabytes"], rows[1]["fewer"]) == (2, 1.5)
    assert (rows[2]["megabytes"], rows[2]["fewer"]) == (None, None)


def test_further_links_time_some_steps_of_what_takes_the_same_steps_on_every_link(monkeypatch):
    network_jobs = pytest.importorskip("network_jobs", reason="ranks are started by Horovod's own rendezvous")
    started = []

    def train(arguments, bandwidth, command):
        name, *words = command[command.index("--compression") + 1 :]
        steps = int(words[words.index("--steps") + 1]) if "--steps" in words else 10
        warm_up = int(words[words.index("--warm-up-steps") + 1]) if "--warm-up-steps" in words else 0
        started.append((bandwidth.label, name, steps, warm_up))
        shared = dict.fromkeys(time_to_accuracy.SHARED, 0) | {"replicas_identical": True, "steps": 200}
        step_ms = {"1gbit": 100.0, "100mbit": 900.0}[bandwidth.label]
        trained = run(name, [0.5, 0.9], steps * step_ms / 2e3, bandwidth.label)
        results = [{**shared, **trained, "step_ms_median": step_ms}]
        pathlib.Path(command[command.index("--output") + 1]).write_text(json.dumps(results))

    monkeypatch.setattr(network_jobs, "run", train)
    words = "--bandwidths 1gbit 100mbit --timed-steps 4 --compression none int4 sparse auto -- --batch-size 2"
    result = time_to_accuracy.train(time_to_accuracy.parse_arguments(words.split()))
    assert started == [
        *(("1gbit", name, 10, 0) for name in ("none", "int4", "sparse", "auto")),
        ("100mbit", "none", 4, 0),
        ("100mbit", "int4", 4, 0),
        ("100mbit", "sparse", 104, 100),
        ("100mbit", "auto", 10, 0),
    ]
    rows = time_to_accuracy.summarise(result["runs"], within=0.0)
    slow = {row["compression"]: row["training_seconds"] for row in rows if row["bandwidth"] == "100mbit"}
    assert slow == pytest.approx(dict.fromkeys(["none", "int4", "sparse", "auto"], 9.0))


def test_what_is_mostly_warm_up_is_not_stretched():
    whole, timed = ({**run("smallest", [0.5], 10), "step_ms_median": 1.0, "steps": 1900} for _ in range(2))
    assert time_to_accuracy.stretched(whole, timed, 950)["curve"] == whole["curve"]
    with pytest.raises(SystemExit, match="smallest warms up in 951 of 1900 steps"):
        time_to_accuracy.stretched(whole, timed, 951)


def test_from_a_file_it_writes_numbers_table_and_figure(tmp_path, monkeypatch, capsys):
    shared = {"workload": "mnist_mlp", "ranks": 2, "parameters": 1000}
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({**shared, "runs": RUNS}))
    words = ["time_to_accuracy.py", "--from", str(path), "--name", "mine", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*words, "--within", "0.02"])
    time_to_accuracy.main()
    written = json.loads((tmp_path / "time_to_accuracy_mine.json").read_text())
    assert [row["seconds"] for row in written["rows"]] == [22, 6, 3, 300, 3, None]
    assert (tmp_path / "time_to_accuracy_mine.png").stat().st_size > 10_000
    assert "mnist_mlp, 2 ranks, 1,000 parameters" in capsys.readouterr().out


def test_the_table_says_what_does_not_arrive():
    result = {"workload": "x", "ranks": 2, "parameters": 1}
    rows = time_to_accuracy.summarise(RUNS, within=0.001)
    text = fill_tables.time_to_accuracy({**result, "rows": rows})
    [worse] = [line for line in text.splitlines() if "worse" in line]
    assert "not reached" in worse
