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
      dense_tables: Whether gradients of embeddings are exchanged as dense tensors, not as rows.
    """

    model: keras.Model
    loss: keras.losses.Loss
    make_optimizer: Callable[[object], keras.optimizers.Optimizer]
    train: tf.data.Dataset
    evaluate: Callable[[keras.Model], Sums]
    dense_tables: bool = False


class Adam(keras.optimizers.Adam):
    """Keras's Adam, with slices of the same row added up before they are squared.

    Keras 3 squares the slices of an embedding's gradient one by one, as if no row came twice.
    """

    def update_step(self, gradient: tf.Tensor | tf.IndexedSlices, *arguments: object) -> None:
        # The moments and the update are dense anyway.
        super().update_step(tf.convert_to_tensor(gradient), *arguments)


def sgd(
    compressor: tfc.Compressor, momentum: float = 0.9, weight_decay: float = 0.0
) -> Callable[[object], keras.optimizers.Optimizer]:
    """Returns what makes SGD, without momentum where the compressor's memory has it.

    A step multiplies all weights by 1 - learning rate * weight_decay, beside what the gradients do.
    """
    own = 0.0 if _has_momentum(compressor) else momentum
    return lambda learning_rate: keras.optimizers.SGD(
        learning_rate, momentum=own, weight_decay=weight_decay or None
    )


def adam(
    compressor: tfc.Compressor, optimizer: type = Adam, **options: object
) -> Callable[[object], keras.optimizers.Optimizer]:
    """Returns what makes Adam, without its first moment where the compressor's memory has a momentum."""
    beta_1 = 0.0 if _has_momentum(compressor) else 0.9
    return lambda learning_rate: optimizer(learning_rate, beta_1=beta_1, **options)


def _has_momentum(compressor: tfc.Compressor) -> bool:
    return compressor.memory.startswith("momentum")
