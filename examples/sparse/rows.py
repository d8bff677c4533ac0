"""Conversion of sparse rows from a source to batches for training."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import scipy.sparse
import tensorflow as tf

# Some rows, float32 [m, dimensions], and their labels, float32 [m].
Block = tuple[scipy.sparse.csr_matrix, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Source:
    """A source of rows.

    Attributes:
      dimensions: Number of features.
      train: Reads this rank's training rows from the start, in blocks; equally many rows on all ranks.
      test: Reads this rank's share of the test rows.
      num_rows: Training rows of each rank, if that is known without reading them all.
    """

    dimensions: int
    train: Callable[[], Iterator[Block]]
    test: Callable[[], Iterator[Block]]
    num_rows: int | None = None


def shuffled(blocks: Iterable[Block], rng: np.random.Generator) -> Iterator[Block]:
    """Permutes the rows within each block."""
    for rows, labels in blocks:
        order = rng.permutation(len(labels))
        yield rows[order], labels[order]


def shared_rows(block: Block, rank: int, size: int) -> Block:
    """Returns every size-th row from the rank-th on."""
    rows, labels = block
    return rows[rank::size], labels[rank::size]


def rows_dataset(
    blocks: Callable[[], Iterator[Block]], batch_size: int, *, drop_remainder: bool
) -> tf.data.Dataset:
    """Returns batches of ((features, keys), labels); blocks are read when they are needed.

    `keys`, int64 [u], are the features that occur in the batch, each once, so that the gradient has no
    duplicate rows. `features` is a float32 tf.SparseTensor [batch, u] whose columns are positions in `keys`.

    Args:
      blocks: Called once for each pass over the rows.
      batch_size: Rows of a batch. Batches do not span blocks.
      drop_remainder: Whether a smaller batch at the end of a block is left out.
    """

    def batches() -> Iterator[tuple[np.ndarray, ...]]:
        for rows, labels in blocks():
            stop = len(labels) - batch_size + 1 if drop_remainder else len(labels)
            for start in range(0, stop, batch_size):
                part = rows[start : start + batch_size]
                splits = part.indptr.astype(np.int64)
                yield splits, part.indices.astype(np.int64), part.data, labels[start : start + batch_size]

    signature = tuple(tf.TensorSpec([None], dtype) for dtype in (tf.int64, tf.int64, tf.float32, tf.float32))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return data.map(_number_keys).prefetch(tf.data.AUTOTUNE)


def _number_keys(
    splits: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, labels: tf.Tensor
) -> tuple[tuple[tf.SparseTensor, tf.Tensor], tf.Tensor]:
    unique, columns = tf.unique(keys, out_idx=tf.int64)
    indices = tf.stack([tf.ragged.row_splits_to_segment_ids(splits), columns], axis=1)
    shape = tf.stack([tf.size(labels, tf.int64), tf.size(unique, tf.int64)])
    return (tf.SparseTensor(indices, values, shape), unique), labels
