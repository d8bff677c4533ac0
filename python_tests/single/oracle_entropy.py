""" "Code blocks", "Huffman codes" and the codes of single numbers of cc_ops/FORMAT.md, in NumPy.

Bits are strings of 0 and 1 in the order in which they stand in a section.
"""

from collections.abc import Callable

import numpy as np
from oracle_wire import Reader, num_bits_of, require


def bits_of(number: int, num_bits: int) -> str:
    """The low bits of a number, least significant first."""
    return format(number % 2**num_bits, f"0{num_bits}b")[::-1] if num_bits else ""


def to_bytes(bits: str) -> bytes:
    return np.packbits(np.frombuffer(bits.encode(), np.uint8) - ord("0"), bitorder="little").tobytes()


class BitReader:
    """Takes bits off the rest of a section."""

    def __init__(self, reader: Reader):
        rest = np.frombuffer(reader.data[reader.at :], np.uint8)
        self.reader, self.at = reader, 0
        self.bits = (np.unpackbits(rest, bitorder="little") + ord("0")).tobytes().decode()

    def take(self, num_bits: int) -> str:
        require(self.at + num_bits <= len(self.bits), "bits end early")
        self.at += num_bits
        return self.bits[self.at - num_bits : self.at]

    def number(self, num_bits: int) -> int:
        return int("0" + self.take(num_bits)[::-1], 2)

    def zeros(self) -> int:
        """The number of zeros before a one, which is taken with them."""
        count = self.bits.find("1", self.at) - self.at
        require(count >= 0, "bits end early")
        self.at += count + 1
        return count

    def word(self, symbols: dict[str, int]) -> int:
        for size in range(1, 17):
            if (symbol := symbols.get(self.bits[self.at : self.at + size])) is not None:
                self.at += size
                return symbol
        require(False, "no word of the code")

    def end(self) -> None:
        """Takes zeros up to a whole byte, and these bytes off the section."""
        require("1" not in self.take(-self.at % 8), "a bit after the last is set")
        self.reader.take(self.at // 8)


def rice(number: int, r: int) -> str:
    return "0" * (number >> r) + "1" + bits_of(number, r)


def read_rice(bits: BitReader, r: int) -> int:
    return (bits.zeros() << r) + bits.number(r)


def gamma(number: int) -> str:
    size = number.bit_length() - 1
    return "0" * size + "1" + bits_of(number, size)


def read_gamma(bits: BitReader) -> int:
    size = bits.zeros()
    return (1 << size) + bits.number(size)


# Code blocks

CODE_BLOCK = 65536


def write_code_blocks(items: list[str]) -> bytes:
    blocks = [to_bytes("".join(items[at : at + CODE_BLOCK])) for at in range(0, len(items), CODE_BLOCK)]
    return b"".join([len(block).to_bytes(4, "little") for block in blocks[:-1]] + blocks)


def read_code_blocks(reader: Reader, count: int, read_item: Callable) -> list:
    starts = range(0, count, CODE_BLOCK)
    sizes = [reader.u32() for _ in starts[1:]]
    items = []
    for at in starts:
        block = Reader(reader.take(sizes[at // CODE_BLOCK])) if at != starts[-1] else reader
        bits = BitReader(block)
        items += [read_item(bits) for _ in range(min(CODE_BLOCK, count - at))]
        bits.end()
        if block is not reader:
            block.end()
    return items


# Huffman codes


def huffman_lengths(counts) -> list[int]:
    """The lengths "From counts": package-merge, where an item is (count, the symbols in it)."""
    limit = min(16, max(12, num_bits_of(len(counts)) + 2))
    leaves = [(int(count), [symbol]) for symbol, count in enumerate(counts) if count]
    leaves.sort(key=lambda item: item[0])
    items = leaves
    for _ in range(limit - 1):
        pairs = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(items[::2], items[1::2], strict=False)]
        items = sorted(leaves + pairs, key=lambda item: item[0])
    lengths = [0] * len(counts)
    if len(leaves) == 1:
        lengths[leaves[0][1][0]] = 1
    for _, symbols in items[: 2 * len(leaves) - 2]:
        for symbol in symbols:
            lengths[symbol] += 1
    return lengths


def canonical_words(lengths: list[int]) -> dict[int, str]:
    """The word of each symbol that has one."""
    words, code, before = {}, 0, 0
    for size, symbol in sorted((size, symbol) for symbol, size in enumerate(lengths) if size):
        code <<= size - before
        words[symbol] = format(code, f"0{size}b")
        code, before = code + 1, size
    return words


def decoded_words(words: dict[int, str]) -> dict[str, int]:
    """The symbol of each word, and of the other word where a symbol is alone."""
    symbols = {word: symbol for symbol, word in words.items()}
    return symbols if len(symbols) > 1 else dict.fromkeys("01", *words)


def write_lengths(lengths: list[int]) -> bytes:
    bits, before, at = "", -1, 0
    while at < len(lengths):
        size = lengths[at]
        count = next((i for i, other in enumerate(lengths[at:]) if other != size), len(lengths) - at)
        bits += str(int(size < before)) + gamma(abs(size - before)) + gamma(count)
        before, at = size, at + count
    return to_bytes(bits)


def read_lengths(reader: Reader, m: int) -> list[int]:
    bits = BitReader(reader)
    lengths, size = [], -1
    while len(lengths) < m:
        down = bits.number(1)
        step = read_gamma(bits)
        size += -step if down else step
        count = read_gamma(bits)
        require(0 <= size <= 16 and len(lengths) + count <= m, "lengths out of range")
        lengths += [size] * count
    bits.end()
    words = [size for size in lengths if size]
    require(words == [1] or sum(2 ** (16 - size) for size in words) == 2**16, "words are left or missing")
    return lengths
