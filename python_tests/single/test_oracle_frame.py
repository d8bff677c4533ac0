"""Sparsifiers and whole frames against their oracles."""

import itertools
import math

import numpy as np
import oracle_frame
import oracle_index
import oracle_sparsify
import oracle_value
import oracle_wire
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle_inputs import SEEDS, assert_same_bits, float_arrays, outcome, property_test

from tfcompress import _core, frames


def topk_count(n: int, ratio: float) -> int:
    """`ratio * n`, halves up, at least one where there is one."""
    return min(n, max(1, math.floor(ratio * n + 0.5)))


class TestSparsifiers:
    @given(dense=float_arrays(), tau=st.sampled_from([1.5e-45, 1e-38, 0.1, 1.0, 2.0, 3.4e38]))
    @property_test
    def test_nonzero_and_threshold(self, dense, tau):
        assert _core.select("nonzero", dense).tolist() == oracle_sparsify.select_nonzero(dense).tolist()
        expected = oracle_sparsify.select_threshold(dense, tau)
        assert _core.select(f"threshold:tau={tau}", dense).tolist() == expected.tolist()

    def test_threshold_compares_floats(self):
        dense = np.float32([0.1, -0.1, np.nextafter(np.float32(0.1), np.float32(0)), 0.2])
        assert _core.select("threshold:tau=0.1", dense).tolist() == [0, 1, 3]

    @given(dense=float_arrays(), ratio=st.sampled_from([0.001, 0.01, 0.1, 0.25, 0.5, 0.99, 1.0]))
    @settings(property_test, max_examples=60)
    def test_topk(self, dense, ratio):
        expected = oracle_sparsify.select_topk(dense, topk_count(dense.size, ratio))
        assert _core.select(f"topk:ratio={ratio}", dense).tolist() == expected.tolist()

    @pytest.mark.parametrize("values", [[0.0], [1, -1, 2], [-0.0, 0.0, 2.0**-149]])
    def test_topk_ties_of_a_long_vector(self, values):
        dense = np.random.default_rng(7).choice(np.float32(values), 50000)
        for ratio in (0.01, 0.3, 0.7):
            expected = oracle_sparsify.select_topk(dense, topk_count(dense.size, ratio))
            assert (_core.select(f"topk:ratio={ratio}", dense) == expected).all()


SPARSIFIERS = ["nonzero", "topk:ratio=0.2", "threshold:tau=0.5"]
INDEX_PARTS = [
    *oracle_index.INDEX_WRITERS,
    *(f"bloom:policy={policy},fpr=0.1" for policy in oracle_index.POLICIES),
]
SPECS = ["|".join(parts) for parts in itertools.product(SPARSIFIERS, INDEX_PARTS, oracle_value.VALUE_IDS)]
SPECS += [f"dense|raw|{value}" for value in oracle_value.VALUE_IDS]
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
        return oracle_sparsify.select_nonzero(dense)
    if name == "threshold":
        return oracle_sparsify.select_threshold(dense, float(parameters.split("=")[1]))
    return oracle_sparsify.select_topk(dense, topk_count(dense.size, float(parameters.split("=")[1])))


def expected_frame(dense: np.ndarray, dtype: str, spec: str, seed: int) -> tuple[dict, bytes | None]:
    """The header fields that are determined; the frame, where all of its bytes are."""
    sparsifier, index, *value = spec.split("|")
    header = {"magic": b"TFCF", "version": 1, "flags": 0, "reserved": 0, "seed": seed, "n": dense.size}
    header["dtype"] = oracle_frame.DTYPE_IDS[dtype]
    everything = sparsifier == "dense"
    indices = np.arange(dense.size) if everything else select(sparsifier, dense)
    if not value:
        header |= {
            "support": oracle_frame.JOINT,
            "k": indices.size,
            "index_id": 0,
            "value_id": 1,
            "num_index_bytes": 0,
        }
        return header, None
    header["support"] = oracle_frame.EVERYTHING if everything else oracle_frame.FROM_INDEX_SECTION
    header["value_id"] = oracle_value.VALUE_IDS[value[0]]
    header["index_id"] = 0 if everything else oracle_index.INDEX_IDS[index.partition(":")[0]]
    section = b""
    values = dense[indices]
    if not everything and indices.size:
        if index.startswith("bloom"):
            policy = index.split("=")[1].split(",")[0]
            section, indices = oracle_index.write_bloom(indices, dense.size, seed, policy, 0.1)
            values = values if policy == "naive" else dense[indices]
        else:
            section = oracle_index.INDEX_WRITERS[index](indices, dense.size)
    header |= {"k": indices.size, "num_index_bytes": len(section)}
    if value[0] not in oracle_value.VALUE_WRITERS:
        return header, None
    return header, oracle_frame.write_frame(header, section, oracle_value.VALUE_WRITERS[value[0]](values))


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
    @pytest.mark.parametrize("spec", SPECS)
    def test_every_spec(self, spec):
        values = np.random.default_rng(8).standard_t(3, 300).astype(np.float32)
        values[::3] = 0
        check_frame(values, "float32", spec, seed=9)
        assert frames.encode(values, spec, seed=9) == _core.encode(values, "float32", spec, seed=9)

    @given(
        values=float_arrays(),
        dtype=st.sampled_from([*oracle_frame.DTYPE_IDS]),
        spec=st.sampled_from(SPECS),
        seed=SEEDS,
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
        header, indices, _ = oracle_frame.read_frame(frame)
        assert (header["flags"], header["k"], len(frame)) == (1, 0, oracle_frame.HEADER_BYTES)
        assert indices is None
        assert np.isnan(frames.decode(frame)).all()

    @given(at=st.integers(0, 39), bit=st.integers(0, 7), spec=st.sampled_from(SPECS))
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
        for actual, expected in zip(sums, oracle_frame.decode_sum(packets, scale), strict=True):
            assert_same_bits(actual, narrow(expected, dtype))
        assert num_bytes == [sum(map(len, tensor)) for tensor in zip(*packets, strict=True)]
