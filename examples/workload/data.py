"""Each rank's share of the data."""

import argparse
from collections.abc import Sequence

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


def share(array: np.ndarray) -> np.ndarray:
    """Returns every size-th element from the rank-th on; ranks may differ by one element."""
    return array[hvd.rank() :: hvd.size()]


def batches(arrays: Sequence[np.ndarray], arguments: argparse.Namespace) -> tf.data.Dataset:
    """Returns this rank's batches of (inputs, labels), shuffled anew in each epoch.

    All ranks have equally many batches: a rank with one more would wait forever.

    Raises:
      SystemExit: A rank has less than one batch.
    """
    num_mine = len(arrays[0]) // hvd.size()
    if num_mine < arguments.batch_size:
        raise SystemExit(
            f"--batch-size {arguments.batch_size} is more than the {num_mine} examples that each of "
            f"{hvd.size()} ranks has: take a smaller one"
        )
    mine = tuple(share(array)[:num_mine] for array in arrays)
    data = tf.data.Dataset.from_tensor_slices(mine)
    data = data.shuffle(num_mine, seed=arguments.seed + hvd.rank())
    return data.batch(arguments.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def one_epoch(data: tf.data.Dataset, arguments: argparse.Namespace) -> tf.data.Dataset:
    """Returns `--steps` batches, which may take the data again, or all; with `--preload` from memory."""
    if arguments.steps is not None:
        data = data.repeat().take(arguments.steps)
    if not arguments.preload:
        return data
    data = data.cache()
    for _ in data:  # Fills the cache.
        pass
    return data.prefetch(1)
