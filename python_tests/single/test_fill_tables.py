"""The tables of docs/ are those of the numbers in docs/results."""

import pathlib
import subprocess
import sys

import fill_tables

ROOT = pathlib.Path(__file__).parents[2]


def test_the_pages_show_the_numbers_of_the_results():
    command = [sys.executable, fill_tables.__file__, "--check"]
    check = subprocess.run(command, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


def test_a_page_is_filled_between_its_marks_only():
    page = "before\n<!-- convergence: convergence_ncf -->\nstale\n<!-- /convergence -->\nafter\n"
    filled = fill_tables.filled(page, ROOT / "docs" / "results")
    assert filled.startswith("before\n<!-- convergence") and filled.endswith("<!-- /convergence -->\nafter\n")
    assert "stale" not in filled and "`skcompress`" in filled
    assert fill_tables.filled(filled, ROOT / "docs" / "results") == filled


def test_auto_is_compared_with_the_better_baseline():
    times = [("none", 20, 30, 25), ("fp16", 10, 40, 50), ("auto", 10, 20, 25)]
    runs = [
        {"bandwidth": "1gbit", "round": i, "compression": name, "step_ms_median": ms}
        for name, *own in times
        for i, ms in enumerate(own, start=1)
    ]
    job = {"workload": "ncf", "ranks": 2, "parameters": 1000, "runs": runs}
    text = fill_tables.auto_gains(job, job)
    assert text.count("| ncf, 2 ranks, 1,000 parameters | 20.0 ms: 1.50 (1.00 to 2.00) |") == 2


def test_steps_of_presets_have_the_points_that_a_training_lost():
    wire = {"expected": 1000}
    rows = [
        {"compression": name, "bandwidth": "1gbit", "wire": wire, "step_ms": 5, "throughput_to": {"none": 2}}
        for name in ("topk", "auto")
    ]
    result = {"workload": "ncf", "ranks": 2, "parameters": 1000, "rows": rows}
    text = fill_tables.presets(result, {"rows": [{"compression": "topk(0.01)", "difference": -0.012}]})
    assert (
        "| `topk` | 1,000 | 5.0 ms: 2.00 | +1.20 |" in text and "| `auto` | 1,000 | 5.0 ms: 2.00 |  |" in text
    )


def test_speed_says_which_targets_are_met():
    row = {"spec": "residual|b", "n": 10_000_000, "threads": 1, "memory": 1.0, "encode": 2.5, "decode": 0.5}
    row["addition"] = 1.5
    row |= {"bytes": 20_000_000, "further": 0.25, "targets": {"encode": 2, "decode": 0.5, "further": None}}
    other = row | {"spec": "c|d", "threads": 2}
    core = [{"name": "pipeline/residual|b/0.01", "encode": 2.25}, {"name": "index/raw/0.01", "decode": 0.125}]
    result = {"processor": "P", "cores": 2, "load": 0.1, "ops": [row, other], "core": core}
    text = fill_tables.speed(result)
    assert "| `residual\\|b` | 2.50 (2, **missed**) | 0.50 (0.5, met) | 0.25 |" in text
    assert "| 0.25 | 1.50 | 1.75 | 0.75 | 2.25 |  | 1.0 |" in text
    assert "c\\|d" not in text
    assert "| `raw` index |  | 0.12 |  |  |" in fill_tables.speed_core(result)


def test_bars_of_specs_do_not_end_cells():
    assert fill_tables.table(["a", "b"], [[fill_tables.code("x|y"), "1"]]).endswith("| `x\\|y` | 1 |\n")


def test_bytes_of_real_jobs_are_compared_with_a_ring():
    point = {"exchange": "int8, sharded", "ranks": 4, "payload_bytes": 1500, "wire_bytes": 3000}
    text = fill_tables.sharding_measured({"setting": {"rows": 100, "columns": 10}, "measured": [point]})
    assert "| `int8, sharded` | 4 | 1.5 | 3.0 | 4.0 |" in text


def test_exact_codecs_have_no_decibels():
    rows = [
        {"codecs": "a|b", "bits": 27, "snr": None, "front": True},
        {"codecs": "a|c", "bits": 20.5, "snr": 73.54, "front": False},
    ]
    text = fill_tables.codec_choice({"rows": rows})
    assert "| `a\\|b` | 27.00 | exact | * |\n| `a\\|c` | 20.50 | 73.5 |  |\n" in text


def test_whole_gradients_are_those_that_were_measured_so():
    indices = {method: float(i) for i, method in enumerate(fill_tables.INDEX_BITS)}
    rows = [{"gradient": "a"}, {"gradient": "b", "whole": {"n": 100_000, "k": 1000, "indices": indices}}]
    text = fill_tables.native_whole({"rows": rows})
    assert "| b | 100,000 | 1,000 | 0.00 | 1.00 | 2.00 | 3.00 | 4.00 | 5.00 |" in text and "| a |" not in text


def test_times_to_accuracy_have_a_column_for_each_bandwidth():
    def row(bandwidth, name, final, megabytes, seconds):
        to_it = dict.fromkeys(["megabytes", "fewer", "seconds", "faster"])
        if final > 0.88:
            to_it = {"megabytes": megabytes / 2, "fewer": 1200 / megabytes}
            to_it |= {"seconds": seconds, "faster": 400 / seconds}
        training = {"training_megabytes": megabytes, "training_seconds": seconds}
        own = {"bandwidth": bandwidth, "compression": name, "metric": "test_accuracy", "final": final}
        return own | training | to_it

    rows = [
        row("slow", "none", 0.8861, 2400, 400),
        row("fast", "none", 0.8861, 2400, 100),
        row("slow", "a|b", 0.8857, 1200, 40),
        row("fast", "a|b", 0.8667, 1201, 30),
    ]
    result = {"workload": "mnist_mlp", "ranks": 2, "parameters": 1000, "rows": rows}
    text = fill_tables.time_to_accuracy(result)
    assert "| mnist_mlp, 2 ranks, 1,000 parameters | test_accuracy | in and out | slow | fast |" in text
    assert "| `none` | 0.8861 | 1,200 MB: 0.5 | 400 s: 1.0 | 100 s: 4.0 |" in text
    cells = "0.8857, 0.8667 | 600 MB: 1.0; 1,201 MB, not reached | 40 s: 10.0 | 30 s, not reached"
    assert f"| `a\\|b` | {cells} |" in text


def test_steps_have_a_column_for_each_bandwidth():
    rows = [
        {
            "bandwidth": bandwidth,
            "compression": name,
            "step_ms": step_ms,
            "wire": {"expected": 5000},
            "throughput_to": {"none": 40 / step_ms},
        }
        for bandwidth, name, step_ms in [("slow", "none", 40), ("fast", "none", 40), ("slow", "topk", 10)]
    ]
    rows.append(rows[2] | {"bandwidth": "fast"})
    text = fill_tables.steps({"workload": "ncf", "ranks": 4, "parameters": 1000, "rows": rows})
    assert "| ncf, 4 ranks, 1,000 parameters | wire B/step | slow | fast |" in text
    assert "| `topk` | 5,000 | 10.0 ms: 4.00 | 10.0 ms: 4.00 |" in text
