"""The probe of collectives, on a rank of one and links that are made up."""

import json

import numpy as np
import pytest

import tfcompress as tfc
from tfcompress import measure, probe


class OneRank:
    def gather_messages(self, message: bytes) -> list[bytes]:
        json.loads(message)
        return [message]


@pytest.mark.parametrize("latency", [0.0, 1e-4, 0.08, 0.5])
@pytest.mark.parametrize("bandwidth", [1e6, 1e8, 1e10])
def test_the_line_is_that_of_the_link_whatever_its_latency(monkeypatch, latency, bandwidth):
    """Also where the smallest collective takes long, as between sites."""
    monkeypatch.setattr(probe.measure, "best_seconds", lambda call, repeats: latency + call() / bandwidth)
    line = probe._line(OneRank(), lambda num_bytes: lambda: num_bytes)
    assert line.latency == pytest.approx(latency, abs=1e-9)
    assert line.seconds_per_byte == pytest.approx(1 / bandwidth)


def test_slow_links_are_not_asked_for_the_largest_sizes(monkeypatch):
    asked = []
    monkeypatch.setattr(probe.measure, "best_seconds", lambda call, repeats: 0.08 + call() / 1e6)
    probe._line(OneRank(), lambda num_bytes: lambda: asked.append(num_bytes) or num_bytes)
    assert max(asked) == 1 << 18


@pytest.mark.parametrize("spec", ["dense|raw|raw", "topk:ratio=0.1|delta_binary|raw", "dense|raw|qsgd"])
def test_bytes_of_a_codec_are_those_of_its_frames(spec):
    arrays = [
        np.random.default_rng(i).standard_normal(shape, np.float32) for i, shape in enumerate([(40, 50), 300])
    ]
    cost = measure.codec_cost(spec, arrays)
    assert cost.num_bytes * 2300 == pytest.approx(sum(len(tfc.encode(array, spec)) for array in arrays))
    assert min(cost.encode_seconds, cost.decode_seconds) > 0 <= cost.add_seconds


def test_bytes_of_a_codec_are_those_of_a_memory_in_use():
    """Below the threshold in one step, above it with what earlier steps held back."""
    cost = measure.codec_cost("residual|threshold:tau=2.5|raw|raw", [np.ones(1000, np.float32)])
    assert cost.num_bytes > 8


def test_a_payload_that_is_not_smaller_is_not_made():
    gradients = [np.ones((30, 10), np.float32), np.ones(700, np.float32)]
    sketch = "count_sketch:rows=5,columns=200,k=10,candidates=4"
    assert measure.codec_cost(sketch, gradients).num_bytes == 4  # 1,000 floats, and 40 of the second round.
    random = measure.codec_cost("shared_randomk:ratio=0.1", gradients)
    assert random.num_bytes == 0.4 and random.decode_seconds > 0
