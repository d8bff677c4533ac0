"""Medians and ratios of `network.py`'s runs."""

import statistics
from collections.abc import Iterable

from gradient_sizes import Gradients, dense_bytes, split
from wire import Comparison, compare

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


def title_of(result: dict) -> str:
    """Returns the job of a result in words."""
    return f"{result['workload']}, {result['ranks']} ranks, {result['parameters']:,} parameters"
