"""A step of gradients that belong to no variables, for tests of what is below optimizers and tapes."""

import horovod.tensorflow as hvd
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


def run(stepper, arrays, dtype=tf.float32):
    """Reduces arrays as gradients."""
    return stepper.run([tf.cast(array, dtype) for array in arrays], names_of(arrays))


def sum_over_ranks(array):
    return hvd.allreduce(tf.constant(array, tf.float64), op=hvd.Sum).numpy()


def slots_of(stepper):
    return [slot.numpy() for slots in stepper.state.memories.by_name().values() for slot in slots]


def break_last_frame(packets):
    """Changes a bit of the last frame in packets, uint8; what its checksum finds."""
    packets[packets.tobytes().rindex(b"TFCF") + 46] ^= 1
    return packets


def break_packets(monkeypatch, collective, rank=None):
    """Breaks what a collective of comm.Ranks yields from now on, on one rank or on all."""
    honest = getattr(comm.Ranks, collective)

    def flip(packets):
        return break_last_frame(packets) if rank in (None, hvd.rank()) else packets

    def broken(self, *arguments, **named):
        return tf.numpy_function(flip, [honest(self, *arguments, **named)], tf.uint8)

    monkeypatch.setattr(comm.Ranks, collective, broken)
