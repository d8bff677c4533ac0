"""The native codec, `rowcol|ecsq`, on every gradient: beside models of its support, and every other codec.

    python benchmarks/native_codec.py --output results
    python benchmarks/native_codec.py --gradients DIR    # others, dumped by an example's --dump-gradients

Each variable of 1,024 elements or more is compressed alone, with its shape, as in training: its largest
elements, 1 %, as a frame of its own. Bits are of all variables of a gradient together, by element sent.

Indices: sections of `rowcol` and `delta_adaptive`, Zstandard of gaps, the information of a random support,
log2 C(n, k), and the ideal length of a static model: the chance of element (i, j) is r_i c_j / (1 + r_i c_j),
fitted to the supports of rows and columns, whose counts are paid for, too.

Frames: `rowcol|ecsq`, and the smallest of all other methods (every codec here and every package that is
installed) whose relative error is not larger; apart from these, of `rowcol` with another value codec.

Rows of the results whose gradients are not given stay as they are.
"""

import argparse
import collections
import datetime
import json
import math
import pathlib

import numpy as np
import options
import rich.progress
from codec_choice import LINES, variables
from comparison import pairs, peers
from comparison.gradients import Rows, find_files, relative_error

import tfcompress as tfc
from tfcompress.measure import entropy_bits

NATIVE = "rowcol|ecsq:snr=25"
OTHERS = sorted(
    spec
    for spec in {*sum(LINES.values(), []), *pairs.EXACT, *pairs.LOSSY}
    if not spec.startswith("rowcol|ecsq")
)
OTHER_INDICES = [
    entry.name for entry in tfc.index_codecs() if entry.error == "exact" and entry.name != "rowcol"
]
ITERATIONS = 60  # Of the fit of a static model: its length changes by less than 0.1 % after some 30.


def counts_bits(counts: np.ndarray) -> float:
    """Ideal bits of the numbers of elements of all rows or columns: how often each occurs, and where."""
    frequencies = np.bincount(counts)
    where = math.lgamma(len(counts) + 1) - sum(math.lgamma(each + 1) for each in frequencies)
    return where / math.log(2) + set_bits(len(counts) + len(frequencies) - 1, len(frequencies) - 1)


def set_bits(n: int, k: int) -> float:
    """log2 C(n, k)."""
    return k * entropy_bits(n, k) if k else 0.0


def static_odds(support: np.ndarray) -> np.ndarray:
    """The odds r_i c_j that a static model gives the elements of a support, bool [rows, columns]."""
    rows, columns = support.sum(1), support.sum(0)
    r, c = rows / math.sqrt(support.sum()), columns / math.sqrt(support.sum())
    for _ in range(ITERATIONS):
        r = rows / np.sum(c / (1 + np.outer(r, c)), axis=1)
        c = columns / np.maximum(np.sum(r[:, np.newaxis] / (1 + np.outer(r, c)), axis=0), 1e-300)
    return np.outer(r, c)


def static_bits(support: np.ndarray) -> float:
    """Ideal bits of a support by a static model of its rows and columns."""
    odds = static_odds(support)
    log_odds = np.log2(odds, out=np.zeros_like(odds), where=support)
    counts = counts_bits(support.sum(1)) + counts_bits(support.sum(0))
    return float(np.sum(np.log2(1 + odds)) - np.sum(log_odds)) + counts


def hazard_bits(support: np.ndarray) -> float:
    """Ideal bits where a row's elements are coded by the weights of columns, given how many are left.

    That is the static model without what it costs it that a row could have another number of elements: the
    number is known, and any positions of as many have a chance in proportion to the product of their odds.
    """
    odds, counts = static_odds(support), support.sum(1)
    of_count = np.zeros((len(counts), counts.max() + 1))  # Chances of each number of elements in a row.
    of_count[:, 0] = 1
    for chance in (odds / (1 + odds)).T[:, :, np.newaxis]:
        more = of_count[:, :-1] * chance
        of_count *= 1 - chance
        of_count[:, 1:] += more
    return static_bits(support) + float(np.sum(np.log2(of_count[np.arange(len(counts)), counts])))


def index_bytes(array: np.ndarray, spec: str, index: str) -> int:
    return tfc.inspect(tfc.encode(array, f"{spec}|{index}|raw"))[0]["index_bytes"]


def beside_others(array: np.ndarray, spec: str) -> float:
    """Bytes of the indices by `rowcol`, divided by those of the smallest other exact codec."""
    return index_bytes(array, spec, "rowcol") / min(index_bytes(array, spec, each) for each in OTHER_INDICES)


def index_bits(array: np.ndarray, support: np.ndarray, keys: np.ndarray, spec: str) -> dict[str, float]:
    """Bits of one variable's indices by each method."""
    gaps = np.diff(keys, prepend=np.uint32(0)).tobytes()
    zstd = peers.byte_compressor("zstd-19")
    limit = set_bits(array.size, len(keys))
    grid = support.reshape(-1, support.shape[-1])
    found = {index: 8 * index_bytes(array, spec, index) for index in ("rowcol", "delta_adaptive")}
    models = {
        name: model(grid) if min(grid.shape) > 1 else limit
        for name, model in (("static", static_bits), ("hazard", hazard_bits))
    }
    return {**found, "zstd-19 of gaps": 8 * len(zstd.encode(gaps)), **models, "limit": limit}


