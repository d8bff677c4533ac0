"""Whole frames against their oracles: every sparsifier with every index, value and joint codec."""

import itertools
import math

import numpy as np
import oracle_frame
import oracle_index
import oracle_joint
import oracle_quantizer
import oracle_sparsify
import oracle_value
import oracle_wire
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle_inputs import SEEDS, assert_same_bits, float_arrays, outcome, property_test

from tfcompress import _core, frames

SPARSIFIERS = ["nonzero", "topk:ratio=0.2", "threshold:tau=0.5"]
VALUES = [*oracle_value.VALUE_IDS]
WITHOUT_INDICES = ["dense", "randomk:ratio=0.3"]
SPECS = [f"{sparsifier}|raw|{value}" for sparsifier in WITHOUT_INDICES for value in VALUES]
SPECS += map("|".join, itertools.product([*WITHOUT_INDICES, *SPARSIFIERS], oracle_joint.JOINT_IDS))
# Every index codec with every value codec, and either with every sparsifier.
PAIRS = [
    f"{SPARSIFIERS[(i + j) % len(SPARSIFIERS)]}|{index}|{value}"
    for (i, index), (j, value) in itertools.product(enumerate(oracle_index.INDEX_PARTS), enumerate(VALUES))
]
ANY_SPEC = st.one_of(
    st.sampled_from(SPECS),
    st.tuples(*map(st.sampled_from, (SPARSIFIERS, oracle_index.INDEX_PARTS, VALUES))).map("|".join),
)


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


def within_tau(values: np.ndarray) -> np.ndarray:
    """Which values `log` sends, by default: those with a logarithm up to tau."""
    normal = oracle_quantizer.without_subnormals(values)
    if not normal.any():
        return np.zeros(values.size, bool)
    total = math.fsum(np.abs(normal.astype(np.float64)))
    _, ladder = oracle_quantizer.log_ladder(values, total, 1.1, 128)
    return np.abs(values) >= ladder.min(initial=np.inf)


def expected_frame(dense: np.ndarray, dtype: str, spec: str, seed: int) -> tuple[dict, bytes | None]:
    """The header fields that are determined; the frame, where all of its bytes are."""
    sparsifier, index, *value = spec.split("|")
    header = {"magic": b"TFCF", "version": 1, "flags": 0, "reserved": 0, "seed": seed, "n": dense.size}
    header |= {"dtype": oracle_frame.DTYPE_IDS[dtype], "index_id": 0}
    indices = oracle_sparsify.select(sparsifier, dense, seed)
    section, value_section = b"", None
    if not value:
        header |= {"support": oracle_frame.JOINT, "value_id": oracle_joint.JOINT_IDS[index]}
        if index == "threelc":
            selected = np.zeros_like(dense)
            selected[indices] = dense[indices]
            _, trits = oracle_joint.threelc_trits(selected, 1.0)
            indices, value_section = np.flatnonzero(trits), oracle_joint.write_threelc(selected)
    elif sparsifier.startswith(("dense", "randomk")):
        everything = sparsifier == "dense"
        header["support"] = oracle_frame.EVERYTHING if everything else oracle_frame.SEEDED
        header["value_id"] = oracle_value.VALUE_IDS[value[0]]
        value_section = oracle_value.write_values(value[0], dense[indices], seed)
    else:
        header |= {"support": oracle_frame.FROM_INDEX_SECTION, "value_id": oracle_value.VALUE_IDS[value[0]]}
        header["index_id"] = oracle_index.INDEX_IDS[index.partition(":")[0]]
        if value[0] == "log":
            indices = indices[within_tau(dense[indices])]
        values = dense[indices]
        if indices.size and index.startswith("bloom"):
            policy = index.split("=")[1].split(",")[0]
            section, indices = oracle_index.write_bloom(indices, dense.size, seed, policy, 0.1)
            values = values if policy == "naive" else dense[indices]
        elif indices.size:
            section = oracle_index.INDEX_WRITERS[index](indices, dense.size)
        value_section = oracle_value.write_values(value[0], values, seed) if indices.size else None
    header |= {"k": indices.size, "num_index_bytes": len(section)}
    if indices.size == 0:
        return header, oracle_frame.write_frame(header)
    if value_section is None:
        return header, None
    return header, oracle_frame.write_frame(header, section, value_section)


def check_frame(values: np.ndarray, dtype: str, spec: str, seed: int):
    limit = {"float32": np.inf, "float16": 65504, "bfloat16": 3.38e38}[dtype]
    stored = narrow(np.clip(values, -limit, limit).astype(np.float32), dtype)
    dense = widen(stored, dtype)
    assert np.isfinite(dense).all()
    frame = _core.encode(stored, dtype, spec, seed=seed)
    header, expected = expected_frame(dense, dtype, spec, seed)
    read, _, _ = oracle_frame.read_frame(frame)
    assert {name: read[name] for name in header} == header
    assert read["num_bytes"] == len(frame)
    if expected is not None:
        assert frame == expected
    [(name, decoded)] = _core.decode(frame)
    assert name == dtype
    assert_same_bits(decoded, narrow(oracle_frame.decode_sum([[frame]], 1.0)[0], dtype))

    [seen] = frames.inspect(frame)
    assert (seen["num_bytes"], seen["header_bytes"]) == (len(frame), oracle_frame.HEADER_BYTES)
    assert (seen["index_bytes"], seen["value_bytes"]) == (read["num_index_bytes"], read["num_value_bytes"])
    assert (seen["n"], seen["k"], seen["seed"]) == (read["n"], read["k"], seed)
    assert (seen["dtype"], seen["version"], seen["checksum_ok"]) == (dtype, 1, True)


