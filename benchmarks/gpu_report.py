"""Turns what `run.sh` of `make gpu-bundle` found into docs/results/gpu.json, for the tables of docs/cuda.md.

    python benchmarks/gpu_report.py results.tar.gz
    python benchmarks/fill_tables.py

The second command writes them into the page.
"""

import csv
import json
import pathlib
import re
import sys
import tarfile

from options import DOCS, make_parser
from page_table import code, table

STEPS = ["tests", "large", "benchmark", "memcheck", "racecheck", "synccheck", "initcheck", "profile"]
_COPY = re.compile(r"^copy of (\d+) floats: ([\d.]+) ms, (\d+) GB/s", re.MULTILINE)
_PART = (
    r"\| +(?P<{0}_ms>[\d.]+) ms +(?P<{0}_copies>[\d.]+) copies +(?:met|MISSED)? "
    r"+(?P<{0}_launches>\d+|-) launches"
)
_ROW = re.compile(
    r"^(?P<spec>(?:float16 |shards of )?\S+) +(?P<bytes>\d+) B +(?P<workspace_mb>[\d.]+) MB "
    + _PART.format("encode")
    + r" +(?P<encode_percent>[\d.]+) % +(?:met|MISSED)? +"
    + _PART.format("sum"),
    re.MULTILINE,
)
# Of Nsight Compute, and the kernel with which each spec of its profile begins.
_TIME, _READ, _WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
_MILLISECONDS = {
    "ns": 1e-6,
    "us": 1e-3,
    "nsecond": 1e-6,
    "usecond": 1e-3,
    "ms": 1,
    "msecond": 1,
    "s": 1e3,
    "second": 1e3,
}
_BYTES = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
# Begins the encoding of a gradient, and is launched nowhere else.
_FIRST_KERNEL = "WritePartsKernel"
# Ranks that encode a gradient with each spec.
_NUM_RANKS = 2
# Shares of the time below which the page, and a spec's list, leave out a kernel.
_LEAST_SHARE, _LEAST_SHARE_OF_SPEC = 0.01, 0.05


def read(archive: pathlib.Path) -> dict:
    """Returns what the archive says, as gpu.json has it.

    Raises:
      ValueError: It is not what run.sh packs.
    """
    with tarfile.open(archive) as tar:
        files = {
            member.name.partition("/")[2]: tar.extractfile(member).read().decode(errors="replace")
            for member in tar.getmembers()
            if member.isfile()
        }
    if "machine.txt" not in files:
        raise ValueError(f"{archive} has no machine.txt: run.sh with its step `machine` makes one")
    return {
        "machine": files["machine.txt"].splitlines(),
        "steps": {step: _status(files[f"{step}.status"]) for step in STEPS if f"{step}.status" in files},
        "failed": files.get("tests/failed.txt", "").split(),
        "not_run": files.get("tests/not_run.txt", "").split(),
        "times": sorted(
            (
                found
                for name, text in files.items()
                if re.fullmatch(r"benchmark_\d+\.log", name) and (found := benchmark(text))
            ),
            key=lambda size: size["elements"],
        ),
        "resnet50": benchmark(files.get("resnet50.log", "")),
        "kernels": kernels(launches := profile(files.get("profile.log", ""))),
        "kernels_by_spec": kernels_by_spec(launches),
    }


def _status(text: str) -> dict:
    result, _, detail = text.strip().partition("\t")
    return {"result": result, "detail": detail}


def benchmark(text: str) -> dict | None:
    """Returns the rows of one run of the benchmark; None where it did not begin to measure."""
    copy = _COPY.search(text)
    if copy is None:
        return None
    elements, milliseconds, gigabytes = copy.groups()
    return {
        "elements": int(elements),
        "copy_ms": float(milliseconds),
        "copy_gb_per_second": int(gigabytes),
        "rows": [
            {name: _value(name, found) for name, found in row.groupdict().items()}
            for row in _ROW.finditer(text)
        ],
    }


def _value(name: str, found: str) -> str | int | float | None:
    """Returns a cell of the benchmark; over the emulator, launches are not counted."""
    if name == "spec":
        return found
    if name == "bytes" or name.endswith("_launches"):
        return None if found == "-" else int(found)
    return float(found)


def profile(text: str) -> list[dict]:
    """Returns all launches of a profile, each with its spec, kernel, milliseconds and bytes."""
    specs = iter(re.findall(r"^## (\S+)", text, re.MULTILINE))
    rows = csv.DictReader(line for line in text[text.find('"ID"') :].splitlines() if line.startswith('"'))
    units = next(rows, {})
    launches = []
    spec, num_encoded = "", 0
    for row in rows:
        kernel = _kernel_name(row["Kernel Name"])
        if kernel == _FIRST_KERNEL:
            spec = next(specs, "") if num_encoded % _NUM_RANKS == 0 else spec
            num_encoded += 1
        moved = sum(_number(row[each]) * _BYTES[units[each]] for each in (_READ, _WRITTEN))
        milliseconds = _number(row[_TIME]) * _MILLISECONDS[units[_TIME]]
        launches.append({"spec": spec, "kernel": kernel, "ms": milliseconds, "bytes": moved})
    return launches


