"""The native codec, `rowcol|ecsq`, on every gradient: beside models of its support, and every other codec.

    python benchmarks/native_codec.py --output results
    python benchmarks/native_codec.py --gradients DIR    # others, dumped by an example's --dump-gradients

Each variable of 1,024 elements or more is compressed alone, with its shape, as in training: its largest
elements, 1 %, as a frame of its own. Bits are of all variables of a gradient together, by element sent.

Indices: sections of `rowcol` and `delta_adaptive`, Zstandard of gaps, the information of a random support,
log2 C(n, k), and the ideal length of a static model: the chance of element (i, j) is r_i c_j / (1 + r_i c_j),
fitted to the supports of rows and columns, whose counts are paid for, too.

Frames: `rowcol|ecsq`, and the smallest of all other methods (every codec here and every package that is
installed) whose relative error is not larger.
"""

import argparse
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
    {spec for name, specs in LINES.items() if name != "rowcol|ecsq" for spec in specs}
    | {*pairs.EXACT, *pairs.LOSSY}
)
ITERATIONS = 60  # Of the fit of a static model: its length changes by less than 0.1 % after some 30.


def counts_bits(counts: np.ndarray) -> float:
    """Ideal bits of the numbers of elements of all rows or columns: how often each occurs, and where."""
    frequencies = np.bincount(counts)
    where = math.lgamma(len(counts) + 1) - sum(math.lgamma(each + 1) for each in frequencies)
    return where / math.log(2) + set_bits(len(counts) + len(frequencies) - 1, len(frequencies) - 1)


def set_bits(n: int, k: int) -> float:
    """log2 C(n, k)."""
    return k * entropy_bits(n, k) if k else 0.0


def static_bits(support: np.ndarray) -> float:
    """Ideal bits of a support, bool [rows, columns], by a static model of its rows and columns."""
    rows, columns = support.sum(1), support.sum(0)
    r, c = rows / math.sqrt(support.sum()), columns / math.sqrt(support.sum())
    for _ in range(ITERATIONS):
        r = rows / np.sum(c / (1 + np.outer(r, c)), axis=1)
        c = columns / np.maximum(np.sum(r[:, np.newaxis] / (1 + np.outer(r, c)), axis=0), 1e-300)
    odds = np.outer(r, c)
    log_odds = np.log2(odds, out=np.zeros_like(odds), where=support)
    return float(np.sum(np.log2(1 + odds)) - np.sum(log_odds)) + counts_bits(rows) + counts_bits(columns)


def index_bits(array: np.ndarray, support: np.ndarray, keys: np.ndarray, spec: str) -> dict[str, float]:
    """Bits of one variable's indices by each method."""
    gaps = np.diff(keys, prepend=np.uint32(0)).tobytes()
    zstd = peers.byte_compressor("zstd-19")
    limit = set_bits(array.size, len(keys))
    grid = support.reshape(-1, support.shape[-1])
    found = {
        index: 8 * tfc.inspect(tfc.encode(array, f"{spec}|{index}|raw"))[0]["index_bytes"]
        for index in ("rowcol", "delta_adaptive")
    }
    static = static_bits(grid) if min(grid.shape) > 1 else limit
    return {**found, "zstd-19 of gaps": 8 * len(zstd.compress(gaps)), "static": static, "limit": limit}


def others(array: np.ndarray, sent: Rows, spec: str) -> dict[str, tuple[int, float]]:
    """(Bytes, squared error) of every other method."""
    whole = np.zeros(array.size, np.float32)
    whole[sent.keys] = sent.values[:, 0]
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


def measure(path: pathlib.Path, ratio: float) -> dict | None:
    """Returns the numbers of one gradient: bits an element sent by each method."""
    spec = f"topk:ratio={ratio}"
    indices, methods, k, native, headers, error = {}, {}, 0, 0, 0, 0.0
    arrays = variables(path)
    for array in arrays.values():
        flat = array.ravel()
        keys = tfc.codecs.select(spec, flat)
        support = np.zeros(array.size, bool)
        support[keys] = True
        sent = Rows(array.size, keys, flat[keys, np.newaxis])
        for method, bits in index_bits(array, support.reshape(array.shape), keys, spec).items():
            indices[method] = indices.get(method, 0.0) + bits
        for method, (size, squared) in others(array, sent, spec).items():
            before = methods.get(method, (0, 0.0))
            methods[method] = (before[0] + size, before[1] + squared)
        frame = tfc.encode(array, f"{spec}|{NATIVE}")
        native += len(frame)
        headers += tfc.inspect(frame)[0]["header_bytes"]
        error += squared_error(tfc.decode(frame).ravel(), np.where(support, flat, 0))
        k += len(keys)
    if not k:
        return None
    smallest = min((size, method) for method, (size, squared) in methods.items() if squared <= error)
    return {
        "gradient": path.stem,
        "variables": len(arrays),
        "k": k,
        "indices": {method: bits / k for method, bits in indices.items()},
        "frame": 8 * native / k,
        "headers": 8 * headers / k,
        "smallest other": {"method": smallest[1], "bits": 8 * smallest[0] / k},
    }


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
    options.save({"ratio": arguments.ratio, "rows": rows}, arguments.output, arguments.name)


if __name__ == "__main__":
    main()
