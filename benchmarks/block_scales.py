"""Compares scales of block-scaled integers: a block's maximum, and a multiple of its root mean square.

    python benchmarks/block_scales.py

Signal-to-noise ratios of one encoding, without the memory, of the matrices and rows in dumped gradients.
Magnitudes above a scale from the root mean square are sent as the scale; of nine factors the best counts, for
each file.
"""

import argparse

import numpy as np
import options
import rich.console
import rich.table
from codec_table import sqnr
from comparison.gradients import find_files

BLOCK = 256
BITS = (8, 4)
FACTORS = (1.5, 2, 2.5, 3, 4, 5, 6, 8, 12)
POWERS = {"even": 1, "square": 2}


def levels_of(bits: int, levels: str) -> np.ndarray:
    """Returns the magnitudes of levels, of a scale of 1: float32, ascending from 0."""
    largest = 2 ** (bits - 1) - 1
    return (np.arange(largest + 1, dtype=np.float32) / largest) ** POWERS[levels]


def quantised(blocks: np.ndarray, scales: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Rounds values to the nearest level of their block.

    Args:
      blocks: float32 [blocks, values].
      scales: float32 [blocks, 1]; travel as float16.
      levels: See `levels_of`.
    """
    scales = np.float16(scales).astype(np.float32)
    shares = np.abs(blocks) / np.where(scales > 0, scales, 1)
    nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, shares)
    return np.sign(blocks) * levels[nearest] * scales


def row_of(blocks: np.ndarray, bits: int, levels: str) -> dict:
    """Returns the ratios of both scales, and the best factor of the second."""
    grid = levels_of(bits, levels)
    maximum = np.abs(blocks).max(axis=1, keepdims=True)
    mean = np.sqrt(np.square(blocks).mean(axis=1, keepdims=True))
    of_factors = {
        factor: sqnr(blocks, quantised(blocks, np.minimum(factor * mean, maximum), grid))
        for factor in FACTORS
    }
    best = max(of_factors, key=lambda factor: of_factors[factor])
    of_maximum = sqnr(blocks, quantised(blocks, maximum, grid))
    return {"bits": bits, "levels": levels, "maximum": of_maximum, "rms": of_factors[best], "factor": best}


def blocks_of(matrices: list[np.ndarray]) -> np.ndarray:
    """Returns the whole blocks of matrices: float32 [blocks, BLOCK]."""
    whole = [each.ravel()[: each.size // BLOCK * BLOCK].reshape(-1, BLOCK) for each in matrices]
    return np.concatenate(whole).astype(np.float32)


def compare(arguments: argparse.Namespace) -> list[dict]:
    """Returns a row for each file, number of bits and kind of levels."""
    rows = []
    for path in find_files(arguments.gradients):
        dense = [each for each in np.load(path).values() if each.ndim == 2 and each.size >= 16 * BLOCK]
        if not dense:
            continue
        blocks = blocks_of(dense)
        rows += [
            {"gradient": path.stem, "values": blocks.size, **row_of(blocks, bits, levels)}
            for bits in BITS
            for levels in POWERS
        ]
    return rows


def make_table(rows: list[dict]) -> rich.table.Table:
    table = rich.table.Table(title="Signal-to-noise ratio by the scale of blocks of 256, dB")
    for heading in ("gradient", "values", "bits", "levels", "maximum", "RMS", "factor"):
        table.add_column(heading, justify="right")
    for row in rows:
        ratios = [f"{row[key]:.2f}" for key in ("maximum", "rms")]
        table.add_row(
            row["gradient"],
            f"{row['values']:,}",
            str(row["bits"]),
            row["levels"],
            *ratios,
            f"{row['factor']:g}",
        )
    return table


def main() -> None:
    arguments = options.parse_gradients(__doc__)
    rows = compare(arguments)
    options.save({"rows": rows}, arguments.output, "block_scales")
    rich.console.Console(width=110).print(make_table(rows))


if __name__ == "__main__":
    main()
