"""`minmax` against its oracle: its buckets are those of `quantile`, its cells the least of their keys."""

import numpy as np
import oracle_minmax
import oracle_value
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_inputs import (
    SEEDS,
    assert_buckets_are_means_of_intervals,
    assert_same_bits,
    float_arrays,
    property_test,
    same_values,
)

from tfcompress import _core


def true_buckets(magnitudes, buckets):
    """(means, bucket of each magnitude) of one sign, which the section does not tell."""
    section = _core.encode_values(f"quantile:buckets={buckets}", magnitudes, None, magnitudes.size)
    return oracle_value.parse_quantile(section, magnitudes.size)


class TestMinMax:
    @given(
        values=float_arrays(),
        buckets=st.sampled_from([2, 3, 16, 256, 32768]),
        rows=st.integers(1, 8),
        columns=st.sampled_from([0.01, 0.2, 0.5, 1]),
        step=st.sampled_from([0, 1, 5, 2**20]),
        seed=SEEDS,
    )
    @settings(property_test, max_examples=100)
    def test_buckets_and_cells(self, values, buckets, rows, columns, step, seed):
        k, keys = values.size, np.arange(values.size) * max(step, 1)
        indices, n = (keys.astype(np.uint32), int(keys[-1]) + 1) if step else (None, k)
        part = f"minmax:buckets={buckets},rows={rows},columns={columns}"
        section = _core.encode_values(part, values, indices, n, seed)
        found_rows, signs, sketches = oracle_minmax.parse_minmax(section, k)
        _, found = oracle_minmax.query_minmax(section, k, indices, seed)
        decoded = _core.decode_values("minmax", section, indices, n, seed)
        assert found_rows == rows
        assert signs.tolist() == (values < 0).tolist()
        assert (np.signbit(decoded) <= (values < 0)).all() and (decoded * np.sign(values) >= 0).all()
        for sign, sketch in enumerate(sketches):
            mine = signs == sign
            if not mine.any():
                continue
            magnitudes, num_columns = np.abs(values[mine]), sketch["cells"].shape[1]
            means, true = true_buckets(magnitudes, buckets)
            assert_same_bits(sketch["means"], means)
            assert_buckets_are_means_of_intervals(magnitudes, means, true)
            assert columns * magnitudes.size <= num_columns + 1e-9 < columns * magnitudes.size + 1
            expected = np.full((rows, num_columns), means.size)
            at = oracle_minmax.columns_of(keys[mine], sign, rows, num_columns, seed)
            for row in range(rows):
                np.minimum.at(expected[row], at[row], true)
            assert sketch["cells"].tolist() == np.where(expected == means.size, 0, expected).tolist()
            assert (found[mine] <= true).all(), "farther from zero than the bucket's mean"
            assert (np.abs(decoded[mine]) <= means[true]).all()

    def test_share_of_exact_answers(self):
        """Closed form for ideal hashes: a row is right where no key of a lower bucket shares the cell."""
        values = np.random.default_rng(5).standard_normal(60000).astype(np.float32)
        for buckets, rows, columns in ((256, 2, 0.2), (16, 1, 0.3), (16, 3, 1)):
            part = f"minmax:buckets={buckets},rows={rows},columns={columns}"
            section = _core.encode_values(part, values, None, values.size, 6)
            signs, found = oracle_minmax.query_minmax(section, values.size, None, 6)
            lower = np.arange(buckets) / buckets
            ideal = np.mean(1 - (1 - np.exp(-lower / columns)) ** rows)
            for sign in (0, 1):
                _, true = true_buckets(np.abs(values[signs == sign]), buckets)
                assert (found[signs == sign] == true).mean() == pytest.approx(ideal, abs=0.015)

    def test_sign_bits_after_the_last_are_refused(self):
        section = bytearray(_core.encode_values("minmax", np.float32([1, 2, -3]), None, 3))
        assert section[4] == 0b100
        for bit in range(3, 8):
            section[4] = 0b100 | 1 << bit
            assert not same_values("minmax", bytes(section), 3)
