"""Residual networks for CIFAR-10.

He et al., "Deep Residual Learning for Image Recognition", 2015: `resnet20` is that of section 4.2, `resnet18`
has the stages of its Table 1 on the stem of CIFAR-10, as is usual.
"""

from collections.abc import Callable, Sequence

import keras
from keras import layers

Shortcut = Callable[[object, int, int], object]
# With Keras's default, 0.99, the initial statistics would decay over epochs.
BATCH_NORM_MOMENTUM = 0.9


def resnet20(shape: tuple[int, int, int], num_classes: int) -> keras.Model:
    """Returns 3 stages of 3 blocks with 16, 32 and 64 channels; shortcuts without parameters (option A)."""
    return resnet(shape, num_classes, widths=(16, 32, 64), blocks=3, shortcut=padded_shortcut)


def resnet18(shape: tuple[int, int, int], num_classes: int) -> keras.Model:
    """Returns 4 stages of 2 blocks with 64 to 512 channels; shortcuts are projections (option B)."""
    return resnet(shape, num_classes, widths=(64, 128, 256, 512), blocks=2, shortcut=projected_shortcut)


def resnet(
    shape: tuple[int, int, int], num_classes: int, *, widths: Sequence[int], blocks: int, shortcut: Shortcut
) -> keras.Model:
    """Returns a network of basic blocks with logits as output; all stages but the first halve the image."""
    images = keras.Input(shape)
    x = layers.ReLU()(normalise(convolution(images, widths[0])))
    for stage, width in enumerate(widths):
        for block in range(blocks):
            x = basic_block(x, width, 2 if stage > 0 and block == 0 else 1, shortcut)
    return keras.Model(images, layers.Dense(num_classes)(layers.GlobalAveragePooling2D()(x)))


def basic_block(x: object, width: int, stride: int, shortcut: Shortcut) -> object:
    """Applies two convolutions and adds the shortcut of the input."""
    y = layers.ReLU()(normalise(convolution(x, width, stride)))
    y = normalise(convolution(y, width))
    if stride != 1 or x.shape[-1] != width:
        x = shortcut(x, width, stride)
    return layers.ReLU()(layers.Add()([x, y]))


def padded_shortcut(x: object, width: int, stride: int) -> object:
    """Option A: takes every stride-th pixel and pads the channels with zeros."""
    x = layers.AveragePooling2D(1, strides=stride)(x)
    return keras.ops.pad(x, [[0, 0], [0, 0], [0, 0], [0, width - x.shape[-1]]])


def projected_shortcut(x: object, width: int, stride: int) -> object:
    """Option B: applies a 1 x 1 convolution."""
    return normalise(convolution(x, width, stride, kernel=1))


def convolution(x: object, width: int, stride: int = 1, kernel: int = 3) -> object:
    """Applies a convolution without bias, since the batch normalisation after it has one."""
    conv = layers.Conv2D(
        width, kernel, stride, padding="same", use_bias=False, kernel_initializer="he_normal"
    )
    return conv(x)


def normalise(x: object) -> object:
    """Normalises over this rank's batch."""
    return layers.BatchNormalization(momentum=BATCH_NORM_MOMENTUM, epsilon=1e-5)(x)
