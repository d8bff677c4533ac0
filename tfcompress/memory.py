"""Where the memory's slots live: float32 variables, one set a tensor."""

import tensorflow as tf


def make_slots(
    num_slots: int, shape: tf.TensorShape, name: str, initial: tf.Tensor | None = None
) -> list[tf.Variable]:
    """Creates the slots of one tensor, outside any graph that is being traced.

    Args:
      num_slots: How many the memory needs.
      shape: Shape of the gradient; must be fully defined where the memory needs slots.
      name: Prefix of the variables' names.
      initial: float32 [num_slots, *shape] to start with, or None for zeros.

    Raises:
      ValueError: The memory needs slots, but the shape is not known.
    """
    if num_slots == 0:
        return []
    if not shape.is_fully_defined():
        raise ValueError(
            f"gradient '{name}' has the unknown shape {shape}: a memory keeps a vector of its size; use a "
            "spec without memory"
        )
    with tf.init_scope():
        if initial is None:
            initial = tf.zeros([num_slots, *shape], tf.float32)
        return [tf.Variable(initial[i], trainable=False, name=f"{name}/memory_{i}") for i in range(num_slots)]
