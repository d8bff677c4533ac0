"""Turns what `run.sh` of `make gpu-bundle` found into docs/results/gpu.json, for the tables of docs/cuda.md.

    python benchmarks/gpu_report.py results.tar.gz
    python benchmarks/fill_tables.py

The second command writes them into the page.
"""

import argparse
import csv
import io
import json
import pathlib
import re
import sys
import tarfile

from options import DOCS
from page_table import code, table

STEPS = ["tests", "large", "benchmark", "memcheck", "racecheck", "synccheck", "initcheck", "profile"]
_COPY = re.compile(r"^copy of (\d+) floats: ([\d.]+) ms, (\d+) GB/s", re.MULTILINE)
_TIMES = re.compile(
    r"^(\S+) +([\d.]+) ms +([\d.]+) copies +(?:met|MISSED)? +([\d.]+) ms +([\d.]+) copies", re.MULTILINE
)
# Of Nsight Compute.
_TIME, _READ, _WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"


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
        "times": sorted(
            (
                found
                for name, text in files.items()
                if re.fullmatch(r"benchmark_\d+\.log", name) and (found := benchmark(text))
            ),
            key=lambda size: size["elements"],
        ),
        "kernels": kernels(files.get("profile.log", "")),
    }


def _status(text: str) -> dict:
    result, _, detail = text.strip().partition("\t")
    return {"result": result, "detail": detail}


def benchmark(text: str) -> dict | None:
    """Returns the times of one size of the benchmark; None where it did not begin to measure."""
    copy = _COPY.search(text)
    if copy is None:
        return None
    rows = [
        {
            "spec": spec,
            **dict(
                zip(("encode_ms", "encode_copies", "sum_ms", "sum_copies"), map(float, times), strict=True)
            ),
        }
        for spec, *times in _TIMES.findall(text)
    ]
    elements, milliseconds, gigabytes = copy.groups()
    return {
        "elements": int(elements),
        "copy_ms": float(milliseconds),
        "copy_gb_per_second": int(gigabytes),
        "rows": rows,
    }


def kernels(text: str) -> list[dict]:
    """Returns the launches, milliseconds and bytes of each kernel of a profile, the longest first."""
    begin = text.find('"ID"')
    if begin < 0:
        return []
    units, *rows = csv.DictReader(io.StringIO(text[begin:]))
    milliseconds = {"ns": 1e-6, "us": 1e-3, "usecond": 1e-3, "nsecond": 1e-6, "ms": 1, "msecond": 1}[
        units[_TIME]
    ]
    byte_scales = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    found: dict[str, dict] = {}
    for row in rows:
        name = re.sub(r"^void |<.*|\(.*", "", row["Kernel Name"]).rpartition("::")[2]
        kernel = found.setdefault(name, {"kernel": name, "launches": 0, "ms": 0.0, "bytes": 0.0})
        kernel["launches"] += 1
        kernel["ms"] += _number(row[_TIME]) * milliseconds
        kernel["bytes"] += sum(_number(row[each]) * byte_scales[units[each]] for each in (_READ, _WRITTEN))
    return sorted(found.values(), key=lambda kernel: -kernel["ms"])


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def steps_table(result: dict) -> str:
    """Returns a table of what each step came to."""
    rows = [[code(step), each["result"], each["detail"]] for step, each in result["steps"].items()]
    return table([result["machine"][-1], "result", ""], rows)


def times_table(result: dict) -> str:
    """Returns a table of times in ms and in copies of the gradient, two columns for each size."""
    sizes = result["times"]
    found: dict[str, list[str]] = {}
    for size in sizes:
        for row in size["rows"]:
            found.setdefault(row["spec"], []).extend(
                f"{row[f'{part}_ms']:.3f}: {row[f'{part}_copies']:.1f}" for part in ("encode", "sum")
            )
    columns = [f"{part} of {size['elements']:,}" for size in sizes for part in ("encode", "sum")]
    return table(["", *columns], [[code(spec), *cells] for spec, cells in found.items()])


def kernels_table(result: dict) -> str:
    """Returns a table of the kernels of a profile."""
    rows = [
        [
            code(each["kernel"]),
            str(each["launches"]),
            f"{each['ms']:.3f}",
            f"{each['bytes'] / each['ms'] / 1e6:.0f}" if each["ms"] else "",
        ]
        for each in result["kernels"]
    ]
    return table(["kernel", "launches", "ms", "GB/s"], rows)


TABLES = {"gpu_steps": steps_table, "gpu_times": times_table, "gpu_kernels": kernels_table}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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


if __name__ == "__main__":
    main()
