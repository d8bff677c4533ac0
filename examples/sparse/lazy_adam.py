"""Adam that touches only the rows of a table that have a gradient."""

import keras
import tensorflow as tf


class LazyAdam(keras.optimizers.Adam):
    """Adam whose step on `tf.IndexedSlices` takes time proportional to the touched rows, not to the table.

    Keras' own Adam decays the moments of all rows at every step, in several passes over the whole table.
    Here the moments of a row decay only in steps that touch it, and a row without gradient does not change:
    the usual variant of Adam for sparse data (Kingma and Ba's algorithm for each row, but with the bias
    correction of the global step). Slices of the same row are summed. Dense gradients use plain Adam.
    """

    def __init__(self, learning_rate: object = 0.001, **options: object) -> None:
        """Takes the arguments of `keras.optimizers.Adam`, except those that need the whole table.

        Raises:
          ValueError: `weight_decay`, `use_ema` or clipping is given.
        """
        refused = ("weight_decay", "use_ema", "clipnorm", "global_clipnorm", "clipvalue")
        for name in refused:
            if options.get(name):
                raise ValueError(f"LazyAdam does not support {name}, which needs all rows at every step")
        super().__init__(learning_rate, **options)

    def update_step(
        self, gradient: tf.Tensor | tf.IndexedSlices, variable: tf.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Applies one gradient; called by Keras."""
        if not isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        rows, values = _sum_duplicates(gradient)
        position = self._get_variable_index(variable)
        first, second = (slot[position].value for slot in (self._momentums, self._velocities))
        m = _decayed(first, rows, values, self.beta_1)
        v = _decayed(second, rows, tf.square(values), self.beta_2)
        first.scatter_update(tf.IndexedSlices(m, rows))
        second.scatter_update(tf.IndexedSlices(v, rows))
        if self.amsgrad:
            largest = self._velocity_hats[position].value
            v = tf.maximum(tf.gather(largest, rows), v)
            largest.scatter_update(tf.IndexedSlices(v, rows))
        step = tf.cast(self.iterations.value + 1, values.dtype)
        correction = tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        rate = tf.cast(learning_rate, values.dtype) * correction
        # Not scatter_sub: TensorFlow takes far longer for scattered sums than for scattered copies.
        weights = tf.gather(variable, rows) - rate * m / (tf.sqrt(v) + self.epsilon)
        variable.scatter_update(tf.IndexedSlices(weights, rows))


def _decayed(slot: tf.Variable, rows: tf.Tensor, values: tf.Tensor, beta: float) -> tf.Tensor:
    """Updates the moments of some rows, and returns them."""
    held = tf.gather(slot, rows)
    return held + (1 - beta) * (values - held)


def _sum_duplicates(gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor]:
    """Sums slices of the same row: uncompressed gradients of several ranks are gathered end to end."""
    rows, positions = tf.unique(gradient.indices)
    return rows, tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))
