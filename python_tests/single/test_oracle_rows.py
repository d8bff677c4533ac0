"""Frames of rows against their oracle."""

import dataclasses

import numpy as np
import oracle_frame
import oracle_index
import oracle_lossless
import oracle_rows
import oracle_sparsify
import oracle_value
import oracle_wire
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_inputs import SEEDS, assert_same_bits, float_arrays, outcome, property_test

import tfcompress as tfc
from tfcompress import _core, frames

SPECS = [
    *(f"topk|{index}|raw" for index in oracle_index.INDEX_PARTS),
    *(f"topk|delta_binary|{value}" for value in oracle_value.VALUE_IDS),
    "topk|bloom:policy=p0,fpr=0.1|sign",
    "topk|bloom:policy=naive,fpr=0.1|fp16",
    "dense|raw|raw",
    "randomk|raw|bf16",
    "dense|sketchml",
    "dense|skcompress",
]
ROW_SPARSIFIERS = ["dense", "nonzero", "topk:ratio=0.4", "threshold:tau=1.5"]


@dataclasses.dataclass
class Slices:
    num_rows: int
    ids: np.ndarray
    values: np.ndarray

    @property
    def width(self) -> int:
        return self.values.shape[1]

    def encode(self, spec, row_sparsifier="dense", residual=None, seed=0) -> bytes:
        return _core.encode_rows(
            self.values.ravel(),
            "float32",
            self.ids,
            self.num_rows,
            self.width,
            spec,
            row_sparsifier=row_sparsifier,
            residual=residual,
            seed=seed,
        )

    def decode(self, packets, num_ranks=1, scale=1.0):
        rows, values, num_bytes = _core.decode_rows(
            packets, num_ranks, scale, self.num_rows, self.width, "float32"
        )
        assert num_bytes == len(packets)
        return rows, values.reshape(-1, self.width)


