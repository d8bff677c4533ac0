"""Which part of each gradient is a rank's own, where the ranks of a host share its exchange."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfcompress.comm import Ranks


@dataclasses.dataclass(frozen=True)
class Part:
    """A rank's part of every gradient: consecutive rows, as many as the other ranks of its host have.

    Rows are those of the last dimension, whatever the others are; of a vector they are elements. So a part
    follows from a shape alone, and a codec that looks at rows and columns finds both.

    Attributes:
      position: Number of this rank on its host.
      count: Ranks on the host; 1 where every rank has the whole.
    """

    position: int = 0
    count: int = 1

    @classmethod
    def owned_by(cls, inside: Ranks) -> "Part":
        """Returns the part of this rank, one of `inside`: the ranks of its host."""
        return cls(inside.rank(), inside.size())

    def cuts(self, shape: Sequence[int]) -> list[int]:
        """Returns the elements where the parts of all positions begin, and where the last one ends."""
        width = shape[-1] if len(shape) > 1 else 1
        rows = math.prod(shape) // width if width else 0
        return [rows * i // self.count * width for i in range(self.count + 1)]

    def shape_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the part: the gradient's own, or [rows, width], or of a vector [elements]."""
        if self.count == 1:
            return tuple(shape)
        begin, end = self._bounds(shape)
        return ((end - begin) // max(shape[-1], 1), shape[-1]) if len(shape) > 1 else (end - begin,)

    def of(self, values: np.ndarray) -> np.ndarray:
        """Returns this rank's part of what all ranks have alike, times the ranks that have no such part.

        Args:
          values: float32 [slots, *shape], what each rank would have where every rank had the whole. The sum
            over all ranks stays the same.
        """
        if self.count == 1:
            return values
        begin, end = self._bounds(values.shape[1:])
        part = values.reshape(len(values), -1)[:, begin:end] * np.float32(self.count)
        return part.reshape(len(values), *self.shape_of(values.shape[1:]))

    def whole(self, values: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
        """Returns float32 [slots, *shape] with the part in its place, and zeros elsewhere.

        Args:
          values: float32 [slots, *shape_of(shape)].
          shape: The gradient's.
        """
        if self.count == 1:
            return values
        begin, end = self._bounds(shape)
        slots = values.shape[0]
        flat = tf.pad(tf.reshape(values, [slots, end - begin]), [[0, 0], [begin, math.prod(shape) - end]])
        return tf.reshape(flat, [slots, *shape])

    def _bounds(self, shape: Sequence[int]) -> list[int]:
        return self.cuts(shape)[self.position : self.position + 2]


WHOLE = Part()
