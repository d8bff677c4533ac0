"""The value sections of cc_ops/FORMAT.md in NumPy.

Readers take (section, k, indices, seed), indices None for all; only `minmax` looks at the last two.
"""

import math

import numpy as np
from oracle_deflate import read_deflate
from oracle_lossless import read_lossless, write_lossless
from oracle_minmax import read_minmax
from oracle_poly import read_poly
from oracle_quantizer import (
    read_block_int,
    read_log,
    read_logquant,
    read_qsgd,
    read_sign,
    read_ternary,
    read_uniform,
    write_block_int,
    write_logquant,
    write_ternary,
    write_uniform,
)
from oracle_rowcol import read_ecsq
from oracle_wire import Reader, num_bits_of, require


def read_raw_values(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    reader = Reader(section)
    values = reader.array("<f4", k)
    reader.end()
    return values


def write_raw_values(values) -> bytes:
    return np.asarray(values, "<f4").tobytes()


def read_fp16(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    reader = Reader(section)
    values = reader.array("<f2", k).astype(np.float32)
    reader.end()
    return values


def write_fp16(values) -> bytes:
    return np.clip(np.asarray(values, np.float32), -65504, 65504).astype("<f2").tobytes()


def read_bf16(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    reader = Reader(section)
    values = (reader.array("<u2", k).astype(np.uint32) << 16).view(np.float32)
    require(np.isfinite(values).all(), "a float is not finite")
    reader.end()
    return values


def write_bf16(values) -> bytes:
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # Half of the last bit, less a bit for even.
    infinite = (rounded & 0x7FFF) == 0x7F80
    return np.where(infinite, rounded - 1, rounded).astype("<u2").tobytes()


def parse_quantile(section: bytes, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (means, codes)."""
    reader = Reader(section)
    q = reader.u32()
    require(q <= min(k, 65536) and (q == 0) == (k == 0), "number of buckets")
    means = reader.array("<f4", q)
    codes = reader.packed(num_bits_of(q), k)
    reader.end()
    require((codes < q).all(), "a code is not a bucket")
    return means, codes


def read_quantile(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    means, codes = parse_quantile(section, k)
    return means[codes]


def deterministic_exp(x: np.ndarray) -> np.ndarray:
    """E: e^x of core/exp.h; NumPy's multiplications and additions are not fused."""
    x = np.clip(np.asarray(x, np.float64), -87.0, 87.0)
    shift = float.fromhex("0x1.8p52")
    n = (x * float.fromhex("0x1.71547652b82fep0") + shift) - shift
    high, low = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
    r = (x - n * high) - n * low
    p = np.full_like(x, 1.0 / math.factorial(12))
    for i in range(11, -1, -1):
        p = p * r + 1.0 / math.factorial(i)
    return np.ldexp(p, n.astype(np.int64))


def dexp_curve(m: int, a, b, c, d, least, largest) -> np.ndarray:
    """The float32 magnitudes of ranks 0 to m - 1 of a part."""
    a, b, c, d, top = (np.float64(x) for x in (a, b, c, d, largest))
    h = 1.0 / (m - 1) if m > 1 else 0.0
    i = np.arange(m)
    s = i // 64 * 64
    y = np.zeros(m)
    for scale, rate in ((a, b), (c, d)):
        block = (top * scale) * deterministic_exp(rate * (s * h))
        y = y + block * deterministic_exp(rate * ((i - s) * h))
    y = np.clip(y, 0.0, top).astype(np.float32)
    y[y < np.finfo(np.float32).tiny] = 0
    return np.clip(y, np.float32(least), np.float32(largest))


def parse_dexp(section: bytes, k: int) -> tuple[list[dict], np.ndarray]:
    """Returns the two parts, {count, a, b, c, d, least, largest} each, and the ranks."""
    reader = Reader(section)
    parts = []
    for _ in range(2):
        part = {"count": reader.u32()}
        if part["count"]:
            part |= zip("a b c d least largest".split(), reader.array("<f4", 6), strict=True)
            require(not np.signbit(part["least"]) and not np.signbit(part["largest"]), "a sign bit")
            require(part["least"] <= part["largest"], "least above largest")
        parts.append(part)
    require(parts[0]["count"] + parts[1]["count"] == k, "the parts do not sum to k")
    ranks = reader.packed(num_bits_of(k), k)
    reader.end()
    require((ranks < k).all(), "a rank is not below k")
    return parts, ranks


def read_dexp(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    parts, ranks = parse_dexp(section, k)
    curves = [np.zeros(0, np.float32)]
    for part, sign in zip(parts, (np.float32(1), np.float32(-1)), strict=True):
        if part["count"]:
            curves.append(sign * dexp_curve(part["count"], *list(part.values())[1:]))
    return np.concatenate(curves)[ranks]


def dexp_ranks(values: np.ndarray) -> np.ndarray:
    """The ranks that the encoder writes: they do not depend on the fit."""
    positions = np.arange(values.size)
    order = np.lexsort((positions, -np.abs(values), values < 0))
    ranks = np.empty(values.size, np.int64)
    ranks[order] = positions
    return ranks


# Name, id, reader, and the writer of those whose bytes the page determines.
VALUE_CODECS = [
    ("raw", 1, read_raw_values, write_raw_values),
    ("fp16", 2, read_fp16, write_fp16),
    ("bf16", 3, read_bf16, write_bf16),
    ("quantile", 4, read_quantile, None),
    ("dexp", 5, read_dexp, None),
    ("deflate", 6, read_deflate, None),
    ("qsgd", 7, read_qsgd, None),
    ("log", 8, read_log, None),
    ("logquant", 9, read_logquant, write_logquant),
    ("uniform", 10, read_uniform, write_uniform),
    ("ternary", 11, read_ternary, None),
    ("sign", 12, read_sign, None),
    ("poly", 13, read_poly, None),
    ("minmax", 14, read_minmax, None),
    ("block_int", 15, read_block_int, write_block_int),
    ("ecsq", 17, read_ecsq, None),
    ("lossless", 18, read_lossless, write_lossless),
]
VALUE_IDS = {name: id_ for name, id_, _, _ in VALUE_CODECS}
VALUE_READERS = {id_: read for _, id_, read, _ in VALUE_CODECS}
VALUE_WRITERS = {name: write for name, _, _, write in VALUE_CODECS if write}
# From (values, seed).
SEEDED_VALUE_WRITERS = {"ternary": write_ternary}


def write_values(name: str, values: np.ndarray, seed: int) -> bytes | None:
    """The section, where the page determines it."""
    if name in SEEDED_VALUE_WRITERS:
        return SEEDED_VALUE_WRITERS[name](values, seed)
    return VALUE_WRITERS[name](values) if name in VALUE_WRITERS else None
