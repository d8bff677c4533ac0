"""Training images: normalisation, augmentation and synthetic data."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

# Synthetic images: cells of a pattern along a side, and contrasts in grey levels of 256.
_CELLS = 4
_OWN_CONTRAST, _OTHER_CONTRAST, _NOISE = (10.0, 60.0), (0.0, 40.0), 60.0
# Pixels by which a training image may move, as in the ResNet paper (section 4.2).
_PADDING = 4


def synthetic(num_images: int, size: int, num_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Makes images of classes that a network can learn to distinguish, but never perfectly.

    A class has a smooth random pattern. An image is the pattern of its class and one of any class, both of
    random contrast, under noise.

    Returns:
      Images, uint8 [num_images, size, size, 3], and labels, int32 [num_images].
    """
    rng = np.random.default_rng(seed)
    patterns = rng.standard_normal((num_classes, _CELLS, _CELLS, 3), np.float32)
    labels, others = rng.integers(num_classes, size=(2, num_images), dtype=np.int32)
    each = (num_images, 1, 1, 1)
    coarse = rng.uniform(*_OWN_CONTRAST, each) * patterns[labels]
    coarse += rng.uniform(*_OTHER_CONTRAST, each) * patterns[others]
    images = tf.image.resize(coarse, (size, size), "bicubic").numpy()
    images += _NOISE * rng.standard_normal(images.shape, np.float32)
    return np.clip(128 + images, 0, 255).astype(np.uint8), labels


def normaliser(images: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that normalises images by the mean and variance of these in each channel."""
    mean, deviation = (f(images, (0, 1, 2), np.float64).astype(np.float32) for f in (np.mean, np.std))
    return lambda pixels: (tf.cast(pixels, tf.float32) - mean) / deviation


def augment(data: tf.data.Dataset, seed: int) -> tf.data.Dataset:
    """Moves and mirrors the images of each batch at random, anew in each epoch."""
    seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).batch(2)
    data = tf.data.Dataset.zip((data, seeds))
    return data.map(
        lambda batch, seed: (move_and_mirror(batch[0], seed), batch[1]), num_parallel_calls=tf.data.AUTOTUNE
    )


def move_and_mirror(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Crops each image of a batch from itself padded with 0, and mirrors about half of them.

    Images have the shape [m, height, width, channels], the seed [2].
    """
    shape = tf.shape(images)
    sides = [_PADDING, _PADDING]
    images = tf.pad(images, [[0, 0], sides, sides, [0, 0]])
    seeds = tf.random.split(seed, 2)
    offsets = tf.random.stateless_uniform((2, shape[0], 1), seeds[0], maxval=2 * _PADDING + 1, dtype=tf.int32)
    images = tf.gather(images, offsets[0] + tf.range(shape[1]), axis=1, batch_dims=1)
    columns = offsets[1] + tf.range(shape[2])
    is_mirrored = tf.random.stateless_uniform((shape[0], 1), seeds[1]) < 0.5
    columns = tf.where(is_mirrored, columns[:, ::-1], columns)
    return tf.gather(images, columns, axis=2, batch_dims=1)
