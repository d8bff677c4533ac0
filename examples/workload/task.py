"""What an example trains."""

import dataclasses
from collections.abc import Callable

import keras
import tensorflow as tf

import tfcompress as tfc

# Sums and counts, by the name of a metric: each rank's own share of the test data.
Sums = dict[str, tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Task:
    """A model, its data and how good it is.

    Attributes:
      model: Built, with the same initial weights for the same seed.
      loss: What `model.compile` takes.
      make_optimizer: Makes the optimizer that is to be distributed, of a learning rate or schedule.
      train: This rank's batches of one epoch; equally many on all ranks.
      evaluate: Tests the model: (sum, count) of each metric over this rank's share of the test data. The
        first metric is the one that is reported.
    """

    model: keras.Model
    loss: keras.losses.Loss
    make_optimizer: Callable[[object], keras.optimizers.Optimizer]
    train: tf.data.Dataset
    evaluate: Callable[[keras.Model], Sums]


def sgd(compressor: tfc.Compressor, momentum: float = 0.9) -> Callable[[object], keras.optimizers.Optimizer]:
    """Returns what makes SGD, without momentum where the compressor's memory has it."""
    own = 0.0 if _has_momentum(compressor) else momentum
    return lambda learning_rate: keras.optimizers.SGD(learning_rate, momentum=own)


def adam(
    compressor: tfc.Compressor, optimizer: type = keras.optimizers.Adam, **options: object
) -> Callable[[object], keras.optimizers.Optimizer]:
    """Returns what makes Adam, without its first moment where the compressor's memory has a momentum."""
    beta_1 = 0.0 if _has_momentum(compressor) else 0.9
    return lambda learning_rate: optimizer(learning_rate, beta_1=beta_1, **options)


def _has_momentum(compressor: tfc.Compressor) -> bool:
    return compressor.memory.startswith("momentum")
