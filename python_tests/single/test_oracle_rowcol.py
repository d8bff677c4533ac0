"""`rowcol` and `ecsq` on matrices, against their oracles; vectors are in the tests of all codecs."""

import numpy as np
import oracle_rowcol
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle_inputs import assert_same_bits, damages, outer_products, property_test, same_indices, same_values

from tfcompress import _core


def largest(matrix, k):
    return np.sort(np.argsort(-np.abs(matrix.ravel()))[:k]).astype(np.uint32)


def check_indices(indices, matrix):
    n, width = matrix.size, matrix.shape[1]
    section, _ = _core.encode_indices("rowcol", indices, n, 0, width)
    assert section == oracle_rowcol.write_rowcol(indices, n, width)
    assert_same_bits(_core.decode_indices("rowcol", section, n, indices.size), indices)
    assert oracle_rowcol.read_rowcol(section, n, indices.size).tolist() == indices.tolist()


def check_values(indices, matrix):
    """Returns what is decoded."""
    values, n, width = matrix.ravel()[indices], matrix.size, matrix.shape[1]
    section = _core.encode_values("ecsq:snr=3", values, indices, n, 0, width)
    assert section == oracle_rowcol.write_ecsq(values, indices, section[:5], width)
    decoded = _core.decode_values("ecsq", section, indices, n)
    assert_same_bits(decoded, oracle_rowcol.read_ecsq(section, values.size, indices))
    return decoded


class TestMatrices:
    @given(case=outer_products())
    @property_test
    def test_indices(self, case):
        indices, n, width, _ = case
        section, _ = _core.encode_indices("rowcol", indices, n, 0, width)
        vector, matrix = oracle_rowcol.write_rowcol(indices, n), b""
        if oracle_rowcol.may_pay(n, indices.size, width, 0):
            matrix = oracle_rowcol.write_rowcol(indices, n, width)
        assert section in (vector, matrix)
        assert len(section) <= len(vector)
        assert not matrix or len(section) <= len(matrix)
        assert oracle_rowcol.read_rowcol(section, n, indices.size).tolist() == indices.tolist()
        assert_same_bits(_core.decode_indices("rowcol", section, n, indices.size), indices)

    @given(case=outer_products(), first_column=st.integers(0, 59))
    @property_test
    def test_pieces_of_matrices(self, case, first_column):
        """Pieces that begin within a row: what the sharded exchange sends."""
        indices, n, width, _ = case
        first_column %= width
        if not oracle_rowcol.may_pay(n, indices.size, width, first_column):
            return
        section = oracle_rowcol.write_rowcol(indices, n, width, first_column)
        assert_same_bits(_core.decode_indices("rowcol", section, n, indices.size), indices)
        assert oracle_rowcol.read_rowcol(section, n, indices.size).tolist() == indices.tolist()

    @given(case=outer_products(), snr=st.sampled_from([3, 10, 25, 60]))
    @property_test
    def test_values(self, case, snr):
        indices, n, width, values = case
        section = _core.encode_values(f"ecsq:snr={snr}", values, indices, n, 0, width)
        takes_width = indices.size >= 64 and width <= indices[-1] + 1
        assert section == oracle_rowcol.write_ecsq(values, indices, section[:5], width if takes_width else 0)
        decoded = _core.decode_values("ecsq", section, indices, n)
        assert_same_bits(decoded, oracle_rowcol.read_ecsq(section, values.size, indices))

    @pytest.mark.parametrize("ratio", [0.1, 1.0])
    def test_many_elements(self, ratio):
        """In several lanes; with `ratio` 1 all elements, most of them in the dead zone."""
        rng = np.random.default_rng(4)
        matrix = np.outer(rng.normal(size=250), rng.normal(size=400)) + rng.normal(size=(250, 400))
        values = matrix.astype(np.float32)
        indices = largest(values, int(ratio * values.size))
        if ratio < 1:
            check_indices(indices, values)
        decoded = check_values(indices, values)
        assert (np.mean(decoded == 0) > 0.5) == (ratio == 1)

    @pytest.mark.long
    def test_parts(self):
        """The second part of the indices and of the values begins within a row."""
        rng = np.random.default_rng(6)
        matrix = np.outer(rng.normal(size=1200), rng.normal(size=400)) + 0.1 * rng.normal(size=(1200, 400))
        values = matrix.astype(np.float32)
        indices = largest(values, 300_000)
        check_indices(indices, values)
        check_values(indices, values)

    @given(case=outer_products(), damage=damages())
    @property_test
    def test_damage_is_refused_or_read_alike(self, case, damage):
        indices, n, width, values = case
        section, _ = _core.encode_indices("rowcol", indices, n, 0, width)
        same_indices("rowcol", damage(section), n, indices.size)
        section = _core.encode_values("ecsq", values, indices, n, 0, width)
        same_values("ecsq", damage(section), indices.size, indices, n)


class TestBytes:
    """What the codecs are for."""

    @pytest.mark.parametrize("density", [0.001, 0.01, 0.1, 0.4])
    def test_random_keys_take_their_information(self, density):
        from math import lgamma, log

        rng = np.random.default_rng(1)
        n = 2_000_000
        k = int(n * density)
        indices = np.sort(rng.choice(n, k, replace=False)).astype(np.uint32)
        section, _ = _core.encode_indices("rowcol", indices, n, 0, 1000)
        limit = (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2) / 8
        assert len(section) <= 1.01 * limit

    def test_outer_products_take_less(self):
        rng = np.random.default_rng(2)
        matrix = np.outer(rng.standard_t(2, 300), rng.standard_t(2, 200)).astype(np.float32)
        indices = np.sort(np.argsort(-np.abs(matrix.ravel()))[:2000]).astype(np.uint32)
        aware, _ = _core.encode_indices("rowcol", indices, matrix.size, 0, 200)
        unaware, _ = _core.encode_indices("rowcol", indices, matrix.size)
        assert len(aware) < 0.5 * len(unaware)
        values = matrix.ravel()[indices]
        aware = _core.encode_values("ecsq", values, indices, matrix.size, 0, 200)
        unaware = _core.encode_values("ecsq", values, indices, matrix.size)
        assert len(aware) < 0.8 * len(unaware)

    @pytest.mark.parametrize("snr", [5, 15, 25, 40])
    def test_the_error_is_what_was_asked_for(self, snr):
        values = np.random.default_rng(3).standard_t(4, 20000).astype(np.float32)
        indices = np.flatnonzero(np.abs(values) > 1.5).astype(np.uint32)
        chosen = values[indices]
        section = _core.encode_values(f"ecsq:snr={snr}", chosen, indices, values.size)
        decoded = _core.decode_values("ecsq", section, indices, values.size)
        found = 10 * np.log10(np.sum(chosen**2) / np.sum((chosen - decoded) ** 2))
        assert found >= snr - 0.1

    @pytest.mark.parametrize(("snr", "most_bits"), [(3.01, 0.49), (18, 3.2), (40, 6.9)])
    def test_all_elements_take_their_entropy(self, snr, most_bits):
        """Of Laplace's distribution: 0.48 bits for half of its energy, by a dead zone."""
        values = np.random.default_rng(5).laplace(size=500_000).astype(np.float32)
        section = _core.encode_values(f"ecsq:snr={snr}", values, None, values.size)
        error = _core.decode_values("ecsq", section, None, values.size) - values
        assert 10 * np.log10(np.sum(values**2) / np.sum(error**2)) >= snr - 0.02
        assert 8 * len(section) / values.size <= most_bits
