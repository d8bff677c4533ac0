"""A step of gradients that belong to no variables, for tests of what is below optimizers and tapes."""

import tensorflow as tf

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