def random_slices(num_rows=500, width=3, count=60, seed=0) -> Slices:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, num_rows, count)
    ids[count // 2 :] = rng.choice(ids, count - count // 2)  # Repeated.
    return Slices(num_rows, ids, rng.standard_t(3, (count, width)).astype(np.float32))


@st.composite
def any_slices(draw):
    values = draw(float_arrays()) / np.float32(8)  # Sums of a few of them are finite.
    width = draw(st.sampled_from([1, 2, 3, 16, 200]))
    values = np.resize(values, (-(-values.size // width), width))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    num_rows = draw(st.sampled_from([1, 5, 1000, 100_000]))
    ids = rng.integers(0, num_rows, len(values))
    ids = np.where(np.bincount(ids, minlength=num_rows)[ids] > 4, np.arange(ids.size) % num_rows, ids)
    return Slices(num_rows, ids.astype(draw(st.sampled_from([np.int32, np.int64]))), values)


def gather(rows, values, wanted) -> np.ndarray:
    """The values of the wanted rows, zeros where there are none."""
    found = np.isin(wanted, rows)
    gathered = np.zeros((len(wanted), values.shape[1]), np.float32)
    gathered[found] = values[np.searchsorted(rows, np.asarray(wanted)[found])]
    return gathered


def expected_frame(slices: Slices, rows, values, spec, row_sparsifier, seed) -> bytes | None:
    """The frame of these merged and compensated rows, where the page determines all of it."""
    sparsifier, index, *value = spec.split("|")
    if not value:
        return None
    name = value[0]
    index = "delta_binary" if sparsifier in ("dense", "randomk") else index
    header = {"n": slices.num_rows, "seed": seed, "dtype": oracle_frame.DTYPE_IDS["float32"]}
    header["value_id"] = oracle_value.VALUE_IDS[name]
    chosen = oracle_sparsify.select(row_sparsifier, oracle_rows.norms(values))
    ids, sent = rows[chosen], values[chosen]
    if ids.size == 0:
        return None
    if index.startswith("bloom"):
        policy = index.split("=")[1].split(",")[0]
        section, ids = oracle_index.write_bloom(ids, slices.num_rows, seed, policy, 0.1)
        sent = sent if policy == "naive" else gather(rows, values, ids)
    else:
        section = oracle_index.INDEX_WRITERS[index](ids, slices.num_rows)
    if name not in oracle_value.VALUE_WRITERS:
        return None
    header |= {"index_id": oracle_index.INDEX_IDS[index.partition(":")[0]], "k": len(ids)}
    # The codec knows that these are rows.
    shape = {"width": oracle_lossless.width_for(sent.size, slices.width)} if name == "lossless" else {}
    value_section = oracle_value.VALUE_WRITERS[name](sent.ravel(), **shape)
    return oracle_rows.write_rows(header, slices.width, section, value_section)


def check(slices: Slices, spec: str, row_sparsifier: str, seed: int):
    rows, merged = oracle_rows.merge(slices.ids, slices.values)
    expected = expected_frame(slices, rows, merged, spec, row_sparsifier, seed)
    frame = slices.encode(spec, row_sparsifier, seed=seed)
    if expected is not None:
        assert frame == expected
    expected_rows, expected_values = oracle_rows.decode_rows([frame], slices.num_rows, slices.width, 1.0)
    found_rows, found_values = slices.decode(frame)
    assert found_rows.tolist() == expected_rows.tolist()
    assert_same_bits(found_values, expected_values)
    chosen = rows[oracle_sparsify.select(row_sparsifier, oracle_rows.norms(merged))]
    if "bloom" not in spec and spec.count("|") == 2:
        assert found_rows.tolist() == chosen.tolist()
    [seen] = frames.inspect(frame)
    has_width = spec.count("|") == 2 and seen["k"] > 0
    assert seen["width"] == (slices.width if has_width else None)
    assert seen["support"] == ("rows" if spec.count("|") == 2 else "joint")


class TestRows:
    def test_the_example_of_the_page(self):
        values = np.float32([[0.5, 4], [1, -2]])
        frame = Slices(10, np.array([8, 3]), values).encode("topk|raw|raw")
        assert frame[oracle_frame.HEADER_BYTES :] == bytes.fromhex(
            "02000000 03000000 08000000 0000803f 000000c0 0000003f 00008040"
        )
        _, ids, rows = oracle_rows.read_rows(frame, 10, 2)
        assert ids.tolist() == [3, 8]
        assert rows.tolist() == [[1, -2], [0.5, 4]]

    @pytest.mark.parametrize("width", [1, 3, 16])
    @pytest.mark.parametrize("spec", SPECS)
    def test_every_spec(self, spec, width):
        for row_sparsifier in ROW_SPARSIFIERS:
            check(random_slices(width=width, seed=width), spec, row_sparsifier, seed=9)

    @given(
        slices=any_slices(),
        spec=st.sampled_from(SPECS),
        row_sparsifier=st.sampled_from(ROW_SPARSIFIERS),
        seed=SEEDS,
    )
    @settings(property_test, max_examples=150)
    def test_any_rows(self, slices, spec, row_sparsifier, seed):
        check(slices, spec, row_sparsifier, seed)

    @pytest.mark.parametrize("spec", SPECS)
    def test_the_residual_keeps_what_is_not_sent(self, spec):
        residual = np.zeros(500 * 3, np.float32)
        for step in range(3):
            slices = random_slices(seed=step)
            rows, compensated = oracle_rows.merge(slices.ids, slices.values)
            before = residual.reshape(500, 3).copy()
            compensated += before[rows]
            frame = slices.encode(spec, "topk:ratio=0.4", residual, seed=step)
            expected = expected_frame(slices, rows, compensated, spec, "topk:ratio=0.4", step)
            if expected is not None:
                assert frame == expected
            before[rows] = compensated
            _, ids, decoded = oracle_rows.read_rows(frame, 500, 3)
            before[ids] -= decoded
            np.testing.assert_array_equal(residual.reshape(500, 3), before)

    @pytest.mark.parametrize("spec", ["dense|raw|raw", "dense|sketchml", "topk|bloom|qsgd"])
    def test_sum_over_ranks(self, spec):
        ranks = [random_slices(seed=rank) for rank in range(3)]
        packets = [slices.encode(spec, seed=rank) for rank, slices in enumerate(ranks)]
        rows, sums = oracle_rows.decode_rows(packets, 500, 3, 1 / 3)
        found_rows, found_sums = ranks[0].decode(b"".join(packets), 3, 1 / 3)
        assert found_rows.tolist() == rows.tolist()
        assert_same_bits(found_sums, sums)

    @pytest.mark.parametrize("spec", ["dense|raw|raw", "dense|sketchml"])
    @pytest.mark.parametrize("num_sound", [0, 2])
    def test_a_rank_that_is_not_finite(self, spec, num_sound):
        broken = random_slices()
        broken.values[3, 1] = np.inf
        packets = [random_slices(seed=1).encode(spec) for _ in range(num_sound)] + [broken.encode(spec)]
        rows, sums = oracle_rows.decode_rows(packets, 500, 3, 1.0)
        found_rows, found_sums = broken.decode(b"".join(packets), num_sound + 1)
        assert found_rows.tolist() == rows.tolist()
        assert rows.size > 1 or not num_sound
        assert np.isnan(found_sums).all() and found_sums.shape == sums.shape

    @given(
        at=st.one_of(st.integers(0, 39), st.integers(44, 60)),
        bit=st.integers(0, 7),
        spec=st.sampled_from(SPECS),
    )
    @settings(property_test, max_examples=200)
    def test_a_changed_header_is_refused_or_read_alike(self, at, bit, spec):
        slices = random_slices(num_rows=100, count=20)
        frame = bytearray(slices.encode(spec, seed=14))
        frame[at] ^= 1 << bit
        frame[40:44] = oracle_wire.crc32c(frame[:40] + frame[44:]).to_bytes(4, "little")
        frame = bytes(frame)
        actual = outcome(lambda: slices.decode(frame))
        expected = outcome(lambda: oracle_rows.decode_rows([frame], 100, 3, 1.0))
        if oracle_frame.read_header(frame)["dtype"] != oracle_frame.DTYPE_IDS["float32"]:
            assert actual is None
            return
        assert (actual is None) == (expected is None)
        if actual is not None:
            assert actual[0].tolist() == expected[0].tolist()
            assert_same_bits(actual[1], expected[1])

    def test_arguments_are_checked(self):
        slices = random_slices()
        with pytest.raises(ValueError, match="outside"):
            Slices(500, np.array([500]), slices.values[:1]).encode("dense|raw|raw")
        with pytest.raises(ValueError, match="residual has 3 elements, the table has 1500"):
            slices.encode("dense|raw|raw", residual=np.zeros(3, np.float32))
        with pytest.raises(ValueError, match="unknown row sparsifier 'all'"):
            slices.encode("dense|raw|raw", "all")
        with pytest.raises(ValueError, match="sparse_as_dense=True"):
            slices.encode("dense|threelc")
        with pytest.raises(ValueError, match="180 values for 60 rows of 2"):
            _core.encode_rows(slices.values.ravel(), "float32", slices.ids, 500, 2, "dense|raw|raw")
        with pytest.raises(tfc.DataLossError, match="frame of 500 rows"):
            frames.decode(slices.encode("dense|raw|raw"))
