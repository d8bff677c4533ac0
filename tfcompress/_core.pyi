"""Types of the compiled core (cc_ops/pybind), for editors and type checkers."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# NumPy has no bfloat16: float16 and bfloat16 come and go as bit patterns, uint16.
_Dense: TypeAlias = NDArray[np.float32] | NDArray[np.uint16]
_Floats: TypeAlias = NDArray[np.float32]
_Indices: TypeAlias = NDArray[np.uint32]
_Buffer: TypeAlias = bytes | bytearray | memoryview | NDArray[Any]

FORMAT_VERSION: int

class DataLossError(ValueError): ...

def canonical_spec(spec: str) -> str: ...
def describe_spec(spec: str) -> dict[str, Any]: ...
def registry(kind: str) -> list[dict[str, Any]]: ...
def encode(
    gradient: _Dense,
    dtype_name: str,
    spec: str,
    seed: int = 0,
    slots: Sequence[_Floats] = [],
    num_threads: int = 0,
    width: int = 0,
) -> bytes: ...
def decode(data: _Buffer, num_threads: int = 0) -> list[tuple[str, _Dense]]: ...
def decode_sum(
    packets: _Buffer,
    num_ranks: int,
    scale: float,
    sizes: Sequence[int],
    dtype_names: Sequence[str],
    num_threads: int = 0,
) -> tuple[list[_Dense], list[int]]: ...
def inspect(data: _Buffer) -> list[dict[str, Any]]: ...
def encode_rows(
    values: _Dense,
    dtype_name: str,
    indices: NDArray[np.int32] | NDArray[np.int64],
    num_rows: int,
    width: int,
    spec: str,
    row_sparsifier: str = "dense",
    residual: _Floats | None = None,
    seed: int = 0,
    num_threads: int = 0,
) -> bytes: ...
def decode_rows(
    packets: _Buffer,
    num_ranks: int,
    scale: float,
    num_rows: int,
    width: int,
    dtype_name: str,
    position: int = 0,
    num_frames: int = 1,
    num_threads: int = 0,
) -> tuple[NDArray[np.int64], _Dense, int]: ...
def select(part: str, dense: _Floats, seed: int = 0) -> _Indices: ...
def encode_indices(
    part: str, indices: _Indices, n: int, seed: int = 0, width: int = 0
) -> tuple[bytes, _Indices]: ...
def decode_indices(name: str, section: _Buffer, n: int, k: int, seed: int = 0) -> _Indices: ...
def encode_values(
    part: str, values: _Floats, indices: _Indices | None, n: int, seed: int = 0, width: int = 0
) -> bytes: ...
def decode_values(
    name: str, section: _Buffer, indices: _Indices | None, n: int, seed: int = 0
) -> _Floats: ...
def linear_sizes(spec: str, n: int) -> dict[str, int]: ...
def linear_encode(dense: _Floats, spec: str, seed: int = 0, num_threads: int = 0) -> _Floats: ...
def linear_recover(
    summed: _Floats, n: int, spec: str, seed: int = 0, num_threads: int = 0
) -> tuple[_Indices, _Floats]: ...
def low_rank_left(
    matrix: _Floats, last_right: _Floats, rank: int, seed: int = 0, num_threads: int = 0
) -> _Floats: ...
def low_rank_right(
    matrix: _Floats, summed_left: _Floats, rank: int, num_threads: int = 0
) -> tuple[_Floats, _Floats]: ...
def low_rank_decode(
    matrix: _Floats, left: _Floats, right: _Floats, rank: int, num_threads: int = 0
) -> _Floats: ...
def count_sketch_insert(
    x: _Floats, rows: int, columns: int, seed: int = 0, num_threads: int = 0
) -> _Floats: ...
def count_sketch_estimate(table: _Floats, n: int, seed: int = 0) -> _Floats: ...
def count_sketch_squared_norm(table: _Floats) -> float: ...
def count_sketch_top(table: _Floats, n: int, count: int, seed: int = 0) -> tuple[_Indices, _Floats]: ...
def count_sketch_heavymix(table: _Floats, n: int, k: int, seed: int = 0) -> tuple[_Indices, _Floats]: ...
