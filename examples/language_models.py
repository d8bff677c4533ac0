"""Language models over bytes.

Each takes windows of bytes, [m, context], and gives the logits of the byte that follows at every place.
"""

import keras
from keras import layers

NUM_BYTES = 256


def lstm(context: int, width: int, num_layers: int) -> keras.Model:
    """An embedding, LSTM layers and a dense one; every window starts from a state of zeros."""
    x = text = keras.Input((context,), dtype="uint8")
    x = layers.Embedding(NUM_BYTES, width)(x)
    for _ in range(num_layers):
        x = layers.LSTM(width, return_sequences=True)(x)
    return keras.Model(text, layers.Dense(NUM_BYTES)(x))


def transformer(context: int, width: int, num_layers: int, *, num_heads: int = 4) -> keras.Model:
    """A causal transformer, normalised before each part; places are learned.

    Raises:
      ValueError: `width` cannot be shared among the heads.
    """
    if width % num_heads:
        raise ValueError(f"--width {width} cannot be shared among {num_heads} heads")
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
    """Adds to every place of a window a vector of its own.

    Not an Embedding: every step touches all places, and its gradient is dense.
    """

    def build(self, shape: tuple) -> None:
        self.places = self.add_weight(shape=shape[1:], initializer="uniform", name="places")

    def call(self, x: object) -> object:
        return x + self.places
