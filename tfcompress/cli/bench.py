"""`bench`: bytes, error and speed of specs on the arrays of a file."""

import argparse
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

import tfcompress as tfc
from tfcompress.cli import arrays, console, plotting
from tfcompress.cli.coding import is_summed, joins_arrays, make_coding, named
from tfcompress.cli.measurement import Measurement, measure, total
from tfcompress.measure import memcpy_seconds, processor

# One spec of each kind. They have no memory, since it would be empty at the first step.
DEFAULT_SPECS = (
    "dense|raw|fp16",
    "dense|raw|block_int:bits=8",
    "dense|raw|block_int:bits=4,levels=square",
    "dense|raw|ecsq",
    "dense|raw|qsgd",
    "dense|threelc",
    "topk:ratio=0.01|raw|raw",
    "topk:ratio=0.01|bitmap|raw",
    "topk:ratio=0.01|delta_binary|raw",
    "topk:ratio=0.01|delta_adaptive|raw",
    "topk:ratio=0.01|bloom|raw",
    "topk:ratio=0.01|delta_binary|fp16",
    "topk:ratio=0.01|delta_binary|quantile",
    "topk:ratio=0.01|rowcol|ecsq",
    "topk:ratio=0.01|skcompress",
    "shared_randomk:ratio=0.01",
)
_DESCRIPTION = """Encode and decode the arrays of a .npy or .npz file under specs or presets.

For each spec, over all arrays: bytes that a rank sends, ratio to float32, bits per index, the entropy limit
log2 C(n, k) / k of uniformly random indices (clustered ones may need less), bits per value, bits per sent
element (index and value), the error ||decoded - x|| / ||x||, and times in ms and as multiples of a memcpy of
the dense arrays (one thread) in the same run. Times are the best of --repeat. What fits these arrays is on
the front: none of the others has an error as small in as few bytes.

Each array is one tensor. Memories are empty, as at the first step of training. A compressor's policy (small
tensors uncompressed, exclude, clip_norm) is not applied: all arrays are coded. The `:values` of a gradient
dump, which are rows of a table, are taken as a dense tensor; row numbers are not counted.

Linear specs, marked "sum", code all arrays as one vector, powersgd each array as a matrix, as in training.
An all-reduce sums their payloads: unlike with frames, a rank's traffic does not grow with the ranks. Bytes of
the second round are counted; the memory is not used. The presets none, fp16 and bf16 are coded as frames
here; training sums them by an all-reduce."""


