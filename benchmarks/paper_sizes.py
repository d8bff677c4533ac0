"""Bytes and errors of the papers' codecs on sparse gradients, part by part: tables that need no training.

    python benchmarks/paper_sizes.py          # the linear models' gradients in benchmarks/gradients
    python benchmarks/paper_sizes.py FOLDER   # what examples/linear_models.py wrote with --dump-gradients

Measured are the parts of SKCompress one after another (its Figure 10b), sizes of its sketches (Figure 15 and
Table 6), bits of QSGD and ZipML (Figure 17 and Table 7), and FastSGD's keys (its Tables V and VI). Sections
are counted without headers. Codecs that hash or round at random run with three seeds; results are means.
"""

import argparse
import dataclasses
import io
import pathlib
import statistics
import sys

import numpy as np
import options
import rich.progress
from comparison.gradients import Rows, find_files, read_gradients
from measuring import cpu_milliseconds

import tfcompress as tfc

HERE = pathlib.Path(__file__).parent
SEEDS = 3
# The values of SKCompress' sensitivity analysis; the first is the default of section 7.1, by sign and in all.
SKETCHES = {
    "128 buckets a sign, 2 rows, d/5 columns": "buckets=128,groups=8,rows=2,columns=0.2",
    "256 buckets a sign": "buckets=256,groups=8,rows=2,columns=0.2",
    "64 buckets and 4 groups a sign": "buckets=64,groups=4,rows=2,columns=0.2",
    "4 rows": "buckets=128,groups=8,rows=4,columns=0.2",
    "d/2 columns": "buckets=128,groups=8,rows=2,columns=0.5",
    "1 group": "buckets=128,groups=1,rows=2,columns=0.2",
}
VALUES = {
    "float32": "raw",
    "ZipML, 16 bits": "uniform:bits=16",
    "ZipML, 8 bits": "uniform:bits=8",
    "QSGD, 8 bits": "qsgd:bits=8",
    "QSGD, 4 bits": "qsgd:bits=4",
    "TernGrad": "ternary",
    "quantile, 128 buckets": "quantile:buckets=128",
    "LogQuant": "logquant",
    "FastSGD": "log:base=1.1,tau=0",
}
KEYS = ("raw", "delta_binary", "delta_flag", "delta_adaptive")
FLAG_BITS = range(1, 6)


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of a joint section: its keys, and the bytes of its cells as `sketchml` packs them."""

    keys: np.ndarray
    key_bytes: int
    cell_bytes: int


def u32(stream: io.BytesIO) -> int:
    """Reads a number of a section (FORMAT.md)."""
    return int.from_bytes(stream.read(4), "little")


def groups_of(section: bytes, n: int) -> list[Group]:
    """Reads the groups of a `sketchml` section of n elements."""
    stream = io.BytesIO(section)
    rows, most = u32(stream), u32(stream)
    groups = []
    for _ in range(2):
        buckets = u32(stream)
        stream.read(4 * buckets)
        width = -(-buckets // most)
        for first in range(0, buckets, max(width, 1)):
            rest = io.BytesIO(stream.read(u32(stream)))
            num_keys, num_columns = u32(rest), u32(rest)
            bits = max(min(width, buckets - first) - 1, 0).bit_length()
            cells = -(-rows * num_columns * bits // 8)
            body = rest.read()
            coded = body[: len(body) - cells]
            groups.append(
                Group(tfc.codecs.decode_indices("delta_binary", coded, n, num_keys), len(coded), cells)
            )
    return groups


def encoded(sent: Rows, codecs: str, seed: int = 0) -> tuple[dict, np.ndarray, bytes]:
    """Encodes what is not zero; returns the frame's description, what it decodes to, and its bytes."""
    dense = sent.dense()
    frame = tfc.encode(dense, f"nonzero|{codecs}", seed, num_threads=1)
    [described] = tfc.inspect(frame)
    return described, tfc.decode(frame), frame


def error_of(dense: np.ndarray, decoded: np.ndarray) -> float:
    difference = dense.astype(np.float64) - decoded
    return float(np.linalg.norm(difference) / np.linalg.norm(dense.astype(np.float64)))


def parts_of_skcompress(sent: Rows) -> list[dict]:
    """Returns bytes an element of keys and of values as SKCompress' parts are added one after another."""
    k, n = len(sent.keys), sent.num_rows
    joint = SKETCHES["128 buckets a sign, 2 rows, d/5 columns"]
    rows = [row("int32 and float64", 4.0, 8.0), row("int32 and float32", 4.0, 4.0)]
    for name, codecs in {
        "+ delta-binary keys": "delta_binary|raw",
        "+ quantile buckets": "delta_binary|quantile:buckets=256",
    }.items():
        described, *_ = encoded(sent, codecs)
        rows.append(row(name, described["index_bytes"] / k, described["value_bytes"] / k))
    plain, _, frame = encoded(sent, f"sketchml:{joint}")
    smaller, *_ = encoded(sent, f"skcompress:{joint}")
    groups = groups_of(frame[plain["header_bytes"] :], n)
    keys = sum(group.key_bytes for group in groups)
    adaptive = sum(len(tfc.codecs.encode_indices("delta_adaptive", group.keys, n)[0]) for group in groups)
    sketch = plain["value_bytes"] - keys
    huffman = smaller["value_bytes"] - adaptive
    rows.append(row("+ MinMaxSketch in groups", keys / k, sketch / k))
    rows.append(row("+ Huffman-coded cells alone", keys / k, huffman / k))
    rows.append(row("+ adaptive prefixes alone", adaptive / k, sketch / k))
    rows.append(row("both: SKCompress", adaptive / k, huffman / k))
    return rows


