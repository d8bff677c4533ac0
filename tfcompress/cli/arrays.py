"""Reads the arrays of .npy and .npz files as tensors to compress."""

import dataclasses
import pathlib
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np

_NPY, _NPZ = b"\x93NUMPY", b"PK\x03\x04"
# A gradient dump stores the rows of a table as three arrays with these endings.
_VALUES, _INDICES, _SHAPE = ":values", ":indices", ":shape"
# Number of names that a note lists.
_NAMED = 5


@dataclasses.dataclass(frozen=True, eq=False)
class Tensor:
    """One array of a file.

    Attributes:
      name: Name in the .npz file, or of the .npy file.
      shape: Stored shape.
      dtype: Stored type; "float32", "float64", ...
      values: The elements in C order; float32 [n], n at least 1.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: np.ndarray


def is_array_file(path: pathlib.Path) -> bool:
    """Returns whether a file begins like a .npy or .npz file.

    Raises:
      SystemExit: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(_NPY)).startswith((_NPY, _NPZ))
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}") from error


def read(path: pathlib.Path) -> tuple[list[Tensor], list[str]]:
    """Reads the arrays of a .npy or .npz file.

    Returns:
      The tensors, and notes on arrays that were converted, left out, or are rows of a table.

    Raises:
      SystemExit: The file is broken, or has no array of at least one number.
    """
    if not is_array_file(path):
        raise SystemExit(f"{path}: neither a .npy nor a .npz file")
    tensors: list[Tensor] = []
    notes: dict[str, list[str]] = {}
    try:
        stored = dict(_stored(path))
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise SystemExit(f"{path}: broken, or not an array of numbers: {error}") from error
    for name, array in stored.items():
        reason = _reason_to_leave_out(name, array, stored)
        if reason is None:
            tensors.append(_tensor(name, array))
            reason = _remark(name, array, stored)
        if reason:
            notes.setdefault(reason, []).append(name)
    if not tensors:
        raise SystemExit(f"{path}: has no array of at least one number")
    return tensors, [f"{reason}: {join(names)}" for reason, names in notes.items()]


def read_finite(path: pathlib.Path) -> tuple[list[Tensor], list[str]]:
    """Reads the arrays that can be encoded: as `read`, without those that hold NaN or Inf.

    Raises:
      SystemExit: As `read`, or no array is left.
    """
    tensors, notes = read(path)
    finite = [tensor for tensor in tensors if np.isfinite(tensor.values).all()]
    if not finite:
        raise SystemExit(
            f"{path}: every array holds NaN or Inf and would decode to NaN; expected finite arrays"
        )
    if left_out := [tensor.name for tensor in tensors if not np.isfinite(tensor.values).all()]:
        notes.append(f"left out, NaN or Inf, which decodes to NaN everywhere: {join(left_out)}")
    return finite, notes


def join(names: list[str]) -> str:
    """Returns the first names, and the number of the others."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _stored(path: pathlib.Path) -> Iterator[tuple[str, np.ndarray]]:
    # Pickles are not read, since they can run code.
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        yield path.stem, loaded
        return
    with loaded:
        for name in loaded.files:
            # A member of the archive that is not a .npy file is read as bytes.
            yield name, np.asarray(loaded[name])


def _reason_to_leave_out(name: str, array: np.ndarray, stored: dict[str, np.ndarray]) -> str | None:
    """Returns None for arrays that are kept, and "" if no note is needed."""
    if any(name.endswith(end) and name.removesuffix(end) + _VALUES in stored for end in (_INDICES, _SHAPE)):
        return ""  # Noted with the values.
    if array.dtype.kind not in "fiu":
        return "left out, not real numbers"
    return None if array.size else "left out, no elements"


def _remark(name: str, array: np.ndarray, stored: dict[str, np.ndarray]) -> str:
    remarks = []
    if name.endswith(_VALUES) and name.removesuffix(_VALUES) + _INDICES in stored:
        remarks.append("rows of a table, taken as a dense tensor of these rows; row numbers are not counted")
    if array.dtype.name != "float32":
        remarks.append(f"converted from {array.dtype.name} to float32")
    return "; ".join(remarks)


def _tensor(name: str, array: np.ndarray) -> Tensor:
    # Numbers too large for float32 become Inf, and are reported as such.
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(array, np.float32).reshape(-1)
    return Tensor(name, array.shape, array.dtype.name, values)
