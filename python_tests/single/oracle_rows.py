""" "Rows" of cc_ops/FORMAT.md in NumPy."""

import numpy as np
import oracle_frame
from oracle_index import INDEX_READERS
from oracle_value import VALUE_READERS
from oracle_wire import Reader, crc32c, require

ROWS = 4


def merge(ids, values, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The rows that occur, ascending, and `scale` times the float32 sums of their slices, from +0."""
    rows = np.unique(ids)
    sums = np.zeros((rows.size, *values.shape[1:]), np.float32)
    for row, slice_ in zip(np.searchsorted(rows, ids), values.astype(np.float32), strict=True):
        sums[row] += np.float32(scale) * slice_
    return rows, sums


def norms(rows: np.ndarray) -> np.ndarray:
    """The Euclidean norm of each row, which chooses among the rows."""
    squares = rows.astype(np.float64) ** 2
    return np.minimum(np.sqrt(squares.sum(axis=1)), np.finfo(np.float32).max).astype(np.float32)


def write_rows(header: dict, width: int, id_section: bytes, value_section: bytes) -> bytes:
    index_section = width.to_bytes(4, "little") + id_section
    return oracle_frame.write_frame({"support": ROWS, **header}, index_section, value_section)


def read_rows(frame: bytes, num_rows: int, width: int) -> tuple[dict, np.ndarray | None, np.ndarray | None]:
    """Reads the frame of a table: (header, ids, float32 values [k, width]), no arrays where not finite."""
    header = oracle_frame.read_header(frame)
    if header["support"] == oracle_frame.JOINT:
        return read_joint(frame, num_rows, width)
    n, k = header["n"], header["k"]
    require(header["magic"] == b"TFCF" and header["version"] == 1, "not a frame")
    require(header["flags"] <= 1 and header["reserved"] == 0, "reserved bits are set")
    require(header["dtype"] in oracle_frame.DTYPE_IDS.values() and header["support"] == ROWS, "not rows")
    require(header["num_bytes"] == len(frame) < 2**31 and k <= n < 2**31, "sizes out of range")
    require(header["checksum"] == crc32c(frame[:40] + frame[44:]), "checksum")
    require(n == num_rows, "another table")
    sections = Reader(frame[oracle_frame.HEADER_BYTES :])
    index_section = Reader(sections.take(header["num_index_bytes"]))
    value_section = sections.take(header["num_value_bytes"])
    sections.end()
    if header["flags"] or k == 0:
        require(k == 0 and not index_section.data and not value_section, "sections without rows")
        if header["flags"]:
            return header, None, None
        return header, np.zeros(0, np.int64), np.zeros((0, width), np.float32)
    require(index_section.u32() == width and k * width < 2**31, "another width")
    require(header["index_id"] in INDEX_READERS and header["value_id"] in VALUE_READERS, "unknown codec")
    id_section = index_section.data[index_section.at :]
    ids = INDEX_READERS[header["index_id"]](id_section, n, k, header["seed"])
    keys = np.arange(k * width)
    values = VALUE_READERS[header["value_id"]](value_section, k * width, keys, header["seed"])
    return header, ids, np.reshape(values, (k, width))


def read_joint(frame: bytes, num_rows: int, width: int):
    """A joint frame, whose elements are those of the table."""
    header, indices, values = oracle_frame.read_frame(frame)
    require(header["n"] == num_rows * width, "another table")
    if indices is None:
        return header, None, None
    indices = np.asarray(indices, np.int64)
    ids = np.unique(indices // width)
    rows = np.zeros((ids.size, width), np.float32)
    rows[np.searchsorted(ids, indices // width), indices % width] = values
    return header, ids, rows


def decode_rows(frames: list[bytes], num_rows: int, width: int, scale: float):
    """(rows, float32 sums) over the ranks' frames of one table."""
    decoded = [read_rows(frame, num_rows, width)[1:] for frame in frames]
    finite = [rank for rank in decoded if rank[0] is not None]
    ids = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in finite)])
    values = np.concatenate([np.zeros((0, width), np.float32), *(values for _, values in finite)])
    rows, sums = merge(ids, values, scale)
    if len(finite) < len(decoded):
        rows = rows if rows.size or not num_rows else np.zeros(1, np.int64)
        sums = np.full((rows.size, width), np.nan, np.float32)
    return rows, sums
