"""DeepReduce's codecs on stored gradients: bytes, errors, times (Figures 6, 8 and 10, Table 2).

    python benchmarks/paper_dense.py FOLDER                  # convolutions, which cifar10.py dumped
    python benchmarks/paper_dense.py FOLDER --setting ncf    # tables as dense tensors, which ncf.py dumped

Each convolution of the size that the paper takes (36,864 elements), or each table, is encoded alone. Bytes
are relative to those of the dense variable and counted without headers; the error is that of what was
selected. Results are means over the variables of all files by their sizes, and over three seeds of what
hashes or draws.
"""

import argparse
import functools
import pathlib
import statistics

import numpy as np
import options
import rich.progress
from comparison.gradients import find_files, read_dump
from measuring import cpu_milliseconds

import tfcompress as tfc

SEEDS = 3
ELEMENTS = 36_864
TOPK = "topk:ratio=0.01"
FPRS = (0.0001, 0.001, 0.002, 0.004, 0.008, 0.016)
# Values that Figure 10 fits, then ten times as many and so on.
FIT_COUNTS = (369, 3690, 36_900, 369_000)
FITS = {"poly": "poly:degree=5", "dexp": "dexp"}
POLICIES = ("p0", "p1", "p2", "naive")
# Of Figures 8 and 10; then what tells why SKCompress is not the smallest here.
CONVOLUTION = {
    "Top-r": f"{TOPK}|raw|raw",
    "BF-P0": f"{TOPK}|bloom:policy=p0,fpr=0.001|raw",
    "BF-P2": f"{TOPK}|bloom:policy=p2,fpr=0.001|raw",
    "Fit-Poly": f"{TOPK}|raw|poly:degree=5",
    "Fit-DExp": f"{TOPK}|raw|dexp",
    "BF-P2 + Fit-Poly": f"{TOPK}|bloom:policy=p2,fpr=0.001|poly:degree=5",
    "BF-P2 + Fit-DExp": f"{TOPK}|bloom:policy=p2,fpr=0.001|dexp",
    "BF-P0 + QSGD": f"{TOPK}|bloom:policy=p0,fpr=0.001|qsgd:bits=7,bucket=512",
    "SKCompress with sketches": f"{TOPK}|skcompress:buckets=128,groups=8",
    "SKCompress, no sketch, 128 buckets": f"{TOPK}|delta_adaptive|quantile:buckets=128",
    "SKCompress, no sketch, 64 buckets": f"{TOPK}|delta_adaptive|quantile:buckets=64",
    "SKCompress, no sketch, 32 buckets": f"{TOPK}|delta_adaptive|quantile:buckets=32",
    "SKCompress, no sketch, 16 buckets": f"{TOPK}|delta_adaptive|quantile:buckets=16",
}
SWEEP = {
    f"{policy}, {fpr:g}": f"{TOPK}|bloom:policy={policy},fpr={fpr}|raw" for policy in POLICIES for fpr in FPRS
}
# Of Table 2; then the same with other codecs for keys.
NCF = {
    "Baseline": "dense|raw|raw",
    "BF-P2 + Fit-Poly": "nonzero|bloom:policy=p2,fpr=0.01|poly:degree=5",
    "SKCompress, no sketch": "nonzero|delta_adaptive|quantile:buckets=128",
    "BF-P0 + QSGD": "nonzero|bloom:policy=p0,fpr=0.6|qsgd:bits=7,bucket=512",
    "delta-binary keys": "nonzero|delta_binary|quantile:buckets=128",
    "bitmap": "nonzero|bitmap|quantile:buckets=128",
    "bitmap + QSGD": "nonzero|bitmap|qsgd:bits=7,bucket=512",
}


def variables(files: list[pathlib.Path], *, ncf: bool) -> list[np.ndarray]:
    """Returns the variables to encode, flat float32."""
    found = []
    for path in files:
        dense, tables = read_dump(path)
        if ncf:
            found += [rows.dense() for rows in tables.values()]
        else:
            found += [each.ravel() for each in dense.values() if each.size == ELEMENTS]
    if not found:
        wanted = "tables" if ncf else f"variables of {ELEMENTS:,} elements"
        raise SystemExit(f"none of the files has {wanted}")
    return found


