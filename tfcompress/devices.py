"""Where the parts of a step are placed."""

import contextlib
import functools
import os
from collections.abc import Iterator

import tensorflow as tf

from tfcompress import comm, cuda

# Seeds, specs and counts are made there, also where gradients, and what encodes them, are on a GPU.
HOST = "CPU:0"
_GPU = "GPU:0"

# Tells the op library, when it is loaded, where its kernels for GPUs have packets.
_VARIABLE = "TFC_PACKETS"
_PLACES = ("host", "device")


def packets() -> str:
    """Returns the device that packets are made, gathered and read on; the same throughout the process.

    That is the GPU where there is one and Horovod gathers by NCCL: only headers come to the host then.
    Elsewhere it is the host, where every build of Horovod gathers. All ranks of a job must have the same.
    TFC_PACKETS in the environment, "host" or "device", decides otherwise.

    Raises:
      ValueError: The environment has another word.
    """
    on_device = _place_of_packets() == "device" and tf.config.get_visible_devices("GPU")
    return _GPU if on_device else HOST


@contextlib.contextmanager
def told_to_kernels() -> Iterator[None]:
    """Tells the op library, loaded meanwhile, where packets are; processes begun later decide anew."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = _place_of_packets()
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


@functools.cache
def _place_of_packets() -> str:
    place = os.environ.get(_VARIABLE) or ("device" if _gathers_on_gpus() else "host")
    if place not in _PLACES:
        raise ValueError(f"{_VARIABLE} must be 'host' or 'device', got {place!r}")
    return place


def _gathers_on_gpus() -> bool:
    return bool(tf.config.get_visible_devices("GPU")) and cuda.is_available() and comm.gathers_on_gpus()
