"""`deflate` against its oracle: what its blocks inflate to; the deflated bytes are the encoder's affair."""

import struct
import zlib

import numpy as np
import oracle_deflate
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle_inputs import assert_same_bits, float_arrays, property_test, same_values

from tfcompress import _core


class TestDeflate:
    @given(values=float_arrays(), shuffle=st.integers(0, 1), level=st.integers(1, 9))
    @property_test
    def test_exact(self, values, shuffle, level):
        section = _core.encode_values(f"deflate:shuffle={shuffle},level={level}", values, None, values.size)
        self.check(section, values, shuffle)

    @pytest.mark.parametrize("shuffle", [0, 1])
    @pytest.mark.parametrize("size", [262143, 262144, 262145, 600000])
    def test_blocks(self, size, shuffle):
        values = np.random.default_rng(size).integers(-9, 9, size).astype(np.float32)
        section = _core.encode_values(f"deflate:level=1,shuffle={shuffle}", values, None, size)
        self.check(section, values, shuffle)

    @staticmethod
    def check(section, values, shuffle):
        found, blocks = oracle_deflate.parse_deflate(section, values.size)
        assert found == shuffle
        if shuffle:
            for at, block in enumerate(blocks):
                part = values[at * oracle_deflate.BLOCK : (at + 1) * oracle_deflate.BLOCK]
                assert block == b"".join(part.tobytes()[byte::4] for byte in range(4))
        else:
            assert b"".join(blocks) == values.tobytes()
        assert_same_bits(_core.decode_values("deflate", section, None, values.size), values)

    @pytest.mark.parametrize("shuffle", [0, 1])
    @pytest.mark.parametrize("extra", [b"", b"\0", b"\x63\x60\0"])
    def test_streams_of_other_encoders(self, shuffle, extra):
        """Several DEFLATE blocks in a stream, stored ones too; nothing may follow the stream."""
        values = np.float32([1, -2.5, 0, 3e38, -0.0])
        data = np.frombuffer(values.tobytes(), np.uint8).reshape(-1, 4)
        data = data.T.tobytes() if shuffle else data.tobytes()
        stream = zlib.compressobj(0, wbits=-15)
        stream = (
            stream.compress(data[:7])
            + stream.flush(zlib.Z_FULL_FLUSH)
            + stream.compress(data[7:])
            + stream.flush()
        )
        stream += extra
        section = struct.pack("<BI", shuffle, len(stream)) + stream
        assert same_values("deflate", section, 5) == (not extra)
        if not extra:
            assert_same_bits(_core.decode_values("deflate", section, None, 5), values)