class TestFrames:
    @pytest.mark.parametrize("spec", [*SPECS, *PAIRS])
    def test_every_spec(self, spec):
        values = np.random.default_rng(8).standard_t(3, 300).astype(np.float32)
        values[::3] = 0
        check_frame(values, "float32", spec, seed=9)
        assert frames.encode(values, spec, seed=9) == _core.encode(values, "float32", spec, seed=9)

    @given(
        values=float_arrays(),
        dtype=st.sampled_from([*oracle_frame.DTYPE_IDS]),
        spec=ANY_SPEC,
        seed=SEEDS,
    )
    @settings(property_test, max_examples=150)
    def test_any_spec_and_tensor(self, values, dtype, spec, seed):
        check_frame(values, dtype, spec, seed)

    def test_a_large_tensor(self):
        """More elements than any block of the encoder."""
        values = np.random.default_rng(10).standard_normal(150000).astype(np.float32)
        for spec in (
            "dense|raw|fp16",
            "dense|raw|dexp",
            "nonzero|delta_binary|quantile",
            "nonzero|sketchml",
            "topk:ratio=0.5|delta_adaptive|log",
            "randomk:ratio=0.02|raw|qsgd",
            "dense|threelc",
        ):
            check_frame(values, "float32", spec, seed=11)

    @pytest.mark.parametrize(
        "spec", ["dense|raw|raw", "topk|bloom|fp16", "nonzero|sketchml", "randomk|raw|sign"]
    )
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_tensor_that_is_not_finite(self, spec, value):
        frame = frames.encode(np.float32([1, value, 3]), spec, seed=12)
        header, indices, _ = oracle_frame.read_frame(frame)
        assert (header["flags"], header["k"], len(frame)) == (1, 0, oracle_frame.HEADER_BYTES)
        assert indices is None
        np.testing.assert_array_equal(frames.decode(frame), np.full(3, np.nan))

    @given(at=st.integers(0, 39), bit=st.integers(0, 7), spec=ANY_SPEC)
    @settings(property_test, max_examples=150)
    def test_a_changed_header_is_refused_or_read_alike(self, at, bit, spec):
        values = np.random.default_rng(13).standard_normal(100).astype(np.float32)
        frame = bytearray(frames.encode(values, spec, seed=14))
        frame[at] ^= 1 << bit
        frame[40:44] = oracle_wire.crc32c(frame[:40] + frame[44:]).to_bytes(4, "little")
        frame = bytes(frame)
        header = oracle_frame.read_header(frame)
        assume(header["n"] < 2**20)  # Both allocate n elements.
        actual = outcome(lambda: _core.decode(frame))
        expected = outcome(lambda: oracle_frame.decode_sum([[frame]], 1.0))
        assert (actual is None) == (expected is None)
        if actual is not None:
            [(dtype, decoded)] = actual
            assert oracle_frame.DTYPE_IDS[dtype] == header["dtype"]
            if header["flags"]:
                assert np.isnan(widen(decoded, dtype)).all()
            else:
                assert_same_bits(decoded, narrow(expected[0], dtype))

    @pytest.mark.parametrize("dtype", oracle_frame.DTYPE_IDS)
    def test_sum_over_ranks(self, dtype):
        rng = np.random.default_rng(15)
        specs = [
            "topk:ratio=0.3|bloom:policy=p1|dexp",
            "nonzero|sketchml",
            "dense|raw|raw",
            "randomk:ratio=0.3|raw|ternary",
            "topk:ratio=0.3|rle|minmax",
            "threshold:tau=0.5|skcompress",
            "dense|threelc",
        ]
        packets = []
        for rank in range(3):
            tensors = [narrow(rng.standard_normal(50).astype(np.float32), dtype) for _ in specs]
            packets.append(
                [_core.encode(t, dtype, spec, seed=rank) for t, spec in zip(tensors, specs, strict=True)]
            )
        scale = 1 / 3
        data = b"".join(itertools.chain(*packets))
        sums, num_bytes = _core.decode_sum(data, 3, scale, [50] * len(specs), [dtype] * len(specs))
        for actual, expected in zip(sums, oracle_frame.decode_sum(packets, scale), strict=True):
            assert_same_bits(actual, narrow(expected, dtype))
        assert num_bytes == [sum(map(len, tensor)) for tensor in zip(*packets, strict=True)]


def test_arrays_of_another_byte_order_are_refused():
    with pytest.raises(ValueError, match="this machine.s byte order: got >f2"):
        frames.encode(np.arange(1, 5).astype(">f2"), "dense|raw|fp16")
