"""The memory `momentum` against its oracle, through whole frames."""

import numpy as np
import oracle_frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle_inputs import assert_same_bits, property_test
from oracle_memory import Momentum

from tfcompress import _core

BACKS = [
    "topk:ratio=0.1|raw|raw",
    "topk:ratio=0.2|bloom:policy=p2|fp16",
    "nonzero|sketchml",
    "dense|raw|fp16",
]


def gradients(n: int, steps: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(n, np.float32) for _ in range(steps)]


class TestMomentum:
    @pytest.mark.parametrize("back", BACKS)
    @pytest.mark.parametrize("nesterov", [0, 1])
    @given(rate=st.sampled_from([0.0, 0.5, 0.9, 0.999]), n=st.integers(1, 200), seed=st.integers(0, 2**32))
    @property_test
    def test_slots_are_those_of_the_oracle(self, back, nesterov, rate, n, seed):
        oracle = Momentum(n, rate, nesterov == 1)
        slots = [np.zeros(n, np.float32) for _ in range(2)]
        spec = f"momentum:rate={rate},nesterov={nesterov}|{back}"
        for step, gradient in enumerate(gradients(n, 4, seed)):
            frame = _core.encode(gradient, "float32", spec, seed=step, slots=slots)
            compensated = oracle.compensate(gradient).copy()
            _, indices, decoded = oracle_frame.read_frame(frame)
            if back.endswith("raw"):
                assert_same_bits(decoded, compensated[indices])
            oracle.update(indices, decoded)
            assert_same_bits(slots[0], oracle.residual)
            assert_same_bits(slots[1], oracle.velocity)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3.4e38])
    def test_a_gradient_that_is_not_finite_changes_nothing(self, bad):
        slots = [np.float32([1, -0.0, 3e38]), np.float32([4, 5, -0.0])]
        before = [slot.copy() for slot in slots]
        gradient = np.float32([1, 2, bad])
        frame = _core.encode(gradient, "float32", "momentum|topk|raw|raw", slots=slots)
        assert oracle_frame.read_frame(frame)[1] is None
        for slot, expected in zip(slots, before, strict=True):
            assert_same_bits(slot, expected)
