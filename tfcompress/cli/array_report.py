"""Statistics of gradients that matter to sparsifiers and index codecs."""

import pathlib

import numpy as np

from tfcompress.cli import arrays, console
from tfcompress.measure import entropy_bits

_QUANTILES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0)
_SHOWN_QUANTILES = (0.01, 0.5, 0.99, 1.0)
_TOP_RATIOS = (0.001, 0.01, 0.1)


def report(path: pathlib.Path, as_json: bool) -> dict[str, np.ndarray]:
    """Prints statistics of the arrays of a file; returns their finite magnitudes, by name.

    Raises:
      SystemExit: The file is broken, or has no array of at least one number.
    """
    tensors, notes = arrays.read(path)
    magnitudes = {tensor.name: sorted_magnitudes(tensor.values) for tensor in tensors}
    described = [describe(tensor, magnitudes[tensor.name]) for tensor in tensors]
    for text in notes:
        console.note(text)
    if as_json:
        console.print_json({"file": str(path), "notes": notes, "arrays": described})
    else:
        _print(path, described)
    return magnitudes


def sorted_magnitudes(values: np.ndarray) -> np.ndarray:
    """Returns the magnitudes of the finite elements, ascending."""
    return np.sort(np.abs(values[np.isfinite(values)]))


def describe(tensor: arrays.Tensor, magnitudes: np.ndarray) -> dict:
    """Returns the statistics of one array.

    Args:
      tensor: The array.
      magnitudes: Its `sorted_magnitudes`.
    """
    n, num_finite = tensor.values.size, magnitudes.size
    num_nonzero = num_finite - int(np.searchsorted(magnitudes, 0.0, side="right"))
    energies = np.cumsum(np.square(magnitudes[::-1], dtype=np.float64))
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "n": n,
        "zeros": num_finite - num_nonzero,
        "zero_share": (num_finite - num_nonzero) / n,
        "nan": int(np.isnan(tensor.values).sum()),
        "inf": int(np.isinf(tensor.values).sum()),
        "norm": float(np.sqrt(energies[-1])) if num_finite else None,
        "magnitude_quantiles": {str(q): _quantile(magnitudes, q) for q in _QUANTILES},
        "top": [_top(energies, n, ratio) for ratio in _TOP_RATIOS],
        "support_entropy_limit_bits": entropy_bits(n, num_nonzero) if num_nonzero else None,
    }


def _quantile(magnitudes: np.ndarray, q: float) -> float | None:
    """Returns the smallest magnitude that at least a share q of the magnitudes does not exceed."""
    if not magnitudes.size:
        return None
    return float(magnitudes[max(int(np.ceil(q * magnitudes.size)) - 1, 0)])


def _top(energies: np.ndarray, n: int, ratio: float) -> dict:
    """Returns the share of the squared norm in the k largest of n elements, with the k of top-k."""
    k = max(int(ratio * n + 0.5), 1)
    has_energy = energies.size and energies[-1] > 0
    share = float(energies[min(k, energies.size) - 1] / energies[-1]) if has_energy else None
    return {"ratio": ratio, "k": k, "squared_norm_share": share, "entropy_limit_bits": entropy_bits(n, k)}


def _print(path: pathlib.Path, described: list[dict]) -> None:
    table = console.make_table(
        str(path),
        *("array", "shape", "dtype", "zeros", "NaN", "Inf", "norm", "entropy\nlimit"),
        caption="entropy limit: log2 C(n, k) / k bits per index of the k nonzero elements",
        text=3,
    )
    for row in described:
        table.add_row(
            row["name"],
            "x".join(map(str, row["shape"])) or "scalar",
            row["dtype"],
            f"{row['zero_share']:.2%}",
            f"{row['nan']:,}",
            f"{row['inf']:,}",
            _short(row["norm"]),
            console.number(row["support_entropy_limit_bits"]),
        )
    console.print_table(table)
    _print_magnitudes(described)


def _print_magnitudes(described: list[dict]) -> None:
    quantiles = ["max" if q == 1 else f"{q:.0%}" for q in _SHOWN_QUANTILES]
    tops = [f"in top\n{ratio:.1%}" for ratio in _TOP_RATIOS]
    caption = "quantiles; share of the squared norm in the largest elements"
    table = console.make_table("Magnitudes", "array", *quantiles, *tops, caption=caption)
    for row in described:
        shares = [top["squared_norm_share"] for top in row["top"]]
        table.add_row(
            row["name"],
            *(_short(row["magnitude_quantiles"][str(q)]) for q in _SHOWN_QUANTILES),
            *("-" if share is None else f"{share:.1%}" for share in shares),
        )
    console.print_table(table)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
