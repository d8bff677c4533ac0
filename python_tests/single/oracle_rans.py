""" "rANS and adaptive models" and "Parts" of cc_ops/FORMAT.md, in Python integers."""

from oracle_wire import Reader, require

SCALE = 1 << 12
NUM_SYMBOLS = 16
ONE = 32  # What a symbol adds to its count.
PART = 262144  # Items.


def parts_of(count: int) -> list[slice]:
    return [slice(at, min(at + PART, count)) for at in range(0, count, PART)]


def join_parts(parts: list[bytes]) -> bytes:
    return b"".join([len(part).to_bytes(4, "little") for part in parts[:-1]] + parts)


def take_parts(reader: Reader, count: int) -> list[tuple[slice, bytes]]:
    """The items of each part, and its code."""
    items = parts_of(count)
    sizes = [reader.u32() for _ in items[1:]]
    codes = [reader.take(size) for size in sizes]
    codes.append(reader.take(len(reader.data) - reader.at))
    return list(zip(items, codes, strict=True))


def num_lanes(count: int) -> int:
    return 1 if count < 8192 else 4


def first_state(lanes: int) -> int:
    return 1 if lanes == 1 else 1 << 16


class Nibble:
    """A model of 16 symbols; `ratio` None for all alike."""

    def __init__(self, ratio: int | None = None, weight: int = 2):
        share, shares = 1 << 16, []
        for _ in range(NUM_SYMBOLS - 1):
            shares.append(share)
            share = share * (ratio or 256) >> 8
        shares.append(share if ratio is None else share * 256 // (256 - ratio))
        self.counts = [each * weight * ONE // sum(shares) for each in shares]
        self.update()

    def update(self) -> None:
        if sum(self.counts) > 512 * ONE:
            self.counts = [count >> 1 for count in self.counts]
        total = sum(self.counts)
        scale = ((SCALE - NUM_SYMBOLS) << 16) // total
        self.starts = [(sum(self.counts[:i]) * scale >> 16) + i for i in range(NUM_SYMBOLS)] + [SCALE]
        self.left = min(max(total // (8 * ONE), 1), 64)

    def range(self, symbol: int) -> tuple[int, int]:
        return self.starts[symbol], self.starts[symbol + 1] - self.starts[symbol]

    def find(self, point: int) -> int:
        symbol = NUM_SYMBOLS - 1
        while self.starts[symbol] > point:
            symbol -= 1
        return symbol

    def learn(self, symbol: int) -> None:
        self.counts[symbol] += ONE
        self.left -= 1
        if self.left == 0:
            self.update()


class Bit:
    def __init__(self):
        self.seen, self.zeros = 1, 1 << 19

    def range(self, bit: int) -> tuple[int, int]:
        zeros = self.zeros >> 8
        return (zeros, SCALE - zeros) if bit else (0, zeros)

    def find(self, point: int) -> int:
        return int(point >= self.zeros >> 8)

    def learn(self, bit: int) -> None:
        goal = 1024 if bit else (1 << 20) - 1024
        self.zeros += (goal - self.zeros) >> self.seen.bit_length()
        self.seen = min(self.seen + 1, 511)


class Encoder:
    def __init__(self):
        self.ranges = []

    def put(self, symbol: int, model) -> None:
        self.ranges.append(model.range(symbol))
        model.learn(symbol)

    def bits(self, value: int, num_bits: int) -> None:
        while num_bits > 0:
            size = min(num_bits, 12)
            self.ranges.append(((value % (1 << size)) << (12 - size), 1 << (12 - size)))
            value, num_bits = value >> size, num_bits - size

    def number(self, value: int) -> None:
        size = (value + 1).bit_length() - 1
        self.bits(size, 6)
        self.bits(value + 1 - (1 << size), size)

    def bytes(self, lanes: int) -> bytes:
        states, words = [first_state(lanes)] * lanes, []
        for i in reversed(range(len(self.ranges))):
            (start, frequency), state = self.ranges[i], states[i % lanes]
            if state >= frequency << 20:
                words.append(state & 0xFFFF)
                state >>= 16
            states[i % lanes] = (state // frequency << 12) + state % frequency + start
        words.reverse()
        return b"".join([w.to_bytes(2, "little") for w in words] + [s.to_bytes(4, "little") for s in states])


class Decoder:
    def __init__(self, data: bytes, lanes: int):
        self.words, self.at, self.turn = [], 0, 0
        self.states, self.whole = [0] * lanes, len(data) % 2 == 0 and len(data) >= 4 * lanes
        if self.whole:
            numbers = [int.from_bytes(data[i : i + 2], "little") for i in range(0, len(data), 2)]
            self.words, last = numbers[: -2 * lanes], numbers[-2 * lanes :]
            self.states = [low | high << 16 for low, high in zip(last[::2], last[1::2], strict=True)]

    def point(self) -> int:
        return self.states[self.turn] % SCALE

    def advance(self, start: int, frequency: int) -> None:
        state = self.states[self.turn]
        state = (frequency * (state // SCALE) + state % SCALE - start) % (1 << 32)
        if state < 1 << 16 and self.at < len(self.words):
            state = state << 16 | self.words[self.at]
            self.at += 1
        self.states[self.turn] = state
        self.turn = (self.turn + 1) % len(self.states)

    def get(self, model) -> int:
        symbol = model.find(self.point())
        self.advance(*model.range(symbol))
        model.learn(symbol)
        return symbol

    def bits(self, num_bits: int) -> int:
        value = shift = 0
        while num_bits > 0:
            size = min(num_bits, 12)
            part = self.point() >> (12 - size)
            self.advance(part << (12 - size), 1 << (12 - size))
            value |= part << shift
            num_bits, shift = num_bits - size, shift + size
        return value

    def number(self) -> int:
        size = self.bits(6)
        if size > 32:
            return 0
        return ((1 << size) + self.bits(size) - 1) % (1 << 32)

    def end(self) -> None:
        first = first_state(len(self.states))
        done = self.whole and self.at == len(self.words) and all(state == first for state in self.states)
        require(done, "the code does not end with its symbols")
