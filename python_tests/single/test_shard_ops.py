"""The four ops of the sharded exchange, of ranks in one process: frames and sums are those of the core."""

import numpy as np
import pytest
import tensorflow as tf

from tfcompress import _core, ops

N, CUTS = 1000, [0, 300, 300, 1000]  # Three ranks, of which the second has no piece.
RANKS = 3
SPECS = [
    "residual|dense|raw|block_int",
    "momentum:rate=0.9|topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64",
    "none|dense|raw|qsgd",
    "residual|topk:ratio=0.05|delta_binary|raw",
    "residual|topk:ratio=0.1|rowcol|ecsq",  # Without a variant for GPUs.
]


def vectors(spec, seed):
    """Returns a gradient, and the slots of the spec's memory."""
    rng = np.random.default_rng(seed)
    slots = {"none": 0, "residual": 1, "momentum": 2}[spec.split("|")[0].split(":")[0]]
    return [rng.standard_normal(N).astype(np.float32) for _ in range(1 + slots)]


def encode_pieces(spec, rank, seed=5):
    gradient, *slots = vectors(spec, rank)
    cuts, seed = tf.constant(CUTS, tf.int64), tf.constant(seed, tf.int64)
    return ops.encode_pieces(gradient, slots, cuts, rank, seed, spec)


def received_by(owner, spec):
    """Returns the frames of an owner's piece of all other ranks, end to end."""
    packets = b""
    for rank in range(RANKS):
        if rank == owner:
            continue
        frames, num_bytes, *_ = encode_pieces(spec, rank)
        ends = np.cumsum(num_bytes)
        packets += frames.numpy().tobytes()[ends[owner] - num_bytes[owner] : ends[owner]]
    return np.frombuffer(packets, np.uint8)


def sum_pieces(packets, owner):
    sizes = tf.constant([CUTS[owner + 1] - CUTS[owner]], tf.int64)
    return ops.sum_pieces(packets, RANKS, owner, sizes, 1)


def encode_sum(spec, owner, others, seed=9):
    gradient = vectors(spec, owner)[0]
    slots = encode_pieces(spec, owner)[-1]
    begin = tf.constant(CUTS[owner], tf.int64)
    return ops.encode_sum(gradient, slots, others, begin, tf.constant(seed, tf.int64), spec)


def all_sums(spec):
    return b"".join(
        encode_sum(spec, owner, sum_pieces(received_by(owner, spec), owner)[0][0])[0].numpy().tobytes()
        for owner in range(RANKS)
    )


def decode_pieces(packets, scale=0.5):
    cuts = tf.constant([CUTS], tf.int64)
    return ops.decode_pieces(np.frombuffer(packets, np.uint8), scale, cuts, [tf.constant([N], tf.int64)])


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("own", [0, 1])
def test_a_piece_of_another_rank_is_encoded_as_a_gradient(spec, own):
    frames, num_bytes, num_sent, nanoseconds, new_slots = encode_pieces(spec, own)
    gradient, *slots = vectors(spec, own)
    expected, sent = b"", 0
    for rank in range(RANKS):
        piece = slice(CUTS[rank], CUTS[rank + 1])
        if rank == own or piece.start == piece.stop:
            assert num_bytes[rank] == 0
            continue
        parts = [np.ascontiguousarray(slot[piece]) for slot in slots]
        frame = _core.encode(gradient[piece], "float32", spec, seed=5, slots=parts)
        assert num_bytes[rank] == len(frame)
        expected += frame
        sent += int.from_bytes(frame[16:20], "little")
        for new, part in zip(new_slots, parts, strict=True):
            assert new.numpy()[piece].tobytes() == part.tobytes()
    assert frames.numpy().tobytes() == expected
    assert num_sent == sent and nanoseconds > 0


