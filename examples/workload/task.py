"""The task that an example trains."""

import dataclasses
from collections.abc import Callable

import keras
import tensorflow as tf

# Sums and counts, by the name of a metric: each rank's own share of the test data.
Sums = dict[str, tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Task:
    """A model, its data and its evaluation.

    Attributes:
      model: The built model, with the same initial weights for the same seed.
      loss: The `loss` of `model.compile`.
      make_optimizer: Makes the optimizer to distribute, from a learning rate or schedule.
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
    """Keras's Adam, but sums slices of the same row before squaring them.

    Keras 3 squares the slices of an embedding's gradient separately, which is wrong for repeated rows.
    """

    def update_step(self, gradient: tf.Tensor | tf.IndexedSlices, *arguments: object) -> None:
        # The moments and the update are dense anyway.
        super().update_step(tf.convert_to_tensor(gradient), *arguments)


def sgd(momentum: float = 0.9, weight_decay: float = 0.0) -> Callable[[object], keras.optimizers.Optimizer]:
    """Returns a function that makes SGD.

    In addition to the gradient update, a step multiplies all weights by 1 - learning rate * weight_decay.
    """
    return lambda learning_rate: keras.optimizers.SGD(
        learning_rate, momentum=momentum, weight_decay=weight_decay or None
    )


def adam(optimizer: type = Adam, **options: object) -> Callable[[object], keras.optimizers.Optimizer]:
    """Returns a function that makes Adam, or a class derived from it."""
    return lambda learning_rate: optimizer(learning_rate, **options)