def measure_one(gradient: np.ndarray, spec: str) -> dict[str, float]:
    """Returns shares of the dense bytes, the error of what was selected, right keys, and milliseconds."""
    sparsifier = spec.split("|")[0]
    chosen = tfc.codecs.select(sparsifier, gradient)
    selected = np.zeros_like(gradient)
    selected[chosen] = gradient[chosen]
    runs = []
    for seed in range(SEEDS):
        frame = tfc.encode(gradient, spec, seed, num_threads=1)
        [described] = tfc.inspect(frame)
        # A false positive brings the gradient's own value, which is no error.
        decoded = tfc.decode(frame)
        kept = np.isin(chosen, np.flatnonzero(decoded)).mean()
        difference = np.where((selected == 0) & (decoded != 0), gradient, selected) - decoded
        runs.append(
            {
                "keys": described["index_bytes"] / gradient.nbytes,
                "values": described["value_bytes"] / gradient.nbytes,
                "key_bits": 8 * described["index_bytes"] / len(chosen),
                "value_bits": 8 * described["value_bytes"] / len(chosen),
                "sent": described["k"] / len(chosen),
                "right": float(kept),
                "error": float(np.linalg.norm(difference) / np.linalg.norm(selected)),
            }
        )
    means = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    times = {
        "encode_ms": cpu_milliseconds(lambda: tfc.encode(gradient, spec, num_threads=1)),
        "decode_ms": cpu_milliseconds(lambda: tfc.decode(frame, num_threads=1)),
    }
    return means | times


def measure(gradients: list[np.ndarray], specs: dict[str, str]) -> list[dict]:
    rows, sizes = [], [gradient.size for gradient in gradients]
    for name, spec in rich.progress.track(specs.items(), "codecs"):
        each = [measure_one(gradient, spec) for gradient in gradients]
        means = {key: float(np.average([one[key] for one in each], weights=sizes)) for key in each[0]}
        rows.append({"name": name, "spec": spec, **means, "volume": means["keys"] + means["values"]})
        print(f"{name:36} {rows[-1]['volume']:.4f}, error {means['error']:.3g}", flush=True)
    return rows


def fit_times() -> list[dict]:
    """Returns milliseconds of both fits by the number of values, which are cubes of normal numbers."""
    rng = np.random.default_rng(0)
    rows = []
    for count in rich.progress.track(FIT_COUNTS, "fits"):
        values = (rng.standard_normal(count) ** 3).astype(np.float32)
        row = {"count": count}
        for name, part in FITS.items():
            encode = functools.partial(tfc.encode, values, f"dense|raw|{part}", num_threads=1)
            decode = functools.partial(tfc.decode, encode(), num_threads=1)
            row |= {
                f"{name}_encode_ms": cpu_milliseconds(encode),
                f"{name}_decode_ms": cpu_milliseconds(decode),
            }
        rows.append(row)
    return rows


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    parser.add_argument(
        "--setting", choices=["convolution", "ncf"], default="convolution", help="default: %(default)s"
    )
    options.add_pages_folder(parser)
    options.add_dumps(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    ncf = arguments.setting == "ncf"
    gradients = variables(find_files(arguments.files), ncf=ncf)
    results = {
        "setting": arguments.setting,
        "variables": len(gradients),
        "elements": statistics.mean(each.size for each in gradients),
        "nonzero": sum(map(np.count_nonzero, gradients)) / sum(each.size for each in gradients),
        "rows": measure(gradients, NCF if ncf else CONVOLUTION),
        "sweep": [] if ncf else measure(gradients, SWEEP),
        "fits": [] if ncf else fit_times(),
    }
    options.save(results, arguments.output, f"paper_{arguments.setting}")


if __name__ == "__main__":
    main()
