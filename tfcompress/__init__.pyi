"""Types of the public names, of which the package imports most when they are first used."""

# ruff: noqa: I001  One block a module, however many names are given away again.
from typing import Any

from tfcompress import (
    callbacks as callbacks,
    catalogue as catalogue,
    codecs as codecs,
    costs as costs,
    cuda as cuda,
    diagnosis as diagnosis,
    elastic as elastic,
    job as job,
    measure as measure,
)
from tfcompress._core import DataLossError as DataLossError
from tfcompress._version import __version__ as __version__
from tfcompress.accuracy import AccuracyWarning as AccuracyWarning
from tfcompress.catalogue import (
    describe_spec as describe_spec,
    index_codecs as index_codecs,
    joint_codecs as joint_codecs,
    linear_codecs as linear_codecs,
    memories as memories,
    sparsifiers as sparsifiers,
    value_codecs as value_codecs,
)
from tfcompress.checkpoint import prepare_checkpoint as prepare_checkpoint
from tfcompress.custom import CustomCodec as CustomCodec
from tfcompress.frames import (
    FORMAT_VERSION as FORMAT_VERSION,
    decode as decode,
    encode as encode,
    inspect as inspect,
)
from tfcompress.keras import (
    DistributedOptimizer as DistributedOptimizer,
    broadcast_variables as broadcast_variables,
    load_model as load_model,
    set_compression as set_compression,
)
from tfcompress.levels import host_process_sets as host_process_sets
from tfcompress.local_steps import LocalSteps as LocalSteps, end_round as end_round
from tfcompress.outer import OuterStep as OuterStep
from tfcompress.policy import Compressor as Compressor, PerVariable as PerVariable
from tfcompress.presets import Compression as Compression, make_compressor as make_compressor
from tfcompress.schedule import Schedule as Schedule
from tfcompress.sources import stats as stats
from tfcompress.statistics import Stats as Stats
from tfcompress.tape import DistributedGradientTape as DistributedGradientTape

# Compiled, and missing where it was not built.
_cuda: Any
