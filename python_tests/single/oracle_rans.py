""" "Adaptive models" and "rANS" of cc_ops/FORMAT.md, in Python integers."""

from oracle_wire import require

SCALE = 1 << 15
NUM_SYMBOLS = 16
FREE = SCALE - 8 * NUM_SYMBOLS


class Rate:
    def __init__(self, weight: int):
        self.seen = weight

    def next(self) -> int:
        shift = self.seen.bit_length()
        self.seen = min(self.seen + 1, 511)
        return shift


class Nibble:
    """A model of 16 symbols; `ratio` None for all alike."""

    def __init__(self, ratio: int | None = None):
        self.rate = Rate(1 if ratio is None else 16)
        share, shares = 1 << 16, []
        for _ in range(NUM_SYMBOLS - 1):
            shares.append(share)
            share = share * (ratio or 256) >> 8
        shares.append(share if ratio is None else share * 256 // (256 - ratio))
        self.starts = [(sum(shares[:i]) * FREE << 16) // sum(shares) for i in range(NUM_SYMBOLS)]

    def range(self, symbol: int) -> tuple[int, int]:
        start = (self.starts[symbol] >> 16) + 8 * symbol
        last = symbol == NUM_SYMBOLS - 1
        return start, (SCALE if last else (self.starts[symbol + 1] >> 16) + 8 * symbol + 8) - start

    def find(self, point: int) -> int:
        symbol = NUM_SYMBOLS - 1
        while (self.starts[symbol] >> 16) + 8 * symbol > point:
            symbol -= 1
        return symbol

    def learn(self, symbol: int) -> None:
        shift, above = self.rate.next(), FREE << 16
        low, high = self.starts[: symbol + 1], self.starts[symbol + 1 :]
        self.starts = [s + (-s >> shift) for s in low] + [s + (above - s >> shift) for s in high]


class Bit:
    def __init__(self):
        self.rate, self.zeros = Rate(1), SCALE // 2

    def range(self, bit: int) -> tuple[int, int]:
        return (self.zeros, SCALE - self.zeros) if bit else (0, self.zeros)

    def find(self, point: int) -> int:
        return int(point >= self.zeros)

    def learn(self, bit: int) -> None:
        self.zeros += ((32 if bit else SCALE - 32) - self.zeros) >> self.rate.next()
        self.zeros = min(max(self.zeros, 32), SCALE - 32)


class Encoder:
    def __init__(self):
        self.ranges = []

    def put(self, symbol: int, model) -> None:
        self.ranges.append(model.range(symbol))
        model.learn(symbol)

    def bits(self, value: int, num_bits: int) -> None:
        while num_bits > 0:
            size = min(num_bits, 15)
            self.ranges.append(((value % (1 << size)) << (15 - size), 1 << (15 - size)))
            value, num_bits = value >> size, num_bits - size

    def number(self, value: int) -> None:
        size = (value + 1).bit_length() - 1
        self.bits(size, 6)
        self.bits(value + 1 - (1 << size), size)

    def bytes(self) -> bytes:
        state, words = 1, []
        for start, frequency in reversed(self.ranges):
            if state >= frequency << 17:
                words.append(state & 0xFFFF)
                state >>= 16
            state = (state // frequency << 15) + state % frequency + start
        return state.to_bytes(4, "little") + b"".join(word.to_bytes(2, "little") for word in reversed(words))


class Decoder:
    def __init__(self, data: bytes):
        self.data, self.at = data, 4
        self.state = int.from_bytes(data[:4], "little") if len(data) >= 4 else 0

    def advance(self, start: int, frequency: int) -> None:
        self.state = frequency * (self.state >> 15) + self.state % SCALE - start
        if self.state < 1 << 16 and self.at + 2 <= len(self.data):
            self.state = self.state << 16 | int.from_bytes(self.data[self.at : self.at + 2], "little")
            self.at += 2

    def get(self, model) -> int:
        symbol = model.find(self.state % SCALE)
        self.advance(*model.range(symbol))
        model.learn(symbol)
        return symbol

    def bits(self, num_bits: int) -> int:
        value = shift = 0
        while num_bits > 0:
            size = min(num_bits, 15)
            part = self.state % SCALE >> (15 - size)
            self.advance(part << (15 - size), 1 << (15 - size))
            value |= part << shift
            num_bits, shift = num_bits - size, shift + size
        return value

    def number(self) -> int:
        size = self.bits(6)
        if size > 32:
            return 0
        return ((1 << size) + self.bits(size) - 1) % (1 << 32)

    def end(self) -> None:
        require(self.at == len(self.data) and self.state == 1, "the code does not end with its symbols")
