"""Every sparsifier against its oracle."""

import math

import numpy as np
import oracle_frame
import oracle_sparsify
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_inputs import SEEDS, assert_same_bits, float_arrays, property_test

from tfcompress import _core, frames


class TestSparsifiers:
    @given(dense=float_arrays(), tau=st.sampled_from([1.5e-45, 1e-38, 0.1, 1.0, 2.0, 3.4e38]))
    @property_test
    def test_nonzero_and_threshold(self, dense, tau):
        assert _core.select("nonzero", dense).tolist() == oracle_sparsify.select_nonzero(dense).tolist()
        expected = oracle_sparsify.select_threshold(dense, tau)
        assert _core.select(f"threshold:tau={tau}", dense).tolist() == expected.tolist()

    def test_threshold_compares_floats(self):
        dense = np.float32([0.1, -0.1, np.nextafter(np.float32(0.1), np.float32(0)), 0.2])
        assert _core.select("threshold:tau=0.1", dense).tolist() == [0, 1, 3]

    @given(dense=float_arrays(), ratio=st.sampled_from([0.001, 0.01, 0.1, 0.25, 0.5, 0.99, 1.0]))
    @settings(property_test, max_examples=60)
    def test_topk(self, dense, ratio):
        expected = oracle_sparsify.select_topk(dense, oracle_sparsify.share_of(dense.size, ratio))
        assert _core.select(f"topk:ratio={ratio}", dense).tolist() == expected.tolist()

    @pytest.mark.parametrize("values", [[0.0], [1, -1, 2], [-0.0, 0.0, 2.0**-149]])
    def test_topk_ties_of_a_long_vector(self, values):
        dense = np.random.default_rng(7).choice(np.float32(values), 50000)
        for ratio in (0.01, 0.3, 0.7):
            expected = oracle_sparsify.select_topk(dense, oracle_sparsify.share_of(dense.size, ratio))
            assert (_core.select(f"topk:ratio={ratio}", dense) == expected).all()

    @given(dense=float_arrays(), ratio=st.sampled_from([1e-9, 0.01, 0.3, 0.5, 1.0]), seed=SEEDS)
    @settings(property_test, max_examples=60)
    def test_randomk(self, dense, ratio, seed):
        selected = _core.select(f"randomk:ratio={ratio}", dense, seed)
        expected = oracle_sparsify.seeded_support(
            dense.size, oracle_sparsify.share_of(dense.size, ratio), seed
        )
        assert selected.tolist() == expected.tolist()
        assert (np.diff(expected) > 0).all()
        assert (_core.select(f"randomk:ratio={ratio}", 1 - dense, seed) == selected).all()

    @pytest.mark.parametrize("n", [1, 2, 3, 2**12, 2**12 + 1, 2**20 + 1])
    def test_randomk_of_any_number_of_bits(self, n):
        k = min(n, 3000)
        dense = np.zeros(n, np.float32)
        selected = _core.select(f"randomk:ratio={k / n}", dense, 5)
        assert selected.tolist() == oracle_sparsify.seeded_support(n, k, 5).tolist()

    def test_randomk_sends_no_index(self):
        dense = np.random.default_rng(6).standard_normal(5000).astype(np.float32)
        frames_of_seeds = {seed: frames.encode(dense, "randomk:ratio=0.1|raw|raw", seed) for seed in (7, 8)}
        for seed, frame in frames_of_seeds.items():
            header = oracle_frame.read_header(frame)
            assert (header["support"], header["k"], header["seed"]) == (oracle_frame.SEEDED, 500, seed)
            assert (header["index_id"], header["num_index_bytes"]) == (0, 0)
            assert len(frame) == oracle_frame.HEADER_BYTES + 4 * 500
            selected = _core.select("randomk:ratio=0.1", dense, seed)
            expected = np.zeros_like(dense)
            expected[selected] = dense[selected]
            assert_same_bits(frames.decode(frame), expected)
        assert frames_of_seeds[7] != frames_of_seeds[8]

    def test_randomk_selects_every_pair_as_often(self):
        n, k, trials = 40, 10, 4000
        counts = np.zeros((n, n))
        for seed in range(trials):
            selected = _core.select("randomk:ratio=0.25", np.zeros(n, np.float32), seed)
            counts[np.ix_(selected, selected)] += 1
        single, pair = k / n, k * (k - 1) / (n * (n - 1))
        for found, share in ((np.diag(counts), single), (counts[np.triu_indices(n, 1)], pair)):
            deviations = (found - trials * share) / math.sqrt(trials * share * (1 - share))
            assert np.abs(deviations).max() < 5
            assert np.mean(deviations**2) == pytest.approx(1, abs=0.5)
