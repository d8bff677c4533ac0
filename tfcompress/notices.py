"""Warnings that point at the user's program."""

import functools
import sys
import warnings
from types import FrameType


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the innermost line that is not of this package."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tfcompress"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


@functools.cache
def tell(message: str) -> None:
    """Prints one line that is no warning, where warnings go; the same line once in a process."""
    print(f"tfcompress: {message}", file=sys.stderr, flush=True)


@functools.cache
def warn_once(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns, once in a process."""
    warn(message, category)
