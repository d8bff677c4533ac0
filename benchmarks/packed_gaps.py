"""Bits of a key where gaps are packed in blocks of 128, as FastPFor's codecs do, beside our codecs of gaps.

    python benchmarks/packed_gaps.py

Two codes of a block are computed, not written: all gaps in the bits of the widest one, and a width that some
gaps exceed, of which the position and the bits beyond it are stored apart (patched, FastPFor itself). Costs
are those of FastPFor's sources: 8 bits for a width, and patched 16 or 24 for a block and 8 for each position.
Padding of pages and of the last block is not counted, so that real files are larger.
"""

import pathlib

import numpy as np
import options
import rich.progress
from comparison.gradients import Gradient, find_files, read_gradients

import tfcompress as tfc

BLOCK = 128
BYTE = 8
OURS = ("delta_adaptive", "delta_flag", "delta_binary")


def lengths_of(keys: np.ndarray) -> np.ndarray:
    """Returns the bits of each gap: of the first key, then of each distance to the one before, less 1."""
    gaps = np.diff(keys.astype(np.int64), prepend=-1) - 1
    return np.frexp(gaps.astype(np.float64))[1]


def packed_bits(lengths: np.ndarray) -> int:
    """Returns the bits of a block whose gaps all have the width of the widest one."""
    return BYTE + len(lengths) * int(lengths.max())


def patched_bits(lengths: np.ndarray) -> int:
    """Returns the bits of a block in the width that costs least with its exceptions."""
    widest = int(lengths.max())
    whole = 2 * BYTE + len(lengths) * widest
    costs = [
        3 * BYTE + len(lengths) * width + int((lengths > width).sum()) * (BYTE + widest - width)
        for width in range(widest)
    ]
    return min([whole, *costs])


def measure(gradient: Gradient) -> dict:
    keys, n = gradient.sent.keys, gradient.sent.num_rows
    lengths = lengths_of(keys)
    blocks = np.split(lengths, range(BLOCK, len(lengths), BLOCK))
    bits = {
        **{name: BYTE * len(tfc.codecs.encode_indices(name, keys, n)[0]) for name in OURS},
        "packed": sum(map(packed_bits, blocks)),
        "patched": sum(map(patched_bits, blocks)),
    }
    per_key = {name: total / len(keys) for name, total in bits.items()}
    return {"gradient": gradient.name, "n": n, "k": len(keys), "bits": per_key}


def main() -> None:
    arguments = options.parse_gradients(__doc__)
    files: list[pathlib.Path] = find_files(arguments.gradients)
    gradients = [each for path in files for each in read_gradients(path, arguments.ratio)]
    rows = [measure(each) for each in rich.progress.track(gradients, "gradients")]
    options.save({"ratio": arguments.ratio, "block": BLOCK, "rows": rows}, arguments.output, "packed_gaps")
    for row in rows:
        print(row["gradient"], {name: round(bits, 2) for name, bits in row["bits"].items()})


if __name__ == "__main__":
    main()
