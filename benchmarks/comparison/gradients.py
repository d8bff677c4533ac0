"""Reads gradients that the examples dumped, as the elements or rows that a rank would send."""

import dataclasses
import functools
import pathlib

import numpy as np

import tfcompress as tfc

# Fewer elements of dense variables than this (a bias beside a table, say) are not measured.
MIN_DENSE = 10_000


@dataclasses.dataclass(frozen=True)
class Rows:
    """Sparse rows of a table; a vector is a table with rows of one element.

    Attributes:
      num_rows: Rows of the table.
      keys: Numbers of the present rows, ascending: uint32 [k].
      values: Their values, float32 [k, elements of a row].
    """

    num_rows: int
    keys: np.ndarray
    values: np.ndarray

    @functools.cached_property
    def ids(self) -> np.ndarray:
        """The keys in the type of `tf.IndexedSlices`."""
        return self.keys.astype(np.int64)

    @property
    def width(self) -> int:
        return self.values.shape[1]

    def dense(self) -> np.ndarray:
        """Returns all elements of the table, flat float32."""
        found = np.zeros((self.num_rows, self.width), np.float32)
        found[self.keys] = self.values
        return found.ravel()


@dataclasses.dataclass(frozen=True)
class Gradient:
    """One gradient: the sent rows and, unless it is sparse by nature, all its elements in `dense`."""

    name: str
    sent: Rows
    dense: np.ndarray | None


def at_keys(rows: Rows, keys: np.ndarray) -> np.ndarray:
    """Returns the values of any ascending keys, zeros for absent rows: float32 [keys, width]."""
    found = np.searchsorted(rows.keys, keys).clip(max=len(rows.keys) - 1)
    return np.where((rows.keys[found] == keys)[:, np.newaxis], rows.values[found], np.float32(0))


def relative_error(sent: Rows, decoded: Rows) -> float:
    """Returns the l2 norm of the error divided by that of the sent values."""
    keys = np.union1d(sent.keys, decoded.keys)
    difference = at_keys(sent, keys).astype(np.float64)
    if decoded.keys.size:
        difference -= at_keys(decoded, keys)
    return float(np.linalg.norm(difference) / np.linalg.norm(sent.values.astype(np.float64)))


def find_files(given: list[pathlib.Path]) -> list[pathlib.Path]:
    """Returns the given files and the files of the given folders."""
    files = [file for path in given for file in (sorted(path.glob("*.npz")) if path.is_dir() else [path])]
    missing = [str(path) for path in files if not path.is_file()]
    if missing or not files:
        raise SystemExit(
            f"no gradients in {', '.join(missing) or ', '.join(map(str, given))}; write some with "
            "`horovodrun -np 2 python examples/mnist_mlp.py --dump-gradients DIR --dump-steps 10 200`"
        )
    return files


def read_dump(path: pathlib.Path) -> tuple[dict[str, np.ndarray], dict[str, Rows]]:
    """Returns the dense variables, float32, and the tables of a dump of `examples/workload/gradients.py`.

    Raises:
      ValueError: It is no dump, or has elements that are not finite.
    """
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, AttributeError) as error:
        raise ValueError(f"{path} is not an .npz file of gradients: {error}") from error
    tables = [name.removesuffix(":indices") for name in arrays if name.endswith(":indices")]
    variables = {name: array.astype(np.float32) for name, array in arrays.items() if ":" not in name}
    for array in variables.values():
        check_finite(path, array)
    return variables, {name: read_table(path, name, arrays) for name in tables}


def read_gradients(path: pathlib.Path, ratio: float) -> list[Gradient]:
    """Reads what a rank would send of a dump.

    All dense variables, end to end, are one gradient, of which the `ratio` of largest magnitude is sent. (In
    training each variable is compressed alone; most are too small to be measured so.) Another gradient is the
    largest table with sparse rows, which are sent.
    """
    variables, tables = read_dump(path)
    rows = [table for table in tables.values() if table.values.any()]
    dense = np.concatenate([array.ravel() for array in variables.values()] or [np.empty(0)])
    gradients = []
    if dense.any() and (dense.size >= MIN_DENSE or not rows):
        keys = tfc.codecs.select(f"topk:ratio={ratio}", dense)
        sent = Rows(dense.size, keys, dense[keys, np.newaxis])
        gradients.append(Gradient(path.stem, sent, dense))
    if rows:
        largest = max(rows, key=lambda each: each.values.size)
        gradients.append(Gradient(f"{path.stem}, rows", largest, None))
    if not gradients:
        raise ValueError(f"{path} has only gradients that are zero")
    return gradients


def read_table(path: pathlib.Path, name: str, arrays: dict[str, np.ndarray]) -> Rows:
    """Returns the rows of one table, with repeated rows summed."""
    try:
        indices, values, shape = (arrays[f"{name}:{part}"] for part in ("indices", "values", "shape"))
    except KeyError as error:
        raise ValueError(f"{path} has no array {error} beside '{name}:indices'") from error
    num_rows = int(shape[0])
    if len(indices) != len(values):
        raise ValueError(f"{path}: '{name}' has {len(indices)} indices for {len(values)} rows of values")
    if ((indices < 0) | (indices >= num_rows)).any():
        raise ValueError(f"{path}: '{name}' has rows outside [0, {num_rows})")
    check_finite(path, values)
    order = np.argsort(indices, kind="stable")
    keys, starts = np.unique(indices[order], return_index=True)
    slices = values.astype(np.float32).reshape(len(indices), -1)[order]
    return Rows(num_rows, keys.astype(np.uint32), np.add.reduceat(slices, starts, axis=0))


def check_finite(path: pathlib.Path, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"{path} has gradients with NaN or Inf; expected finite ones")
