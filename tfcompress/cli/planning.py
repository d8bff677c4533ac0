"""`plan`: which preset pays on a job, from gradients of it and the speed of its links."""

import argparse
import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

import tfcompress as tfc
from tfcompress.cli import arrays, console, plotting, units
from tfcompress.cli.coding import named, preset_names
from tfcompress.cli.setting import Setting, setting_of
from tfcompress.costs import CodecCost, Exchange, Load, exchange, loads_of
from tfcompress.measure import codec_cost, processor

# Presets that send every element, from the most exact to the least; then those that send the largest only.
DENSE = ("none", "fp16", "bf16", "int8", "int4")
SPARSE = ("sparse", "topk")
# Steps that are at most so many times as long count as equal, and the most exact preset is recommended.
_EQUAL = 1.03
_DESCRIPTION = """Predict the step time of a training job under presets, and recommend one.

The gradients of the file are those of one rank in one step. Each preset encodes and decodes them on this
machine, with the memory of some equal steps: that gives bytes and times. Its collectives are those that it
takes on so many ranks: all-reduce, all-gather, or all-to-all and all-gather (by shards). Their time follows
from the bytes that their algorithm moves, from bandwidth and latency of the links, and from what this machine
takes to send and receive over TCP.

Under horovodrun, without --ranks and --bandwidth, all ranks measure together, each with the same file:
collectives on the job's own links, codecs while the other ranks of a host use it, too.

A step is --compute-ms and then the exchange: what overlaps the backward pass in training is not taken off.
Each rank is behind a link of its own; where ranks share one, divide its bandwidth by their number. Horovod
sums by Gloo here, over TCP; NCCL is faster. Schedules, such as of sparse, are as after their warm-up. The
`:values` of a gradient dump, which are rows of a table, are taken as a dense tensor."""


