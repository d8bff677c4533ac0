"""The worked examples of cc_ops/FORMAT.md, as the oracles read them."""

import numpy as np
import oracle_count_sketch
import oracle_deflate
import oracle_entropy
import oracle_index
import oracle_index_entropy
import oracle_joint
import oracle_lossless
import oracle_quantizer
import oracle_rowcol
import oracle_sparsify
import oracle_value
import oracle_wire
import pytest


class TestExamplesOfThePage:
    """The worked examples of FORMAT.md."""

    @pytest.mark.parametrize(
        ("policy", "first", "decoded"),
        [("p0", "01", [3, 70, 125, 200, 900, 921]), ("p2", "03", [3, 70, 200, 921])],
    )
    def test_bloom(self, policy, first, decoded):
        probes = oracle_index.bloom_positions([3, 70, 200, 900], 3, 64, seed=2)
        assert probes.tolist() == [[3, 38, 29], [59, 7, 38], [29, 62, 27], [29, 38, 50]]
        section, indices = oracle_index.write_bloom([3, 70, 200, 900], 1024, 2, policy, 0.1)
        assert section == bytes.fromhex(first + "03 40000000 88000028 40000448")
        assert indices.tolist() == decoded

    def test_quantile(self):
        section = bytes.fromhex("04000000 000000c0 0000803f 00000040 00004040 7900")
        assert oracle_value.read_quantile(section, 5).tolist() == [1, 2, 3, 1, -2]

    def test_dexp(self):
        section = bytes.fromhex(
            "02000000 0000803f 000000c1 57c57f05 0000a042 00000040 00004040"
            "03000000 5f254dbc 63b47440 4b9a813f f12e8abe 0000803f 0000a040 0835"
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


class TestExamplesOfTheValueCodecs:
    """The worked examples of the value codecs."""

    def test_deflate(self):
        section = bytes.fromhex("00 05000000 6360400500")
        assert oracle_deflate.read_deflate(section, 4).tolist() == [0, 0, 0, 0]

    @pytest.mark.parametrize(
        ("name", "written", "expected", "decoded"),
        [
            ("raw", oracle_value.write_raw_values([1, -2.5]), "0000803F 000020C0", [1, -2.5]),
            ("fp16", oracle_value.write_fp16([1, -2.5, 70000]), "003C 00C1 FF7B", [1, -2.5, 65504]),
            ("bf16", oracle_value.write_bf16([1, -2.5, 3.1415927]), "803F 20C0 4940", [1, -2.5, 3.140625]),
            (
                "qsgd",
                oracle_quantizer.write_qsgd([3, -4, 7], [5, 7], bits=4, bucket=2, seed=0),
                "04 02000000 0000A040 0000E040 E507",
                [5 * 5 / 7, -6 * 5 / 7, 7],
            ),
            (
                "log",
                oracle_quantizer.write_log([2, -4, 1, 1, 0], 8, base=2, tau=3),
                "0000000000000040 0000000000002040 0100 0300 530B",
                [2, -4, 1, 1, 0],
            ),
            ("logquant", oracle_quantizer.write_logquant([8, -4, 0], bits=4), "04 82 E700", [8, -4, 0]),
            (
                "uniform",
                oracle_quantizer.write_uniform([-1, 0, 4], bits=8),
                "08 000080BF 00008040 0033FF",
                [-1, 0, 4],
            ),
            (
                "block_int",
                oracle_quantizer.write_block_int([1, -7, 3.5, 0], bits=4, block=4),
                "0404 E040 087B",
                [1, -7, 4, 0],
            ),
            (
                "block_int",
                oracle_quantizer.write_block_int([1, -7, 3.5, 0], bits=4, block=4, is_square=True),
                "8404 E040 0A7C",
                np.float32([9, -49, 25, 0]) * np.float32(7 / 49),
            ),
            (
                "ecsq",
                oracle_rowcol.write_ecsq([1, -2, 3], [0, 1, 2], bytes.fromhex("803f003f00")),
                "803F 003F 00 1300 08F9",
                [1, -2, 3],
            ),
            (
                "ecsq",
                oracle_rowcol.write_ecsq([0.1, -2, 0, 3], range(4), bytes.fromhex("f9bf50402b")),
                "F9BF 5040 2B 0900 0C3F",
                [0, -2.491211, 0, 2.491211],
            ),
            (
                "lossless",
                oracle_lossless.write_lossless([1, -2, 3]),
                "80 16 96 00 A2250D00B401",
                [1, -2, 3],
            ),
            ("lossless", oracle_lossless.write_lossless([0.1]), "FF CDCCCC3D", [0.1]),
            (
                "ternary",
                oracle_quantizer.write_ternary([2, 0, -2, 0, 2, -2], seed=0),
                "00000040 6402",
                [2, 0, -2, 0, 2, -2],
            ),
            (
                "sign",
                oracle_quantizer.write_sign([2, 0, -4, -6, 1, -0.0, 2], 1, -5),
                "0000803F 0000A0C0 0C",
                [1, 1, -5, -5, 1, 1, 1],
            ),
        ],
    )
    def test_values(self, name, written, expected, decoded):
        assert written == bytes.fromhex(expected)
        read = oracle_value.VALUE_READERS[oracle_value.VALUE_IDS[name]]
        np.testing.assert_allclose(read(written, len(decoded)), decoded, rtol=1e-7)

    def test_poly(self):
        section = bytes.fromhex(
            "01000000 01000000 02000000 00000040 00004040 0000003f 000000bf"
            "01000000 03000000 0000803f 0000a040 5555153f 000000bf 0835"
        )
        decoded = oracle_value.VALUE_READERS[13](section, 5)
        np.testing.assert_allclose(decoded, [3, 2, -4 / 3, -5, -10 / 3], rtol=1e-6)

    def test_minmax(self):
        section = bytes.fromhex(
            "02000000 02 03000000 0000003f 0000803f 00000040 01000000 00 01000000 00000040 01000000"
        )
        decoded = oracle_value.VALUE_READERS[14](section, 4, np.array([1, 4, 9, 12]), 0)
        assert decoded.tolist() == [0.5, -2, 0.5, 0.5]


class TestExamplesOfTheEntropyCodes:
    """The worked examples of seeded supports, the index codecs, `skcompress` and `threelc`."""

    def test_seeded_support(self):
        assert oracle_sparsify.seeded_support(10, 3, seed=1).tolist() == [2, 5, 7]

    @pytest.mark.parametrize(
        ("name", "indices", "n", "expected"),
        [
            ("raw", [1, 258], 300, "01000000 02010000"),
            ("bitmap", [0, 3, 8], 10, "0901"),
            (
                "delta_binary",
                [702, 735, 1244, 2516, 3536, 3786, 4187, 4195],
                4196,
                "51 11 be 02 21 fd 01 f8 04 fc 03 fa 91 01 08",
            ),
            ("rle", [4], 7, "01000000 01 00 14"),
            ("huffman", [1, 2], 4, "c301"),
            (
                "delta_adaptive",
                [5, 14, 19, 28, 128, 228, 628, 1028],
                1029,
                "02 28 24 0a 49 32 92 09 32 04 19",
            ),
            ("delta_flag", [200, 432, 575, 578], 579, "02 08 23 8f fe 23 03"),
            ("rowcol", [0, 1, 4, 5, 8], 9, "d2 0f 11 80 02 00"),
        ],
    )
    def test_indices(self, name, indices, n, expected):
        section = bytes.fromhex(expected)
        assert oracle_index.INDEX_WRITERS[name](indices, n) == section
        read = oracle_index.INDEX_READERS[oracle_index.INDEX_IDS[name]]
        assert read(section, n, len(indices)).tolist() == indices

    def test_a_matrix(self):
        indices, values = [9, 10, 13, 25, 26, 29], [1, -2, 4, 2, -4, 8]
        section = bytes.fromhex("36 02 05 d7 bc b8 c1 90 03 00")
        assert oracle_rowcol.write_rowcol(indices, 32, width=8) == section
        assert oracle_rowcol.read_rowcol(section, 32, 6).tolist() == indices
        section = bytes.fromhex("803f 003f 00 26 82 a3 b1 c6 40 01 00")
        assert oracle_rowcol.write_ecsq(values, indices, section[:5], width=8) == section
        assert oracle_rowcol.read_ecsq(section, 6, indices).tolist() == values
        section = bytes.fromhex("82 17 96 00 1d 82 d7 26 d5 b0 04 00")
        assert oracle_lossless.write_lossless(values, indices, width=8) == section
        assert oracle_lossless.read_lossless(section, 6, indices).tolist() == values

    def test_words_of_bytes(self):
        words = oracle_index_entropy.index_words(4)
        assert words == {0: "0", 1: "110", 2: "111", 3: "10"}

    def test_huffman_code(self):
        lengths = oracle_entropy.huffman_lengths([10, 2, 1])
        words = oracle_entropy.canonical_words(lengths)
        assert words == {0: "0", 1: "10", 2: "11"}
        assert "".join(words["abc".index(x)] for x in "aaaabaacaabaa") == "0000100011001000"
        assert oracle_entropy.write_lengths(lengths) == bytes.fromhex("54 01")
        assert oracle_entropy.read_lengths(oracle_wire.Reader(b"\x54\x01"), 3) == [1, 2, 2]

    def test_skcompress(self):
        section = bytes.fromhex(
            "02000000 01000000 03000000 0000003f 0000803f 00000040"
            "0e000000 03000000 01000000 0310220c 00 00"
            "01000000 00000040 0b000000 01000000 01000000 0220 00"
        )
        indices, values = oracle_joint.read_skcompress(section, 16, 4, seed=0)
        assert indices.tolist() == [1, 4, 9, 12]
        assert values.tolist() == [0.5, -2, 0.5, 0.5]
        parsed = oracle_joint.parse_sketch("skcompress", section, 16, 4, seed=0)
        assert oracle_joint.write_sketch("skcompress", parsed) == section

    def test_words_of_cells(self):
        counts = [6, 3, 2, 1]
        words = oracle_entropy.canonical_words(oracle_entropy.huffman_lengths(counts))
        assert [*words.values()] == ["0", "10", "110", "111"]
        assert sum(count * len(words[cell]) for cell, count in enumerate(counts)) == 21

    def test_threelc(self):
        dense = np.zeros(33, np.float32)
        dense[[0, 1, 3, 31]] = 0.75, -1, 0.25, 0.5
        section = bytes.fromhex("0000803f af f6 94")
        assert oracle_joint.write_threelc(dense) == section
        indices, values = oracle_joint.read_threelc(section, 33, 3, seed=0)
        assert (indices.tolist(), values.tolist()) == ([0, 1, 31], [1, -1, 1])

    def test_count_sketch(self):
        table = oracle_count_sketch.insert(np.float32([1, -2, 4]), 3, 4, seed=1)
        assert table.tobytes() == bytes.fromhex(
            "00000000 000000c0 00000000 0000a0c0 00000000 000080c0 00000000 000080bf"
            "000080c0 00000000 00000040 0000803f"
        )
        assert oracle_count_sketch.estimate(table, 3, seed=1).tolist() == [1, -2, 4]

    def test_shared_randomk(self):
        payload = oracle_count_sketch.encode_randomk(np.arange(10, dtype=np.float32), 0.3, seed=1)
        assert payload.tobytes() == bytes.fromhex("00000040 0000a040 0000e040")
