"""The worked examples of cc_ops/FORMAT.md, as the oracles read them."""

import numpy as np
import oracle_index
import oracle_joint
import oracle_value
import oracle_wire
import pytest


class TestExamplesOfThePage:
    """The worked examples of FORMAT.md."""

    @pytest.mark.parametrize(
        ("write", "indices", "n", "expected"),
        [
            (oracle_index.write_raw_indices, [1, 258], 300, "01000000 02010000"),
            (oracle_index.write_bitmap, [0, 3, 8], 10, "0901"),
            (
                oracle_index.write_delta_binary,
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
        probes = oracle_index.bloom_positions([3, 17, 42], 3, 15, seed=1)
        assert probes.tolist() == [[2, 3, 4], [5, 4, 4], [4, 14, 10]]
        section, indices = oracle_index.write_bloom([3, 17, 42], 64, 1, policy, 0.1)
        assert section == bytes.fromhex(first + "03 0F000000 3C44")
        assert indices.tolist() == decoded

    @pytest.mark.parametrize(
        ("write", "values", "expected"),
        [
            (oracle_value.write_raw_values, [1, -2.5], "0000803f 000020c0"),
            (oracle_value.write_fp16, [1, -2.5, 70000], "003c 00c1 ff7b"),
            (oracle_value.write_bf16, [1, -2.5, 3.1415927], "803f 20c0 4940"),
        ],
    )
    def test_values(self, write, values, expected):
        assert write(np.float32(values)) == bytes.fromhex(expected)

    def test_quantile(self):
        section = bytes.fromhex("04000000 000000c0 0000803f 00000040 00004040 7900")
        assert oracle_value.read_quantile(section, 5).tolist() == [1, 2, 3, 1, -2]

    def test_dexp(self):
        section = bytes.fromhex(
            "02000000 0000803f 000000c1 57c57f05 0000a042 00000040 00004040"
            "03000000 60254dbc 63b47440 4b9a813f f12e8abe 0000803f 0000a040 0835"
        )
        assert oracle_value.parse_dexp(section, 5)[1].tolist() == [0, 1, 4, 2, 3]
        np.testing.assert_allclose(oracle_value.read_dexp(section, 5), [3, 2, -1, -5, -4], rtol=1e-6)

    def test_sketchml(self):
        section = bytes.fromhex(
            "02000000 01000000 03000000 0000003f 0000803f 00000040"
            "0d000000 03000000 01000000 00 010803 00"
            "01000000 00000040 0a000000 01000000 01000000 00 04"
        )
        indices, values = oracle_joint.read_sketchml(section, 16, 4, seed=0)
        assert indices.tolist() == [1, 4, 9, 12]
        assert values.tolist() == [0.5, -2, 0.5, 0.5]

    def test_checksum_is_crc32c(self):
        assert oracle_wire.crc32c(b"123456789") == 0xE3069283  # The check value of the CRC catalogue.
        assert oracle_wire.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720 B.4.
