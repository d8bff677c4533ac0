"""Reads bandwidths and times from the command line, written as tc writes them."""

import argparse
import math
import re

_BITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def bandwidth(text: str) -> float:
    """Reads "100mbit", "2.5gbit" or "unlimited"; returns bits per second, or infinity.

    Raises:
      argparse.ArgumentTypeError: The text has another form.
    """
    if text.lower() == "unlimited":
        return math.inf
    value = _read(text, _BITS)
    if not value:
        raise argparse.ArgumentTypeError(
            f"must be a bandwidth such as 100mbit, 2.5gbit or unlimited, got '{text}'"
        )
    return value


def duration(text: str) -> float:
    """Reads "100us", "1.5ms" or "0s"; returns seconds.

    Raises:
      argparse.ArgumentTypeError: The text has another form.
    """
    value = _read(text, _SECONDS)
    if value is None:
        raise argparse.ArgumentTypeError(f"must be a time such as 100us or 1.5ms, got '{text}'")
    return value


def _read(text: str, units: dict[str, float]) -> float | None:
    match = re.fullmatch(rf"(\d+(?:\.\d+)?)({'|'.join(units)})", text.lower())
    return float(match[1]) * units[match[2]] if match else None
