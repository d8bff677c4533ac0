"""Ascending keys as distances: "Delta bytes", "Prefixed deltas" and what uses them in cc_ops/FORMAT.md."""

from collections import Counter

import numpy as np
from oracle_entropy import (
    bits_of,
    canonical_words,
    decoded_words,
    huffman_lengths,
    read_code_blocks,
    read_lengths,
    write_code_blocks,
    write_lengths,
)
from oracle_wire import Reader, pack, require

DELTA_BLOCK = 65536


def check_indices(indices: np.ndarray, n: int) -> np.ndarray:
    require((np.diff(indices) > 0).all(), "indices do not increase")
    require(indices.size == 0 or (indices[0] >= 0 and indices[-1] < n), "an index reaches n")
    return indices


def read_delta_bytes(reader: Reader, k: int) -> np.ndarray:
    num_bytes = reader.packed(2, k, zero_tail=True) + 1
    payload = np.frombuffer(reader.take(int(num_bytes.sum())), np.uint8).astype(np.int64)
    starts = np.cumsum(num_bytes) - num_bytes
    deltas = np.zeros(k, np.int64)
    for byte in range(4):
        has = num_bytes > byte
        deltas[has] += payload[starts[has] + byte] << (8 * byte)
    keys = [np.cumsum(deltas[at : at + DELTA_BLOCK]) for at in range(0, k, DELTA_BLOCK)]
    return np.concatenate([np.zeros(0, np.int64), *keys])


def write_delta_bytes(keys, extra_bytes: int = 0) -> bytes:
    """Codes ascending keys; with up to `extra_bytes` more bytes a delta than the encoder's fewest."""
    keys = np.asarray(keys, np.int64)
    deltas = np.diff(keys, prepend=0)
    deltas[::DELTA_BLOCK] = keys[::DELTA_BLOCK]
    num_bytes = [min(4, max(1, -(-int(delta).bit_length() // 8)) + extra_bytes) for delta in deltas]
    payload = b"".join(int(d).to_bytes(size, "little") for d, size in zip(deltas, num_bytes, strict=True))
    return pack(np.array(num_bytes, np.int64) - 1, 2) + payload


def fixed_words(num_bits: int) -> dict[int, str]:
    return {c: format(c, f"0{num_bits}b") for c in range(2**num_bits)}


def class_of(delta: int, widths: list[int]) -> int:
    return next(c for c, width in enumerate(widths) if delta < 2**width)


def deltas_of(keys) -> list[int]:
    return np.diff(np.asarray(keys, np.int64), prepend=0).tolist()


def write_prefixed_deltas(keys, words: dict[int, str], widths: list[int]) -> bytes:
    def item(delta: int) -> str:
        c = class_of(delta, widths)
        return words[c] + bits_of(delta, widths[c])

    keys = np.asarray(keys, np.int64)
    last_keys = keys[DELTA_BLOCK - 1 : -1 : DELTA_BLOCK]
    return last_keys.astype("<u4").tobytes() + write_code_blocks([item(delta) for delta in deltas_of(keys)])


def read_prefixed_deltas(reader: Reader, k: int, words: dict[int, str], widths: list[int]) -> np.ndarray:
    last_keys = reader.array("<u4", (k - 1) // DELTA_BLOCK)
    classes = decoded_words(words)
    deltas = read_code_blocks(reader, k, lambda bits: bits.number(widths[bits.word(classes)]))
    keys = np.cumsum(np.array(deltas, np.int64))
    require((keys[DELTA_BLOCK - 1 : -1 : DELTA_BLOCK] == last_keys).all(), "a block has another last key")
    return keys


# Adaptive deltas


def interval_widths(m: int) -> list[int]:
    return [(c + 1) * 32 // m for c in range(m)]


def write_adaptive_deltas(keys, kinds=range(8)) -> bytes:
    """The cheapest of the kinds; encoders ask for all eight."""
    if not len(keys):
        return b""
    candidates = []
    for kind in kinds:
        m, huffman = 2 << kind % 4, kind >= 4
        widths, words, lengths = interval_widths(m), fixed_words(kind % 4 + 1), b""
        counts = Counter(class_of(delta, widths) for delta in deltas_of(keys))
        if huffman:
            code = huffman_lengths([counts[c] for c in range(m)])
            words, lengths = canonical_words(code), write_lengths(code)
        cost = sum(count * (len(words[c]) + widths[c]) for c, count in counts.items()) + 8 * len(lengths)
        candidates.append(((cost, m, huffman), bytes([kind]) + lengths, words, widths))
    _, head, words, widths = min(candidates, key=lambda candidate: candidate[0])
    return head + write_prefixed_deltas(keys, words, widths)


def read_adaptive_deltas(reader: Reader, k: int) -> np.ndarray:
    if k == 0:
        return np.zeros(0, np.int64)
    kind = reader.u8()
    require(kind < 8, "unknown kind of deltas")
    m = 2 << kind % 4
    words = canonical_words(read_lengths(reader, m)) if kind >= 4 else fixed_words(kind % 4 + 1)
    return read_prefixed_deltas(reader, k, words, interval_widths(m))


# The flags of FastSGD


def flag_widths(flag_bits: int, largest_bits: int) -> list[int]:
    return [-(-(c + 1) * largest_bits // 2**flag_bits) for c in range(2**flag_bits)]


def write_flagged_deltas(keys, flag_bits: int = 2) -> bytes:
    if not len(keys):
        return b""
    largest_bits = max(1, max(deltas_of(keys)).bit_length())
    words, widths = fixed_words(flag_bits), flag_widths(flag_bits, largest_bits)
    return bytes([flag_bits, largest_bits]) + write_prefixed_deltas(keys, words, widths)


def read_flagged_deltas(reader: Reader, k: int) -> np.ndarray:
    if k == 0:
        return np.zeros(0, np.int64)
    flag_bits, largest_bits = reader.u8(), reader.u8()
    require(1 <= flag_bits <= 5 and 1 <= largest_bits <= 32, "flag or largest delta out of range")
    return read_prefixed_deltas(reader, k, fixed_words(flag_bits), flag_widths(flag_bits, largest_bits))
