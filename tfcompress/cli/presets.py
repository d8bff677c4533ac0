"""Presets, which need TensorFlow, and specs, which do not."""

import os
import types

from tfcompress import _core
from tfcompress.catalogue import is_spec


def compression_module() -> types.ModuleType | None:
    """Returns `tfcompress.compression`, or None where TensorFlow is missing."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        from tfcompress import compression
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "tensorflow":
            raise
        return None
    return compression


def spec_of(text: str) -> str:
    """Returns the canonical spec of a preset, with arguments or without, or of a spec.

    Raises:
      SystemExit: It is neither, or a preset where TensorFlow is missing.
    """
    try:
        if is_spec(text):
            return _core.canonical_spec(text)
        compression = compression_module()
        if compression is None:
            raise SystemExit(f"'{text}': presets need TensorFlow, which is missing; write a spec instead")
        return compression.make_compressor(text).spec
    except ValueError as error:
        raise SystemExit(str(error)) from error
