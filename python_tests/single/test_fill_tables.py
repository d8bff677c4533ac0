"""The tables of docs/ are those of the numbers in docs/results."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "fill_tables.py"
sys.path.insert(0, str(SCRIPT.parent))

import fill_tables  # noqa: E402


def test_the_pages_show_the_numbers_of_the_results():
    check = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


def test_a_page_is_filled_between_its_marks_only():
    page = "before\n<!-- convergence: convergence_ncf -->\nstale\n<!-- /convergence -->\nafter\n"
    filled = fill_tables.filled(page, ROOT / "docs" / "results")
    assert filled.startswith("before\n<!-- convergence") and filled.endswith("<!-- /convergence -->\nafter\n")
    assert "stale" not in filled and "`skcompress`" in filled
    assert fill_tables.filled(filled, ROOT / "docs" / "results") == filled


def test_speed_says_which_targets_are_met():
    row = {"spec": "a|b", "n": 10_000_000, "threads": 1, "memory": 1.0, "encode": 2.5, "decode": 0.5}
    row |= {"further": 0.25, "targets": {"encode": 2, "decode": 0.5, "further": None}}
    other = row | {"spec": "c|d", "threads": 2}
    core = [{"name": "pipeline/a|b/0.01", "encode": 2.25}, {"name": "index/raw/0.01", "decode": 0.125}]
    result = {"processor": "P", "cores": 2, "load": 0.1, "ops": [row, other], "core": core}
    text = fill_tables.speed(result)
    assert "| `a\\|b` | 2.50 (2, **missed**) | 0.50 (0.5, met) | 0.25 | 2.25 |  | 1.0 |" in text
    assert "c\\|d" not in text
    assert "| `raw` index |  | 0.12 |  |  |" in fill_tables.speed_core(result)


def test_bars_of_specs_do_not_end_cells():
    assert fill_tables.table(["a", "b"], [[fill_tables.code("x|y"), "1"]]).endswith("| `x\\|y` | 1 |\n")
