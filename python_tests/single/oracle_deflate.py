"""`deflate` of cc_ops/FORMAT.md in NumPy, inflated by Python's zlib."""

import zlib

import numpy as np
from oracle_wire import FormatError, Reader, require

BLOCK = 262144  # Values.


def parse_deflate(section: bytes, k: int) -> tuple[int, list[bytes]]:
    """Returns (shuffle, the inflated blocks)."""
    reader = Reader(section)
    shuffle = reader.u8()
    require(shuffle <= 1, "shuffle is 0 or 1")
    sizes = [min(BLOCK, k - first) * 4 for first in range(0, k, BLOCK)]
    lengths = reader.array("<u4", len(sizes)).tolist()
    blocks = []
    for size, length in zip(sizes, lengths, strict=True):
        stream = zlib.decompressobj(wbits=-15)
        try:
            blocks.append(stream.decompress(reader.take(length), size + 1))
        except zlib.error as error:
            raise FormatError("not a DEFLATE stream") from error
        require(stream.eof and not stream.unused_data, "the stream does not end with its block")
        require(len(blocks[-1]) == size, "a block of another size")
    reader.end()
    return shuffle, blocks


def read_deflate(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    shuffle, blocks = parse_deflate(section, k)
    if shuffle:
        blocks = [np.frombuffer(block, np.uint8).reshape(4, -1).T.tobytes() for block in blocks]
    return Reader(b"".join(blocks)).array("<f4", k)
