"""A densely connected network for CIFAR-10.

Huang et al., "Densely Connected Convolutional Networks", 2016: the network with 40 layers and growth rate 12,
without bottlenecks and compression (section 3, "Implementation Details").
"""

import keras
from keras import layers
from resnet import convolution, normalise


def densenet40(
    shape: tuple[int, int, int], num_classes: int, *, layers_per_block: int = 12, growth: int = 12
) -> keras.Model:
    """Returns a network of 3 dense blocks, with a transition after each of the first two; outputs logits."""
    images = keras.Input(shape)
    x = convolution(images, 16)
    for block in range(3):
        if block > 0:
            x = convolution(activate(x), x.shape[-1], kernel=1)
            x = layers.AveragePooling2D(2)(x)
        for _ in range(layers_per_block):
            x = layers.Concatenate()([x, convolution(activate(x), growth)])
    x = layers.GlobalAveragePooling2D()(activate(x))
    return keras.Model(images, layers.Dense(num_classes)(x))


def activate(x: object) -> object:
    """Normalises and activates the input of every convolution but the first."""
    return layers.ReLU()(normalise(x))
