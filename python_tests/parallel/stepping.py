"""A step of gradients that belong to no variables, for tests of what is below optimizers and tapes."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from tfcompress import comm
from tfcompress.options import Options
from tfcompress.plan import as_plan
from tfcompress.state import Parameter
from tfcompress.step import Step


class Stepper(Step):
    """Takes names for variables; a name has the shape of its first gradient."""

    def __init__(self, compression, op=None, **options):
        super().__init__(as_plan(compression), Options(op, **options))
        self._parameters = {}

    def run(self, gradients, names):
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is not None:
                self._parameters.setdefault(name, Parameter(name, name, tf.TensorShape(gradient.shape)))
        missing = Parameter("", "", tf.TensorShape(None))
        return self.reduce(gradients, [self._parameters.get(name, missing) for name in names])


def names_of(arrays):
    return [f"g{i}" for i in range(len(arrays))]


def random_arrays(rng, shapes):
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def run(stepper, arrays, dtype=tf.float32):
    """Reduces arrays as gradients."""
    return stepper.run([tf.cast(array, dtype) for array in arrays], names_of(arrays))


def reduced(stepper, arrays):
    """Reduces arrays as float32 gradients; returns arrays."""
    return [each.numpy() for each in run(stepper, arrays)]


def all_ranks(array):
    """The ranks' arrays, stacked."""
    return hvd.allgather(tf.constant(array)[tf.newaxis]).numpy()


def sum_over_ranks(array):
    return hvd.allreduce(tf.constant(array, tf.float64), op=hvd.Sum).numpy()


def slots_of(stepper):
    return [slot.numpy() for slots in stepper.state.memories.by_name().values() for slot in slots]


def break_packets(monkeypatch, collective, rank=None):
    """Breaks uint8 packets that a collective of comm.Ranks yields, on one rank or on all, from now on.

    A bit of the last frame changes, which its checksum finds. Returns a dict whose "now" switches that.
    """
    honest, broken = getattr(comm.Ranks, collective), {"now": True}

    def flip(packets):
        if broken["now"] and rank in (None, hvd.rank()):
            packets[packets.tobytes().rindex(b"TFCF") + 46] ^= 1
        return packets

    def perhaps_broken(self, packet, *arguments, **named):
        packets = honest(self, packet, *arguments, **named)
        return tf.numpy_function(flip, [packets], tf.uint8) if packet.dtype == tf.uint8 else packets

    monkeypatch.setattr(comm.Ranks, collective, perhaps_broken)
    return broken
