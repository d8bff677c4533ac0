"""Every codec against a second implementation of the wire format (oracles.py), both ways where possible."""

import dataclasses
import itertools
import math
import struct

import numpy as np
import oracles
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import DTYPE_IDS, EVERYTHING, FROM_INDEX_SECTION, JOINT

from tfcompress import _core, frames

property_test = settings(max_examples=40, deadline=None, derandomize=True)

INDEX_IDS = {"raw": 1, "bitmap": 2, "delta_binary": 3, "bloom": 4}
VALUE_IDS = {"raw": 1, "fp16": 2, "bf16": 3, "quantile": 4, "dexp": 5}
LOSSLESS_WRITERS = {
    "raw": oracles.write_raw_indices,
    "bitmap": oracles.write_bitmap,
    "delta_binary": oracles.write_delta_binary,
}
VALUE_WRITERS = {
    "raw": oracles.write_raw_values,
    "fp16": oracles.write_fp16,
    "bf16": oracles.write_bf16,
}
SAMPLE = 65536  # Above it, quantiles come from a sample of so many values.
SAMPLE_RANK_ERROR = 0.0064  # Of the sample, with 99 % confidence (docs/design.md).

SEEDS = st.one_of(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))


@st.composite
def float_arrays(draw, max_size=200):
    """Finite float32 vectors of the shapes that break codecs."""
    size = draw(st.integers(1, max_size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from("heavy normal constant negative tied zeros denormal huge any".split()))
    values = rng.standard_normal(size)
    if kind == "heavy":
        values = np.clip(rng.standard_t(0.7, size) * 10.0 ** draw(st.integers(-30, 20)), -3e38, 3e38)
    elif kind == "constant":
        values = np.full(size, rng.standard_normal())
    elif kind == "negative":
        values = -np.abs(values)
    elif kind == "tied":
        values = rng.integers(-3, 4, size)
    elif kind == "zeros":
        values = np.where(values > 1, values, np.where(values > 0, 0.0, -0.0))
    elif kind == "denormal":
        values = rng.integers(-20, 21, size) * 2.0**-149
    elif kind == "huge":
        values[rng.integers(size)] = 3.4028234e38 * rng.choice([-1, 1])
    elif kind == "any":
        floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
        values = np.array(draw(st.lists(floats, min_size=1, max_size=40)))
    return values.astype(np.float32)


@st.composite
def supports(draw, max_n=2**31 - 1):
    """(n, ascending indices), at least one, the last element often among them."""
    n = draw(st.one_of(st.integers(1, min(300, max_n)), st.sampled_from([1, 2, 8, 9, max_n])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    indices = rng.integers(0, n, draw(st.integers(1, min(n, 150))))
    if draw(st.booleans()):
        indices[-1] = n - 1
    if draw(st.booleans()):  # A dense run, whose deltas are 1.
        indices = np.concatenate([indices, np.arange(min(n, 40))])
    return n, np.unique(indices).astype(np.uint32)


BLOOM_PARTS = st.tuples(st.sampled_from(oracles.POLICIES), st.sampled_from([0.9, 0.5, 0.1, 0.01, 1e-9]))


def assert_same_bits(actual, expected):
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()


def outcome(read):
    """What a reader yields, or None where it refuses the bytes."""
    try:
        return read()
    except (oracles.FormatError, _core.DataLossError):
        return None


@st.composite
def damages(draw):
    """A function that changes a section a little."""
    flips = draw(st.lists(st.tuples(st.integers(0, 2**16), st.integers(1, 255)), min_size=1, max_size=2))
    cut = draw(st.sampled_from([None, None, None, None, -1, 0, 4]))
    where = draw(st.sampled_from(["front", "end", "anywhere"]))

    def damage(section: bytes) -> bytes:
        changed = bytearray(section)
        for at, mask in flips:
            if changed:
                size = len(changed) if where == "anywhere" else min(len(changed), 24)
                changed[-1 - at % size if where == "end" else at % size] ^= mask
        return bytes(changed[:cut]) + b"\0" * (cut == 4)

    return damage


class TestExamplesOfThePage:
    """The worked examples of FORMAT.md."""

    @pytest.mark.parametrize(
        ("write", "indices", "n", "expected"),
        [
            (oracles.write_raw_indices, [1, 258], 300, "01000000 02010000"),
            (oracles.write_bitmap, [0, 3, 8], 10, "0901"),
            (
                oracles.write_delta_binary,
                [702, 735, 1244, 2516, 3536, 3786, 4187, 4195],
                4196,
                "5111 BE02 21 FD01 F804 FC03 FA 9101 08",
            ),
        ],
    )
    def test_indices(self, write, indices, n, expected):
        assert write(indices, n) == bytes.fromhex(expected)

    @pytest.mark.parametrize(
        ("policy", "first", "decoded"),
        [("p0", "01", [3, 15, 17, 34, 42, 43, 60]), ("p2", "03", [15, 17, 43])],
    )
    def test_bloom(self, policy, first, decoded):
        probes = oracles.bloom_positions([3, 17, 42], 3, 15, seed=1)
        assert probes.tolist() == [[2, 3, 4], [5, 4, 4], [4, 14, 10]]
        section, indices = oracles.write_bloom([3, 17, 42], 64, 1, policy, 0.1)
        assert section == bytes.fromhex(first + "03 0F000000 3C44")
        assert indices.tolist() == decoded

    @pytest.mark.parametrize(
        ("write", "values", "expected"),
        [
            (oracles.write_raw_values, [1, -2.5], "0000803f 000020c0"),
            (oracles.write_fp16, [1, -2.5, 70000], "003c 00c1 ff7b"),
            (oracles.write_bf16, [1, -2.5, 3.1415927], "803f 20c0 4940"),
        ],
    )
    def test_values(self, write, values, expected):
        assert write(np.float32(values)) == bytes.fromhex(expected)

    def test_quantile(self):
        section = bytes.fromhex("04000000 000000c0 0000803f 00000040 00004040 7900")
        assert oracles.read_quantile(section, 5).tolist() == [1, 2, 3, 1, -2]

    def test_dexp(self):
        section = bytes.fromhex(
            "02000000 0000803f 000000c1 57c57f05 0000a042 00000040 00004040"
            "03000000 60254dbc 63b47440 4b9a813f f12e8abe 0000803f 0000a040 0835"
        )
        assert oracles.parse_dexp(section, 5)[1].tolist() == [0, 1, 4, 2, 3]
        np.testing.assert_allclose(oracles.read_dexp(section, 5), [3, 2, -1, -5, -4], rtol=1e-6)

    def test_sketchml(self):
        section = bytes.fromhex(
            "02000000 01000000 03000000 0000003f 0000803f 00000040"
            "0d000000 03000000 01000000 00 010803 00"
            "01000000 00000040 0a000000 01000000 01000000 00 04"
        )
        indices, values = oracles.read_sketchml(section, 16, 4, seed=0)
        assert indices.tolist() == [1, 4, 9, 12]
        assert values.tolist() == [0.5, -2, 0.5, 0.5]

    def test_checksum_is_crc32c(self):
        assert oracles.crc32c(b"123456789") == 0xE3069283  # The check value of the CRC catalogue.
        assert oracles.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720 B.4.


class TestIndices:
    @pytest.mark.parametrize("name", LOSSLESS_WRITERS)
    @given(data=st.data())
    @property_test
    def test_lossless_bytes_are_the_same_both_ways(self, name, data):
        n, indices = data.draw(supports(70001 if name == "bitmap" else 2**31 - 1))
        section, decoded = _core.encode_indices(name, indices, n)
        assert section == LOSSLESS_WRITERS[name](indices, n)
        assert_same_bits(decoded, indices)
        assert_same_bits(_core.decode_indices(name, section, n, indices.size), indices)
        read = oracles.INDEX_READERS[INDEX_IDS[name]](section, n, indices.size)
        assert read.tolist() == indices.tolist()

    @pytest.mark.parametrize("gap", [1, 2**8 - 1, 2**8, 2**16 - 1, 2**16, 2**24 - 1, 2**24, 2**31 - 2])
    @pytest.mark.parametrize("first", [0, 1])
    def test_delta_lengths(self, gap, first):
        indices = np.array([0, gap], np.uint32)[1 - first :]
        section, _ = _core.encode_indices("delta_binary", indices, 2**31 - 1)
        assert section == oracles.write_delta_bytes(indices)
        assert oracles.read_delta_binary(section, 2**31 - 1, indices.size).tolist() == indices.tolist()

    def test_delta_blocks_start_again(self):
        indices = np.cumsum(np.random.default_rng(0).integers(1, 600, 2 * 65536 + 10)).astype(np.uint32)
        n = int(indices[-1]) + 1
        section, _ = _core.encode_indices("delta_binary", indices, n)
        assert section == oracles.write_delta_bytes(indices)
        assert (oracles.read_delta_binary(section, n, indices.size) == indices).all()

    @given(support=supports(), extra=st.integers(1, 3))
    @property_test
    def test_longer_deltas_than_needed_are_read(self, support, extra):
        n, indices = support
        section = oracles.write_delta_bytes(indices, extra)
        assert_same_bits(_core.decode_indices("delta_binary", section, n, indices.size), indices)

    @given(support=supports(max_n=3000), part=BLOOM_PARTS, seed=SEEDS)
    @settings(property_test, max_examples=80)
    def test_bloom_is_the_same_both_ways(self, support, part, seed):
        self.check_bloom(*support, *part, seed)

    @pytest.mark.parametrize("policy", oracles.POLICIES)
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
        expected_section, expected = oracles.write_bloom(indices, n, seed, policy, fpr)
        assert section == expected_section
        assert decoded.tolist() == expected.tolist()
        assert_same_bits(_core.decode_indices("bloom", section, n, decoded.size, seed), decoded)
        assert oracles.read_bloom(section, n, decoded.size, seed).tolist() == decoded.tolist()

    @pytest.mark.parametrize("policy", oracles.POLICIES)
    def test_bloom_of_another_k(self, policy):
        """For p2 also fewer than there are positives alone at a bit, which no encoder writes."""
        indices = np.arange(5, 300, 13, dtype=np.uint32)
        section, decoded = _core.encode_indices(f"bloom:policy={policy},fpr=0.01", indices, 300, 16)
        accepted = 0
        for k in range(1, 60):
            actual = outcome(lambda k=k: _core.decode_indices("bloom", section, 300, k, 16))
            expected = outcome(lambda k=k: oracles.read_bloom(section, 300, k, 16))
            assert (actual is None) == (expected is None)
            assert actual is None or actual.tolist() == expected.tolist()
            accepted += actual is not None
        assert accepted == 1 if policy == "p0" else accepted > 5

    @pytest.mark.parametrize("name", INDEX_IDS)
    @given(support=supports(max_n=300), bloom=BLOOM_PARTS, seed=SEEDS, damage=damages())
    @property_test
    def test_damage_is_refused_or_read_alike(self, name, support, bloom, seed, damage):
        n, indices = support
        part = "bloom:policy={},fpr={}".format(*bloom) if name == "bloom" else name
        section, decoded = _core.encode_indices(part, indices, n, seed)
        section, k = damage(section), decoded.size
        actual = outcome(lambda: _core.decode_indices(name, section, n, k, seed))
        expected = outcome(lambda: oracles.INDEX_READERS[INDEX_IDS[name]](section, n, k, seed))
        assert (actual is None) == (expected is None)
        assert actual is None or actual.tolist() == expected.tolist()


class TestValues:
    @pytest.mark.parametrize("name", VALUE_IDS)
    @given(values=float_arrays())
    @settings(property_test, max_examples=60)
    def test_decoded_alike(self, name, values):
        section = _core.encode_values(name, values, None, values.size)
        decoded = _core.decode_values(name, section, None, values.size)
        assert_same_bits(decoded, oracles.VALUE_READERS[VALUE_IDS[name]](section, values.size))

    @pytest.mark.parametrize("name", VALUE_WRITERS)
    @given(values=float_arrays())
    @settings(property_test, max_examples=60)
    def test_determined_bytes(self, name, values):
        assert _core.encode_values(name, values, None, values.size) == VALUE_WRITERS[name](values)

    @pytest.mark.parametrize("name", VALUE_WRITERS)
    def test_rounding_at_every_edge(self, name):
        """Halfway between two neighbours, and one bit either side; all the way to the largest float."""
        halves = np.array([0x0FFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0x8001, 0x18000], np.uint32)
        exponents = np.arange(0, 255, dtype=np.uint32) << 23
        bits = (exponents[:, None] + halves).ravel()
        bits = np.concatenate(
            [bits, np.array([0, 1, 0x477FEFFF, 0x477FF000, 0x7F7F8000, 0x7F7FFFFF], np.uint32)]
        )
        values = np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)
        assert _core.encode_values(name, values, None, values.size) == VALUE_WRITERS[name](values)

    @pytest.mark.parametrize("name", VALUE_IDS)
    @given(values=float_arrays(), damage=damages())
    @property_test
    def test_damage_is_refused_or_read_alike(self, name, values, damage):
        k = values.size
        section = damage(_core.encode_values(name, values, None, k))
        actual = outcome(lambda: _core.decode_values(name, section, None, k))
        expected = outcome(lambda: oracles.VALUE_READERS[VALUE_IDS[name]](section, k))
        assert (actual is None) == (expected is None)
        if actual is not None:
            assert_same_bits(actual, expected)


def assert_buckets_are_means_of_intervals(values, means, codes):
    """`codes` are the buckets of `values`, all of one order; no bucket is empty."""
    assert sorted(set(codes.tolist())) == list(range(means.size))
    order = np.argsort(values, kind="stable")
    assert (np.diff(codes[order]) >= 0).all(), "buckets are not intervals"
    equal = np.diff(values[order]) == 0
    assert (np.diff(codes[order])[equal] == 0).all(), "equal values in two buckets"
    for bucket, mean in enumerate(means.astype(np.float64)):
        members = values[codes == bucket].astype(np.float64)
        true_mean = math.fsum(members) / members.size
        assert abs(mean - true_mean) <= 2.0**-23 * abs(true_mean) + 2.0**-149
        assert (np.signbit(mean) and mean < 0) == (members < 0).any() == (members < 0).all()


class TestPadding:
    """Bits after the last: zero when written; index sections refuse others, value sections do not look."""

    def test_index_sections(self):
        indices, n = np.array([1, 5, 7], np.uint32), 12
        for part in ("bitmap", "delta_binary", "bloom:policy=p0,fpr=0.05"):
            name = part.partition(":")[0]
            section, decoded = _core.encode_indices(part, indices, n)
            at = 0 if name == "delta_binary" else len(section) - 1
            changed = bytearray(section)
            changed[at] |= 0x80
            assert section[at] < 0x80
            with pytest.raises(_core.DataLossError):
                _core.decode_indices(name, bytes(changed), n, decoded.size)

    @pytest.mark.parametrize("name", ["quantile", "dexp"])
    def test_value_sections(self, name):
        values = np.float32([1, 2, 3, -4, 5])
        section = bytearray(_core.encode_values(name, values, None, 5))
        assert section[-1] < 0x80
        decoded = _core.decode_values(name, bytes(section), None, 5)
        section[-1] |= 0x80
        assert_same_bits(_core.decode_values(name, bytes(section), None, 5), decoded)
        assert_same_bits(oracles.VALUE_READERS[VALUE_IDS[name]](bytes(section), 5), decoded)


class TestQuantile:
    @given(values=float_arrays(), buckets=st.sampled_from([2, 3, 16, 256, 65536]))
    @settings(property_test, max_examples=60)
    def test_buckets_are_means_of_intervals(self, values, buckets):
        section = _core.encode_values(f"quantile:buckets={buckets}", values, None, values.size)
        means, codes = oracles.parse_quantile(section, values.size)
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
        means, codes = oracles.parse_quantile(section, num_values)
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
        _, codes = oracles.parse_quantile(section, values.size)
        return np.cumsum(np.bincount(codes)) / values.size


class TestDexp:
    def test_exp_is_exp(self):
        x = np.linspace(-87, 87, 20001)
        np.testing.assert_allclose(oracles.deterministic_exp(x), np.exp(x), rtol=1e-15)

    @given(values=float_arrays())
    @settings(property_test, max_examples=60)
    def test_everything_but_the_curve_is_determined(self, values):
        parts, ranks = oracles.parse_dexp(_core.encode_values("dexp", values, None, values.size), values.size)
        assert ranks.tolist() == oracles.dexp_ranks(values).tolist()
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
        section += oracles.pack(rng.permutation(k), oracles.num_bits_of(k))
        assert_same_bits(_core.decode_values("dexp", section, None, k), oracles.read_dexp(section, k))

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
        decoded = oracles.read_dexp(_core.encode_values("dexp", values, None, size), size)
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


@dataclasses.dataclass
class Sketched:
    """A dense tensor under `nonzero|sketchml`, and what its bytes say."""

    indices: np.ndarray
    values: np.ndarray
    parsed: dict
    signs: np.ndarray
    buckets: np.ndarray

    @classmethod
    def of(cls, dense, parameters="", seed=0):
        spec = "nonzero|sketchml" + (f":{parameters}" if parameters else "")
        frame = frames.encode(dense, spec, seed)
        section, k = frame[oracles.HEADER_BYTES :], oracles.read_header(frame)["k"]
        parsed = oracles.parse_sketchml(section, dense.size, k, seed)
        indices, signs, buckets = oracles.query_sketchml(section, dense.size, k, seed)
        return cls(indices, dense[indices], parsed, signs, buckets)


class TestSketchML:
    @given(dense=float_arrays(), rows=st.integers(1, 4), columns=st.sampled_from([0.1, 0.3, 1]), seed=SEEDS)
    @property_test
    def test_buckets_groups_and_cells(self, dense, rows, columns, seed):
        """With as many groups as buckets there is nothing to confuse: that yields the true buckets."""
        assume(dense.any())
        true = Sketched.of(dense, "buckets=64,groups=64", seed)
        found = Sketched.of(dense, f"buckets=64,groups=3,rows={rows},columns={columns}", seed)
        assert found.indices.tolist() == np.flatnonzero(dense).tolist()
        for sign, (side, true_side) in enumerate(
            zip(found.parsed["signs"], true.parsed["signs"], strict=True)
        ):
            assert_same_bits(side["means"], true_side["means"])
            assert len(side["means"]) <= 64
            mine = found.signs == sign
            assert mine.tolist() == ((found.values < 0) == sign).tolist()
            magnitudes = np.abs(found.values[mine])
            assert_buckets_are_means_of_intervals(magnitudes, side["means"], true.buckets[mine])
            bucket_of = dict(zip(found.indices.tolist(), true.buckets.tolist(), strict=True))
            for group in side["groups"]:
                self.check_cells(group, side["width"], bucket_of)
        assert (found.buckets <= true.buckets).all(), "farther from zero"

    @staticmethod
    def check_cells(group, width, bucket_of):
        keys, first = group["keys"], group["first"]
        buckets = np.array([bucket_of[key] for key in keys.tolist()]) - first
        assert ((buckets >= 0) & (buckets < width)).all(), "a key in the wrong group"
        for row, cells in enumerate(group["cells"]):
            expected = np.full(cells.size, width)
            columns = oracles.sketch_columns(keys, row, cells.size, group["seed"])
            np.minimum.at(expected, columns, buckets)
            assert cells.tolist() == np.where(expected == width, 0, expected).tolist()

    @given(
        dense=float_arrays(),
        buckets=st.sampled_from([2, 16, 256]),
        groups=st.sampled_from([1, 8]),
        seed=SEEDS,
        damage=damages(),
    )
    @property_test
    def test_damage_is_refused_or_read_alike(self, dense, buckets, groups, seed, damage):
        assume(dense.any())
        frame = frames.encode(dense, f"nonzero|sketchml:buckets={buckets},groups={groups}", seed)
        header = oracles.read_header(frame)
        kept = {name: header[name] for name in ("dtype", "support", "n", "k", "value_id", "seed")}
        for section in (frame[oracles.HEADER_BYTES :], damage(frame[oracles.HEADER_BYTES :])):
            packet = oracles.write_frame(kept, value_section=section)
            actual = outcome(lambda packet=packet: frames.decode(packet))
            expected = outcome(lambda packet=packet: oracles.decode_sum([[packet]], 1.0)[0])
            assert (actual is None) == (expected is None)
            if actual is not None:
                assert_same_bits(actual, expected)

    def test_never_farther_from_zero_never_of_another_sign(self):
        dense = np.random.default_rng(3).standard_t(3, 20000).astype(np.float32)
        decoded = frames.decode(frames.encode(dense, "nonzero|sketchml", seed=4))
        means = Sketched.of(dense, "groups=256", seed=4).parsed["signs"]
        assert (np.sign(decoded) == np.sign(dense)).all()
        for sign, side in enumerate(means):
            mine = (dense < 0) == sign
            # The true bucket is one of the two whose means enclose the value.
            above = np.searchsorted(side["means"], np.abs(dense[mine])).clip(max=side["means"].size - 1)
            assert (np.abs(decoded[mine]) <= side["means"][above]).all()

    def test_share_of_exact_answers(self):
        """Closed form for ideal hashes: a row is right where no key of a lower bucket shares the cell."""

        def ideal(width, keys_per_column, rows):
            lower = np.arange(width) / width
            return np.mean(1 - (1 - np.exp(-keys_per_column * lower)) ** rows)

        assert ideal(32, 1 / 0.3, 1) == pytest.approx(0.3046, abs=5e-5)
        assert ideal(32, 1 / 0.3, 2) == pytest.approx(0.4433, abs=5e-5)
        dense = np.random.default_rng(5).standard_normal(60000).astype(np.float32)
        true = Sketched.of(dense, "groups=256", seed=6)
        for rows, columns in ((2, 0.2), (1, 0.3), (3, 0.3)):
            found = Sketched.of(dense, f"rows={rows},columns={columns}", seed=6)
            for sign in (0, 1):
                share = (found.buckets == true.buckets)[found.signs == sign].mean()
                width = -(-found.parsed["signs"][sign]["means"].size // 8)
                assert share == pytest.approx(ideal(width, 1 / columns, rows), abs=0.015)


def topk_count(n: int, ratio: float) -> int:
    """`ratio * n`, halves up, at least one where there is one."""
    return min(n, max(1, math.floor(ratio * n + 0.5)))


class TestSparsifiers:
    @given(dense=float_arrays(), tau=st.sampled_from([1.5e-45, 1e-38, 0.1, 1.0, 2.0, 3.4e38]))
    @property_test
    def test_nonzero_and_threshold(self, dense, tau):
        assert _core.select("nonzero", dense).tolist() == oracles.select_nonzero(dense).tolist()
        expected = oracles.select_threshold(dense, tau)
        assert _core.select(f"threshold:tau={tau}", dense).tolist() == expected.tolist()

    def test_threshold_compares_floats(self):
        dense = np.float32([0.1, -0.1, np.nextafter(np.float32(0.1), np.float32(0)), 0.2])
        assert _core.select("threshold:tau=0.1", dense).tolist() == [0, 1, 3]

    @given(dense=float_arrays(), ratio=st.sampled_from([0.001, 0.01, 0.1, 0.25, 0.5, 0.99, 1.0]))
    @settings(property_test, max_examples=60)
    def test_topk(self, dense, ratio):
        expected = oracles.select_topk(dense, topk_count(dense.size, ratio))
        assert _core.select(f"topk:ratio={ratio}", dense).tolist() == expected.tolist()

    @pytest.mark.parametrize("values", [[0.0], [1, -1, 2], [-0.0, 0.0, 2.0**-149]])
    def test_topk_ties_of_a_long_vector(self, values):
        dense = np.random.default_rng(7).choice(np.float32(values), 50000)
        for ratio in (0.01, 0.3, 0.7):
            expected = oracles.select_topk(dense, topk_count(dense.size, ratio))
            assert (_core.select(f"topk:ratio={ratio}", dense) == expected).all()


SPARSIFIERS = ["nonzero", "topk:ratio=0.2", "threshold:tau=0.5"]
INDEX_PARTS = [*LOSSLESS_WRITERS, *(f"bloom:policy={policy},fpr=0.1" for policy in oracles.POLICIES)]
SPECS = ["|".join(parts) for parts in itertools.product(SPARSIFIERS, INDEX_PARTS, VALUE_IDS)]
SPECS += [f"dense|raw|{value}" for value in VALUE_IDS]
SPECS += [f"{sparsifier}|sketchml" for sparsifier in ("dense", *SPARSIFIERS)]


def widen(stored: np.ndarray, dtype: str) -> np.ndarray:
    """The float32 values of what a frame of this type is made from."""
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.view(np.float16 if dtype == "float16" else np.float32).astype(np.float32)


def narrow(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds to what the core returns: bit patterns of the narrow types, to nearest even."""
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    if dtype == "bfloat16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return values


def select(part: str, dense: np.ndarray) -> np.ndarray:
    name, _, parameters = part.partition(":")
    if name == "nonzero":
        return oracles.select_nonzero(dense)
    if name == "threshold":
        return oracles.select_threshold(dense, float(parameters.split("=")[1]))
    return oracles.select_topk(dense, topk_count(dense.size, float(parameters.split("=")[1])))


def expected_frame(dense: np.ndarray, dtype: str, spec: str, seed: int) -> tuple[dict, bytes | None]:
    """The header fields that are determined; the frame, where all of its bytes are."""
    sparsifier, index, *value = spec.split("|")
    header = {"magic": b"TFCF", "version": 1, "flags": 0, "reserved": 0, "seed": seed, "n": dense.size}
    header["dtype"] = DTYPE_IDS[dtype]
    everything = sparsifier == "dense"
    indices = np.arange(dense.size) if everything else select(sparsifier, dense)
    if not value:
        header |= {"support": JOINT, "k": indices.size, "index_id": 0, "value_id": 1, "num_index_bytes": 0}
        return header, None
    header["support"] = EVERYTHING if everything else FROM_INDEX_SECTION
    header["value_id"] = VALUE_IDS[value[0]]
    header["index_id"] = 0 if everything else INDEX_IDS[index.partition(":")[0]]
    section = b""
    values = dense[indices]
    if not everything and indices.size:
        if index.startswith("bloom"):
            policy = index.split("=")[1].split(",")[0]
            section, indices = oracles.write_bloom(indices, dense.size, seed, policy, 0.1)
            values = values if policy == "naive" else dense[indices]
        else:
            section = LOSSLESS_WRITERS[index](indices, dense.size)
    header |= {"k": indices.size, "num_index_bytes": len(section)}
    if value[0] not in VALUE_WRITERS:
        return header, None
    return header, oracles.write_frame(header, section, VALUE_WRITERS[value[0]](values))


def check_frame(values: np.ndarray, dtype: str, spec: str, seed: int):
    limit = {"float32": np.inf, "float16": 65504, "bfloat16": 3.38e38}[dtype]
    stored = narrow(np.clip(values, -limit, limit).astype(np.float32), dtype)
    dense = widen(stored, dtype)
    assert np.isfinite(dense).all()
    frame = _core.encode(stored, dtype, spec, seed=seed)
    header, expected = expected_frame(dense, dtype, spec, seed)
    read, _, _ = oracles.read_frame(frame)
    assert {name: read[name] for name in header} == header
    assert read["num_bytes"] == len(frame)
    if expected is not None:
        assert frame == expected
    [(name, decoded)] = _core.decode(frame)
    assert name == dtype
    assert_same_bits(decoded, narrow(oracles.decode_sum([[frame]], 1.0)[0], dtype))

    [seen] = frames.inspect(frame)
    assert (seen["num_bytes"], seen["header_bytes"]) == (len(frame), oracles.HEADER_BYTES)
    assert (seen["index_bytes"], seen["value_bytes"]) == (read["num_index_bytes"], read["num_value_bytes"])
    assert (seen["n"], seen["k"], seen["seed"]) == (read["n"], read["k"], seed)
    assert (seen["dtype"], seen["version"], seen["checksum_ok"]) == (dtype, 1, True)


class TestFrames:
    @pytest.mark.parametrize("spec", SPECS)
    def test_every_spec(self, spec):
        values = np.random.default_rng(8).standard_t(3, 300).astype(np.float32)
        values[::3] = 0
        check_frame(values, "float32", spec, seed=9)
        assert frames.encode(values, spec, seed=9) == _core.encode(values, "float32", spec, seed=9)

    @given(
        values=float_arrays(), dtype=st.sampled_from([*DTYPE_IDS]), spec=st.sampled_from(SPECS), seed=SEEDS
    )
    @settings(property_test, max_examples=150)
    def test_any_spec_and_tensor(self, values, dtype, spec, seed):
        check_frame(values, dtype, spec, seed)

    def test_a_large_tensor(self):
        """More elements than any block of the encoder."""
        values = np.random.default_rng(10).standard_normal(150000).astype(np.float32)
        for spec in ("dense|raw|fp16", "dense|raw|dexp", "nonzero|delta_binary|quantile", "nonzero|sketchml"):
            check_frame(values, "float32", spec, seed=11)

    @pytest.mark.parametrize("spec", ["dense|raw|raw", "topk|bloom|fp16", "nonzero|sketchml"])
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_tensor_that_is_not_finite(self, spec, value):
        frame = frames.encode(np.float32([1, value, 3]), spec, seed=12)
        header, indices, _ = oracles.read_frame(frame)
        assert (header["flags"], header["k"], len(frame)) == (1, 0, oracles.HEADER_BYTES)
        assert indices is None
        assert np.isnan(frames.decode(frame)).all()

    @given(at=st.integers(0, 39), bit=st.integers(0, 7), spec=st.sampled_from(SPECS))
    @settings(property_test, max_examples=150)
    def test_a_changed_header_is_refused_or_read_alike(self, at, bit, spec):
        values = np.random.default_rng(13).standard_normal(100).astype(np.float32)
        frame = bytearray(frames.encode(values, spec, seed=14))
        frame[at] ^= 1 << bit
        frame[40:44] = oracles.crc32c(frame[:40] + frame[44:]).to_bytes(4, "little")
        frame = bytes(frame)
        header = oracles.read_header(frame)
        assume(header["n"] < 2**20)  # Both allocate n elements.
        actual = outcome(lambda: _core.decode(frame))
        expected = outcome(lambda: oracles.decode_sum([[frame]], 1.0))
        assert (actual is None) == (expected is None)
        if actual is not None:
            [(dtype, decoded)] = actual
            assert DTYPE_IDS[dtype] == header["dtype"]
            if header["flags"]:
                assert np.isnan(widen(decoded, dtype)).all()
            else:
                assert_same_bits(decoded, narrow(expected[0], dtype))

    @pytest.mark.parametrize("dtype", DTYPE_IDS)
    def test_sum_over_ranks(self, dtype):
        rng = np.random.default_rng(15)
        specs = ["topk:ratio=0.3|bloom:policy=p1|dexp", "nonzero|sketchml", "dense|raw|raw"]
        packets = []
        for rank in range(3):
            tensors = [narrow(rng.standard_normal(50).astype(np.float32), dtype) for _ in specs]
            packets.append(
                [_core.encode(t, dtype, spec, seed=rank) for t, spec in zip(tensors, specs, strict=True)]
            )
        scale = 1 / 3
        data = b"".join(itertools.chain(*packets))
        sums, num_bytes = _core.decode_sum(data, 3, scale, [50] * 3, [dtype] * 3)
        for actual, expected in zip(sums, oracles.decode_sum(packets, scale), strict=True):
            assert_same_bits(actual, narrow(expected, dtype))
        assert num_bytes == [sum(map(len, tensor)) for tensor in zip(*packets, strict=True)]
