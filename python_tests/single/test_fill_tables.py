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


def test_bars_of_specs_do_not_end_cells():
    assert fill_tables.table(["a", "b"], [[fill_tables.code("x|y"), "1"]]).endswith("| `x\\|y` | 1 |\n")
