"""The codecs of oracle_quantizer.py: bytes that a sum or a seed decides, and what their errors promise."""

import itertools
import math

import numpy as np
import oracle_frame
import oracle_quantizer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_inputs import SEEDS, float_arrays, property_test, same_values
from oracle_quantizer import SMALLEST, without_subnormals
from oracle_wire import pack

from tfcompress import _core, frames

LARGEST = float(np.finfo(np.float32).max)
SEVERAL = settings(property_test, max_examples=80)


def round_trip(part, values, seed=0):
    """(section, decoded)."""
    section = _core.encode_values(part, values, None, values.size, seed)
    return section, _core.decode_values(part.partition(":")[0], section, None, values.size, seed)


def means_over_seeds(part, values, num_seeds) -> np.ndarray:
    decoded = [round_trip(part, values, seed)[1].astype(np.float64) for seed in range(num_seeds)]
    return np.mean(decoded, axis=0)


def hoeffding(num_draws: int) -> float:
    """How far the mean of draws from an interval of length 1 is from its expectation, but for 1e-12."""
    return math.sqrt(math.log(2e12) / (2 * num_draws))


class TestQsgd:
    @given(
        values=float_arrays(), bits=st.integers(2, 8), bucket=st.sampled_from([1, 3, 64, 65536]), seed=SEEDS
    )
    @SEVERAL
    def test_norms_and_the_codes_that_follow(self, values, bits, bucket, seed):
        section, decoded = round_trip(f"qsgd:bits={bits},bucket={bucket}", values, seed)
        *header, norms, _ = oracle_quantizer.parse_qsgd(section, values.size)
        assert header == [bits, bucket]
        normal = without_subnormals(values).astype(np.float64)
        for norm, at in zip(norms.tolist(), range(0, values.size, bucket), strict=True):
            true = math.sqrt(math.fsum(normal[at : at + bucket] ** 2))
            assert norm == pytest.approx(min(true, LARGEST), rel=2.0**-23, abs=0)
        assert section == oracle_quantizer.write_qsgd(values, norms, bits, bucket, seed)
        units = norms.astype(np.float64)[np.arange(values.size) // bucket] / (2 ** (bits - 1) - 1)
        assert (np.abs(decoded - normal) <= 1.0001 * units + SMALLEST).all()
        assert (decoded * normal >= 0).all()

    def test_a_norm_above_every_float(self):
        values = np.float32([LARGEST, -LARGEST, LARGEST, 1])
        section, decoded = round_trip("qsgd", values)
        assert oracle_quantizer.parse_qsgd(section, 4)[2].tolist() == [LARGEST]
        assert section == oracle_quantizer.write_qsgd(values, [LARGEST])
        assert decoded[:3].tolist() == values[:3].tolist()

    @pytest.mark.parametrize("size", [65537, 200001])
    def test_noise_of_long_vectors(self, size):
        values = np.random.default_rng(size).standard_normal(size).astype(np.float32)
        section, _ = round_trip("qsgd", values, 2**64 - 1)
        norms = oracle_quantizer.parse_qsgd(section, size)[2]
        assert section == oracle_quantizer.write_qsgd(values, norms, seed=2**64 - 1)

    @pytest.mark.parametrize("bits", [2, 4, 7])
    def test_right_on_average_over_seeds(self, bits):
        values = np.random.default_rng(bits).standard_t(2, 101).astype(np.float32)
        means = means_over_seeds(f"qsgd:bits={bits},bucket=25", values, 500)
        norms = np.sqrt(np.add.reduceat(values.astype(np.float64) ** 2, np.arange(0, 101, 25)))
        units = norms[np.arange(101) // 25] / (2 ** (bits - 1) - 1)
        assert (np.abs(means - values) <= (hoeffding(500) + 2.0**-20) * units).all()

    def test_right_on_average_over_positions(self):
        values = np.full(65536, 0.3, np.float32)
        _, decoded = round_trip("qsgd:bits=2,bucket=4", values, 7)
        assert abs(decoded.astype(np.float64).mean() - 0.3) <= hoeffding(65536) * 0.6
        pairs = (decoded[::2] != 0) & (decoded[1::2] != 0)  # The halves of one hash.
        assert abs(pairs.mean() - 0.25) <= hoeffding(32768)


class TestLog:
    PARAMETERS = st.tuples(
        st.sampled_from([1.001, 1.1, 2.0, 2.5, 16.0]), st.sampled_from([0, 1, 2, 20, 128, 5000, 32767])
    )

    @given(values=float_arrays(), parameters=PARAMETERS)
    @SEVERAL
    def test_sum_and_the_codes_that_follow(self, values, parameters):
        self.check(values, *parameters)

    @pytest.mark.parametrize("size", [65537, 200001])
    def test_long_vectors(self, size):
        self.check(np.random.default_rng(size).standard_t(2, size).astype(np.float32), 1.1, 128)

    @staticmethod
    def check(values, base, tau):
        section, decoded = round_trip(f"log:base={base},tau={tau}", values)
        found, total, *_ = oracle_quantizer.parse_log(section, values.size)
        normal = np.abs(without_subnormals(values).astype(np.float64))
        assert found == base
        assert total == pytest.approx(math.fsum(normal), rel=1e-12, abs=0)
        assert section == oracle_quantizer.write_log(values, total, base, tau)

        sizes, sent = np.abs(decoded.astype(np.float64)), decoded != 0
        assert (sizes <= normal).all(), "overestimated"
        assert (np.sign(decoded) == np.sign(values))[sent].all()
        assert (sizes * base * (1 + 2.0**-22) >= normal)[sent].all(), "not the nearest level"
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(total / normal) / math.log(base)
        tau = tau or oracle_quantizer.adapted_tau(base, 2**31 - 1)
        assert sent[(logarithms < tau - 1e-6) & (normal > 17 * SMALLEST)].all()
        assert not sent[(logarithms > tau + 1e-6) | (normal == 0)].any()

    def test_a_sum_above_every_float(self):
        values = np.float32([LARGEST, 2.0**103, -LARGEST, -LARGEST])
        for part in (values[:2], values):
            section, decoded = round_trip("log:base=2", part)
            total = oracle_quantizer.parse_log(section, part.size)[1]
            assert LARGEST < total == math.fsum(np.abs(part).astype(np.float64))
            assert section == oracle_quantizer.write_log(part, total, base=2)
            assert (np.abs(decoded) <= np.abs(part)).all()

    @pytest.mark.parametrize("total", [2.0**128, (2**31 - 1) * 2.0**128, np.inf, np.nan, -1.0])
    @pytest.mark.parametrize("below", [False, True])
    @pytest.mark.parametrize("first", [0, 31])
    def test_limits_of_the_sum(self, total, below, first):
        total = np.nextafter(total, 0) if below else total
        section = np.float64([2, total]).tobytes() + np.uint16([first, 2]).tobytes() + pack([0, 2, 3], 3)
        same_values("log", section, 3)

    @given(dense=float_arrays(), parameters=PARAMETERS, seed=SEEDS)
    @property_test
    def test_tau_narrows_the_support_before_the_indices_are_coded(self, dense, parameters, seed):
        """Who stays is decided by the sum over the selected; what is sent, by that over those who stay."""
        part = "log:base={},tau={}".format(*parameters)
        selected = np.flatnonzero(dense)
        frame = frames.encode(dense, f"nonzero|raw|{part}", seed)
        header = oracle_frame.read_header(frame)
        kept = np.zeros(0, np.uint32)
        if selected.size:
            section, _ = round_trip(part, dense[selected])
            total = oracle_quantizer.parse_log(section, selected.size)[1]
            base, tau = parameters
            tau = tau or oracle_quantizer.adapted_tau(base, selected.size)
            _, ladder = oracle_quantizer.log_ladder(dense[selected], total, base, tau)
            kept = selected[np.abs(dense[selected]) >= ladder[-1]] if ladder.size else kept
        assert header["k"] == kept.size
        sections = kept.astype("<u4").tobytes()
        if kept.size:
            section, decoded = round_trip(part, dense[kept])
            sections += section
            assert decoded.all(), "those who stay have a level"
        assert frame[oracle_frame.HEADER_BYTES :] == sections

    def test_everything_is_not_narrowed(self):
        dense = np.float32([1, 1e-9, -1, 0])
        header = oracle_frame.read_header(frames.encode(dense, "dense|raw|log"))
        assert (header["k"], header["support"]) == (4, oracle_frame.EVERYTHING)
        assert frames.decode(frames.encode(dense, "dense|raw|log:base=2,tau=20")).tolist() == [1, 0, -1, 0]


class TestLogQuant:
    @given(values=float_arrays(), bits=st.integers(2, 8))
    @SEVERAL
    def test_bytes_and_error(self, values, bits):
        section, decoded = round_trip(f"logquant:bits={bits}", values)
        assert section == oracle_quantizer.write_logquant(values, bits)
        true, found = np.abs(values.astype(np.float64)), np.abs(decoded.astype(np.float64))
        sent = found > 0
        assert (np.sign(decoded) == np.sign(values))[sent].all()
        assert (np.frexp(found[sent])[0] == 0.5).all(), "not a power of two"
        inside = sent & (true <= 2.0**127.5)  # Above, there is no next power.
        assert (np.abs(found - true) <= (math.sqrt(2) - 1) * true)[inside].all()
        assert (np.abs(np.log2(found[inside] / true[inside])) <= 0.5).all()
        # Level 1 is 2^(b-1) - 2 powers of two below the largest level.
        least = max(found.max() * 2.0 ** (2 - 2 ** (bits - 1)), SMALLEST) if sent.any() else np.inf
        assert (sent == (true >= max(least * math.sqrt(0.5), SMALLEST))).all()

    @given(values=float_arrays(), bits=st.integers(2, 8), seed=st.integers(0, 2**64 - 1))
    @SEVERAL
    def test_bytes_by_chance(self, values, bits, seed):
        part = f"logquant:bits={bits},rounding=random"
        section = _core.encode_values(part, values, None, values.size, seed)
        assert section == oracle_quantizer.write_logquant(values, bits, "random", seed)

    def test_the_turn_from_one_power_to_the_next(self):
        below = np.uint32(0x3504F3) + (np.arange(1, 255, dtype=np.uint32) << 23)
        values = np.concatenate([below, below + 1]).view(np.float32)
        values = np.concatenate([values, -values])
        section, decoded = round_trip("logquant", values)
        assert section == oracle_quantizer.write_logquant(values)
        turned = decoded[254:508][127:] / decoded[:254][127:]  # The others are below level 1.
        assert turned.tolist() == [2] * 126 + [1], "the largest has no next power"


class TestUniform:
    @given(values=float_arrays(), bits=st.sampled_from([8, 16]))
    @SEVERAL
    def test_bytes_and_half_a_step(self, values, bits):
        section, decoded = round_trip(f"uniform:bits={bits}", values)
        assert section == oracle_quantizer.write_uniform(values, bits)
        normal = without_subnormals(values).astype(np.float64)
        half = (normal.max() - normal.min()) / (2**bits - 1) / 2
        rounding = 2.0**-24 * np.abs(normal).max() + SMALLEST
        assert (np.abs(decoded - normal) <= half * (1 + 1e-9) + rounding).all()
        assert normal.min() <= decoded.min() and decoded.max() <= normal.max()

    def test_ends_are_exact(self):
        values = np.float32([0.1, -0.7, 0.3, 0.30000004])
        for bits in (8, 16):
            _, decoded = round_trip(f"uniform:bits={bits}", values)
            assert (decoded[1], decoded[3]) == (values[1], values[3])


class TestTernary:
    @given(values=float_arrays(), clip=st.sampled_from([0, 1e-3, 0.5, 2.5, 1000]), seed=SEEDS)
    @SEVERAL
    def test_scale_and_the_trits_that_follow(self, values, clip, seed):
        section, decoded = round_trip(f"ternary:clip={clip}", values, seed)
        scale, _ = oracle_quantizer.parse_ternary(section, values.size)
        normal = np.abs(without_subnormals(values).astype(np.float64))
        limit = clip * math.sqrt(math.fsum(normal**2) / values.size) if clip else np.inf
        expected = min(normal.max(), limit)
        if expected > 1.001 * SMALLEST or scale:
            assert scale == pytest.approx(expected, rel=2.0**-23, abs=0)
        assert section == oracle_quantizer.write_ternary(values, seed, scale)
        assert set(decoded.tolist()) <= {-scale, 0.0, scale}
        assert (decoded * np.sign(values) >= 0).all()
        assert (np.abs(decoded[normal >= scale]) == scale).all(), "the largest is not sent for sure"

    @pytest.mark.parametrize("clip", [0, 1.5])
    def test_right_on_average_over_seeds(self, clip):
        values = np.random.default_rng(3).standard_normal(101).astype(np.float32)
        section, _ = round_trip(f"ternary:clip={clip}", values)
        scale = float(oracle_quantizer.parse_ternary(section, 101)[0])
        means = means_over_seeds(f"ternary:clip={clip}", values, 500)
        assert (np.abs(means - np.clip(values, -scale, scale)) <= (hoeffding(500) + 2.0**-20) * scale).all()

    def test_noise_of_long_vectors(self):
        values = np.random.default_rng(4).standard_normal(200003).astype(np.float32)
        assert round_trip("ternary", values, 9)[0] == oracle_quantizer.write_ternary(values, 9)


class TestSign:
    @given(values=float_arrays())
    @SEVERAL
    def test_means_and_the_bits_that_follow(self, values):
        self.check(values)

    @pytest.mark.parametrize("size", [65537, 200001])
    def test_long_vectors(self, size):
        self.check(np.random.default_rng(size).standard_t(2, size).astype(np.float32))

    @staticmethod
    def check(values):
        section, decoded = round_trip("sign", values)
        mean, negative_mean, _ = oracle_quantizer.parse_sign(section, values.size)
        normal, negative = without_subnormals(values).astype(np.float64), values < 0
        for found, mine in ((mean, ~negative), (negative_mean, negative)):
            true = math.fsum(normal[mine]) / mine.sum() if mine.any() else 0.0
            if abs(true) > 1.001 * SMALLEST or found:
                assert found == pytest.approx(true, rel=2.0**-23, abs=0)
            assert (decoded[mine] == found).all()
        assert section == oracle_quantizer.write_sign(values, mean, negative_mean)

    @pytest.mark.parametrize(
        "means", list(itertools.product([0.0, -0.0, 1.0, -1.0, 1e-45, np.inf], repeat=2))
    )
    def test_means_of_the_other_sign_are_refused(self, means):
        same_values("sign", np.float32(means).tobytes() + b"\2", 2)
