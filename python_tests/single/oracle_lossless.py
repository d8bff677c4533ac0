"""The value section `lossless` of cc_ops/FORMAT.md, in NumPy and integers."""

import numpy as np
from oracle_entropy import BitReader, bits_of, to_bytes
from oracle_rans import Bit, Decoder, Encoder, Nibble, join_parts, num_lanes, parts_of, take_parts
from oracle_rowcol import Signs, cells
from oracle_wire import Reader, num_bits_of, require

RAW = 255
MANTISSA = 23
REST = 19  # Bits of a mantissa that no model codes.
ZERO, FAR = 15, 14  # Symbols of distances.
MOST = 20


class Distances:
    """Models of the distances of exponents from the largest, by what is expected."""

    def __init__(self, width: int):
        self.models = [Nibble(192, 4) for _ in range(MOST + 1)]
        self.columns, self.before, self.row, self.deviation = [None] * width, 48, 0, 0

    def expected(self, row: int, column: int) -> Nibble:
        if row != self.row:
            self.row, self.deviation = row, 0
        if self.columns[column] is None:
            self.columns[column] = self.before
        expected = min(max(self.columns[column] + self.deviation, 0), 16 * MOST)
        return self.models[(expected + 8) // 16]

    def learn(self, column: int, distance: int | None) -> None:
        """Learns a distance, or None for a zero."""
        distance = MOST if distance is None else min(distance, MOST)
        difference = 16 * distance - self.columns[column]
        self.deviation += (difference - self.deviation) >> 3
        self.columns[column] += difference >> 3
        self.before = self.columns[column]


class Models:
    """All that a part's coder learns, and what its header says."""

    def __init__(self, width: int, header: bytes):
        self.largest, self.dropped, self.unit = header
        self.distances, self.signs, self.zero_signs = Distances(width), Signs(width), Bit()
        self.high, self.low, self.mantissas = Nibble(), Nibble(), [Nibble() for _ in range(FAR + 1)]

    def num_rest_bits(self, exponent: int) -> int:
        return max(REST - max(self.dropped, self.unit - max(exponent, 1)), 0)


def positions(indices, width: int, first_column: int):
    """Row and column of each element; without a width they stand one below the other."""
    if width == 0:
        return ((i, 0) for i in range(len(indices)))
    rows, columns = cells(indices, width, first_column)
    return zip(rows.tolist(), columns.tolist(), strict=True)


def header_of(bits: list[int]) -> bytes:
    """The largest exponent, the zeros at the ends of all mantissas, and the unit of all values."""
    magnitudes = [each & 0x7FFFFFFF for each in bits if each & 0x7FFFFFFF]
    exponents = [each >> MANTISSA for each in magnitudes]
    mantissas = [each % (1 << MANTISSA) for each in magnitudes]
    dropped = min([zeros_at_end(m) for m in mantissas if m], default=MANTISSA)
    units = [
        max(e, 1) + zeros_at_end(m + (1 << MANTISSA if e else 0))
        for e, m in zip(exponents, mantissas, strict=True)
    ]
    return bytes([max(exponents, default=0), dropped, min([*units, 255])])


def zeros_at_end(number: int) -> int:
    return (number & -number).bit_length() - 1


def num_length_bytes(count: int) -> int:
    return -(-num_bits_of(-(-REST * count // 8) + 1) // 8)


def write_part(values: np.ndarray, indices, width: int, first_column: int) -> bytes:
    raw = bytes([RAW]) + values.tobytes()
    numbers = values.view(np.uint32).tolist()
    header = header_of(numbers)
    models, coder, rest = Models(max(width, 1), header), Encoder(), []
    coder.number(width)
    coder.number(first_column)
    for number, (row, column) in zip(numbers, positions(indices, width, first_column), strict=True):
        magnitude, negative, distance = number & 0x7FFFFFFF, number >> 31, None
        model, expects_negative = models.signs.expected(row, column)
        distances = models.distances.expected(row, column)
        if magnitude == 0:
            coder.put(ZERO, distances)
            coder.put(negative, models.zero_signs)
        else:
            exponent, mantissa = magnitude >> MANTISSA, magnitude % (1 << MANTISSA)
            distance = models.largest - exponent
            coder.put(min(distance, FAR), distances)
            if distance >= FAR:
                coder.put((distance - FAR) // 16, models.high)
                coder.put((distance - FAR) % 16, models.low)
            coder.put(mantissa >> REST, models.mantissas[min(distance, FAR)])
            size = models.num_rest_bits(exponent)
            rest.append(bits_of(mantissa % (1 << REST) >> (REST - size), size))
            coder.put(int(bool(negative) != expects_negative), model)
        models.distances.learn(column, distance)
        models.signs.learn(column, 0 if magnitude == 0 else 1 - 2 * negative)
    apart = to_bytes("".join(rest)) if any(rest) else b""
    length = len(apart).to_bytes(num_length_bytes(len(numbers)), "little")
    coded = header + length + apart + coder.bytes(num_lanes(len(numbers)))
    return min(coded, raw, key=len)


def read_part(data: bytes, count: int, indices) -> np.ndarray:
    reader = Reader(data)
    largest = reader.u8()
    if largest == RAW:
        values = reader.array("<f4", count)
        reader.end()
        return values
    header = bytes([largest]) + reader.take(2)
    require(header[1] <= MANTISSA, "more zeros than a mantissa has")
    apart = Reader(reader.take(int.from_bytes(reader.take(num_length_bytes(count)), "little")))
    coder, rest = Decoder(reader.data[reader.at :], num_lanes(count)), BitReader(apart)
    width, first_column = coder.number(), coder.number()
    n = int(indices[-1]) + 1
    require(width <= n and (width == 0 or first_column < width), "a grid out of range")
    models, numbers = Models(max(width, 1), header), []
    for row, column in positions(indices, width, first_column):
        model, expects_negative = models.signs.expected(row, column)
        symbol = distance = coder.get(models.distances.expected(row, column))
        if symbol == ZERO:
            magnitude, distance = 0, None
        else:
            if symbol == FAR:
                high = coder.get(models.high)
                distance = FAR + 16 * high + coder.get(models.low)
            require(distance <= largest, "an exponent below 0")
            exponent = largest - distance
            mantissa = coder.get(models.mantissas[symbol]) << REST
            size = models.num_rest_bits(exponent)
            magnitude = exponent << MANTISSA | mantissa | rest.number(size) << (REST - size)
        if magnitude == 0:
            negative = coder.get(models.zero_signs)
        else:
            negative = int(bool(coder.get(model)) != expects_negative)
        numbers.append(negative << 31 | magnitude)
        models.distances.learn(column, None if magnitude == 0 else distance)
        models.signs.learn(column, 0 if magnitude == 0 else 1 - 2 * negative)
    rest.end()
    apart.end()
    coder.end()
    return np.array(numbers, np.uint32).view(np.float32)


def width_for(count: int, width: int) -> int:
    """The width that encoders take for `count` values of whole rows: none where few are to pay for it."""
    return width if count >= 64 and width > 1 else 0


def write_lossless(values, indices=None, width: int = 0, first_column: int = 0) -> bytes:
    """The section of these values, with this width in every part."""
    values, parts = np.asarray(values, np.float32), []
    for items in parts_of(values.size):
        part = values[items]
        if indices is None:
            column = (first_column + items.start) % width if width else 0
            parts.append(write_part(part, np.arange(part.size), width, column))
        else:
            parts.append(write_part(part, indices[items], width, first_column))
    return join_parts(parts)


def read_lossless(section: bytes, k: int, indices=None, seed: int = 0) -> np.ndarray:
    values = []
    for items, code in take_parts(Reader(section), k):
        count = items.stop - items.start
        part = np.arange(count) if indices is None else np.asarray(indices)[items]
        values.append(read_part(code, count, part))
    return np.concatenate(values)