def _kernel_name(signature: str) -> str:
    """Returns the name without namespaces and arguments."""
    name = re.sub(r"<unnamed>::|\(anonymous namespace\)::|^void ", "", signature)
    return re.sub(r"<.*|\(.*", "", name).rpartition("::")[2]


def kernels(launches: list[dict]) -> list[dict]:
    """Returns the launches, milliseconds and bytes of each kernel, the longest first."""
    found: dict[str, dict] = {}
    for launch in launches:
        name = launch["kernel"]
        kernel = found.setdefault(name, {"kernel": name, "launches": 0, "ms": 0.0, "bytes": 0.0})
        kernel["launches"] += 1
        kernel["ms"] += launch["ms"]
        kernel["bytes"] += launch["bytes"]
    return sorted(found.values(), key=lambda kernel: -kernel["ms"])


def kernels_by_spec(launches: list[dict]) -> dict[str, list[dict]]:
    """Returns the kernels that take most of the time of each spec, the longest first."""
    specs = dict.fromkeys(launch["spec"] for launch in launches)
    return {
        spec: _longest(kernels([each for each in launches if each["spec"] == spec]), _LEAST_SHARE_OF_SPEC)
        for spec in specs
    }


def _longest(found: list[dict], least_share: float) -> list[dict]:
    """Returns those of the kernels that take at least that share of the time of all."""
    total = sum(each["ms"] for each in found)
    return [each for each in found if each["ms"] >= least_share * total]


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def steps_table(result: dict) -> str:
    """Returns a table of what each step came to."""
    rows = [[code(step), each["result"], each["detail"]] for step, each in result["steps"].items()]
    return table([result["machine"][-1], "result", ""], rows)


def _run_table(run: dict | None) -> str:
    """Returns a table of all that one run of the benchmark measured."""
    if not run:
        return "Not measured yet."
    headings = ["sent bytes", "workspace MB"]
    headings += ["encode ms", "copies", "% of the copy's bandwidth", "launches"]
    headings += ["sum ms", "copies", "launches"]
    rows = [
        [
            code(row["spec"]),
            f"{row['bytes']:,}",
            f"{row['workspace_mb']:.1f}",
            f"{row['encode_ms']:.3f}",
            f"{row['encode_copies']:.1f}",
            f"{row['encode_percent']:.0f}",
            _launches(row["encode_launches"]),
            f"{row['sum_ms']:.3f}",
            f"{row['sum_copies']:.1f}",
            _launches(row["sum_launches"]),
        ]
        for row in run["rows"]
    ]
    return table([f"{run['elements']:,} elements", *headings], rows)


def _launches(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def times_table(result: dict) -> str:
    """Returns a table of the largest gradient."""
    return _run_table(result["times"][-1] if result["times"] else None)


def sizes_table(result: dict) -> str:
    """Returns a table of milliseconds, two columns for each of the smaller gradients."""
    sizes = result["times"][:-1]
    found: dict[str, list[str]] = {}
    for position, size in enumerate(sizes):
        for row in size["rows"]:
            cells = found.setdefault(row["spec"], [""] * (2 * len(sizes)))
            cells[2 * position : 2 * position + 2] = [f"{row['encode_ms']:.3f}", f"{row['sum_ms']:.3f}"]
    columns = [f"{part} {size['elements']:,}" for size in sizes for part in ("encode", "sum")]
    return table(["ms", *columns], [[code(spec), *cells] for spec, cells in found.items()])


def resnet50_table(result: dict) -> str:
    """Returns a table of the gradients of ResNet-50."""
    return _run_table(result["resnet50"])


def kernels_table(result: dict) -> str:
    """Returns a table of the kernels of a profile that take a share worth a row."""
    total = sum(each["ms"] for each in result["kernels"])
    rows = [
        [
            code(each["kernel"]),
            str(each["launches"]),
            f"{each['ms']:.3f}",
            f"{100 * each['ms'] / total:.1f}",
            f"{each['bytes'] / each['ms'] / 1e6:.0f}",
        ]
        for each in _longest(result["kernels"], _LEAST_SHARE)
    ]
    return table(["kernel", "launches", "ms", "% of all", "GB/s"], rows)


TABLES = {
    "gpu_steps": steps_table,
    "gpu_times": times_table,
    "gpu_sizes": sizes_table,
    "gpu_resnet50": resnet50_table,
    "gpu_kernels": kernels_table,
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("archive", type=pathlib.Path, help="results.tar.gz of run.sh")
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=DOCS / "results" / "gpu.json",
        help="file (default docs/results/gpu.json)",
    )
    arguments = parser.parse_args()
    try:
        result = read(arguments.archive)
    except (OSError, ValueError, tarfile.TarError) as error:
        sys.exit(f"gpu_report: {error}")
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    for step, each in result["steps"].items():
        print(f"{step:10} {each['result']:8} {each['detail']}")
    print(*(f"failed: {name}" for name in result["failed"]), sep="\n")
    if result["not_run"]:
        print(f"{len(result['not_run'])} tests have not run")


if __name__ == "__main__":
    main()
