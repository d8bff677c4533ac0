"""Where the memory's slots live: float32 variables, one set a tensor."""

import tensorflow as tf

from tfcompress.compressor import Compressor


def make_slots(compressor: Compressor, dtype: str, shape: tf.TensorShape, name: str) -> list[tf.Variable]:
    """Creates the zero-initialised slots of one tensor, outside any graph that is being traced.

    Args:
      compressor: Whose memory and policy decide how many there are.
      dtype: "float32", "float16" or "bfloat16"; the slots are float32 in any case.
      shape: Shape of the gradient; must be fully defined where the memory needs slots.
      name: Prefix of the variables' names.

    Raises:
      ValueError: The memory needs slots, but the shape is not known.
    """
    if not shape.is_fully_defined():
        if compressor.num_slots > 0:
            raise ValueError(
                f"gradient '{name}' has the unknown shape {shape}: the memory of "
                f"'{compressor.spec}' keeps a vector of its size; use a spec without memory"
            )
        return []
    count = compressor.slots_for(dtype, shape.num_elements())
    with tf.init_scope():
        return [
            tf.Variable(tf.zeros(shape, tf.float32), trainable=False, name=f"{name}/memory_{i}")
            for i in range(count)
        ]
