"""The index section `rowcol` and the value section `ecsq` of cc_ops/FORMAT.md, in NumPy and integers."""

import math
import struct

import numpy as np
from oracle_rans import Bit, Decoder, Encoder, Nibble, join_parts, num_lanes, parts_of, take_parts
from oracle_wire import Reader, require

NUM_CLASSES = 16
NO_ELEMENTS = -1
RATIOS = [20, 75, 128, 165, 192, 211]


def class_of(count: int) -> int:
    return min((int(count) * 3 >> 1).bit_length(), NUM_CLASSES - 1)


def cells(indices, width: int, first_column: int):
    positions = np.asarray(indices, np.int64) + first_column
    return positions // width, positions % width


def num_rows(n: int, width: int, first_column: int) -> int:
    return -(-(first_column + n) // width)


def grid_classes(indices, n: int, width: int, first_column: int):
    rows, columns = cells(indices, width, first_column)
    return (
        [class_of(c) for c in np.bincount(rows, minlength=num_rows(n, width, first_column))],
        [class_of(c) for c in np.bincount(columns, minlength=width)],
    )


class Gaps:
    """The gaps of groups."""

    def __init__(self):
        self.models = [Nibble(ratio, 16) for ratio in RATIOS]
        self.scales, self.expected = Nibble(), 12

    def shape(self, half: int):
        shift = 0 if half < 6 else half // 2 - 2
        return shift, self.models[half - 2 * shift]

    def put(self, size: int, positions: list[int], coder: Encoder) -> None:
        if not positions:
            coder.put(15, self.scales)
            coder.bits(0, 6)
            return
        squared = (size / len(positions)) ** 2
        half = 0
        while half < 62 and squared > math.ldexp(1.4142135623730951, half):
            half += 1
        if abs(half - self.expected) <= 7:
            coder.put(half - self.expected + 7, self.scales)
        else:
            coder.put(15, self.scales)
            coder.bits(half + 1, 6)
        self.expected = half - 2
        shift, model = self.shape(half)
        after = 0
        ends = [*positions] if positions[-1] == size - 1 else [*positions, None]
        for position in ends:
            gap = -(-(size - after) >> shift) << shift if position is None else position - after
            high = gap >> shift
            for _ in range(high // 15):
                coder.put(15, model)
            coder.put(high % 15, model)
            coder.bits(gap % (1 << shift), shift)
            after = None if position is None else position + 1

    def get(self, size: int, most: int, coder: Decoder) -> list[int]:
        symbol = coder.get(self.scales)
        half = coder.bits(6) - 1 if symbol == 15 else min(symbol - 7 + self.expected, 62)
        if half < 0:
            return []
        self.expected = half - 2
        shift, model = self.shape(half)
        positions, escapes, at = [], most + 1, 0
        while True:
            high = 0
            while (symbol := coder.get(model)) == 15 and escapes:
                escapes -= 1
                high += 15
            require(escapes > 0, "too many escapes")
            at += (high + symbol << shift) | coder.bits(shift)
            if at >= size:
                return positions
            require(len(positions) < most, "more indices than k")
            positions.append(at)
            if at + 1 == size:
                return positions
            at += 1


def put_classes(classes: list[int], coder: Encoder) -> None:
    models = [Nibble() for _ in range(NUM_CLASSES)]
    for before, c in zip([0, *classes], classes, strict=False):
        coder.put(c, models[before])


def get_classes(count: int, coder: Decoder) -> list[int]:
    models, before, classes = [Nibble() for _ in range(NUM_CLASSES)], 0, []
    for _ in range(count):
        before = coder.get(models[before])
        classes.append(before)
    return classes


def group_cells(rows: list[int], columns: list[int]) -> dict[int, list[tuple[int, int]]]:
    """Row and column of the elements of each group that has any, in its order."""
    of_class = [[j for j, b in enumerate(columns) if b == c] for c in range(NUM_CLASSES)]
    groups: dict[int, list[tuple[int, int]]] = {}
    for i, a in enumerate(rows):
        for b in range(1, NUM_CLASSES):
            if a and of_class[b]:
                groups.setdefault(a + b, []).extend((i, j) for j in of_class[b])
    return dict(sorted(groups.items()))


def may_pay(n: int, k: int, width: int, first_column: int) -> bool:
    return 1 < width < n and num_rows(n, width, first_column) + width <= 8 * k


def write_rowcol_part(indices, n: int, width: int, first_column: int) -> bytes:
    coder = Encoder()
    coder.number(width)
    gaps = Gaps()
    if width == 0:
        gaps.put(n, [int(i) for i in indices], coder)
        return coder.bytes(num_lanes(len(indices)))
    coder.number(first_column)
    rows, columns = grid_classes(indices, n, width, first_column)
    put_classes(columns, coder)
    put_classes(rows, coder)
    chosen = set(zip(*(part.tolist() for part in cells(indices, width, first_column)), strict=True))
    for members in group_cells(rows, columns).values():
        gaps.put(len(members), [i for i, cell in enumerate(members) if cell in chosen], coder)
    return coder.bytes(num_lanes(len(indices)))


def read_rowcol_part(code: bytes, n: int, k: int) -> list[int]:
    coder = Decoder(code, num_lanes(k))
    width = coder.number()
    if width == 0:
        indices = Gaps().get(n, k, coder)
    else:
        first_column = coder.number()
        require(may_pay(n, k, width, first_column) and first_column < width, "a grid that does not pay")
        columns = get_classes(width, coder)
        rows = get_classes(num_rows(n, width, first_column), coder)
        gaps, indices = Gaps(), []
        for members in group_cells(rows, columns).values():
            for position in gaps.get(len(members), k - len(indices), coder):
                row, column = members[position]
                indices.append(row * width + column - first_column)
        require(all(0 <= i < n for i in indices), "an index is outside")
    require(len(indices) == k, "other than k indices")
    coder.end()
    return sorted(indices)


def write_rowcol(indices, n: int, width: int = 0, first_column: int = 0) -> bytes:
    """The section of a vector, or of a matrix where a width is given."""
    indices = np.asarray(indices, np.int64)
    items = parts_of(indices.size)
    bounds = [0, *(int(indices[part.start]) for part in items[1:]), n]
    parts = [
        write_rowcol_part(indices[part] - begin, end - begin, width, (first_column + begin) % max(width, 1))
        for part, begin, end in zip(items, bounds[:-1], bounds[1:], strict=True)
    ]
    return np.array(bounds[1:-1], "<u4").tobytes() + join_parts(parts)


def read_rowcol(section: bytes, n: int, k: int, seed: int = 0) -> np.ndarray:
    require(len(section) >= max(4, k // 1600), "a nibble takes a 1514th of a byte")
    reader = Reader(section)
    bounds = [0, *reader.array("<u4", len(parts_of(k)) - 1).tolist(), n]
    require(
        all(begin < end for begin, end in zip(bounds[:-1], bounds[1:], strict=True)), "bounds that descend"
    )
    indices = []
    for i, (items, code) in enumerate(take_parts(reader, k)):
        part = read_rowcol_part(code, bounds[i + 1] - bounds[i], items.stop - items.start)
        indices += [bounds[i] + index for index in part]
    return np.array(indices, np.int64)


class Signs:
    """Models of signs by those of the row and the column of an element so far."""

    def __init__(self, width: int):
        self.models, self.columns = [Bit() for _ in range(3)], [0] * width
        self.row, self.elements, self.agreement = 0, [], 0

    def expected(self, row: int, column: int):
        """The model of an element's sign, and whether a negative one is expected."""
        if row != self.row:
            for other, sign in self.elements:
                self.columns[other] += -sign if self.agreement < 0 else sign
            self.row, self.elements, self.agreement = row, [], 0
        vote = self.agreement * self.columns[column]
        return self.models[int(vote != 0) + int(abs(vote) > 4)], vote < 0

    def learn(self, column: int, sign: int) -> None:
        self.agreement += int(np.sign(self.columns[column])) * sign
        self.elements.append((column, sign))


def ecsq_contexts(indices, n: int, width: int, first_column: int):
    """Yields (element, level model, sign model, expected sign), and is sent the sign: -1, 0 or 1."""
    levels = [Nibble(192, 4) for _ in range(2 * NUM_CLASSES - 1)]
    signs = Signs(width)
    if width == 0:
        for i in range(len(indices)):
            yield i, levels[0], signs.models[0], False
        return
    row_classes, column_classes = grid_classes(indices, n, width, first_column)
    for i, (r, c) in enumerate(zip(*cells(indices, width, first_column), strict=True)):
        sign = yield i, levels[row_classes[r] + column_classes[c]], *signs.expected(r, c)
        signs.learn(c, sign)


def read_quantizer(header: bytes):
    """The least magnitude, the step, the place in a step, and whether there is a dead zone."""
    least, step = (int.from_bytes(header[at : at + 2], "little") for at in (0, 2))
    center = np.float32(header[4]) / np.float32(256)
    return from_bfloat16(least & 0x7FFF), from_bfloat16(step), center, least >> 15


def write_ecsq(values, indices, header: bytes, width: int = 0, first_column: int = 0) -> bytes:
    """The section of these values; `header` has the least magnitude, the step and the center."""
    values, quantizer = np.asarray(values, np.float32), read_quantizer(header)
    parts = [
        write_ecsq_part(values[items], np.asarray(indices)[items], quantizer, width, first_column)
        for items in parts_of(values.size)
    ]
    return header + join_parts(parts)


def write_ecsq_part(values, indices, quantizer, width: int, first_column: int) -> bytes:
    least, step, _, dead = quantizer
    coder, lengths = Encoder(), Nibble()
    coder.number(width)
    coder.number(first_column)
    contexts, sent = ecsq_contexts(indices, int(indices[-1]) + 1, width, first_column), None
    for value in values:
        _, levels, signs, expected = contexts.send(sent)
        level = int(min((abs(value) - least) / step + np.float32(dead), np.float32(1 << 15)))
        coder.put(min(level, 15), levels)
        if level >= 15:
            size = (level - 14).bit_length() - 1
            coder.put(size, lengths)
            coder.bits(level - 14 - (1 << size), size)
        sent = 0
        if level >= dead:
            sent = -1 if value < 0 else 1
            coder.put(int((sent < 0) != expected), signs)
    return coder.bytes(num_lanes(len(values)))


def from_bfloat16(bits: int) -> np.float32:
    return np.frombuffer(struct.pack("<I", bits << 16), np.float32)[0]


LARGEST = from_bfloat16(0x7F7F)


def read_ecsq(section: bytes, k: int, indices=None, seed: int = 0) -> np.ndarray:
    reader = Reader(section)
    quantizer = read_quantizer(reader.take(5))
    least, step = quantizer[:2]
    require(0 <= least <= LARGEST and np.float32(2.0**-100) <= step <= LARGEST, "steps out of range")
    values = []
    for items, code in take_parts(reader, k):
        count = items.stop - items.start
        part = np.arange(count) if indices is None else np.asarray(indices)[items]
        values.append(read_ecsq_part(code, count, part, quantizer))
    return np.concatenate(values)


def read_ecsq_part(code: bytes, k: int, indices, quantizer) -> np.ndarray:
    least, step, center, dead = quantizer
    coder = Decoder(code, num_lanes(k))
    width, first_column = coder.number(), coder.number()
    n = int(indices[-1]) + 1
    require(width <= n and (width == 0 or first_column < width), "a grid out of range")
    values, lengths = np.zeros(k, np.float32), Nibble()
    contexts = ecsq_contexts(indices, n, width, first_column)
    sent = None
    with np.errstate(over="ignore"):
        for _ in range(k):
            i, levels, signs, expected = contexts.send(sent)
            level = coder.get(levels)
            if level == 15:
                size = coder.get(lengths)
                level = 14 + (1 << size) + coder.bits(size)
            sent = 0
            if level >= dead:
                sent = -1 if bool(coder.get(signs)) != expected else 1
                values[i] = sent * min(least + (np.float32(level - dead) + center) * step, LARGEST)
    coder.end()
    return values
