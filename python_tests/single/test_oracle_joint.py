"""Every joint codec against its oracle, both ways where possible."""

import dataclasses
import struct

import numpy as np
import oracle_entropy
import oracle_frame
import oracle_joint
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle_deltas import write_adaptive_deltas
from oracle_inputs import (
    SEEDS,
    assert_buckets_are_means_of_intervals,
    assert_same_bits,
    damages,
    float_arrays,
    outcome,
    property_test,
)

from tfcompress import frames


@dataclasses.dataclass
class Sketched:
    """A dense tensor under `nonzero` and a joint codec that sketches, and what its bytes say."""

    section: bytes
    indices: np.ndarray
    values: np.ndarray
    parsed: dict
    signs: np.ndarray
    buckets: np.ndarray

    @classmethod
    def of(cls, dense, codec, seed=0):
        frame = frames.encode(dense, f"nonzero|{codec}", seed)
        section, k = frame[oracle_frame.HEADER_BYTES :], oracle_frame.read_header(frame)["k"]
        parsed = oracle_joint.parse_sketch(codec.partition(":")[0], section, dense.size, k, seed)
        indices, signs, buckets = oracle_joint.query_sketch(parsed)
        return cls(section, indices, dense[indices], parsed, signs, buckets)


def check_section(header, section):
    """A value section is refused or read alike by core and oracle; returns whether it is read."""
    packet = oracle_frame.write_frame(header, value_section=section)
    actual = outcome(lambda: frames.decode(packet))
    expected = outcome(lambda: oracle_frame.decode_sum([[packet]], 1.0)[0])
    assert (actual is None) == (expected is None)
    if actual is not None:
        assert_same_bits(actual, expected)
    return actual is not None


def check_damage(dense, codec, seed, damage):
    frame = frames.encode(dense, f"nonzero|{codec}", seed)
    header = oracle_frame.read_header(frame)
    kept = {name: header[name] for name in ("dtype", "support", "n", "k", "value_id", "seed")}
    assert check_section(kept, frame[oracle_frame.HEADER_BYTES :])
    check_section(kept, damage(frame[oracle_frame.HEADER_BYTES :]))


SKETCHES = pytest.mark.parametrize("codec", oracle_joint.SKETCH_BODIES)


