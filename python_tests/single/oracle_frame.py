""" "Frame" of cc_ops/FORMAT.md in NumPy."""

import struct

import numpy as np
from oracle_index import INDEX_READERS
from oracle_joint import JOINT_READERS
from oracle_sparsify import seeded_support
from oracle_value import VALUE_READERS
from oracle_wire import Reader, crc32c, require

HEADER = struct.Struct("<4sBBBBIIIBBHIIQ")  # Without the checksum, which the u32 after it is.
HEADER_FIELDS = (
    "magic version flags dtype support num_bytes n k index_id value_id reserved "
    "num_index_bytes num_value_bytes seed"
).split()
HEADER_BYTES = HEADER.size + 4
DTYPE_IDS = {"float32": 1, "float16": 2, "bfloat16": 3}
FROM_INDEX_SECTION, EVERYTHING, JOINT, SEEDED = 0, 1, 2, 3


def write_frame(header: dict, index_section: bytes = b"", value_section: bytes = b"") -> bytes:
    """Lays out a frame; fields that the sections and the page determine are filled in."""
    fields = {
        "magic": b"TFCF",
        "version": 1,
        "flags": 0,
        "index_id": 0,
        "value_id": 0,
        "reserved": 0,
        "num_bytes": HEADER_BYTES + len(index_section) + len(value_section),
        "num_index_bytes": len(index_section),
        "num_value_bytes": len(value_section),
        **header,
    }
    head = HEADER.pack(*(fields[name] for name in HEADER_FIELDS))
    sections = index_section + value_section
    return head + struct.pack("<I", crc32c(head + sections)) + sections


def read_header(frame: bytes) -> dict:
    reader = Reader(frame)
    header = dict(zip(HEADER_FIELDS, HEADER.unpack(reader.take(HEADER.size)), strict=True))
    header["checksum"] = reader.u32()
    return header


def read_frame(frame: bytes) -> tuple[dict, np.ndarray | None, np.ndarray | None]:
    """Reads one whole frame: (header, indices, float32 values), no arrays where it is not finite."""
    header = read_header(frame)
    n, k = header["n"], header["k"]
    require(header["magic"] == b"TFCF" and header["version"] == 1, "not a frame")
    require(header["flags"] <= 1 and header["reserved"] == 0, "reserved bits are set")
    require(header["dtype"] in DTYPE_IDS.values() and header["support"] <= 3, "unknown dtype or support")
    require(header["num_bytes"] == len(frame) < 2**31 and k <= n < 2**31, "sizes out of range")
    require(header["checksum"] == crc32c(frame[:40] + frame[44:]), "checksum")
    index_section = frame[HEADER_BYTES : HEADER_BYTES + header["num_index_bytes"]]
    value_section = frame[HEADER_BYTES + header["num_index_bytes"] :]
    require(len(value_section) == header["num_value_bytes"], "sections do not fill the frame")
    if header["support"] != FROM_INDEX_SECTION:
        require(header["index_id"] == 0 and not index_section, "an index section nobody reads")
    require(header["support"] != EVERYTHING or header["flags"] or k == n, "everything is k = n")
    if header["flags"]:
        require(not index_section and not value_section, "a non-finite frame has no sections")
        return header, None, None
    if k == 0:
        require(not index_section and not value_section, "k = 0 has no sections")
        return header, np.zeros(0, np.int64), np.zeros(0, np.float32)
    readers = JOINT_READERS if header["support"] == JOINT else VALUE_READERS
    require(header["value_id"] in readers, "unknown value or joint codec")
    if header["support"] == JOINT:
        indices, values = JOINT_READERS[header["value_id"]](value_section, n, k, header["seed"])
    else:
        if header["support"] == FROM_INDEX_SECTION:
            require(header["index_id"] in INDEX_READERS, "unknown index codec")
            indices = INDEX_READERS[header["index_id"]](index_section, n, k, header["seed"])
        elif header["support"] == SEEDED:
            indices = seeded_support(n, k, header["seed"])
        else:
            indices = np.arange(n)
        values = VALUE_READERS[header["value_id"]](value_section, k, indices, header["seed"])
    return header, indices, values


def decode_sum(packets: list[list[bytes]], scale: float) -> list[np.ndarray]:
    """The float32 sums over ranks of the frames of each tensor, each element times the scale."""
    sums = []
    for frames in zip(*packets, strict=True):
        total = np.zeros(read_header(frames[0])["n"], np.float32)
        for frame in frames:
            _, indices, values = read_frame(frame)
            if indices is None:
                total[:] = np.nan
            else:
                total[indices] += np.float32(scale) * values
        sums.append(total)
    return sums
