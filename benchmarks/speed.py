"""Measures what runs, the TensorFlow ops and the core, and writes the tables of speed.

    make bench                                   # builds, measures and prints
    make bench BENCH_ARGS=--save                 # and replaces docs/results/speed.json and the tables
    make bench BENCH_ARGS="--only op --quick"    # a look at the ops

The ops run as in a training step, with a gradient that is new in each (`cc_tests/bench/op_speed.py`), over
numbers of elements, densities, and one and two threads; the core's codecs one by one, on one thread
(`codec_benchmark`). Every process times a memcpy of the gradient itself, and all times are divided by that.
Keep the machine quiet: what else runs on it takes memory bandwidth from both.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import fill_tables
import page_table
from measuring import tracked
from options import DOCS, make_parser, save

from tfcompress.measure import processor

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "cc_tests" / "bench"))

import op_speed  # noqa: E402

BENCHMARK = ROOT / "build" / "bench" / "cc_tests" / "codec_benchmark"
OP_SPEED = ROOT / "cc_tests" / "bench" / "op_speed.py"
TOPK = "residual|topk:ratio={}|delta_binary|raw"
SCALED = (TOPK.format(0.01), "residual|dense|raw|block_int", "residual|dense|raw|qsgd")
# Elements, threads, repeats, and specs, each for a process.
OP_RUNS = (
    (10_000_000, 1, 15, tuple(op_speed.SPECS)),
    (10_000_000, 2, 15, (*SCALED, "nonzero|sketchml", "topk:ratio=0.01|bloom|raw")),
    (10_000_000, 1, 15, tuple(TOPK.format(ratio) for ratio in (0.001, 0.1, 1))),
    (4_096, 1, 200, SCALED),
    (65_536, 1, 200, SCALED),
    (1_000_000, 1, 50, SCALED),
    (1_000_000, 2, 50, SCALED),
    (100_000_000, 1, 5, SCALED),
)
QUICK_RUNS = ((100_000, 1, 3, SCALED),)
# Load average above which the machine is not quiet: what make bench built just before counts, too.
QUIET_LOAD = 2.5
# How the names of the core's benchmarks begin.
CORE_KINDS = ("sparsifier", "index", "value", "joint", "linear", "bloom filter", "count sketch", "pipeline")


def op_rows(n: int, threads: int, repeats: int, spec: str) -> list[dict]:
    """Returns what a new process measures of the ops.

    Raises:
      SystemExit: It failed; says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "rows.json"
        command = [sys.executable, OP_SPEED, "--n", n, "--threads", threads, "--repeats", repeats]
        command += ["--spec", spec, "--output", output]
        done = subprocess.run([*map(str, command)], stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{OP_SPEED.name} failed:\n{done.stderr}")
        return json.loads(output.read_text())


def core_rows(kind: str, benchmark: pathlib.Path, *, quick: bool) -> list[dict]:
    """Returns the times, in memcpys, and bits of the core's benchmarks of a kind.

    Raises:
      subprocess.CalledProcessError: It failed.
    """
    pattern = f"^{kind}.*" + ("/0.01/" if quick else "")
    command = [benchmark, f"--benchmark_filter={pattern}", "--benchmark_format=json"]
    done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    copy = float(done["context"]["memcpy_ns"])
    rows: dict[str, dict] = {}
    for each in done["benchmarks"]:
        name, direction = each["name"].split("/real_time")[0].split("/min_time")[0].rsplit("/", 1)
        row = rows.setdefault(name, {"name": name, "memcpy_ms": copy / 1e6})
        row[direction] = each["real_time"] / copy
        row |= {key: each[key] for key in ("bits", "limit") if key in each}
    return list(rows.values())


def measure(only: str | None, benchmark: pathlib.Path, *, quick: bool) -> dict:
    """Returns all numbers: those of docs/results/speed.json."""
    op_runs = QUICK_RUNS if quick else OP_RUNS
    steps: list[tuple[str, str, tuple]] = []
    if only != "core":
        steps += [
            ("ops", f"{spec}, {n:,} elements, {threads} threads", (n, threads, repeats, spec))
            for n, threads, repeats, specs in op_runs
            for spec in specs
        ]
    if only != "op":
        steps += [("core", f"core, {kind}", (kind, benchmark)) for kind in CORE_KINDS]
    load = round(os.getloadavg()[0], 1)
    if load > QUIET_LOAD:
        print(f"This machine is busy (load average {load}): times will be too long", file=sys.stderr)
    result = {"processor": processor(), "cores": os.cpu_count(), "load": load, "ops": [], "core": []}
    for part, _, arguments in tracked(steps, lambda step: step[1]):
        result[part] += op_rows(*arguments) if part == "ops" else core_rows(*arguments, quick=quick)
    return result


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", choices=("op", "core"), help="measure one of the two")
    parser.add_argument("--quick", action="store_true", help="few and small cases")
    parser.add_argument("--save", action="store_true", help="write docs/results/speed.json and the tables")
    parser.add_argument(
        "--core",
        type=pathlib.Path,
        default=BENCHMARK,
        help="codec_benchmark (default: the one make bench builds)",
    )
    arguments = parser.parse_args()
    if arguments.save and (arguments.quick or arguments.only):
        parser.error("--save needs all measurements: without --only and --quick")
    if arguments.only != "op" and not arguments.core.exists():
        parser.error(f"{arguments.core} is not built: make bench builds it")
    result = measure(arguments.only, arguments.core, quick=arguments.quick)
    tables = (fill_tables.speed, fill_tables.speed_grid, fill_tables.speed_core)
    page_table.show(*(table(result) for table in tables))
    if arguments.save:
        save(result, DOCS, "speed")
        fill_tables.fill()


if __name__ == "__main__":
    main()