def add_parser(subcommands: argparse._SubParsersAction) -> None:
    """Adds the subcommand."""
    parser = console.add_subparser(subcommands, "bench", _DESCRIPTION)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE.npy|FILE.npz", help="gradients")
    parser.add_argument(
        "specs",
        nargs="*",
        default=list(DEFAULT_SPECS),
        metavar="SPEC|PRESET",
        help='"topk:ratio=0.01|bitmap|quantile", "topk" or "topk(ratio=0.001)" (default: one of each kind)',
    )
    parser.add_argument(
        "--per-array",
        action="store_true",
        help="also print a table of the sizes of each array, for each spec",
    )
    parser.add_argument(
        "--repeat",
        type=console.positive,
        default=5,
        metavar="N",
        help="runs of each measurement (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=console.natural,
        default=1,
        metavar="N",
        help="threads; 0 for one per core (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=console.natural, default=0, help="seed of random codecs (default: %(default)s)"
    )
    parser.add_argument(
        "--plot", type=pathlib.Path, metavar="FILE.png", help="draw the error against the bytes"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Measures all specs on the file's arrays.

    Raises:
      SystemExit: The file has no array to compress, or a spec is invalid or does not fit an array.
    """
    figures = plotting.figures_for(arguments.plot)
    specs = {text: spec_of(text) for text in arguments.specs}
    tensors, notes = arrays.read_finite(arguments.file)
    results = measure_all(tensors, specs, arguments)
    notes += _useless_sums(results)
    for text in notes:
        console.note(text)
    if arguments.json:
        console.print_json(_describe_run(arguments, notes, results))
    else:
        _print(arguments, tensors, results)
    if figures is not None:
        figures.save_bench(results, arguments.plot)


def spec_of(text: str) -> str:
    """Returns the canonical spec of a preset, with arguments or without, or of a spec.

    Raises:
      SystemExit: It is neither.
    """
    compressor = named(text)
    if not isinstance(compressor, tfc.Compressor):
        raise SystemExit(f"'{text}' is several specs: {compressor.spec}")
    return compressor.spec


def measure_all(
    tensors: Sequence[arrays.Tensor], specs: Mapping[str, str], arguments: argparse.Namespace
) -> list[dict]:
    """Returns the measurements of each spec, for each tensor and in total.

    Args:
      tensors: The tensors, with finite values.
      specs: Canonical specs, by their names on the command line.
      arguments: `repeat`, `seed` and `threads`.

    Raises:
      SystemExit: A spec does not fit a tensor.
    """
    results: list[dict] = []
    with console.make_progress() as progress:
        whole = [_join(tensors)] if any(map(joins_arrays, specs.values())) else []
        memcpy_ms = 1e3 * memcpy_seconds(sum(tensor.values.size for tensor in tensors))
        units = {name: whole if joins_arrays(spec) else tensors for name, spec in specs.items()}
        task = progress.add_task("", total=sum(map(len, units.values())))
        for name, spec in specs.items():
            progress.update(task, description=name)
            measured = {}
            for tensor in units[name]:
                measured[tensor.name] = _measure(tensor, spec, arguments)
                progress.advance(task)
            results.append(
                {
                    "name": name,
                    "spec": spec,
                    "summed": is_summed(spec),
                    "total": _with_memcpys(total(measured.values()).as_dict(), memcpy_ms),
                    "arrays": [{"name": array, **each.as_dict()} for array, each in measured.items()],
                }
            )
    return [{**result, "on_front": _is_on_front(result["total"], results)} for result in results]


def _is_on_front(numbers: dict, results: list[dict]) -> bool:
    """Says whether no other result has a smaller error in as few bytes, or as small an error in fewer."""

    def costs(total: dict) -> tuple[int, float]:
        return total["num_bytes"], total["relative_error"] or 0

    own, others = costs(numbers), {costs(each["total"]) for each in results}
    return not any(size <= own[0] and error <= own[1] for size, error in others - {own})


def _with_memcpys(numbers: dict, memcpy_ms: float) -> dict:
    """Adds the times as multiples of a memcpy of all arrays, measured once so that specs are comparable."""
    relative = {f"{phase}_memcpys": numbers[f"{phase}_ms"] / memcpy_ms for phase in ("encode", "decode")}
    return {**numbers, "memcpy_ms": memcpy_ms, **relative}


def _useless_sums(results: list[dict]) -> list[str]:
    return [
        f"{result['name']}: the payload is not smaller than the arrays: training sums the arrays uncompressed"
        for result in results
        if result["summed"] and result["total"]["ratio"] <= 1
    ]


def _join(tensors: Sequence[arrays.Tensor]) -> arrays.Tensor:
    values = np.concatenate([tensor.values for tensor in tensors])
    return arrays.Tensor("all arrays, end to end", values.shape, "float32", values)


def _measure(tensor: arrays.Tensor, spec: str, arguments: argparse.Namespace) -> Measurement:
    try:
        coding = make_coding(tensor.values, tensor.shape, spec, arguments.seed, arguments.threads)
        return measure(coding, tensor.values, arguments.repeat)
    except ValueError as error:
        raise SystemExit(f"{spec} on {tensor.name}: {error}") from error


def _describe_run(arguments: argparse.Namespace, notes: list[str], results: list[dict]) -> dict:
    return {
        "file": str(arguments.file),
        "notes": notes,
        "repeat": arguments.repeat,
        "threads": arguments.threads,
        "seed": arguments.seed,
        "machine": {"processor": processor(), "cores": len(os.sched_getaffinity(0))},
        "versions": {"tfcompress": tfc.__version__, "numpy": np.__version__},
        "results": results,
    }


def _print(arguments: argparse.Namespace, tensors: Sequence[arrays.Tensor], results: list[dict]) -> None:
    n = sum(tensor.values.size for tensor in tensors)
    title = f"{arguments.file}: {len(tensors)} array{'s' if len(tensors) > 1 else ''}, n = {n:,}"
    threads = f"{arguments.threads or 'all'} thread{'s' if arguments.threads != 1 else ''}"
    _print_sizes(
        title, [(f"{'*' if row['on_front'] else ' '} {row['name']}", row, row["total"]) for row in results]
    )
    console.print_text("*: no other has an error as small in as few bytes")
    if arguments.per_array:
        for row in results:
            _print_sizes(row["name"], [(each["name"], row, each) for each in row["arrays"]])
    _print_times(f"{processor()}, {threads}", results)


def _print_sizes(title: str, rows: Sequence[tuple[str, dict, dict]]) -> None:
    """Prints a table from rows of a name, the result that it belongs to, and the numbers."""
    bits = ("bits per\nindex", "entropy\nlimit", "bits per\nvalue", "bits per\nelement")
    caption = "error: ||decoded - x|| / ||x||"
    if any(result["summed"] for _, result, _ in rows):
        caption += "; sum: by an all-reduce"
    table = console.make_table(title, "", "bytes", "ratio", *bits, "error", caption=caption)
    for name, result, numbers in rows:
        keys = ("bits_per_index", "entropy_limit_bits", "bits_per_value", "bits_per_element")
        table.add_row(
            name + (" (sum)" if result["summed"] else ""),
            f"{numbers['num_bytes']:,}",
            console.number(numbers["ratio"], 1),
            *(console.number(numbers[key]) for key in keys),
            _error(numbers["relative_error"]),
        )
    console.print_table(table)


def _error(relative: float | None) -> str:
    if not relative:
        return "-" if relative is None else "exact"
    return f"{relative:.3f}" if relative >= 0.001 else f"{relative:.0e}"


def _print_times(title: str, results: list[dict]) -> None:
    headings = ("encode\nms", "decode\nms", "encode\nmemcpys", "decode\nmemcpys")
    table = console.make_table(
        title, "", *headings, caption="memcpys: multiples of the time of copying the dense arrays"
    )
    for result in results:
        numbers = result["total"]
        table.add_row(
            result["name"],
            *(console.number(numbers[key]) for key in ("encode_ms", "decode_ms")),
            *(console.number(numbers[key], 1) for key in ("encode_memcpys", "decode_memcpys")),
        )
    console.print_table(table)
