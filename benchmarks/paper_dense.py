"""DeepReduce's codecs on stored gradients: bytes, errors, times (Figures 6, 8 and 10, Table 2).

    python benchmarks/paper_dense.py FOLDER                      # convolutions: what cifar10.py dumped
    python benchmarks/paper_dense.py FOLDER --setting ncf        # what ncf.py dumped with --dense-tables

Each variable of the size that the paper takes (36,864 elements; with "ncf" the largest one) is encoded alone.
Bytes are relative to those of the dense variable and counted without headers; the error is that of what was
selected. Results are means over the variables of all files, and over three seeds of what hashes or draws.
"""

import argparse
import pathlib
import statistics

import numpy as np
import options
from comparison.gradients import find_files

import tfcompress as tfc
from tfcompress.measure import best_seconds

SEEDS = 3
ELEMENTS = 36_864
TOPK = "topk:ratio=0.01"
FPRS = (0.0001, 0.001, 0.002, 0.004, 0.008, 0.016)
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
        with np.load(path) as arrays:
            dense = [arrays[name].astype(np.float32).ravel() for name in arrays.files if ":" not in name]
        if ncf:
            dense = [max(dense, key=np.size)]
        found += [each for each in dense if ncf or each.size == ELEMENTS]
    if not found:
        raise SystemExit(f"none of the files has a variable of {ELEMENTS:,} elements")
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
        "encode_ms": 1e3 * best_seconds(lambda: tfc.encode(gradient, spec, num_threads=1), repeats=20),
        "decode_ms": 1e3 * best_seconds(lambda: tfc.decode(frame, num_threads=1), repeats=20),
    }
    return means | times


def measure(gradients: list[np.ndarray], specs: dict[str, str]) -> list[dict]:
    rows = []
    for name, spec in specs.items():
        each = [measure_one(gradient, spec) for gradient in gradients]
        means = {key: statistics.mean(one[key] for one in each) for key in each[0]}
        rows.append({"name": name, "spec": spec, **means, "volume": means["keys"] + means["values"]})
        print(f"{name:36} {rows[-1]['volume']:.4f}, error {means['error']:.3g}", flush=True)
    return rows


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    parser.add_argument("--setting", choices=["convolution", "ncf"], default="convolution")
    options.add_pages_folder(parser)
    parser.add_argument(
        "files", nargs="+", type=pathlib.Path, metavar="FILE", help="dumps, or folders of them"
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    ncf = arguments.setting == "ncf"
    gradients = variables(find_files(arguments.files), ncf=ncf)
    results = {
        "setting": arguments.setting,
        "variables": len(gradients),
        "elements": statistics.mean(each.size for each in gradients),
        "nonzero": statistics.mean(float(np.count_nonzero(each) / each.size) for each in gradients),
        "rows": measure(gradients, NCF if ncf else CONVOLUTION),
        "sweep": [] if ncf else measure(gradients, SWEEP),
    }
    options.save(results, arguments.output, f"paper_{arguments.setting}")


if __name__ == "__main__":
    main()
