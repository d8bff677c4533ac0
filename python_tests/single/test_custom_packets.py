"""Packets of codecs in Python: sums of what ranks sent, and what broken ones are refused for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfcompress as tfc
from tfcompress.custom_packets import CustomPackets

SHAPES = [(3, 5), (7,), ()]
RANKS = 3


class Halves(tfc.CustomCodec):
    """Half precision, and the seed, which `decode` must get again."""

    def encode(self, values, seed):
        return np.append(values.astype(np.float16).ravel(), np.float16(seed % 97)).view(np.uint8)

    def decode(self, encoded, shape, seed):
        halves = encoded.view(np.float16)
        assert halves[-1] == seed % 97
        return halves[:-1].reshape(shape)


def packets_of(codec):
    return CustomPackets([codec] * len(SHAPES), [f"g{i}" for i in range(len(SHAPES))])


def arrays_of(rank):
    rng = np.random.default_rng(rank)
    return [np.float32(rng.standard_normal(shape)) for shape in SHAPES]


def seeds_of(rank):
    return np.array([1000 + 50 * i + 7 * rank for i in range(len(SHAPES))], np.int64)


def decode(packets, gathered, position=0, ranks=RANKS):
    shapes = [np.array(shape, np.int32) for shape in SHAPES]
    return packets.decode(gathered, seeds_of(position), position, ranks, *shapes)


@pytest.fixture(scope="module")
def gathered():
    return np.concatenate([packets_of(Halves()).encode(seeds_of(r), *arrays_of(r))[0] for r in range(RANKS)])


@pytest.mark.parametrize("position", range(RANKS))
def test_sums_are_those_of_what_ranks_sent(gathered, position):
    *both, num_bytes, times, finite = decode(packets_of(Halves()), gathered, position)
    sums, own = both[: len(SHAPES)], both[len(SHAPES) :]
    sent = [[np.float32(np.float16(each)) for each in arrays_of(rank)] for rank in range(RANKS)]
    for i, total in enumerate(sums):
        assert total.dtype == np.float32 and total.shape == SHAPES[i]
        np.testing.assert_array_equal(total, (sent[0][i] + sent[1][i]) + sent[2][i])
        np.testing.assert_array_equal(own[i], sent[position][i])
    assert finite and (times > 0).all()
    assert num_bytes.tolist() == [RANKS * 2 * (np.prod(shape, dtype=int) + 1) for shape in SHAPES]


def test_bytes_are_counted_without_the_header():
    packets = packets_of(Halves())
    packet, lengths, _ = packets.encode(seeds_of(0), *arrays_of(0))
    assert lengths.tolist() == [32, 16, 4] and packet.size == lengths.sum() + packets.header_bytes


def test_what_is_not_finite_is_not_sent():
    packets = packets_of(Halves())
    arrays = arrays_of(1)
    arrays[1][2] = np.inf
    bad, lengths, _ = packets.encode(seeds_of(1), *arrays)
    assert not lengths.any()
    good = packets.encode(seeds_of(0), *arrays_of(0))[0]
    assert not decode(packets, np.concatenate([good, bad]), ranks=2)[-1]


@given(st.data())
def test_damage_is_found(gathered, data):
    damaged = gathered.copy()
    damaged[data.draw(st.integers(0, gathered.size - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="rank|behind"):
        decode(packets_of(Halves()), damaged)


@given(st.integers(0, 300))
def test_what_is_cut_off_is_refused(gathered, size):
    with pytest.raises(ValueError, match="rank"):
        decode(packets_of(Halves()), gathered[: min(size, gathered.size - 1)])


def test_more_than_the_packets_of_all_ranks_is_refused(gathered):
    with pytest.raises(ValueError, match="1 bytes are behind the packets of 3 ranks"):
        decode(packets_of(Halves()), np.append(gathered, np.uint8(0)))


def test_codecs_that_break_their_word_are_told():
    class Shorter(Halves):
        def decode(self, encoded, shape, seed):
            return np.zeros(2)

    class Floats(Halves):
        def encode(self, values, seed):
            return values

    packet = packets_of(Shorter()).encode(seeds_of(0), *arrays_of(0))[0]
    with pytest.raises(ValueError, match=r"Shorter decoded gradient 'g0' of rank 0 to the shape \(2,\)"):
        decode(packets_of(Shorter()), packet, ranks=1)
    with pytest.raises(TypeError, match="Floats must encode to bytes or a uint8 array, got ndarray"):
        packets_of(Floats()).encode(seeds_of(0), *arrays_of(0))


def test_bytes_are_taken_too():
    class Raw(tfc.CustomCodec):
        def encode(self, values, seed):
            return values.tobytes()

        def decode(self, encoded, shape, seed):
            return encoded.view(np.float32)

    packet, lengths, _ = packets_of(Raw()).encode(seeds_of(0), *arrays_of(0))
    assert lengths.tolist() == [60, 28, 4]
    np.testing.assert_array_equal(decode(packets_of(Raw()), packet, ranks=1)[0], arrays_of(0)[0])


def test_a_codec_in_python_stands_for_no_other_spec():
    for arguments in ({"spec": "topk|raw|raw"}, {"spec": "dense|raw|raw", "exchange": "auto"}):
        with pytest.raises(ValueError, match="a codec in Python stands for"):
            tfc.Compressor(codec=Halves(), **arguments)
    codec = Halves()
    compressor = tfc.Compressor("residual|dense|raw|raw", codec=codec)
    assert tfc.Compressor.from_config(compressor.get_config()).codec is codec
