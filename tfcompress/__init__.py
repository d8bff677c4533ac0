"""Gradient compression for TensorFlow/Keras training over Horovod.

One line changes in a training program:

    opt = tfc.DistributedOptimizer(opt, compression=tfc.Compression.topk(ratio=0.01))

The NumPy-level functions (`encode`, `decode`, `inspect` and the listings) and the policy (`Compression`,
`Compressor`, `Schedule`) need neither TensorFlow nor Horovod; the rest is imported when it is first used.
"""

import importlib
import sys
from typing import Any

from tfcompress import op_library

try:
    from tfcompress import _core  # noqa: F401  Looked for before anything else needs it.
except ImportError as error:
    raise ImportError(
        f"the core of tfcompress does not load into Python {sys.version.split()[0]} ({error}): build it for "
        f"this interpreter: {op_library.BUILD_COMMAND}"
    ) from error

from tfcompress import errors
from tfcompress._version import __version__
from tfcompress.catalogue import (
    describe_spec,
    index_codecs,
    joint_codecs,
    linear_codecs,
    memories,
    sparsifiers,
    value_codecs,
)
from tfcompress.frames import FORMAT_VERSION, decode, encode, inspect

# Public names that are imported when they are first used, and their modules. The policy (presets,
# compressors, schedules) needs neither TensorFlow nor Horovod.
_LAZY = {
    "AccuracyWarning": "tfcompress.accuracy",
    "Compression": "tfcompress.presets",
    "Compressor": "tfcompress.policy",
    "CustomCodec": "tfcompress.custom",
    "DistributedGradientTape": "tfcompress.tape",
    "DistributedOptimizer": "tfcompress.keras",
    "LocalSteps": "tfcompress.local_steps",
    "OuterStep": "tfcompress.outer",
    "PerVariable": "tfcompress.policy",
    "Schedule": "tfcompress.schedule",
    "Stats": "tfcompress.statistics",
    "broadcast_variables": "tfcompress.keras",
    "end_round": "tfcompress.local_steps",
    "host_process_sets": "tfcompress.levels",
    "load_model": "tfcompress.keras",
    "make_compressor": "tfcompress.presets",
    "prepare_checkpoint": "tfcompress.checkpoint",
    "set_compression": "tfcompress.keras",
    "stats": "tfcompress.sources",
}
# Public modules.
_MODULES = ("callbacks", "catalogue", "codecs", "costs", "cuda", "diagnosis", "elastic", "job", "measure")

__all__ = [
    "FORMAT_VERSION",
    "DataLossError",
    "__version__",
    "decode",
    "describe_spec",
    "encode",
    "index_codecs",
    "inspect",
    "joint_codecs",
    "linear_codecs",
    "memories",
    "sparsifiers",
    "value_codecs",
    *_LAZY,
    *_MODULES,
]


def __getattr__(name: str) -> Any:
    if name == "DataLossError":
        return errors.data_loss_error()  # Another class once TensorFlow is loaded.
    if name in _MODULES:
        return importlib.import_module(f"tfcompress.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'tfcompress' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ModuleNotFoundError(
            f"tfcompress.{name} needs TensorFlow, which is not installed: "
            f"{sys.executable} -m pip install tensorflow",
            name="tensorflow",
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
