"""Every index codec against its oracle, both ways where possible."""

import numpy as np
import oracle_deltas
import oracle_index
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_inputs import SEEDS, assert_same_bits, damages, property_test, same_indices, supports

from tfcompress import _core

BLOOM_PARTS = st.tuples(st.sampled_from(oracle_index.POLICIES), st.sampled_from([0.9, 0.5, 0.1, 0.01, 1e-9]))


def test_every_codec_has_an_oracle():
    assert oracle_index.INDEX_IDS == {row["name"]: row["id"] for row in _core.registry("index_codecs")}


class TestIndices:
    @pytest.mark.parametrize("name", oracle_index.INDEX_WRITERS)
    @given(data=st.data())
    @property_test
    def test_lossless_bytes_are_the_same_both_ways(self, name, data):
        n, indices = data.draw(supports(70001 if name == "bitmap" else 2**31 - 1))
        section, decoded = _core.encode_indices(name, indices, n)
        assert section == oracle_index.INDEX_WRITERS[name](indices, n)
        assert_same_bits(decoded, indices)
        assert_same_bits(_core.decode_indices(name, section, n, indices.size), indices)
        read = oracle_index.INDEX_READERS[oracle_index.INDEX_IDS[name]](section, n, indices.size)
        assert read.tolist() == indices.tolist()

    @pytest.mark.parametrize("gap", [1, 2**8 - 1, 2**8, 2**16 - 1, 2**16, 2**24 - 1, 2**24, 2**31 - 2])
    @pytest.mark.parametrize("first", [0, 1])
    def test_delta_lengths(self, gap, first):
        indices = np.array([0, gap], np.uint32)[1 - first :]
        section, _ = _core.encode_indices("delta_binary", indices, 2**31 - 1)
        assert section == oracle_deltas.write_delta_bytes(indices)
        assert oracle_index.read_delta_binary(section, 2**31 - 1, indices.size).tolist() == indices.tolist()

    @pytest.mark.parametrize("name", [name for name in oracle_index.INDEX_WRITERS if name != "bitmap"])
    @pytest.mark.parametrize("num_indices", [65536, 2 * 65536 + 1])
    def test_borders_of_blocks(self, name, num_indices):
        """No gap is 1, so that an index is a run; one gap, the first of the second block, is wide."""
        indices = np.cumsum(np.random.default_rng(0).integers(2, 600, num_indices)).astype(np.uint32)
        indices[65536:] += np.uint32(2**30)
        n = int(indices[-1]) + 1
        section, _ = _core.encode_indices(name, indices, n)
        assert section == oracle_index.INDEX_WRITERS[name](indices, n)
        read = oracle_index.INDEX_READERS[oracle_index.INDEX_IDS[name]](section, n, indices.size)
        assert (read == indices).all()
        assert_same_bits(_core.decode_indices(name, section, n, indices.size), indices)

    @given(support=supports(), extra=st.integers(1, 3))
    @property_test
    def test_longer_deltas_than_needed_are_read(self, support, extra):
        n, indices = support
        section = oracle_deltas.write_delta_bytes(indices, extra)
        assert_same_bits(_core.decode_indices("delta_binary", section, n, indices.size), indices)

    @given(support=supports(max_n=3000), part=BLOOM_PARTS, seed=SEEDS)
    @settings(property_test, max_examples=80)
    def test_bloom_is_the_same_both_ways(self, support, part, seed):
        self.check_bloom(*support, *part, seed)

    @pytest.mark.parametrize("policy", oracle_index.POLICIES)
    @pytest.mark.parametrize(("num_indices", "fpr"), [(3, 0.5), (200, 0.5), (500, 0.1), (500, 0.9)])
    def test_bloom_with_large_conflict_sets(self, policy, num_indices, fpr):
        rng = np.random.default_rng(num_indices)
        indices = np.sort(rng.choice(3000, num_indices, replace=False)).astype(np.uint32)
        for seed in range(3):
            self.check_bloom(3000, indices, policy, fpr, seed)

    @staticmethod
    def check_bloom(n, indices, policy, fpr, seed):
        part = f"bloom:policy={policy},fpr={fpr}"
        section, decoded = _core.encode_indices(part, indices, n, seed)
        expected_section, expected = oracle_index.write_bloom(indices, n, seed, policy, fpr)
        assert section == expected_section
        assert decoded.tolist() == expected.tolist()
        assert_same_bits(_core.decode_indices("bloom", section, n, decoded.size, seed), decoded)
        assert oracle_index.read_bloom(section, n, decoded.size, seed).tolist() == decoded.tolist()

    @pytest.mark.parametrize("policy", oracle_index.POLICIES)
    def test_bloom_of_another_k(self, policy):
        """For p2 also fewer than there are positives alone at a bit, which no encoder writes."""
        indices = np.arange(5, 300, 13, dtype=np.uint32)
        section, decoded = _core.encode_indices(f"bloom:policy={policy},fpr=0.01", indices, 300, 16)
        accepted = sum(same_indices("bloom", section, 300, k, 16) for k in range(1, 60))
        assert accepted == 1 if policy == "p0" else accepted > 1

    @pytest.mark.parametrize("name", oracle_index.INDEX_IDS)
    @given(support=supports(max_n=300), bloom=BLOOM_PARTS, seed=SEEDS, damage=damages())
    @property_test
    def test_damage_is_refused_or_read_alike(self, name, support, bloom, seed, damage):
        n, indices = support
        part = "bloom:policy={},fpr={}".format(*bloom) if name == "bloom" else name
        section, decoded = _core.encode_indices(part, indices, n, seed)
        same_indices(name, damage(section), n, decoded.size, seed)

    def test_bits_after_the_last_are_refused(self):
        indices, n = np.array([1, 5, 7], np.uint32), 12
        for part in (
            "bitmap",
            "delta_binary",
            "bloom:policy=p0,fpr=1e-7",  # 101 bits.
            "rle",
            "huffman",
            "delta_adaptive",
            "delta_flag",
        ):
            name = part.partition(":")[0]
            section, decoded = _core.encode_indices(part, indices, n)
            at = 0 if name == "delta_binary" else len(section) - 1
            changed = bytearray(section)
            changed[at] |= 0x80
            assert section[at] < 0x80
            with pytest.raises(_core.DataLossError):
                _core.decode_indices(name, bytes(changed), n, decoded.size)