def whole_gradient(path: pathlib.Path, ratio: float) -> dict:
    """Bits an index where the largest elements of all variables together are sent, each with its variable."""
    arrays = variables(path, min_elements=1)
    flat = np.concatenate([array.ravel() for array in arrays.values()])
    chosen = np.zeros(flat.size, bool)
    chosen[tfc.codecs.select(f"topk:ratio={ratio}", flat)] = True
    k, begin, total = int(chosen.sum()), 0, collections.Counter()
    for array in arrays.values():
        support = chosen[begin : begin + array.size].reshape(array.shape)
        begin += array.size
        if support.any():
            keys = np.flatnonzero(support).astype(np.uint32)
            total.update(index_bits(np.where(support, array, 0), support, keys, "nonzero"))
    return {"n": flat.size, "k": k, "indices": {method: bits / k for method, bits in total.items()}}


def with_centers(values: np.ndarray, decoded: np.ndarray) -> tuple[int, float]:
    """How many levels values have, and the squared error if each level were the mean of its magnitudes."""
    levels, level = np.unique(np.abs(decoded), return_inverse=True)
    magnitudes = np.abs(values.astype(np.float64))
    means = np.bincount(level, magnitudes) / np.bincount(level)
    means[levels == 0] = 0  # Has no sign.
    return len(levels), squared_error(magnitudes, means[level])


def others(array: np.ndarray, sent: Rows, spec: str) -> dict[str, tuple[int, float]]:
    """(Bytes, squared error) of every other method."""
    whole = sent.dense()
    found = {}
    for codecs in OTHERS:
        frame = tfc.encode(array, f"{spec}|{codecs}", seed=1)
        found[codecs] = (len(frame), squared_error(tfc.decode(frame).ravel(), whole))
    for method in pairs.methods():
        if method.package != peers.OURS:
            data = method.encode(sent)
            error = relative_error(sent, method.decode(data, sent)) ** 2 * float(np.sum(sent.values**2.0))
            found[method.name] = (len(data), error)
    return found


def squared_error(decoded: np.ndarray, sent: np.ndarray) -> float:
    return float(np.sum((decoded.astype(np.float64) - sent) ** 2))


def smallest(methods: dict[str, tuple[int, float]], error: float, k: int) -> dict:
    """The method of the fewest bytes, and its bits an element, among those of no larger squared error."""
    size, method = min((size, method) for method, (size, squared) in methods.items() if squared <= error)
    return {"method": method, "bits": 8 * size / k}


def measure(path: pathlib.Path, ratio: float) -> dict | None:
    """Returns the numbers of one gradient: bits an element sent by each method."""
    spec = f"topk:ratio={ratio}"
    arrays = variables(path)
    if not arrays:
        return None
    indices, sizes, errors = collections.Counter(), collections.Counter(), collections.Counter()
    k = native = headers = levels = 0
    error = error_with_centers = 0.0
    for array in arrays.values():
        flat = array.ravel()
        keys = tfc.codecs.select(spec, flat)
        support = np.zeros(array.size, bool)
        support[keys] = True
        indices.update(index_bits(array, support.reshape(array.shape), keys, spec))
        sent = Rows(array.size, keys, flat[keys, np.newaxis])
        for method, (size, squared) in others(array, sent, spec).items():
            sizes[method] += size
            errors[method] += squared
        frame = tfc.encode(array, f"{spec}|{NATIVE}")
        native += len(frame)
        headers += tfc.inspect(frame)[0]["header_bytes"]
        decoded = tfc.decode(frame).ravel()
        error += squared_error(decoded, np.where(support, flat, 0))
        num_levels, squared = with_centers(flat[keys], decoded[keys])
        levels += num_levels
        error_with_centers += squared
        k += len(keys)
    with_rowcol, without = {}, {}
    for method, size in sizes.items():
        (with_rowcol if method.startswith("rowcol|") else without)[method] = (size, errors[method])
    return {
        "gradient": path.stem,
        "measured": datetime.date.today().isoformat(),
        "variables": len(arrays),
        "k": k,
        "indices": {method: bits / k for method, bits in indices.items()},
        "whole": whole_gradient(path, ratio),
        "largest of others": {
            "variable": max(beside_others(array, spec) for array in arrays.values()),
            "flat": max(beside_others(array.ravel(), spec) for array in arrays.values()),
        },
        "frame": 8 * native / k,
        "headers": 8 * headers / k,
        "centers": {"bits": 8 * levels / k, "dB": 10 * math.log10(error / error_with_centers)},
        "smallest other": smallest(without, error, k),
        "smallest of rowcol": smallest(with_rowcol, error, k),
    }


def with_earlier(results: dict, path: pathlib.Path) -> dict:
    """Adds the rows of other gradients in earlier results of the same ratio, and orders all by name."""
    earlier = json.loads(path.read_text()) if path.exists() else results
    rows = earlier["rows"] if earlier["ratio"] == results["ratio"] else []
    found = {row["gradient"]: row for row in (*rows, *results["rows"])}
    return {**results, "rows": [found[name] for name in sorted(found)]}


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    options.add_gradients(parser)
    options.add_pages_folder(parser)
    parser.add_argument("--name", default="native_codec", help="name of the results (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    files = find_files(arguments.gradients)
    rows = [measure(path, arguments.ratio) for path in rich.progress.track(files, "gradients")]
    rows = [row for row in rows if row]
    for row in rows:
        bits = "  ".join(f"{method} {number:5.2f}" for method, number in row["indices"].items())
        other = row["smallest other"]
        frames = f"frame {row['frame']:5.2f}, {other['method']} {other['bits']:5.2f}"
        print(f"{row['gradient']:28} {row['k']:6} {bits}  {frames}")
    path = arguments.output / "results" / f"{arguments.name}.json"
    results = with_earlier({"ratio": arguments.ratio, "rows": rows}, path)
    options.save(results, arguments.output, arguments.name)


if __name__ == "__main__":
    main()