@pytest.mark.parametrize("spec", SPECS)
def test_the_own_piece_is_compensated_and_kept_even_if_it_is_not_finite(spec):
    gradient, *slots = vectors(spec, 0)
    gradient[7] = np.nan
    *_, new_slots = ops.encode_pieces(
        gradient, slots, tf.constant(CUTS, tf.int64), 0, tf.constant(5, tf.int64), spec
    )
    if len(slots) == 1:
        np.testing.assert_array_equal(new_slots[0][:300], (gradient + slots[0])[:300])
    if len(slots) == 2:
        velocity = np.float32(0.9) * slots[1] + gradient
        np.testing.assert_allclose(new_slots[1][:300], velocity[:300], rtol=1e-6)
        np.testing.assert_allclose(new_slots[0][:300], (slots[0] + velocity)[:300], rtol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("owner", [0, 2])
def test_an_owner_adds_its_part_and_encodes_the_sum(spec, owner):
    packets = received_by(owner, spec)
    (others,), num_bytes, nanoseconds, finite, error = sum_pieces(packets, owner)
    piece = slice(CUTS[owner], CUTS[owner + 1])
    [expected], _ = _core.decode_sum(packets, RANKS - 1, 1.0, [piece.stop - piece.start], ["float32"])
    assert others.numpy().tobytes() == expected.tobytes()
    assert num_bytes.numpy() == [len(packets)] and nanoseconds[0] > 0 and finite.numpy().all()
    assert len(error) == 0

    frame, num_sent, nanoseconds, new_slots = encode_sum(spec, owner, others)
    slots = [slot.numpy() for slot in encode_pieces(spec, owner)[-1]]
    if slots:
        # A plain addition, whatever the memory does to gradients.
        codecs = spec.partition("|")[2]
        pending = np.ascontiguousarray(slots[0][piece])
        own = _core.encode(expected, "float32", f"residual|{codecs}", seed=9, slots=[pending])
        assert new_slots[0].numpy()[piece].tobytes() == pending.tobytes()
    else:
        own = _core.encode(expected + vectors(spec, owner)[0][piece], "float32", spec, seed=9, slots=[])
    assert frame.numpy().tobytes() == own
    assert num_sent == int.from_bytes(own[16:20], "little") and nanoseconds > 0
    for before, new in zip(slots, new_slots, strict=True):
        outside = np.delete(np.arange(N), np.r_[piece])
        assert new.numpy()[outside].tobytes() == before[outside].tobytes()
    if len(slots) == 2:
        cleared = new_slots[1].numpy()[piece] == 0
        assert cleared.sum() == num_sent


@pytest.mark.parametrize("spec", SPECS)
def test_all_sums_are_decoded_and_nothing_is_lost(spec):
    packets = all_sums(spec)
    (total,), num_bytes, nanoseconds, finite = decode_pieces(packets)
    assert num_bytes.numpy() == [len(packets)] and nanoseconds[0] > 0 and finite.numpy().all()
    if not spec.startswith("residual"):
        return
    before = sum(sum(vectors(spec, rank)) for rank in range(RANKS))
    after = 2 * total.numpy()
    for rank in range(RANKS):
        others = sum_pieces(received_by(rank, spec), rank)[0][0]
        after = after + encode_sum(spec, rank, others)[-1][0].numpy()
    np.testing.assert_allclose(after, before, atol=1e-4)


def test_a_piece_that_is_not_finite_makes_the_whole_tensor_nan():
    spec = SPECS[0]
    frames = b""
    for owner in (0, 2):
        gradient = vectors(spec, owner)[0][CUTS[owner] : CUTS[owner + 1]]
        if owner == 2:
            gradient[-1] = np.inf
        frames += _core.encode(gradient, "float32", "none|dense|raw|block_int", seed=1, slots=[])
    (total,), *_, finite = decode_pieces(frames)
    assert not finite.numpy().any() and np.isnan(total.numpy()).all()


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[4]])
def test_a_broken_packet_travels_as_an_error_that_every_rank_raises(spec):
    packets = received_by(0, spec).copy()
    packets[-1] ^= 1
    (others,), *_, error = sum_pieces(packets, 0)
    assert not others.numpy().any() and len(error) > 0
    # Instead of rank 0's sums, the error.
    others = sum_pieces(received_by(2, spec), 2)[0][0]
    rest = encode_sum(spec, 2, others)[0].numpy().tobytes()
    with pytest.raises(tf.errors.DataLossError, match="rank 0 could not sum its shard: rank 2, tensor 0"):
        decode_pieces(error.numpy().tobytes() + rest)


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[4]])
def test_a_broken_sum_is_named(spec):
    packets = bytearray(all_sums(spec))
    packets[-1] ^= 1
    with pytest.raises(tf.errors.DataLossError, match="rank 2, tensor 0"):
        decode_pieces(bytes(packets))


def test_a_rank_alone_sums_nothing():
    """As in an elastic job whose other ranks have gone."""
    sizes = tf.constant([700, 0, 3], tf.int64)
    sums, num_bytes, _, finite, error = ops.sum_pieces(tf.zeros([0], tf.uint8), 1, 0, sizes, 3)
    assert [each.numpy().tolist() for each in sums] == [[0.0] * 700, [], [0.0] * 3]
    assert not num_bytes.numpy().any() and finite.numpy().all() and tf.size(error) == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_ranks must be at least 2, got 1"):
        ops.sum_pieces(tf.zeros([1], tf.uint8), 1, 0, sizes, 3)


def test_arguments_that_do_not_fit_are_refused():
    gradient, slot = vectors(SPECS[0], 0)
    seed, begin = tf.constant(1, tf.int64), tf.constant(900, tf.int64)
    for cuts in ([0, 300, 200, 1000], [0, 999], [1000]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="cuts must ascend"):
            ops.encode_pieces(gradient, [slot], tf.constant(cuts, tf.int64), 0, seed, SPECS[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs 1 slots, got 0"):
        ops.encode_pieces(gradient, [], tf.constant(CUTS, tf.int64), 0, seed, SPECS[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not within 1000 elements"):
        ops.encode_sum(gradient, [slot], tf.zeros([300]), begin, seed, SPECS[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="a piece of -1 elements"):
        ops.sum_pieces(np.zeros(0, np.uint8), RANKS, 0, tf.constant([-1], tf.int64), 1)
