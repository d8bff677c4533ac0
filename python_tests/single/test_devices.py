"""Where packets are."""

import os

import pytest
import tensorflow as tf
from tensorflow.core.framework import kernel_def_pb2
from tensorflow.python.framework import kernels

from tfcompress import comm, cuda, devices


@pytest.fixture(autouse=True)
def undecided(monkeypatch):
    """Lets each test decide anew; the op library is not told."""
    monkeypatch.setenv("TFC_PACKETS", "")
    devices._place_of_packets.cache_clear()
    yield
    devices._place_of_packets.cache_clear()


def have(monkeypatch, gpu=True, nccl=True, kernels=True):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [kind] if gpu else [])
    monkeypatch.setattr(comm, "gathers_on_gpus", lambda: nccl)
    monkeypatch.setattr(cuda, "is_available", lambda: kernels)


def told_place() -> str:
    """What the op library finds in the environment, where others find nothing afterwards."""
    with devices.told_to_kernels():
        place = os.environ["TFC_PACKETS"]
    assert not os.environ["TFC_PACKETS"]
    return place


def test_they_are_on_the_gpu_where_horovod_gathers_by_nccl(monkeypatch):
    have(monkeypatch)
    assert devices.packets() == "GPU:0"
    assert told_place() == "device"


@pytest.mark.parametrize("missing", ["gpu", "nccl", "kernels"])
def test_they_are_on_the_host_where_something_is_missing(missing, monkeypatch):
    have(monkeypatch, **{missing: False})
    assert devices.packets() == devices.HOST
    assert told_place() == "host"


def test_the_environment_decides_otherwise(monkeypatch):
    have(monkeypatch)
    monkeypatch.setenv("TFC_PACKETS", "host")
    assert devices.packets() == devices.HOST


def test_without_a_gpu_the_environment_cannot_ask_for_one(monkeypatch):
    have(monkeypatch, gpu=False)
    monkeypatch.setenv("TFC_PACKETS", "device")
    assert devices.packets() == devices.HOST


def test_another_word_is_refused(monkeypatch):
    monkeypatch.setenv("TFC_PACKETS", "gpu")
    with pytest.raises(ValueError, match="TFC_PACKETS must be 'host' or 'device', got 'gpu'"):
        devices.packets()


class Horovod:
    """One that was built with, or without, NCCL."""

    def __init__(self, has_nccl):
        self._has_nccl = has_nccl

    def nccl_built(self):
        return self._has_nccl


def test_horovod_gathers_on_gpus_if_its_ops_have_kernels_for_them(monkeypatch):
    monkeypatch.setattr(comm, "horovod", lambda: Horovod(True))
    devices_of = {"HorovodAllgather": ["CPU", "GPU"], "HorovodAlltoall": ["CPU", "GPU"]}

    def kernels_of(op):
        found = [kernel_def_pb2.KernelDef(op=op, device_type=each) for each in devices_of[op]]
        return kernel_def_pb2.KernelList(kernel=found)

    monkeypatch.setattr(kernels, "get_registered_kernels_for_op", kernels_of)
    assert comm.gathers_on_gpus()
    devices_of["HorovodAlltoall"] = ["CPU"]  # As HOROVOD_GPU_ALLREDUCE=NCCL alone builds it.
    assert not comm.gathers_on_gpus()


def test_horovod_without_nccl_does_not_gather_on_gpus(monkeypatch):
    monkeypatch.setattr(comm, "horovod", lambda: Horovod(False))
    assert not comm.gathers_on_gpus()


def test_a_broken_horovod_is_not_told_here(monkeypatch):
    def raises():
        raise tf.errors.NotFoundError(None, None, "undefined symbol")

    monkeypatch.setattr(comm, "horovod", raises)
    assert not comm.gathers_on_gpus()
