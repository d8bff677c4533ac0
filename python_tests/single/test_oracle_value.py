"""Every value codec against its oracle, both ways where possible."""

import struct

import numpy as np
import oracle_value
import oracle_wire
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_inputs import (
    SEEDS,
    assert_buckets_are_means_of_intervals,
    assert_same_bits,
    damages,
    float_arrays,
    property_test,
    same_values,
)

from tfcompress import _core

SAMPLE = 65536  # Above it, quantiles come from a sample of so many values.
SAMPLE_RANK_ERROR = 0.0064  # Of the sample, with 99 % confidence (docs/design.md).

PARAMETERS = {  # Beside the defaults.
    "deflate": ["shuffle=1", "level=1"],
    "qsgd": ["bits=2,bucket=1", "bits=4,bucket=3", "bits=8,bucket=65536"],
    "log": ["base=2,tau=20", "base=1.001,tau=32767", "base=16,tau=1"],
    "logquant": ["bits=2", "bits=4", "rounding=random", "bits=3,rounding=random"],
    "uniform": ["bits=16"],
    "ternary": ["clip=0.1", "clip=2.5"],
    "poly": ["degree=1", "degree=3,segments=1", "degree=8,segments=256"],
    "block_int": [
        *("bits=2,block=16", "bits=3,block=64", "bits=4", "bits=7,block=1024"),
        *("bits=2,levels=square", "bits=3,levels=square", "bits=4,block=64,levels=square", "levels=square"),
    ],
    "ecsq": ["snr=3", "snr=60"],
    "minmax": ["buckets=2", "buckets=3,rows=1,columns=0.01", "rows=8,columns=1"],
}


@st.composite
def coded(draw, name, arrays):
    """A value codec of this name with any parameters: (part, values, indices or None, n, seed)."""
    part = draw(st.sampled_from([name, *(f"{name}:{rest}" for rest in PARAMETERS.get(name, []))]))
    values, seed = draw(arrays), draw(SEEDS)
    step = draw(st.sampled_from([0, 1, 7, 2**20]))  # 0 for everything.
    indices = (np.arange(values.size) * step + 3).astype(np.uint32) if step else None
    return part, values, indices, int(indices[-1]) + 9 if step else values.size, seed


def read(name, section, k, indices, seed):
    return oracle_value.VALUE_READERS[oracle_value.VALUE_IDS[name]](section, k, indices, seed)


def test_every_codec_has_an_oracle():
    assert oracle_value.VALUE_IDS == {row["name"]: row["id"] for row in _core.registry("value_codecs")}


class TestValues:
    @pytest.mark.parametrize("name", oracle_value.VALUE_IDS)
    @given(data=st.data())
    @settings(property_test, max_examples=60)
    def test_decoded_alike(self, name, data):
        part, values, indices, n, seed = data.draw(coded(name, float_arrays()))
        section = _core.encode_values(part, values, indices, n, seed)
        decoded = _core.decode_values(name, section, indices, n, seed)
        assert_same_bits(decoded, read(name, section, values.size, indices, seed))

    @pytest.mark.parametrize("size", [65536, 65537, 262145])
    @pytest.mark.parametrize("name", oracle_value.VALUE_IDS)
    def test_long_vectors_are_decoded_alike(self, name, size):
        """On both sides of the ends of blocks."""
        values = np.random.default_rng(size).standard_t(2, size).astype(np.float32)
        section = _core.encode_values(name, values, None, size, 5)
        assert_same_bits(
            _core.decode_values(name, section, None, size, 5), read(name, section, size, None, 5)
        )
        if name in oracle_value.VALUE_WRITERS:
            assert section == oracle_value.VALUE_WRITERS[name](values)

    @pytest.mark.parametrize("name", [*oracle_value.VALUE_WRITERS, *oracle_value.SEEDED_VALUE_WRITERS])
    @given(values=float_arrays(), seed=SEEDS)
    @settings(property_test, max_examples=60)
    def test_determined_bytes(self, name, values, seed):
        section = _core.encode_values(name, values, None, values.size, seed)
        assert section == oracle_value.write_values(name, values, seed)

    @pytest.mark.parametrize("name", oracle_value.VALUE_WRITERS)
    def test_rounding_at_every_edge(self, name):
        """Halfway between two neighbours, and one bit either side; all the way to the largest float."""
        halves = np.array([0x0FFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0x8001, 0x18000], np.uint32)
        exponents = np.arange(0, 255, dtype=np.uint32) << 23
        bits = (exponents[:, None] + halves).ravel()
        bits = np.concatenate(
            [bits, np.array([0, 1, 0x477FEFFF, 0x477FF000, 0x7F7F8000, 0x7F7FFFFF], np.uint32)]
        )
        values = np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)
        section = _core.encode_values(name, values, None, values.size)
        assert section == oracle_value.VALUE_WRITERS[name](values)

    @pytest.mark.parametrize("name", oracle_value.VALUE_IDS)
    @given(data=st.data(), damage=damages())
    @settings(property_test, max_examples=60)
    def test_damage_is_refused_or_read_alike(self, name, data, damage):
        part, values, indices, n, seed = data.draw(coded(name, float_arrays(max_size=60)))
        section = damage(_core.encode_values(part, values, indices, n, seed))
        same_values(name, section, values.size, indices, n, seed)


