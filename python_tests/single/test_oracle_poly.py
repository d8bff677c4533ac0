"""`poly` against its oracle: the segments that an encoder chose, and how well their curves fit."""

import struct

import numpy as np
import oracle_poly
import oracle_wire
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_inputs import assert_same_bits, float_arrays, property_test
from oracle_poly import orthogonal_polynomials, parse_poly, segment_curve
from oracle_value import dexp_ranks

from tfcompress import _core


def encode(values, degree, segments=0):
    return _core.encode_values(f"poly:degree={degree},segments={segments}", values, None, values.size)


def members_by_segment(values, section):
    """(segment, its magnitudes in the order of positions), first part before second."""
    _, parts, ranks = parse_poly(section, values.size)
    in_order = np.empty_like(values)
    in_order[ranks] = np.abs(values)
    at = 0
    for segment in parts[0] + parts[1]:
        yield segment, in_order[at : at + segment["length"]]
        at += segment["length"]


def best_fit_error(y: np.ndarray, degree: int) -> float:
    """The 2-norm that least squares leave."""
    basis = np.polynomial.legendre.legvander(np.linspace(-1, 1, y.size), min(degree, y.size - 1))
    return float(np.linalg.norm(y - basis @ np.linalg.lstsq(basis, y, rcond=None)[0]))


class TestPoly:
    @given(values=float_arrays(), degree=st.integers(1, 8), segments=st.sampled_from([0, 1, 2, 7, 256]))
    @settings(property_test, max_examples=100)
    def test_segments_are_intervals_of_the_sorted_values(self, values, degree, segments):
        section = encode(values, degree, segments)
        found, parts, ranks = parse_poly(section, values.size)
        assert found == degree
        assert ranks.tolist() == dexp_ranks(values).tolist()
        negative = np.count_nonzero(values < 0)
        for part, count in zip(parts, (values.size - negative, negative), strict=True):
            assert sum(segment["length"] for segment in part) == count
            assert len(part) <= (segments or max(1, min(8, count // 64)))
        for segment, magnitudes in members_by_segment(values, section):
            assert (segment["least"], segment["largest"]) == (magnitudes[-1], magnitudes[0])

    @given(values=float_arrays(), degree=st.integers(1, 8), segments=st.sampled_from([0, 1, 7, 256]))
    @property_test
    def test_order_between_segments_and_range_within(self, values, degree, segments):
        section = encode(values, degree, segments)
        decoded = np.abs(_core.decode_values("poly", section, None, values.size))
        _, parts, ranks = parse_poly(section, values.size)
        at = 0
        for part in parts:
            least_before = np.inf
            for segment in part:
                mine = (ranks >= at) & (ranks < at + segment["length"])
                assert (decoded[mine] >= segment["least"]).all()
                assert (decoded[mine] <= min(segment["largest"], least_before)).all()
                least_before, at = segment["least"], at + segment["length"]

    def test_polynomials_are_orthogonal(self):
        for m in (1, 2, 5, 9, 10, 1000):
            p = np.array(orthogonal_polynomials(m, min(m, 9)))
            gram = p @ p.T
            scale = np.sqrt(np.outer(gram.diagonal(), gram.diagonal()))
            np.testing.assert_allclose(gram / scale, np.eye(len(p)), atol=1e-9)

    @pytest.mark.parametrize("distribution", ["normal", "heavy", "uniform", "ties"])
    @pytest.mark.parametrize("size", [1, 2, 7, 100, 3000, 70000])
    @pytest.mark.parametrize("degree", [1, 5, 8])
    def test_coefficients_are_least_squares(self, distribution, size, degree):
        rng = np.random.default_rng(size)
        draw = {
            "normal": rng.standard_normal,
            "heavy": lambda size: rng.standard_t(1.5, size),
            "uniform": lambda size: rng.uniform(-1, 1, size),
            "ties": lambda size: rng.integers(-3, 4, size),
        }
        values = draw[distribution](size).astype(np.float32)
        for segment, magnitudes in members_by_segment(values, encode(values, degree)):
            y = magnitudes.astype(np.float64)
            error = np.linalg.norm(segment_curve(*segment.values()) - y)
            rounding = 1e-5 * float(y[0]) * np.sqrt(y.size)
            assert error <= best_fit_error(y, degree) + rounding  # Clamping only helps.

    @pytest.mark.parametrize(
        ("curve", "change"),
        [
            (lambda x: np.exp(-3 * x), 3 * (1 - np.exp(-3))),
            (lambda x: (1 - x) ** 2, 2),
            (lambda x: 1 / (1 + 9 * x), 9 - 9 / 100),
        ],
        ids=["exponential", "parabola", "hyperbola"],
    )
    @pytest.mark.parametrize("sign", [1, -1])
    def test_lemma_one(self, curve, change, sign):
        """p lines are within 2 M / p^2 of a curve on [0, 1] whose slope changes by M."""
        values = (sign * curve(np.linspace(0, 1, 5001))).astype(np.float32)
        for p in (1, 2, 4, 8, 16, 64):
            section = encode(values, 1, p)
            assert 1 <= len(parse_poly(section, values.size)[1][sign < 0]) <= p
            decoded = _core.decode_values("poly", section, None, values.size)
            assert np.abs(decoded - values).max() <= 2 * change / p**2

    @pytest.mark.parametrize("unit", [2.0**-80, 1.0, 2.0**100])
    def test_lemma_one_suggests_as_many_segments_in_any_unit(self, unit):
        def suggested(curve):
            values = (unit * curve(np.linspace(0, 1, 1001))).astype(np.float32)
            return len(parse_poly(encode(values, 1), values.size)[1][0])

        assert suggested(lambda x: np.exp(-3 * x)) == 4  # ceil(2 sqrt(2.85))
        assert suggested(lambda x: (1 - x) ** 2) == 3  # ceil(2 sqrt(2))
        assert suggested(lambda x: np.exp(-40 * x)) == 8  # At most.
        assert suggested(lambda x: 1 - x / 2) == 1

    @given(
        degree=st.integers(0, 8),
        lengths=st.tuples(*(st.lists(st.integers(1, 200), max_size=4) for _ in range(2))),
        seed=st.integers(0, 2**32),
        exponent=st.integers(-42, 38),
    )
    @settings(property_test, max_examples=80)
    def test_any_curve_is_decoded_alike(self, degree, lengths, seed, exponent):
        """Curves that no fit yields, ranks that are no permutation."""
        rng = np.random.default_rng(seed)
        lengths = lengths if any(lengths) else ([1], [])
        section = struct.pack("<I", degree)
        for part in lengths:
            section += struct.pack("<I", len(part))
            for length in part:
                ends = np.sort(np.abs(rng.standard_normal(2)) * 10.0**exponent).clip(0, 3e38)
                curve = rng.standard_normal(min(length, degree + 1)) * 10.0 ** rng.integers(
                    -40, [2, 38][seed % 2]
                )
                section += struct.pack("<I", length) + np.append(ends, curve).astype("<f4").tobytes()
        k = sum(map(sum, lengths))
        section += oracle_wire.pack(rng.integers(0, k, k), oracle_wire.num_bits_of(k))
        assert_same_bits(_core.decode_values("poly", section, None, k), oracle_poly.read_poly(section, k))

    def test_subnormal_ends_stay(self):
        """They count as 0 in the curve and bound it as they are."""
        values = np.float32([3e-45, 1e-45, -7e-45, -4e-42])
        decoded = _core.decode_values("poly", encode(values, 1), None, 4)
        assert_same_bits(decoded, np.float32([1e-45, 1e-45, -7e-45, -7e-45]))
