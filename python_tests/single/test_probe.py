"""The probe of collectives, on a rank of one and links that are made up."""

import json

import pytest

from tfcompress import probe


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