class TestPadding:
    """Bits after the last: zero when written, not looked at when read."""

    @pytest.mark.parametrize(
        "part",
        [
            "quantile",
            "dexp",
            "qsgd",
            "log:base=2,tau=20",
            "logquant:bits=3",
            "sign",
            "poly",
            "minmax:buckets=5",
        ],
    )
    def test_bits_after_the_last(self, part):
        name, values = part.partition(":")[0], np.float32([-1, -2, -3, -4, -5])
        section = bytearray(_core.encode_values(part, values, None, 5))
        assert section[-1] < 0x80
        decoded = _core.decode_values(name, bytes(section), None, 5)
        section[-1] |= 0x80
        assert_same_bits(_core.decode_values(name, bytes(section), None, 5), decoded)
        assert_same_bits(read(name, bytes(section), 5, None, 0), decoded)


class TestQuantile:
    @given(values=float_arrays(), buckets=st.sampled_from([2, 3, 16, 256, 65536]))
    @settings(property_test, max_examples=60)
    def test_buckets_are_means_of_intervals(self, values, buckets):
        section = _core.encode_values(f"quantile:buckets={buckets}", values, None, values.size)
        means, codes = oracle_value.parse_quantile(section, values.size)
        assert 1 <= means.size <= max(buckets, 2)
        assert (np.diff(means) >= 0).all()
        for bucket in range(means.size):  # An atom may be large; what shares its bucket may not.
            _, counts = np.unique(values[codes == bucket], return_counts=True)
            assert counts.sum() - counts.max() <= values.size / (buckets - 1)
        assert_buckets_are_means_of_intervals(values, means, codes)

    @pytest.mark.parametrize("buckets", [2, 7, 16, 256])
    def test_ranks_are_exact_up_to_the_sample_size(self, buckets):
        values = np.random.default_rng(buckets).permutation(5000).astype(np.float32)
        ranks = self.bucket_ranks(values, buckets)
        ideal = np.arange(1, buckets + 1) / buckets
        assert ranks.size == buckets
        assert np.abs(ranks - ideal).max() <= 1 / values.size

    @pytest.mark.parametrize("buckets", [16, 64, 256])
    def test_rank_error_of_the_sample(self, buckets):
        values = np.abs(np.random.default_rng(1).standard_t(2, 4 * SAMPLE).astype(np.float32))
        ranks = self.bucket_ranks(values, buckets)
        assert ranks.size == buckets
        assert np.abs(ranks - np.arange(1, buckets + 1) / buckets).max() <= SAMPLE_RANK_ERROR + 0.001

    @pytest.mark.parametrize("num_values", [20000, 4 * SAMPLE])
    @pytest.mark.parametrize("signed", [False, True])
    def test_positions_agree_with_kll(self, num_values, signed):
        datasketches = pytest.importorskip("datasketches", reason="the KLL sketch is the oracle")
        values = np.random.default_rng(2).standard_t(3, num_values).astype(np.float32)
        values = values if signed else np.abs(values)
        sketch = datasketches.kll_floats_sketch(4096)
        sketch.update(values)
        # Its bound holds for one query with 99 %, so that twice that holds for all of them.
        error = 2 * sketch.normalized_rank_error(False) + 1 / num_values
        error += SAMPLE_RANK_ERROR + 0.001 if num_values > SAMPLE else 0

        buckets = 64
        section = _core.encode_values(f"quantile:buckets={buckets}", values, None, num_values)
        means, codes = oracle_value.parse_quantile(section, num_values)
        uppers = np.array([values[codes == bucket].max() for bucket in range(means.size)])
        ranks = np.array([sketch.get_rank(float(upper)) for upper in uppers])
        # Zero is a boundary too, which moves the others by at most a bucket.
        error += 1 / buckets if signed else 0
        assert means.size == buckets
        assert np.abs(ranks - np.arange(1, buckets + 1) / buckets).max() <= error

    @staticmethod
    def bucket_ranks(values, buckets):
        """The exact rank of the end of each bucket."""
        section = _core.encode_values(f"quantile:buckets={buckets}", values, None, values.size)
        _, codes = oracle_value.parse_quantile(section, values.size)
        return np.cumsum(np.bincount(codes)) / values.size


