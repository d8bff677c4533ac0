"""Linear payloads against their oracles, bit for bit, and what theory says of them."""

import numpy as np
import oracle_count_sketch as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_inputs import SEEDS, assert_same_bits, float_arrays, property_test
from oracle_sparsify import seeded_support, share_of

from tfcompress import _core

ROWS = st.sampled_from([1, 3, 5, 9, 31])
COLUMNS = st.sampled_from([1, 2, 3, 7, 16, 100, 1000, 4099])


def gradient(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).laplace(size=n).astype(np.float32)


class TestCountSketch:
    @given(x=float_arrays(), rows=ROWS, columns=COLUMNS, seed=SEEDS)
    @settings(property_test, max_examples=80)
    def test_same_bits_as_the_oracle(self, x, rows, columns, seed):
        with np.errstate(all="ignore"):
            expected = oracle.insert(x, rows, columns, seed)
        table = _core.count_sketch_insert(x, rows, columns, seed)
        assert_same_bits(table, expected)
        assert_same_bits(
            _core.count_sketch_estimate(table, x.size, seed), oracle.estimate(table, x.size, seed)
        )
        if np.isfinite(table).all():
            assert _core.count_sketch_squared_norm(table) == oracle.squared_norm(table)

    @pytest.mark.parametrize("columns", [50, 1000, 131072, 2**20, 1000000])
    def test_same_bits_for_long_vectors(self, columns):
        x = gradient(3000)
        table = oracle.insert(x, 3, columns, 5)
        assert_same_bits(_core.count_sketch_insert(x, 3, columns, 5), table)
        assert _core.count_sketch_squared_norm(table) == oracle.squared_norm(table)

    def test_same_bits_for_every_number_of_threads(self):
        x = gradient(300_000)
        tables = {_core.count_sketch_insert(x, 5, 9000, 1, t).tobytes() for t in (1, 2, 3, 8)}
        assert len(tables) == 1

    @given(x=float_arrays(), rows=ROWS, count=st.sampled_from([1, 2, 10, 500]), seed=SEEDS)
    @property_test
    def test_recovery(self, x, rows, count, seed):
        x = np.clip(x, -1e30, 1e30)
        table = _core.count_sketch_insert(x, rows, 40, seed)
        for recover, expected in (
            (_core.count_sketch_top, oracle.recover_top),
            (_core.count_sketch_heavymix, oracle.recover_heavymix),
        ):
            indices, values = recover(table, x.size, count, seed)
            expected_indices, expected_values = expected(table, x.size, count, seed)
            assert indices.tolist() == expected_indices.tolist()
            assert_same_bits(values, expected_values)

    def test_recovery_from_a_table_with_more_rows_than_noise(self):
        x = gradient(20000) * 0.01
        heavy = np.array([5, 777, 19999])
        x[heavy] = [3, -4, 5]
        table = _core.count_sketch_insert(x, 7, 2000, 3)
        assert _core.count_sketch_top(table, x.size, 3, 3)[0].tolist() == heavy.tolist()
        indices, values = _core.count_sketch_heavymix(table, x.size, 100, 3)
        assert np.isin(heavy, indices).all() and indices.size == 100
        np.testing.assert_allclose(values[np.isin(indices, heavy)], x[heavy], atol=0.1)

    def test_moments(self):
        x, columns = gradient(40), 16
        tables = [_core.count_sketch_insert(x, 1, columns, seed) for seed in range(8000)]
        estimates = [_core.count_sketch_estimate(table, 40, seed) for seed, table in enumerate(tables)]
        errors = np.array(estimates, np.float64) - x
        norm = np.sum(x.astype(np.float64) ** 2)
        expected = (norm - x.astype(np.float64) ** 2) / columns
        assert np.mean(errors**2, axis=0) == pytest.approx(expected, rel=0.1)
        assert np.abs(errors.mean(axis=0)).max() < 5 * np.sqrt(expected.max() / len(tables))
        squared = [np.sum(table.astype(np.float64) ** 2) for table in tables]
        assert np.mean(squared) == pytest.approx(norm, rel=0.02)

    @pytest.mark.parametrize("rows", [1, 3, 5, 9, 15, 21])
    def test_tails(self, rows):
        x, epsilon = gradient(3000), 0.1
        bound = epsilon * np.linalg.norm(x)
        misses = 0
        for seed in range(10):
            table = _core.count_sketch_insert(x, rows, int(3 / epsilon**2), seed)
            misses += np.count_nonzero(np.abs(_core.count_sketch_estimate(table, x.size, seed) - x) > bound)
        assert misses <= oracle.tail_bound(rows) * 10 * x.size

    def test_keys_in_decimal_steps_do_not_collide_in_several_rows(self):
        keys = 7 * 10 ** np.arange(5)
        column, _ = oracle.cells_of(int(keys[-1]) + 1, 3, 1000, 1)
        assert sum(len(set(row[keys].tolist())) for row in column) >= 14

    def test_bad_arguments(self):
        x = gradient(10)
        table = _core.count_sketch_insert(x, 3, 5)
        for rows, columns in ((2, 5), (0, 5), (33, 5), (-1, 5), (3, 0), (3, 2**27 + 1)):
            with pytest.raises(ValueError, match="an odd number"):
                _core.count_sketch_insert(x, rows, columns)
        with pytest.raises(ValueError, match="2-D array of float32"):
            _core.count_sketch_estimate(table.reshape(-1), 10)
        with pytest.raises(ValueError, match="n = -1 is outside"):
            _core.count_sketch_top(table, -1, 3)
        with pytest.raises(ValueError, match="at least one"):
            _core.count_sketch_heavymix(table, 10, 0)