def add_parser(subcommands: argparse._SubParsersAction) -> None:
    """Adds the subcommand."""
    parser = console.add_subparser(subcommands, "plan", _DESCRIPTION)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE.npz|FILE.npy", help="gradients of a step")
    parser.add_argument("--ranks", type=_ranks, metavar="R", help="number of ranks, at least 2")
    parser.add_argument(
        "--bandwidth",
        type=units.bandwidth,
        metavar="RATE",
        help="of each direction of a rank's link: 100mbit, 2.5gbit, unlimited",
    )
    parser.add_argument(
        "--latency",
        type=units.duration,
        default="100us",
        metavar="TIME",
        help="of a message from one rank to another (default: %(default)s)",
    )
    parser.add_argument(
        "--compute-ms",
        type=_milliseconds,
        default=0.0,
        metavar="MS",
        help="forward pass, backward pass and update of a step (default: none, the exchange alone is shown)",
    )
    parser.add_argument(
        "--preset",
        nargs="+",
        default=[],
        metavar="PRESET|SPEC",
        help=f"presets or specs in addition to {', '.join((*DENSE, *SPARSE))}; all: every preset",
    )
    parser.add_argument(
        "--repeat",
        type=console.positive,
        default=3,
        metavar="N",
        help="runs of each measurement (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=console.natural,
        default=0,
        metavar="N",
        help="threads of encoding and decoding; 0, the default, for one per core",
    )
    parser.add_argument(
        "--plot", type=pathlib.Path, metavar="FILE.png", help="draw the parts of each preset's step"
    )
    parser.set_defaults(run=run)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What a step is expected to take under a preset.

    Attributes:
      name: On the command line.
      exchange: What its exchange is expected to take and to move.
      compute_seconds: The time of a step without its exchange.
    """

    name: str
    exchange: Exchange
    compute_seconds: float

    @property
    def seconds(self) -> float:
        """The time of a step."""
        return self.compute_seconds + self.exchange.seconds

    def as_dict(self, of_none: float) -> dict[str, object]:
        """Returns the numbers to report; `of_none` is the time of a step without compression, in seconds."""
        return {
            "name": self.name,
            "payload_bytes": round(self.exchange.payload_bytes),
            "wire_bytes": round(self.exchange.wire_bytes),
            "encode_ms": 1e3 * self.exchange.encode_seconds,
            "decode_ms": 1e3 * self.exchange.decode_seconds,
            "communication_ms": 1e3 * self.exchange.communication_seconds,
            "step_ms": 1e3 * self.seconds,
            "speedup": of_none / self.seconds,
        }


def run(arguments: argparse.Namespace) -> None:
    """Predicts the step times of all presets.

    Raises:
      SystemExit: The file has no array to compress, a preset is invalid or does not fit an array, or neither
        a job is described nor one runs this.
    """
    figures = plotting.figures_for(arguments.plot)
    compressors = {name: compressor_of(name) for name in names_of(arguments.preset)}
    tensors, notes = arrays.read_finite(arguments.file)
    setting = setting_of(arguments)
    predictions = predict(tensors, compressors, setting, arguments)
    if not setting.is_reported_here:
        return
    of_none = next(each.seconds for each in predictions if each.name == "none")
    results = [each.as_dict(of_none) for each in sorted(predictions, key=lambda each: each.seconds)]
    advice = recommend({each.name: each.seconds for each in predictions})
    for text in notes:
        console.note(text)
    if arguments.json:
        console.print_json({**_describe_run(arguments, setting, notes), "results": results, **advice})
    else:
        _print(arguments, tensors, setting, results, advice["recommendation"])
    if figures is not None:
        figures.save_plan(results, 1e3 * predictions[0].compute_seconds, arguments.plot)


def names_of(wanted: Sequence[str]) -> list[str]:
    """Returns the presets and specs to predict: those of every plan, and what is wanted, maybe "all"."""
    every = [name for name in preset_names() if name != "auto"]  # It takes one of the others.
    expanded = [name for each in wanted for name in (every if each == "all" else [each])]
    return list(dict.fromkeys([*DENSE, *SPARSE, *expanded]))


def compressor_of(text: str) -> tfc.Compressor:
    """Returns the compressor of a preset or spec, the last one of a schedule.

    Raises:
      SystemExit: It is neither, or several.
    """
    made = named(text)
    last = made.last if isinstance(made, tfc.Schedule) else made
    if not isinstance(last, tfc.Compressor):
        raise SystemExit(f"'{text}' is several presets, by measurement in training: name presets instead")
    return last


def predict(
    tensors: Sequence[arrays.Tensor],
    compressors: Mapping[str, tfc.Compressor],
    setting: Setting,
    arguments: argparse.Namespace,
) -> list[Prediction]:
    """Returns the predictions of all presets, from measurements.

    Args:
      tensors: The gradients of one rank, with finite values.
      compressors: By their names on the command line.
      setting: The job.
      arguments: `compute_ms`, `repeat` and `threads`.

    Raises:
      SystemExit: A spec does not fit a tensor.
    """
    known: dict[tuple[str, tuple[int, ...]], CodecCost] = {}
    predictions = []
    with console.make_progress() as progress:
        task = progress.add_task("", total=len(compressors))
        for name, compressor in compressors.items():
            progress.update(task, description=name)
            loads, positions = _loads(tensors, compressor, setting.num_ranks)
            codecs = {}
            for spec, those in positions.items():
                key = (spec, tuple(those))
                if key not in known:
                    known[key] = setting.codec_cost(_measure(spec, [tensors[i] for i in those], arguments))
                codecs[spec] = known[key]
            expected = exchange(loads, setting.links, codecs, setting.num_ranks)
            predictions.append(Prediction(name, expected, arguments.compute_ms / 1e3))
            progress.advance(task)
    return predictions


def recommend(seconds: Mapping[str, float]) -> dict[str, str]:
    """Returns the preset to take, as `recommended`, and a line that says why, as `recommendation`.

    Args:
      seconds: Of a step, by preset; those of `DENSE` and `SPARSE` at least.
    """
    fastest = min(seconds[name] for name in DENSE)
    best = next(name for name in DENSE if seconds[name] <= _EQUAL * fastest)
    if best == "none":
        line = "Take none: no preset that sends every element makes steps shorter."
    else:
        line = f"Take {best}: steps {seconds['none'] / seconds[best]:.2f} times as fast as with none."
    if (gain := seconds[best] / seconds["sparse"]) > _EQUAL:
        line += f" sparse is {gain:.2f} times as fast again."
    line += (
        " none, fp16, bf16, int8 and int4 keep the accuracy of uncompressed training, sparse does in a "
        "thousand steps or more; topk costs some."
    )
    return {"recommended": best, "recommendation": line}


def _loads(
    tensors: Sequence[arrays.Tensor], compressor: tfc.Compressor, num_ranks: int
) -> tuple[list[Load], dict[str, list[int]]]:
    """Returns what travels, and the positions of the tensors that each spec encodes."""
    gradients = [(tensor.name, "float32", tensor.shape, False) for tensor in tensors]
    positions: dict[str, list[int]] = {}
    for i, gradient in enumerate(gradients):
        [load] = loads_of(compressor, [gradient], num_ranks)
        for spec in dict.fromkeys(load.specs):
            positions.setdefault(spec, []).append(i)
    return loads_of(compressor, gradients, num_ranks), positions


def _measure(spec: str, tensors: Sequence[arrays.Tensor], arguments: argparse.Namespace) -> CodecCost:
    gradients = [tensor.values.reshape(tensor.shape) for tensor in tensors]
    try:
        return codec_cost(spec, gradients, num_threads=arguments.threads, repeats=arguments.repeat)
    except ValueError as error:
        raise SystemExit(f"{spec} on {arrays.join([tensor.name for tensor in tensors])}: {error}") from error


def _describe_run(arguments: argparse.Namespace, setting: Setting, notes: list[str]) -> dict:
    is_described = arguments.bandwidth is not None  # Else links have been measured.
    is_limited = is_described and math.isfinite(arguments.bandwidth)
    return {
        "file": str(arguments.file),
        "notes": notes,
        "ranks": setting.num_ranks,
        "links": dataclasses.asdict(setting.links),
        "bandwidth_bits_per_second": arguments.bandwidth if is_limited else None,
        "latency_ms": 1e3 * arguments.latency if is_described else None,
        "compute_ms": arguments.compute_ms or None,
        "repeat": arguments.repeat,
        "threads": arguments.threads,
        "machine": {"processor": processor(), "cores": len(os.sched_getaffinity(0))},
        "versions": {"tfcompress": tfc.__version__, "numpy": np.__version__},
    }


def _print(
    arguments: argparse.Namespace,
    tensors: Sequence[arrays.Tensor],
    setting: Setting,
    results: list[dict],
    recommendation: str,
) -> None:
    n = sum(tensor.values.size for tensor in tensors)
    title = f"{arguments.file}: n = {n:,}, {setting.title}"
    if arguments.compute_ms:
        last, caption = "step\nms", f"a step: {arguments.compute_ms:g} ms of computing, and the exchange"
    else:
        last, caption = "exchange\nms", "the exchange alone: --compute-ms adds the time of computing to it"
    times = ("encode\nms", "decode\nms", "communication\nms", last, "times as fast\nas none")
    table = console.make_table(title, "preset", "payload\nB/step", "wire\nB/step", *times, caption=caption)
    for row in results:
        keys = ("encode_ms", "decode_ms", "communication_ms", "step_ms", "speedup")
        table.add_row(
            row["name"],
            *(f"{row[key]:,}" for key in ("payload_bytes", "wire_bytes")),
            *(console.number(row[key]) for key in keys),
        )
    console.print_table(table)
    console.print_text(recommendation)


def _ranks(text: str) -> int:
    return console.at_least(2, text)


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of milliseconds, at least 0, got '{text}'")
    return value
