"""The interface of codecs that users write in Python. NumPy only, no TensorFlow."""

import abc

import numpy as np


class CustomCodec(abc.ABC):
    """A codec written in Python: gradients become bytes, and bytes become gradients again.

    `tfc.Compressor("residual|dense|raw|raw", codec=...)` applies it to each gradient of a training step, with
    everything around it that the codecs of this package have: error feedback, steps that are transactions
    over all ranks, statistics, checkpoints. It is slower than they are: Python runs, on one core, while the
    step waits. Not with `hierarchical=True`.

    `decode` must return the same bits on every rank, so it may depend on its arguments only. An instance may
    have settings, which must be equal on all ranks, and is used for many gradients, so keep nothing of one
    gradient in it; draw what is random from `seed`.
    """

    @abc.abstractmethod
    def encode(self, values: np.ndarray, seed: int) -> bytes | np.ndarray:
        """Returns what travels.

        Args:
          values: float32, finite, of the gradient's shape, what the memory holds included. Not to be changed.
          seed: Differs between steps, gradients and ranks.

        Returns:
          Bytes or a uint8 vector, of any length.
        """

    @abc.abstractmethod
    def decode(self, encoded: np.ndarray, shape: tuple[int, ...], seed: int) -> np.ndarray:
        """Returns what is applied of one rank's gradient; the rest stays in the residual.

        Args:
          encoded: What `encode` returned on that rank: a uint8 vector, not to be changed.
          shape: The gradient's.
          seed: The one that `encode` had.

        Returns:
          Floats of `shape`, or as many of them.
        """

    def __str__(self) -> str:
        """The name in messages, by which ranks compare what they are configured with."""
        return type(self).__name__