class TestLinearSpecs:
    @given(x=float_arrays(), ratio=st.sampled_from([0.01, 0.3, 1.0]), seed=SEEDS)
    @property_test
    def test_shared_randomk(self, x, ratio, seed):
        spec = f"shared_randomk:ratio={ratio}"
        payload = _core.linear_encode(x, spec, seed)
        assert_same_bits(payload, oracle.encode_randomk(x, ratio, seed))
        indices, values = _core.linear_recover(payload, x.size, spec, seed)
        assert indices.tolist() == seeded_support(x.size, share_of(x.size, ratio), seed).tolist()
        assert_same_bits(values, payload)

    @pytest.mark.parametrize("recovery", ["top", "heavymix"])
    def test_count_sketch_is_its_parts(self, recovery):
        x, seed = gradient(5000), 2**64 - 3
        spec = f"count_sketch:rows=5,columns=700,k=20,candidates=3,recovery={recovery}"
        table = oracle.insert(x, 5, 700, seed)
        payload = _core.linear_encode(x, spec, seed)
        assert_same_bits(payload, table.reshape(-1))
        expected = {
            "top": lambda: oracle.recover_top(table, 5000, 60, seed),
            "heavymix": lambda: oracle.recover_heavymix(table, 5000, 20, seed),
        }[recovery]()
        for threads in (1, 3):
            indices, values = _core.linear_recover(payload, 5000, spec, seed, threads)
            assert indices.tolist() == expected[0].tolist()
            assert_same_bits(values, expected[1])

    def test_sizes(self):
        spec = "count_sketch:rows=3,columns=100,k=50,candidates=4"
        assert _core.linear_sizes(spec, 1000) == {"payload": 300, "candidates": 200, "kept": 50}
        assert _core.linear_sizes(spec, 20) == {"payload": 300, "candidates": 20, "kept": 20}
        spec = "residual|shared_randomk:ratio=0.1"
        assert _core.linear_sizes(spec, 1000) == {"payload": 100, "candidates": 100, "kept": 100}

    def test_not_finite(self):
        spec = "count_sketch:rows=3,columns=100,k=5,candidates=2"
        payload = _core.linear_encode(np.float32([1, np.inf, 2]), spec)
        assert np.isnan(payload).all()
        indices, values = _core.linear_recover(payload, 3, spec)
        assert indices.tolist() == [0, 1, 2] and np.isnan(values).all()

    def test_describe(self):
        found = _core.describe_spec("momentum|count_sketch:rows=3")
        assert found == {
            "spec": "momentum:rate=0.9,nesterov=0|count_sketch:rows=3,columns=1000000,k=100000,"
            "candidates=36,recovery=top",
            "linear": True,
            "memory": "momentum:rate=0.9,nesterov=0",
            "num_slots": 2,
            "sparsifier": None,
            "index": None,
            "value": None,
            "joint": None,
            "codec": "count_sketch:rows=3,columns=1000000,k=100000,candidates=36,recovery=top",
            "everything": False,
            "takes_rows": False,
            "exact": False,
            "rank": 0,
            "warm_start": False,
        }
        assert _core.canonical_spec(found["spec"]) == found["spec"]
        assert _core.describe_spec("shared_randomk")["exact"] is True

    def test_bad_arguments(self):
        with pytest.raises(ValueError, match="must be an odd integer"):
            _core.canonical_spec("count_sketch:rows=2")
        with pytest.raises(ValueError, match="can never be framed"):
            _core.encode(gradient(10), "float32", "count_sketch")
        with pytest.raises(ValueError, match="names no linear codec"):
            _core.linear_encode(gradient(10), "topk|raw|raw")
        with pytest.raises(ValueError, match="expected 300 for 10 elements"):
            spec = "count_sketch:rows=3,columns=100"
            _core.linear_recover(np.zeros(299, np.float32), 10, spec)
