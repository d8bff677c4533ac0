"""Gradient compression for TensorFlow/Keras training over Horovod.

One line changes in a training program::

    opt = tfc.DistributedOptimizer(opt, compression=tfc.Compression.topk(ratio=0.01))

The NumPy-level functions (`encode`, `decode`, `inspect` and the listings) need neither TensorFlow nor
Horovod; the rest is imported when it is first used.
"""

import importlib

from tfcompress._version import __version__
from tfcompress.catalogue import (
    index_codecs,
    joint_codecs,
    linear_codecs,
    memories,
    sparsifiers,
    value_codecs,
)
from tfcompress.frames import DataLossError, decode, encode, inspect

# Public names that are imported when they are first used, and their modules. All but `cuda` need TensorFlow,
# and on several ranks Horovod.
_LAZY = {
    "Compression": "tfcompress.presets",
    "Compressor": "tfcompress.policy",
    "DistributedGradientTape": "tfcompress.tape",
    "DistributedOptimizer": "tfcompress.keras",
    "PerVariable": "tfcompress.policy",
    "callbacks": None,
    "cuda": None,
    "elastic": None,
    "Schedule": "tfcompress.schedule",
    "broadcast_variables": "tfcompress.keras",
    "load_model": "tfcompress.keras",
    "make_compressor": "tfcompress.presets",
    "prepare_checkpoint": "tfcompress.checkpoint",
    "set_compression": "tfcompress.keras",
    "stats": "tfcompress.statistics",
}

__all__ = [
    "DataLossError",
    "__version__",
    "decode",
    "encode",
    "index_codecs",
    "inspect",
    "joint_codecs",
    "linear_codecs",
    "memories",
    "sparsifiers",
    "value_codecs",
    *_LAZY,
]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'tfcompress' has no attribute {name!r}")
    module = importlib.import_module(_LAZY[name] or f"tfcompress.{name}")
    value = module if _LAZY[name] is None else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
