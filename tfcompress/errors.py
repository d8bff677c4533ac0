"""The error of broken frames: one name for NumPy arrays and for training."""

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

from tfcompress import _core


def data_loss_error() -> type[Exception]:
    """Returns what `tfcompress.DataLossError` is now.

    A graph can raise only the errors of TensorFlow. Where TensorFlow is loaded, the name stands for its
    class, so that `except tfc.DataLossError` catches what training raises; what this package raises outside
    graphs derives from it then. Without TensorFlow it is the core's class, a ValueError, so a program that
    takes the class out of the package before it imports TensorFlow has one that training does not raise.
    """
    errors = getattr(sys.modules.get("tensorflow"), "errors", None)
    return _core.DataLossError if errors is None else errors.DataLossError


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raises the core's DataLossError as one that is of TensorFlow's class, too, where that is loaded."""
    try:
        yield
    except _core.DataLossError as error:
        base: Any = data_loss_error()
        if isinstance(error, base):
            raise
        raise _derived(base)(str(error)) from None


@functools.cache
def _derived(base: Any) -> type[Exception]:
    """Returns a class that is TensorFlow's DataLossError and the core's."""

    class DataLossError(base, _core.DataLossError):
        def __init__(self, message: str) -> None:
            super().__init__(None, None, message)

        def __reduce__(self) -> tuple:
            return _core.DataLossError, (str(self),)  # Other processes may not have loaded TensorFlow.

    DataLossError.__qualname__, DataLossError.__module__ = "DataLossError", "tfcompress"
    DataLossError.__doc__ = base.__doc__
    return DataLossError
