"""What is particular to `rle`, `huffman`, `delta_adaptive` and `delta_flag`, against their oracles."""

import heapq
import operator
import struct

import numpy as np
import oracle_deltas
import oracle_entropy
import oracle_index
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_entropy import rice, write_code_blocks
from oracle_inputs import assert_same_bits, property_test, same_indices, supports

from tfcompress import _core


class TestChoices:
    """What encoders choose, and what decoders take beside it."""

    @given(support=supports(), flag_bits=st.integers(1, 5))
    @property_test
    def test_flags_of_any_length(self, support, flag_bits):
        n, indices = support
        section, _ = _core.encode_indices(f"delta_flag:flag_bits={flag_bits}", indices, n)
        assert section == oracle_index.write_delta_flag(indices, n, flag_bits)
        assert oracle_index.read_delta_flag(section, n, indices.size).tolist() == indices.tolist()
        assert_same_bits(_core.decode_indices("delta_flag", section, n, indices.size), indices)

    @pytest.mark.parametrize("kind", range(8))
    @given(support=supports())
    @property_test
    def test_every_kind_of_adaptive_deltas_is_read(self, kind, support):
        n, indices = support
        section = oracle_deltas.write_adaptive_deltas(indices, [kind])
        assert_same_bits(_core.decode_indices("delta_adaptive", section, n, indices.size), indices)
        assert oracle_index.read_delta_adaptive(section, n, indices.size).tolist() == indices.tolist()

    @given(
        count=st.integers(1, 200), seed=st.integers(0, 2**32), sizes=st.lists(st.integers(1, 20), min_size=1)
    )
    @settings(property_test, max_examples=150)
    def test_cheapest_kind_of_adaptive_deltas(self, count, seed, sizes):
        """Deltas that fill their bits: of few sizes, each kind is the cheapest somewhere."""
        rng = np.random.default_rng(seed)
        indices = np.cumsum(2 ** rng.choice(sizes, count) - 1)
        indices = indices[indices < 2**31 - 1].astype(np.uint32)
        section, _ = _core.encode_indices("delta_adaptive", indices, 2**31 - 1)
        assert section == oracle_deltas.write_adaptive_deltas(indices)

    def test_fewer_classes_come_before_no_code(self):
        """Eight classes with Huffman words take as many bits as 16 without."""
        indices = np.cumsum([31] * 7 + [4095] * 3).astype(np.uint32)
        section, _ = _core.encode_indices("delta_adaptive", indices, 20000)
        assert section == oracle_deltas.write_adaptive_deltas(indices)
        assert section[0] == 6
        assert len(section) == len(oracle_deltas.write_adaptive_deltas(indices, [3]))

    @given(n=st.one_of(st.integers(1, 5000), st.integers(1, 2**31 - 1)), data=st.data())
    @property_test
    def test_huffman_words_of_any_n(self, n, data):
        indices = np.unique(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20)))
        section, _ = _core.encode_indices("huffman", indices.astype(np.uint32), n)
        assert section == oracle_index.write_huffman(indices, n)


class TestDamage:
    @pytest.mark.parametrize("name", ["rle", "huffman", "delta_adaptive", "delta_flag"])
    def test_damage_at_the_border_of_blocks(self, name):
        """Lengths and keys of blocks, the last bits of a block, and too many or too few bytes."""
        indices = np.cumsum(np.random.default_rng(1).integers(2, 9, 65536 + 1)).astype(np.uint32)
        n = int(indices[-1]) + 1
        section = oracle_index.INDEX_WRITERS[name](indices, n)
        for at, mask in [(0, 1), (3, 1), (9, 1), (-2, 128), (-1, 128), (None, 0)]:
            changed = bytearray(section[:-1] if at is None else section)
            changed[at or 0] ^= mask
            same_indices(name, bytes(changed), n, indices.size)

    @pytest.mark.parametrize("zero_bits", [0, 31, 32])
    @pytest.mark.parametrize("one_bits", [0, 31, 32])
    def test_parameters_of_rice_codes(self, zero_bits, one_bits):
        section = struct.pack("<IBB", 1, zero_bits, one_bits)
        section += write_code_blocks([rice(4, zero_bits) + rice(0, one_bits)])
        assert same_indices("rle", section, 7, 1) == (max(zero_bits, one_bits) < 32)

    @pytest.mark.parametrize("num_runs", range(4))
    def test_number_of_runs(self, num_runs):
        section = struct.pack("<IBB", num_runs, 0, 0) + write_code_blocks(["11"] * num_runs)
        assert same_indices("rle", section, 9, 2) == (num_runs == 2)

    @pytest.mark.parametrize("flag_bits", [0, 1, 5, 6])
    @pytest.mark.parametrize("largest_bits", [0, 1, 32, 33])
    def test_bits_of_flags_and_of_the_largest_delta(self, flag_bits, largest_bits):
        words = oracle_deltas.fixed_words(flag_bits)
        widths = oracle_deltas.flag_widths(flag_bits, largest_bits)
        deltas = oracle_deltas.write_prefixed_deltas([0], words, widths)
        inside = 1 <= flag_bits <= 5 and 1 <= largest_bits <= 32
        assert same_indices("delta_flag", bytes([flag_bits, largest_bits]) + deltas, 7, 1) == inside

    def test_kinds_of_adaptive_deltas(self):
        for kind in range(256):
            deltas = oracle_deltas.write_adaptive_deltas([3, 5], [kind % 8])[1:]
            assert same_indices("delta_adaptive", bytes([kind]) + deltas, 7, 2) == (kind < 8)

    def test_blocks_are_as_long_as_their_codes(self):
        indices = np.arange(65536 + 1, dtype=np.uint32)
        section, _ = _core.encode_indices("huffman", indices, indices.size)
        size = int.from_bytes(section[:4], "little")
        block, rest = section[4 : 4 + size], section[4 + size :]
        assert same_indices("huffman", section, indices.size, indices.size)
        longer = (size + 1).to_bytes(4, "little") + block + b"\0" + rest
        assert not same_indices("huffman", longer, indices.size, indices.size)


class TestEntropyCodes:
    """The oracle itself, where another way of counting says the same."""

    @given(
        counts=st.lists(st.integers(0, 1000), min_size=2, max_size=12).filter(lambda c: sum(map(bool, c)) > 1)
    )
    @property_test
    def test_lengths_cost_what_a_heap_of_trees_costs(self, counts):
        """The sum of the inner nodes; 12 symbols need no word of more than 11 bits."""
        heap = [count for count in counts if count]
        heapq.heapify(heap)
        cost = 0
        while len(heap) > 1:
            node = heapq.heappop(heap) + heapq.heappop(heap)
            heapq.heappush(heap, node)
            cost += node
        lengths = oracle_entropy.huffman_lengths(counts)
        assert sum(map(operator.mul, counts, lengths)) == cost

    def test_words_are_limited(self):
        """Classes of deltas that are as frequent as the Fibonacci numbers ask for words of 15 bits."""
        counts = [1, 1]
        while len(counts) < 16:
            counts.append(sum(counts[-2:]))
        lengths = oracle_entropy.huffman_lengths(counts[::-1])
        assert max(lengths) == 12
        assert sum(2.0**-length for length in lengths) == 1
        indices = np.cumsum(np.repeat(4 ** np.arange(16), counts[::-1])).astype(np.uint32)
        section, _ = _core.encode_indices("delta_adaptive", indices, 2**31 - 1)
        assert section == oracle_deltas.write_adaptive_deltas(indices)
        assert section[1:].startswith(oracle_entropy.write_lengths(lengths))
