"""Bytes, bits, hashes and checksums of cc_ops/FORMAT.md in NumPy, for the oracles beside this file.

The oracles are written from FORMAT.md and not from the C++. Readers of everything, and writers where
FORMAT.md determines the bytes. Short and slow on purpose: what they say should be checkable against the
page by eye.
"""

import numpy as np


class FormatError(ValueError):
    """The bytes are not what FORMAT.md describes."""


def require(condition, message: str) -> None:
    if not condition:
        raise FormatError(message)


class Reader:
    """Takes fields off the front of a section."""

    def __init__(self, data: bytes):
        self.data = bytes(data)
        self.at = 0

    def take(self, num_bytes: int) -> bytes:
        require(self.at + num_bytes <= len(self.data), "section too short")
        self.at += num_bytes
        return self.data[self.at - num_bytes : self.at]

    def u8(self) -> int:
        return self.take(1)[0]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def array(self, dtype: str, count: int) -> np.ndarray:
        values = np.frombuffer(self.take(count * np.dtype(dtype).itemsize), dtype)
        require(values.dtype.kind != "f" or np.isfinite(values).all(), "a float is not finite")
        return values

    def packed(self, num_bits: int, count: int, zero_tail: bool = False) -> np.ndarray:
        data = np.frombuffer(self.take(-(-count * num_bits // 8)), np.uint8)
        bits = np.unpackbits(data, bitorder="little")
        require(not zero_tail or not bits[count * num_bits :].any(), "a bit after the last is set")
        bits = bits[: count * num_bits].reshape(count, num_bits).astype(np.int64)
        return (bits << np.arange(num_bits)).sum(axis=1)

    def end(self) -> None:
        require(self.at == len(self.data), "section too long")


def pack(numbers, num_bits: int) -> bytes:
    numbers = np.asarray(numbers, np.int64)
    bits = (numbers[:, None] >> np.arange(num_bits)) & 1
    return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes()


def num_bits_of(count: int) -> int:
    """bits(q): ceil(log2 q), 0 for q <= 1."""
    return max(0, count - 1).bit_length()


# Hashing

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hash_key(key: int, seed: int) -> int:
    return mix64((key * GOLDEN + mix64((seed + GOLDEN) & MASK)) & MASK)


def hash_keys(keys, seed: int) -> np.ndarray:
    """`hash_key` of every key; uint64 arithmetic of arrays wraps."""
    x = np.asarray(keys).astype(np.uint64) * np.uint64(GOLDEN)
    return mix64_all(x + np.full_like(x, mix64((seed + GOLDEN) & MASK)))


def mix64_all(x: np.ndarray) -> np.ndarray:
    """`mix64` of every element."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


# Checksum


def _crc_table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [(crc >> 1) ^ (0x82F63B78 if crc & 1 else 0) for crc in table]
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) as in RFC 3720: reflected, all ones before and after."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