class TestSketches:
    @SKETCHES
    @given(dense=float_arrays(), rows=st.integers(1, 4), columns=st.sampled_from([0.1, 0.3, 1]), seed=SEEDS)
    @property_test
    def test_buckets_groups_and_cells(self, codec, dense, rows, columns, seed):
        """With as many groups as buckets there is nothing to confuse: that yields the true buckets."""
        assume(dense.any())
        true = Sketched.of(dense, f"{codec}:buckets=64,groups=64", seed)
        found = Sketched.of(dense, f"{codec}:buckets=64,groups=3,rows={rows},columns={columns}", seed)
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
        assert found.section == oracle_joint.write_sketch(codec, found.parsed)

    @staticmethod
    def check_cells(group, width, bucket_of):
        keys, first = group["keys"], group["first"]
        buckets = np.array([bucket_of[key] for key in keys.tolist()]) - first
        assert ((buckets >= 0) & (buckets < width)).all(), "a key in the wrong group"
        for row, cells in enumerate(group["cells"]):
            expected = np.full(cells.size, width)
            columns = oracle_joint.sketch_columns(keys, row, cells.size, group["seed"])
            np.minimum.at(expected, columns, buckets)
            assert cells.tolist() == np.where(expected == width, 0, expected).tolist()

    @SKETCHES
    @given(
        dense=float_arrays(),
        buckets=st.sampled_from([2, 16, 256]),
        groups=st.sampled_from([1, 8]),
        seed=SEEDS,
        damage=damages(),
    )
    @property_test
    def test_damage_is_refused_or_read_alike(self, codec, dense, buckets, groups, seed, damage):
        assume(dense.any())
        check_damage(dense, f"{codec}:buckets={buckets},groups={groups}", seed, damage)

    @SKETCHES
    def test_never_farther_from_zero_never_of_another_sign(self, codec):
        dense = np.random.default_rng(3).standard_t(3, 20000).astype(np.float32)
        decoded = frames.decode(frames.encode(dense, f"nonzero|{codec}", seed=4))
        means = Sketched.of(dense, f"{codec}:groups=256", seed=4).parsed["signs"]
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
        true = Sketched.of(dense, "sketchml:groups=256", seed=6)
        for rows, columns in ((2, 0.2), (1, 0.3), (3, 0.3)):
            found = Sketched.of(dense, f"sketchml:rows={rows},columns={columns}", seed=6)
            for sign in (0, 1):
                share = (found.buckets == true.buckets)[found.signs == sign].mean()
                width = -(-found.parsed["signs"][sign]["means"].size // 8)
                assert share == pytest.approx(ideal(width, 1 / columns, rows), abs=0.015)


class TestSKCompress:
    @given(dense=float_arrays(), groups=st.sampled_from([1, 8, 256]), seed=SEEDS)
    @property_test
    def test_decodes_as_sketchml_does(self, dense, groups, seed):
        decoded = [
            frames.decode(frames.encode(dense, f"nonzero|{codec}:groups={groups}", seed))
            for codec in oracle_joint.SKETCH_BODIES
        ]
        assert_same_bits(*decoded)

    def test_more_keys_in_a_group_than_in_a_block(self):
        dense = np.random.default_rng(7).standard_normal(140000).astype(np.float32)
        found = Sketched.of(dense, "skcompress:groups=1,rows=1")
        assert all(side["groups"][0]["keys"].size > 65536 for side in found.parsed["signs"])
        assert found.section == oracle_joint.write_sketch("skcompress", found.parsed)

    @pytest.mark.parametrize("coding", [0, 1, 2, 255])
    def test_codings_of_cells(self, coding):
        """Of a cell that has no bits when packed, and a code of one word of one bit."""
        cells = b"" if coding == 0 else oracle_entropy.write_lengths([1]) + b"\0"
        group = struct.pack("<II", 1, 1) + write_adaptive_deltas([3]) + bytes([coding]) + cells
        section = struct.pack("<IIIfI", 1, 1, 1, 0.5, len(group)) + group + struct.pack("<I", 0)
        header = {"dtype": 1, "support": oracle_frame.JOINT, "value_id": 2, "n": 9, "k": 1, "seed": 0}
        assert check_section(header, section) == (coding < 2)

    @given(seed=SEEDS, damage=damages())
    @property_test
    def test_damaged_words_are_refused_or_read_alike(self, seed, damage):
        dense = np.random.default_rng(9).standard_normal(800).astype(np.float32)
        codec = "skcompress:buckets=16,groups=1,columns=1"
        for side in Sketched.of(dense, codec, seed).parsed["signs"]:
            keys, cells = side["groups"][0]["keys"], side["groups"][0]["cells"].ravel()
            coding = oracle_joint.write_skcompress_body(keys, cells, 16)[len(write_adaptive_deltas(keys))]
            assert coding == 1
        check_damage(dense, codec, seed, damage)


MULTIPLIERS = st.one_of(st.sampled_from([1.0, 1.5, 1.999]), st.floats(1, 1.999))


class TestThreeLC:
    @given(dense=float_arrays(), multiplier=MULTIPLIERS)
    @settings(property_test, max_examples=100)
    def test_bytes_are_the_same_both_ways(self, dense, multiplier):
        frame = frames.encode(dense, f"dense|threelc:multiplier={multiplier!r}")
        scale, trits = oracle_joint.threelc_trits(dense, multiplier)
        assert oracle_frame.read_header(frame)["k"] == np.count_nonzero(trits)
        if trits.any():
            assert frame[oracle_frame.HEADER_BYTES :] == oracle_joint.write_threelc(dense, multiplier)
        assert_same_bits(frames.decode(frame), np.float32(0) + scale * trits.astype(np.float32))

    @given(data=st.data(), size=st.integers(1, 300), scale=st.sampled_from([2.0**-126, 0.1, 1.0, 3e38]))
    @property_test
    def test_ternary_tensors_come_back_exactly(self, data, size, scale):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        share = data.draw(st.sampled_from([0.001, 0.1, 0.6]))
        dense = np.float32(scale) * rng.choice(
            np.float32([-1, 0, 1]), size, p=[share / 2, 1 - share, share / 2]
        )
        assert_same_bits(frames.decode(frames.encode(dense, "dense|threelc")), dense + np.float32(0))

    def test_larger_multipliers_send_fewer_elements_of_a_larger_scale(self):
        dense = np.random.default_rng(8).uniform(-1, 1, 5000).astype(np.float32)
        largest, before = float(np.abs(dense).max()), dense.size
        for multiplier in (1, 1.2, 1.5, 1.9, 1.999):
            decoded = frames.decode(frames.encode(dense, f"dense|threelc:multiplier={multiplier}"))
            scale = np.float32(multiplier * largest)
            assert set(np.abs(decoded).tolist()) == {0, scale}
            assert (np.abs(decoded - dense) <= scale / 2 * np.float32(1 + 2**-22)).all()
            assert 0 < np.count_nonzero(decoded) < before
            before = np.count_nonzero(decoded)

    @pytest.mark.parametrize("distance", [1, 60, 5000, 10**6])
    def test_runs_of_zeros_end_with_their_block(self, distance):
        dense = np.zeros(5 * (65536 * 2 + 40) + 3, np.float32)
        dense[distance - 1 :: distance] = 1
        dense[-1] = -1
        frame = frames.encode(dense, "nonzero|threelc")
        assert frame[oracle_frame.HEADER_BYTES :] == oracle_joint.write_threelc(dense)
        assert_same_bits(oracle_frame.decode_sum([[frame]], 1.0)[0], dense)
        assert_same_bits(frames.decode(frame), dense)

    @given(dense=float_arrays(), seed=SEEDS, damage=damages())
    @settings(property_test, max_examples=100)
    def test_damage_is_refused_or_read_alike(self, dense, seed, damage):
        assume((np.abs(dense) >= np.finfo(np.float32).tiny).any())
        check_damage(dense, "threelc", seed, damage)

    def test_runs_that_no_encoder_writes_are_read(self):
        """Zeros byte by byte, and a run over the end of a block."""
        for body in ([121] * 20, [243] * 10, [255] * (65536 * 2 // 14), [121, 245, 121]):
            num_bytes = sum(byte - 241 if byte > 242 else 1 for byte in body)
            assert check_section(self.header(5 * num_bytes + 5, 5), self.section(*body, 0))

    def test_numbers_of_elements(self):
        """The digits of 211 are 2 1 2 1 1, and the only ones of a run are 1."""
        assert [check_section(self.header(n, 2), self.section(211)) for n in (2, 3, 5, 6)] == [0, 1, 1, 0]
        assert [check_section(self.header(5, k), self.section(211)) for k in (1, 2, 3)] == [0, 1, 0]
        assert [check_section(self.header(n, 2), self.section(211, 243)) for n in (10, 11, 15)] == [0, 1, 1]

    @staticmethod
    def header(n, k):
        return {"dtype": 1, "support": oracle_frame.JOINT, "value_id": 3, "n": n, "k": k, "seed": 0}

    @staticmethod
    def section(*body):
        return np.float32(2).tobytes() + bytes(body)