class TestDexp:
    def test_exp_is_exp(self):
        x = np.linspace(-87, 87, 20001)
        np.testing.assert_allclose(oracle_value.deterministic_exp(x), np.exp(x), rtol=1e-15)

    @given(values=float_arrays())
    @settings(property_test, max_examples=60)
    def test_everything_but_the_curve_is_determined(self, values):
        parts, ranks = oracle_value.parse_dexp(
            _core.encode_values("dexp", values, None, values.size), values.size
        )
        assert ranks.tolist() == oracle_value.dexp_ranks(values).tolist()
        for part, members in zip(parts, (values[values >= 0], -values[values < 0]), strict=True):
            assert part["count"] == members.size
            if members.size:
                assert (part["least"], part["largest"]) == (members.min(), members.max())

    @given(
        counts=st.tuples(st.integers(0, 300), st.integers(1, 300)),
        seed=st.integers(0, 2**32),
        exponent=st.integers(-40, 38),
    )
    @property_test
    def test_any_curve_is_decoded_alike(self, counts, seed, exponent):
        """Curves that no fit yields: rates far outside the clamp, ends out of proportion."""
        rng = np.random.default_rng(seed)
        k = sum(counts)
        section = b""
        for count in counts:
            section += struct.pack("<I", count)
            if count:
                curve = rng.standard_normal(4) * 10.0 ** rng.integers(-3, [5, 4, 38, 38])
                ends = np.sort(np.abs(rng.standard_normal(2)) * 10.0**exponent).clip(0, 3e38)
                section += np.concatenate([curve, ends]).astype("<f4").tobytes()
        section += oracle_wire.pack(rng.permutation(k), oracle_wire.num_bits_of(k))
        assert_same_bits(_core.decode_values("dexp", section, None, k), oracle_value.read_dexp(section, k))

    @pytest.mark.parametrize("distribution", ["normal", "laplace", "heavy", "uniform"])
    @pytest.mark.parametrize("size", [5, 100, 5000])
    def test_fit_is_not_worse_than_one_exponential(self, distribution, size):
        rng = np.random.default_rng(size)
        draw = {
            "normal": rng.standard_normal,
            "laplace": lambda size: rng.laplace(size=size),
            "heavy": lambda size: rng.standard_t(1.5, size),
            "uniform": lambda size: rng.uniform(-1, 1, size),
        }
        values = draw[distribution](size).astype(np.float32)
        decoded = oracle_value.read_dexp(_core.encode_values("dexp", values, None, size), size)
        for part in (values >= 0, values < 0):
            true, found = np.abs(values[part]).astype(float), np.abs(decoded[part]).astype(float)
            if true.size:
                error = np.linalg.norm(found - true)
                assert error <= 1.5 * self.single_exponential_error(true) + 1e-6 * true.max()

    @staticmethod
    def single_exponential_error(magnitudes):
        """Least squares: a linear fit of the scale for each of many rates."""
        y, t = np.sort(magnitudes)[::-1], np.linspace(0, 1, magnitudes.size)
        errors = []
        for rate in np.append(np.geomspace(0.01, 1000, 150), 0):
            e = np.exp(-rate * t)
            errors.append(np.linalg.norm(y - (y @ e) / (e @ e) * e))
        return min(errors)
