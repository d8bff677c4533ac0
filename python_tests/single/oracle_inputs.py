"""Inputs, and ways to break bytes, for the tests that compare the core with its oracles."""

import math

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from oracle_index import INDEX_IDS, INDEX_READERS
from oracle_value import VALUE_IDS, VALUE_READERS
from oracle_wire import FormatError

from tfcompress import _core

property_test = settings(max_examples=40, deadline=None, derandomize=True)

SEEDS = st.one_of(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))


@st.composite
def float_arrays(draw, max_size=200):
    """Finite float32 vectors of the shapes that break codecs."""
    size = draw(st.integers(1, max_size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from("heavy normal constant negative tied zeros denormal huge any".split()))
    values = rng.standard_normal(size)
    if kind == "heavy":
        values = np.clip(rng.standard_t(0.7, size) * 10.0 ** draw(st.integers(-30, 20)), -3e38, 3e38)
    elif kind == "constant":
        values = np.full(size, rng.standard_normal())
    elif kind == "negative":
        values = -np.abs(values)
    elif kind == "tied":
        values = rng.integers(-3, 4, size)
    elif kind == "zeros":
        values = np.where(values > 1, values, np.where(values > 0, 0.0, -0.0))
    elif kind == "denormal":
        values = rng.integers(-20, 21, size) * 2.0**-149
    elif kind == "huge":
        values[rng.integers(size)] = 3.4028234e38 * rng.choice([-1, 1])
    elif kind == "any":
        floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
        values = np.array(draw(st.lists(floats, min_size=1, max_size=40)))
    return values.astype(np.float32)


@st.composite
def supports(draw, max_n=2**31 - 1):
    """(n, ascending indices), at least one, the last element often among them."""
    n = draw(st.one_of(st.integers(1, min(300, max_n)), st.sampled_from([1, 2, 8, 9, max_n])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    indices = rng.integers(0, n, draw(st.integers(1, min(n, 150))))
    if draw(st.booleans()):
        indices[-1] = n - 1
    if draw(st.booleans()):  # A dense run, whose deltas are 1.
        indices = np.concatenate([indices, np.arange(min(n, 40))])
    return n, np.unique(indices).astype(np.uint32)


@st.composite
def outer_products(draw):
    """Indices, n, width and values of the largest elements of a noisy outer product."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, width = draw(st.integers(1, 40)), draw(st.integers(1, 60))
    matrix = np.outer(rng.standard_t(2, rows), rng.standard_t(2, width)) + 0.1 * rng.normal(
        size=(rows, width)
    )
    n = matrix.size - draw(st.integers(0, width - 1))  # The last row may be short.
    flat = matrix.ravel()[:n].astype(np.float32)
    k = draw(st.integers(1, n))
    indices = np.sort(np.argsort(-np.abs(flat))[:k]).astype(np.uint32)
    return indices, n, width, flat[indices]


def assert_same_bits(actual, expected):
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()


def outcome(read):
    """What a reader yields, or None where it refuses the bytes."""
    try:
        return read()
    except (FormatError, _core.DataLossError):
        return None


def same_indices(name, section, n, k, seed=0) -> bool:
    """A section is refused or read alike by core and oracle; returns whether it is read."""
    read = INDEX_READERS[INDEX_IDS[name]]
    actual = outcome(lambda: _core.decode_indices(name, section, n, k, seed).tolist())
    assert actual == outcome(lambda: read(section, n, k, seed).tolist())
    return actual is not None


def same_values(name, section, k, indices=None, n=None, seed=0) -> bool:
    """The same of a section of values, bit for bit; without indices, n is k."""
    read = VALUE_READERS[VALUE_IDS[name]]
    actual = outcome(lambda: _core.decode_values(name, section, indices, k if n is None else n, seed))
    expected = outcome(lambda: read(section, k, indices, seed))
    assert (actual is None) == (expected is None)
    if actual is not None:
        assert_same_bits(actual, expected)
    return actual is not None


@st.composite
def damages(draw):
    """A function that changes a section a little."""
    flips = draw(st.lists(st.tuples(st.integers(0, 2**16), st.integers(1, 255)), min_size=1, max_size=2))
    cut = draw(st.sampled_from([None, None, None, None, -1, 0, 4]))
    where = draw(st.sampled_from(["front", "end", "anywhere"]))

    def damage(section: bytes) -> bytes:
        changed = bytearray(section)
        for at, mask in flips:
            if changed:
                size = len(changed) if where == "anywhere" else min(len(changed), 24)
                changed[-1 - at % size if where == "end" else at % size] ^= mask
        return bytes(changed[:cut]) + b"\0" * (cut == 4)

    return damage


def assert_buckets_are_means_of_intervals(values, means, codes):
    """`codes` are the buckets of `values`, all of one order; no bucket is empty."""
    assert sorted(set(codes.tolist())) == list(range(means.size))
    order = np.argsort(values, kind="stable")
    assert (np.diff(codes[order]) >= 0).all(), "buckets are not intervals"
    equal = np.diff(values[order]) == 0
    assert (np.diff(codes[order])[equal] == 0).all(), "equal values in two buckets"
    for bucket, mean in enumerate(means.astype(np.float64)):
        members = values[codes == bucket].astype(np.float64)
        true_mean = math.fsum(members) / members.size
        assert abs(mean - true_mean) <= 2.0**-23 * abs(true_mean) + 2.0**-149
        assert (np.signbit(mean) and mean < 0) == (members < 0).any() == (members < 0).all()
