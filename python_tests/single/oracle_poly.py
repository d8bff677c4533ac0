"""`poly` of cc_ops/FORMAT.md in NumPy."""

import numpy as np
from oracle_quantizer import SMALLEST, without_subnormals
from oracle_wire import Reader, num_bits_of, require


def orthogonal_polynomials(m: int, count: int) -> list[np.ndarray]:
    """P(0) to P(count - 1) on the positions of a segment of m values."""
    m = np.float64(m)
    t = np.arange(m) * (2.0 / (m - 1)) - 1.0 if m > 1 else np.full(1, -1.0)
    found = [np.ones_like(t), t]
    for j in range(1, count - 1):
        b = j * j * (m * m - j * j) / ((4.0 * j * j - 1) * ((m - 1) * (m - 1)))
        found.append(t * found[j] - b * found[j - 1])
    return found[:count]


def segment_curve(m: int, least, largest, coefficients) -> np.ndarray:
    """The float32 magnitudes of positions 0 to m - 1 of a segment."""
    c = without_subnormals(coefficients).astype(np.float64)
    low, high = without_subnormals([least, largest]).astype(np.float64)
    shape = np.zeros(m)
    for weight, polynomial in zip(c, orthogonal_polynomials(m, c.size), strict=True):
        shape = shape + weight * polynomial
    y = np.minimum(low + (high - low) * shape, high)
    y = np.where(y < SMALLEST, 0.0, y).astype(np.float32)
    return np.clip(y, np.float32(least), np.float32(largest))


def parse_poly(section: bytes, k: int) -> tuple[int, list[list[dict]], np.ndarray]:
    """Returns (degree, two lists of segments {length, least, largest, coefficients}, ranks)."""
    reader = Reader(section)
    degree = reader.u32()
    require(degree <= 8, "degree")
    parts, total = [], 0
    for _ in range(2):
        parts.append([])
        for _ in range(reader.u32()):
            length = reader.u32()
            require(length >= 1, "an empty segment")
            total += length
            least, largest = reader.array("<f4", 2)
            require(not np.signbit(least) and not np.signbit(largest), "a sign bit")
            require(least <= largest, "least above largest")
            coefficients = reader.array("<f4", min(length, degree + 1))
            parts[-1].append(
                {"length": length, "least": least, "largest": largest, "coefficients": coefficients}
            )
    require(total == k, "the segments do not sum to k")
    ranks = reader.packed(num_bits_of(k), k)
    reader.end()
    require((ranks < k).all(), "a rank is not below k")
    return degree, parts, ranks


def read_poly(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    _, parts, ranks = parse_poly(section, k)
    curves = [
        sign * segment_curve(*segment.values())
        for part, sign in zip(parts, (np.float32(1), np.float32(-1)), strict=True)
        for segment in part
    ]
    return np.concatenate(curves)[ranks]
