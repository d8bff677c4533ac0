"""Language models over bytes.

Each takes windows of bytes, [m, context], and returns the logits of the next byte at every position.
"""

import keras
from keras import layers

NUM_BYTES = 256


def lstm(context: int, width: int, num_layers: int) -> keras.Model:
    """Returns an embedding, LSTM layers and a dense layer; every window starts from a state of zeros."""
    x = text = keras.Input((context,), dtype="uint8")
    x = layers.Embedding(NUM_BYTES, width)(x)
    for _ in range(num_layers):
        x = layers.LSTM(width, return_sequences=True)(x)
    return keras.Model(text, layers.Dense(NUM_BYTES)(x))


def transformer(context: int, width: int, num_layers: int, *, num_heads: int = 4) -> keras.Model:
    """Returns a causal transformer, normalised before each part, with learned positions.

    Raises:
      ValueError: `width` is not a multiple of the number of heads.
    """
    if width % num_heads:
        raise ValueError(f"--width {width} must be a multiple of the {num_heads} heads")
    x = text = keras.Input((context,), dtype="uint8")
    x = AddPlace()(layers.Embedding(NUM_BYTES, width)(x))
    for _ in range(num_layers):
        y = layers.LayerNormalization()(x)
        attention = layers.MultiHeadAttention(num_heads, width // num_heads)
        x = layers.Add()([x, attention(y, y, use_causal_mask=True)])
        y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(width)(y)])
    x = layers.LayerNormalization()(x)
    return keras.Model(text, layers.Dense(NUM_BYTES)(x))


class AddPlace(layers.Layer):
    """Adds a learned vector to each position of a window.

    Not an Embedding, since every step uses all positions and the gradient is dense.
    """

    def build(self, shape: tuple) -> None:
        self.places = self.add_weight(shape=shape[1:], initializer="uniform", name="places")

    def call(self, x: object) -> object:
        return x + self.places