def row(name: str, keys: float, values: float) -> dict:
    return {"name": name, "keys": keys, "values": values}


def lossy(sent: Rows, codecs: str) -> dict:
    """Returns bytes an element, relative error and norm, and milliseconds on one thread."""
    dense = sent.dense()
    k = len(sent.keys)
    found = [encoded(sent, codecs, seed) for seed in range(SEEDS)]
    errors = [error_of(dense, decoded) for _, decoded, _ in found]
    described, _, frame = found[0]
    spec = f"nonzero|{codecs}"
    return {
        "bytes": (described["index_bytes"] + described["value_bytes"]) / k,
        "value_bytes": described["value_bytes"] / k,
        "error": statistics.mean(errors),
        "norm": statistics.mean(float(np.linalg.norm(each) / np.linalg.norm(dense)) for _, each, _ in found),
        "encode_ms": cpu_milliseconds(lambda: tfc.encode(dense, spec, num_threads=1)),
        "decode_ms": cpu_milliseconds(lambda: tfc.decode(frame, num_threads=1)),
    }


def key_bits(sent: Rows) -> dict:
    """Returns bits a key of the codecs, and what FastSGD's cost depends on."""
    k, n = len(sent.keys), sent.num_rows
    gaps = np.diff(sent.keys.astype(np.int64), prepend=0)
    lengths = np.floor(np.log2(np.maximum(gaps, 1))).astype(int) + 1
    specs = {name: name for name in KEYS} | {
        f"flag of {size}": f"delta_flag:flag_bits={size}" for size in FLAG_BITS
    }
    bits = {
        name: 8 * len(tfc.codecs.encode_indices(spec, sent.keys, n)[0]) / k for name, spec in specs.items()
    }
    shares = [float((lengths <= most).mean()) for most in (1, 2, 4, 8)]
    return {
        "density": k / n,
        "largest_bits": int(lengths.max()),
        "mean_bits": float(lengths.mean()),
        "shares": dict(zip(("1", "2", "4", "8"), shares, strict=True)),
        "bits": bits,
    }


def label(path: pathlib.Path) -> str:
    """Returns the name of a dump: its folder, if the file itself is named after the step alone."""
    folder = f"{path.resolve().parent.name}_" if path.stem.startswith("step_") else ""
    return f"{folder}{path.stem}"


def read_vectors(files: list[pathlib.Path]) -> list[tuple[str, Rows]]:
    """Returns the sparse vectors of the files, with their names.

    Raises:
      SystemExit: There are none.
    """
    found = [
        (label(path), gradient.sent)
        for path in files
        for gradient in read_gradients(path, ratio=0.01)
        if gradient.dense is None and gradient.sent.width == 1
    ]
    if not found:
        raise SystemExit(
            "none of the files has sparse rows of one element, as examples/linear_models.py dumps"
        )
    return found


def measure(name: str, sent: Rows) -> dict:
    return {
        "name": name,
        "n": sent.num_rows,
        "k": len(sent.keys),
        "parts": parts_of_skcompress(sent),
        "sketches": {name: lossy(sent, f"skcompress:{joint}") for name, joint in SKETCHES.items()},
        "values": {name: lossy(sent, f"delta_adaptive|{value}") for name, value in VALUES.items()},
        "keys": key_bits(sent),
    }


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    parser.add_argument("--name", default="paper_sizes", help="name of the results (default %(default)s)")
    options.add_pages_folder(parser)
    options.add_dumps(parser, "*")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    default = sorted((HERE / "gradients").glob("linear_models_*.npz"))
    vectors = read_vectors(find_files(arguments.files or default))
    gradients = [measure(name, sent) for name, sent in rich.progress.track(vectors, "gradients")]
    results = {"seeds": SEEDS, "gradients": gradients}
    options.save(results, arguments.output, arguments.name)
    for gradient in results["gradients"]:
        print(f"{gradient['name']}: {gradient['k']:,} of {gradient['n']:,}")
        for each in gradient["parts"]:
            print(f"  {each['name']:28} {each['keys']:.2f} + {each['values']:.2f} B")
        for kind in ("sketches", "values"):
            for name, each in gradient[kind].items():
                print(
                    f"  {name:40} {each['bytes']:.2f} B, error {each['error']:.3g}, norm {each['norm']:.3f}"
                )
        print("  bits a key:", {name: round(bits, 2) for name, bits in gradient["keys"]["bits"].items()})
    sys.stdout.flush()


if __name__ == "__main__":
    main()
