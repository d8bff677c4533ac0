"""Every joint codec against its oracle, both ways where possible."""

import dataclasses

import numpy as np
import oracle_frame
import oracle_joint
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
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
        section, k = frame[oracle_frame.HEADER_BYTES :], oracle_frame.read_header(frame)["k"]
        parsed = oracle_joint.parse_sketchml(section, dense.size, k, seed)
        indices, signs, buckets = oracle_joint.query_sketchml(section, dense.size, k, seed)
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
            columns = oracle_joint.sketch_columns(keys, row, cells.size, group["seed"])
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
        header = oracle_frame.read_header(frame)
        kept = {name: header[name] for name in ("dtype", "support", "n", "k", "value_id", "seed")}
        for section in (frame[oracle_frame.HEADER_BYTES :], damage(frame[oracle_frame.HEADER_BYTES :])):
            packet = oracle_frame.write_frame(kept, value_section=section)
            actual = outcome(lambda packet=packet: frames.decode(packet))
            expected = outcome(lambda packet=packet: oracle_frame.decode_sum([[packet]], 1.0)[0])
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
