"""Medians, ratios and tables of `network.py`'s runs."""

import statistics
from collections.abc import Iterable

import rich.table
from gradient_sizes import Gradients, dense_bytes, split
from wire import TOLERANCE, Comparison, compare

import tfcompress as tfc

# Baselines of the comparison: plain Horovod, and its own half precision.
BASELINES = ("none", "fp16")
PHASES = ("compute", "encode", "communication", "decode", "update")


def summarise(runs: list[dict], idle: dict[str, dict], compressors: dict[str, tfc.Compressor]) -> list[dict]:
    """Returns a row for each bandwidth and compressor: medians over the rounds.

    Ratios are made within each round before their median is taken.

    Args:
      runs: As in `network_jobs.Measured`.
      idle: As in `network_jobs.Measured`.
      compressors: Compressors by name.
    """
    groups: dict[tuple[str, str], list[dict]] = {}
    for run in runs:
        groups.setdefault((run["bandwidth"], run["compression"]), []).append(run)
    rows = []
    for (bandwidth, name), group in groups.items():
        compared = [compare(run["interfaces"][0], idle[bandwidth]) for run in group]
        rows.append(
            {
                "bandwidth": bandwidth,
                "compression": name,
                "spec": group[0]["spec"],
                "step_ms": statistics.median(run["step_ms_median"] for run in group),
                "milliseconds": {
                    phase: statistics.median(run["milliseconds"][phase] for run in group) for phase in PHASES
                },
                "throughput_to": {
                    baseline: _median_ratio(groups.get((bandwidth, baseline), []), group)
                    for baseline in BASELINES
                },
                "wire": Comparison.median(compared).as_dict(),
            }
        )
    order = list(compressors)
    bandwidths = list(idle)
    return sorted(rows, key=lambda row: (bandwidths.index(row["bandwidth"]), order.index(row["compression"])))


def _median_ratio(baseline: list[dict], group: list[dict]) -> float | None:
    """Returns the baseline's step time divided by the compressor's; None without a baseline."""
    steps = {run["round"]: run["step_ms_median"] for run in baseline}
    ratios = [steps[run["round"]] / run["step_ms_median"] for run in group if run["round"] in steps]
    return statistics.median(ratios) if ratios else None


def add_planned(rows: list[dict], planned: dict[str, dict[str, float]]) -> None:
    """Adds to rows what `tfcompress plan` predicts: "planned_ms", of a step.

    A step computes for what the baseline's takes on the last link less its exchange, as predicted there.
    Adds nothing where the baseline failed.

    Args:
      rows: As `summarise` returns them.
      planned: As in `network_jobs.Measured`.
    """
    steps = {row["bandwidth"]: row["step_ms"] for row in rows if row["compression"] == BASELINES[0]}
    if not planned or not steps:
        return
    last = list(planned)[-1]
    compute = max(steps[last] - planned[last][BASELINES[0]], 0.0)
    for row in rows:
        if (expected := planned[row["bandwidth"]].get(row["compression"])) is not None:
            row["planned_ms"] = compute + expected


def sizes(gradients: Gradients, rows: Iterable[dict], compressors: dict[str, tfc.Compressor]) -> list[dict]:
    """Returns for each compressor the bytes of one step's gradients, split into keys, values and the rest.

    Frames are encoded here. Summed payloads count as values, with the bytes that the run reported.
    """
    reported = {row["compression"]: row["wire"]["payload"] for row in rows}
    dense = dense_bytes(gradients)
    return [
        {
            "compression": name,
            "dense_bytes": dense,
            "parts": {"values": reported[name]} if compressor.is_summed else split(gradients, compressor),
        }
        for name, compressor in compressors.items()
    ]


def time_table(result: dict) -> rich.table.Table:
    """Returns the table of step times."""
    table = rich.table.Table(
        title=f"{_title(result)}: milliseconds of a step, and throughput against Horovod",
        caption="step: median; phases: means, encode and decode summed over tensors, which run in parallel",
    )
    headings = ["step", *PHASES, *(f"x {baseline}" for baseline in BASELINES)]
    _add_columns(table, ["bandwidth", "compression"], headings)
    for row, last in _with_ends(result["rows"]):
        times = [row["step_ms"], *(row["milliseconds"][phase] for phase in PHASES)]
        ratios = [row["throughput_to"][baseline] for baseline in BASELINES]
        cells = [f"{each:.1f}" for each in times]
        cells += ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        table.add_row(row["bandwidth"], row["compression"], *cells, end_section=last)
    return table


def wire_table(result: dict) -> rich.table.Table:
    """Returns the table that compares the package's bytes with the interface's."""
    table = rich.table.Table(
        title=f"{_title(result)}: bytes in and out of rank 0 in a step",
        caption="wire: as the package reports them; idle control: what an idle job sends and receives in as "
        "much time; excess: (interface - headers - wire) / wire; agree: "
        f"within {100 * TOLERANCE:.0f} % beside idle control",
    )
    headings = ["payload", "wire", "interface", "headers", "idle control", "excess %", "agree"]
    _add_columns(table, ["bandwidth", "compression"], headings)
    for row, last in _with_ends(result["rows"]):
        wire = row["wire"]
        fields = ("payload", "expected", "counted", "headers", "control")
        cells = [f"{wire[field]:,.0f}" for field in fields] + [f"{100 * wire['excess']:+.1f}"]
        cells.append("yes" if wire["agrees"] else "no")
        table.add_row(row["bandwidth"], row["compression"], *cells, end_section=last)
    return table


def _title(result: dict) -> str:
    return f"{result['workload']}, {result['ranks']} ranks, {result['parameters']:,} parameters"


def _add_columns(table: rich.table.Table, words: list[str], numbers: list[str]) -> None:
    for heading in words:
        table.add_column(heading)
    for heading in numbers:
        table.add_column(heading, justify="right")


def _with_ends(rows: list[dict]) -> Iterable[tuple[dict, bool]]:
    """Yields each row and whether it is the last of its bandwidth."""
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        yield row, following is None or following["bandwidth"] != row["bandwidth"]
