"""`lossless` on matrices, against its oracle; vectors are in the tests of all codecs."""

import numpy as np
import oracle_lossless
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle_inputs import assert_same_bits, damages, outer_products, property_test, same_values

import tfcompress as tfc
from tfcompress import _core


def rounded(values: np.ndarray, precision: str) -> np.ndarray:
    """Float32 values of this precision."""
    if precision == "bfloat16":
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return values.astype(precision).astype(np.float32)


class TestMatrices:
    @given(
        case=outer_products(),
        first_column=st.integers(0, 59),
        precision=st.sampled_from(["float32", "float16", "bfloat16"]),
        everything=st.booleans(),
    )
    @property_test
    def test_bytes_and_values(self, case, first_column, precision, everything):
        indices, n, width, values = case
        values = rounded(values, precision)
        if everything:
            indices, n = None, values.size
        spanned = n if everything else indices[-1] + 1
        takes_width = values.size >= 64 and width <= spanned
        section = _core.encode_values("lossless", values, indices, n, 0, width)
        assert section == oracle_lossless.write_lossless(values, indices, width if takes_width else 0)
        decoded = _core.decode_values("lossless", section, indices, n)
        assert_same_bits(decoded, values)
        assert_same_bits(oracle_lossless.read_lossless(section, values.size, indices), values)
        if takes_width:  # A piece that begins within a row: what the sharded exchange sends.
            section = oracle_lossless.write_lossless(values, indices, width, first_column % width)
            assert_same_bits(_core.decode_values("lossless", section, indices, n), values)

    @given(case=outer_products(), damage=damages())
    @property_test
    def test_damage_is_refused_or_read_alike(self, case, damage):
        indices, n, width, values = case
        section = _core.encode_values("lossless", values, indices, n, 0, width)
        same_values("lossless", damage(section), values.size, indices, n)

    def test_parts_of_a_matrix(self):
        """In four lanes; most of the first part is zero, and later ones begin within a row."""
        rng = np.random.default_rng(1)
        matrix = np.outer(rng.normal(size=900), rng.normal(size=300)).astype(np.float32)
        matrix *= rng.random(matrix.shape) < 0.05
        values = matrix.ravel()
        section = _core.encode_values("lossless", values, None, values.size, 0, 300)
        assert section == oracle_lossless.write_lossless(values, None, 300)
        assert_same_bits(_core.decode_values("lossless", section, None, values.size), values)


class TestFrames:
    @pytest.mark.parametrize("spec", ["dense|raw|lossless", "topk:ratio=0.01|rowcol|lossless"])
    def test_elements_are_sent_bit_for_bit(self, spec):
        rng = np.random.default_rng(2)
        matrix = np.outer(rng.standard_t(2, 300), rng.standard_t(2, 200)).astype(np.float32)
        exact = spec.replace("rowcol", "raw").replace("lossless", "raw")
        frame = tfc.encode(matrix, spec)
        assert_same_bits(tfc.decode(frame), tfc.decode(tfc.encode(matrix, exact)))
        assert len(frame) < 0.9 * len(tfc.encode(matrix, exact))

    def test_a_residual_keeps_nothing_of_what_was_sent(self):
        rng = np.random.default_rng(3)
        gradient, slot = rng.standard_t(2, (2, 60000)).astype(np.float32)
        compensated = gradient + slot
        spec = "residual|topk:ratio=0.01|rowcol|lossless"
        frame = _core.encode(gradient, "float32", spec, slots=[slot], width=200)
        decoded = tfc.decode(frame)
        sent = decoded != 0
        assert np.count_nonzero(sent) == 600
        assert_same_bits(decoded[sent], compensated[sent])
        assert_same_bits(slot, np.where(sent, np.float32(0), compensated))
