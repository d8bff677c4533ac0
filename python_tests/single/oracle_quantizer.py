"""The value codecs of cc_ops/FORMAT.md that choose a level for each value on its own, in NumPy.

Writers take what a sum decides (norms, sums, means) as an argument: the page does not say in which
order an encoder adds.
"""

import struct

import numpy as np
from oracle_wire import MASK, Reader, hash_key, hash_keys, num_bits_of, pack, require

SMALLEST = np.finfo(np.float32).tiny  # That is not subnormal.


def without_subnormals(values) -> np.ndarray:
    values = np.asarray(values, np.float32)
    return np.where(np.abs(values) < SMALLEST, np.float32(0), values)


def noise(k: int, seed: int) -> np.ndarray:
    """24 random bits for each position."""
    hashes = hash_keys(np.arange(k) // 2, hash_key(MASK, seed))
    halves = np.where(np.arange(k) % 2, hashes >> np.uint64(32), hashes & np.uint64(2**32 - 1))
    return (halves >> np.uint64(8)).astype(np.int64)


def signed(magnitudes, negative) -> np.ndarray:
    """Rounds to float32; a zero is +0."""
    magnitudes = without_subnormals(magnitudes)
    return np.where(negative & (magnitudes > 0), -magnitudes, magnitudes)


def parse_qsgd(section: bytes, k: int) -> tuple[int, int, np.ndarray, np.ndarray]:
    """Returns (bits, bucket, norms, codes)."""
    reader = Reader(section)
    bits, bucket = reader.u8(), reader.u32()
    require(2 <= bits <= 8 and bucket >= 1, "bits or bucket out of range")
    norms = reader.array("<f4", -(-k // bucket))
    require(not np.signbit(norms).any(), "a norm has a sign bit")
    codes = reader.packed(bits, k)
    reader.end()
    return bits, bucket, norms, codes


def read_qsgd(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    bits, bucket, norms, codes = parse_qsgd(section, k)
    s = 2 ** (bits - 1) - 1
    units = norms.astype(np.float64) / s
    return signed((codes & s) * units[np.arange(k) // bucket], codes > s)


def write_qsgd(values, norms, bits=7, bucket=512, seed=0) -> bytes:
    """The section for these norms."""
    negative, values, s = np.signbit(values), without_subnormals(values), 2 ** (bits - 1) - 1
    norms = np.asarray(norms, np.float32)
    with np.errstate(divide="ignore"):
        units = np.where(norms > 0, s * 2.0**24 / norms.astype(np.float64), 0)[
            np.arange(values.size) // bucket
        ]
    levels = (np.floor(np.abs(values) * units).astype(np.int64) + noise(values.size, seed)) >> 24
    codes = levels + np.where(negative, s + 1, 0)
    return struct.pack("<BI", bits, bucket) + norms.astype("<f4").tobytes() + pack(codes, bits)


def bfloat16_above(magnitudes) -> np.ndarray:
    """The scales of block_int for these magnitudes, float32."""
    words = np.asarray(magnitudes, np.float32).view(np.uint32).astype(np.uint64)
    scales = (((words + 0xFFFF) >> 16) << 16).astype(np.uint32).view(np.float32)
    return np.where(scales < 2.0**-100, np.float32(0), np.minimum(scales, np.float32(2.0**126)))


def read_block_int(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    reader = Reader(section)
    levels, block = reader.u8(), reader.u8()
    bits, is_square = levels & 0x7F, levels >> 7
    require(2 + is_square <= bits <= 8 and 4 <= block <= 10, "levels or block out of range")
    words = reader.array("<u2", -(-k // 2**block))
    scales = (words.astype(np.uint32) << 16).view(np.float32)
    require(((words == 0) | ((scales >= 2.0**-100) & (scales <= 2.0**126))).all(), "a scale is out of range")
    codes = reader.packed(bits, k).astype(np.float32)
    reader.end()
    of_value = scales[np.arange(k) >> block]
    if bits == 2:
        return (codes - np.float32(1.5)) * of_value + np.float32(0)
    most = np.float32(2 ** (bits - 1) - 1)
    of_codes = codes - most
    if is_square:
        return of_codes * abs(of_codes) * (of_value / (most * most)) + np.float32(0)
    return of_codes * (of_value / most) + np.float32(0)


def write_block_int(values, bits=8, block=8, is_square=False) -> bytes:
    """The section; with 2 bits, up to the last bit of the scales."""
    is_square = is_square and bits > 2
    values = np.asarray(values, np.float32)
    blocks = [values[i : i + 2**block] for i in range(0, values.size, 2**block)]
    if bits == 2:
        sizes = [np.float32(np.sqrt(np.square(each, dtype=np.float64).mean())) for each in blocks]
    else:
        sizes = [np.abs(each).max() for each in blocks]
    scales = bfloat16_above(sizes)
    of_value = scales[np.arange(values.size) >> block]
    if bits == 2:
        codes = sum((values >= bound).astype(int) for bound in (-of_value, 0, of_value))
    else:
        most = np.float32(2 ** (bits - 1) - 1)
        outermost = most * most if is_square else most
        with np.errstate(divide="ignore"):
            per_unit = np.where(of_value > 0, outermost / of_value, np.float32(0))
        of_values = values * per_unit
        if is_square:
            roots = np.sqrt(np.maximum(abs(of_values) - np.float32(0.25), 0))
            of_values = np.copysign(roots, of_values)
        codes = np.rint(np.clip(of_values, -most, most)).astype(int) + int(most)
    words = (scales.view(np.uint32) >> 16).astype("<u2")
    return struct.pack("<BB", bits | is_square << 7, block) + words.tobytes() + pack(codes, bits)


def log_magnitudes(total: float, base: float, first: int, m: int) -> np.ndarray:
    """What the logarithms from `first` on stand for; infinite from 2^128 on."""
    with np.errstate(over="ignore"):
        powers = np.multiply.accumulate(np.append(1.0, np.full(first + m, base)))[first : first + m]
        exact = np.float64(total) / powers
        rounded = exact.astype(np.float32)
    above = (rounded > exact) & (exact < 2.0**128)
    return without_subnormals(np.where(above, np.nextafter(rounded, np.float32(0)), rounded))


def parse_log(section: bytes, k: int) -> tuple[float, float, int, int, np.ndarray]:
    """Returns (base, sum, first, m, codes)."""
    reader = Reader(section)
    base, total = reader.array("<f8", 2).tolist()
    first, m = reader.array("<u2", 2).tolist()
    require(1.001 <= base <= 16 and 0 <= total <= 2.0**159, "base or sum out of range")
    codes = reader.packed(num_bits_of(2 * m + 1), k)
    reader.end()
    require((codes <= 2 * m).all(), "a code is not a level")
    return base, total, first, m, codes


def read_log(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    base, total, first, m, codes = parse_log(section, k)
    magnitudes = np.append(np.float32(0), log_magnitudes(total, base, first, m))
    require(np.isfinite(magnitudes).all(), "a magnitude is not finite")
    return signed(magnitudes[(codes + 1) // 2], (codes > 0) & (codes % 2 == 0))


def log_ladder(values, total: float, base: float, tau: int) -> tuple[int, np.ndarray]:
    """The least logarithm that an encoder uses for this sum, and the magnitudes from there on."""
    magnitudes = log_magnitudes(total, base, 0, tau + 1)
    largest = np.abs(without_subnormals(values)).max()
    first = int(np.searchsorted(-magnitudes, -largest))
    return first, magnitudes[first : np.count_nonzero(magnitudes)]


def adapted_tau(base: float, count: int) -> int:
    """What tau = 0 stands for where `count` values are filtered."""
    tau, power = 0, 1.0
    while power < count:
        tau, power = tau + 1, power * base
    return max(tau, 128)


def write_log(values, total: float, base=1.1, tau=128) -> bytes:
    """The section for this sum; for tau = 0, after the filter."""
    values = np.asarray(values, np.float32)
    first, magnitudes = log_ladder(values, total, base, tau or adapted_tau(base, 2**31 - 1))
    if tau == 0:
        normal = np.abs(without_subnormals(values))
        least = normal[normal > 0].min(initial=np.inf)
        reach = int(np.searchsorted(-magnitudes, -least)) + 1
        magnitudes = magnitudes[: max(reach, 129 - first, 0)]
    levels = np.searchsorted(-magnitudes, -np.abs(values))
    codes = np.where(levels < magnitudes.size, 1 + 2 * levels + (values < 0), 0)
    m = magnitudes.size
    return struct.pack("<ddHH", base, total, first, m) + pack(codes, num_bits_of(2 * m + 1))


def parse_logquant(section: bytes, k: int) -> tuple[int, int, np.ndarray]:
    """Returns (bits, largest, codes)."""
    reader = Reader(section)
    bits, largest = reader.u8(), reader.u8()
    require(2 <= bits <= 8 and largest <= 254, "bits or largest out of range")
    codes = reader.packed(bits, k)
    reader.end()
    return bits, largest, codes


def read_logquant(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    bits, largest, codes = parse_logquant(section, k)
    h = 2 ** (bits - 1) - 1
    levels = codes & h
    exponents = largest - h + levels
    magnitudes = np.where((levels > 0) & (exponents >= 1), np.ldexp(1.0, exponents - 127), 0)
    return signed(magnitudes, codes > h)


def write_logquant(values, bits=8, rounding="nearest", seed=0) -> bytes:
    negative, values, h = np.signbit(values), without_subnormals(values), 2 ** (bits - 1) - 1
    fields = np.abs(values).view(np.uint32).astype(np.int64)
    exponents, mantissas = fields >> 23, fields & 0x7FFFFF
    at_random = rounding == "random"
    highest = np.minimum(exponents + (mantissas > 0 if at_random else mantissas >= 0x3504F4), 254)
    largest = int(highest[values != 0].max(initial=0))
    lowest, chance = largest - h + 1, noise(values.size, seed)
    if at_random:
        highest = np.minimum(exponents + (mantissas + (chance >> 1) >> 23), 254)
        below = exponents < lowest
        share = (mantissas | 1 << 23) >> np.clip(lowest - exponents - 1, 0, 24)
        highest = np.where(below, np.where(chance < share, lowest, lowest - 1), highest)
    levels = np.where(exponents > 0, np.maximum(highest - lowest + 1, 0), 0)
    return bytes([bits, largest]) + pack(levels + np.where(negative, h + 1, 0), bits)


def read_uniform(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    reader = Reader(section)
    bits = reader.u8()
    require(bits in (8, 16), "bits")
    least, largest = reader.array("<f4", 2)
    require(least <= largest, "least above largest")
    least, largest = without_subnormals([least, largest]).astype(np.float64)
    codes = reader.array(f"<u{bits // 8}", k).astype(np.float64)
    reader.end()
    step = (largest - least) / (2**bits - 1)
    return without_subnormals(np.minimum(least + codes * step, largest))


def write_uniform(values, bits=8) -> bytes:
    values = without_subnormals(values)
    least, largest = values.min(), values.max()
    step = (np.float64(largest) - np.float64(least)) / (2**bits - 1)
    codes = np.zeros(values.size)
    if step > 0:
        codes = np.floor((values.astype(np.float64) - np.float64(least)) / step + 0.5)
    return struct.pack("<Bff", bits, least, largest) + codes.astype(f"<u{bits // 8}").tobytes()


TRITS = 3 ** np.arange(5)


def parse_ternary(section: bytes, k: int) -> tuple[np.float32, np.ndarray]:
    """Returns (scale, trits)."""
    reader = Reader(section)
    (scale,) = reader.array("<f4", 1)
    require(not np.signbit(scale), "the scale has a sign bit")
    numbers = reader.array("<u1", -(-k // 5))
    reader.end()
    require((numbers <= 242).all(), "a byte is not five trits")
    return scale, (numbers[:, None] // TRITS % 3).ravel()[:k]


def read_ternary(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    scale, trits = parse_ternary(section, k)
    scale = without_subnormals(scale)
    return np.float32([0, scale, -scale])[trits]


def write_ternary(values, seed=0, scale=None) -> bytes:
    """The section for this scale, that without `clip` if it is not given."""
    values = without_subnormals(values)
    scale = np.abs(values).max() if scale is None else np.float32(scale)
    unit = 2.0**24 / np.float64(scale) if scale > 0 else 0.0
    sent = np.minimum(np.floor(np.abs(values) * unit), 2.0**24) > noise(values.size, seed)
    trits = np.where(sent, np.where(values < 0, 2, 1), 0)
    trits = np.append(trits, np.zeros(-values.size % 5, np.int64)).reshape(-1, 5)
    return struct.pack("<f", scale) + (trits * TRITS).sum(axis=1).astype(np.uint8).tobytes()


def parse_sign(section: bytes, k: int) -> tuple[np.float32, np.float32, np.ndarray]:
    """Returns (mean, negative_mean, bits)."""
    reader = Reader(section)
    mean, negative_mean = reader.array("<f4", 2)
    require(mean >= 0 and negative_mean <= 0, "a mean of the other sign")
    bits = reader.packed(1, k)
    reader.end()
    return mean, negative_mean, bits


def read_sign(section: bytes, k: int, indices=None, seed=0) -> np.ndarray:
    mean, negative_mean, bits = parse_sign(section, k)
    return np.where(bits == 1, negative_mean, mean)


def write_sign(values, mean, negative_mean) -> bytes:
    """The section for these means."""
    return struct.pack("<ff", mean, negative_mean) + pack(np.asarray(values) < 0, 1)
