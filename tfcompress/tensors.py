"""What an aggregator knows of each gradient from step to step."""

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np
import tensorflow as tf

from tfcompress.compressor import Compressor, Policy
from tfcompress.memory import make_slots

Gradient = tf.Tensor | tf.IndexedSlices | None

COMPRESSED_DTYPES = ("float32", "float16", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One gradient.

    Attributes:
      number: Counts variables in the order of their first appearance: equal on all ranks and in runs
        of the same program.
      name: For statistics and messages.
      dtype: Its dtype's name.
      shape: Of the dense gradient.
      compressor: The one that the policy gives it.
      spec: What is applied to it; None where it does not travel as a frame.
      slots: The memory's.
    """

    number: int
    name: str
    dtype: str
    shape: tf.TensorShape
    compressor: Compressor
    spec: str | None
    slots: list[tf.Variable]

    def describe(self) -> tuple[str, str, list[int | None], str]:
        """Returns what the handshake compares."""
        return self.name, self.dtype, dimensions(self.shape), self.spec or self.compressor.spec


class TensorTable:
    """The tensors of one model by the variables that they belong to.

    Variables may come and go: a layer is frozen, another one is thawed. Each keeps its memory.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._numbers: dict[Hashable, int] = {}
        self._tensors: dict[int, Tensor] = {}
        self._restored: dict[int, np.ndarray] = {}

    def look_up(
        self, gradients: Sequence[Gradient], names: Sequence[str], keys: Sequence[Hashable]
    ) -> list[Tensor | None]:
        """Returns the tensor of each gradient, None for a gradient that is None; makes what is new.

        Raises:
          ValueError: A gradient has another dtype or shape than before.
        """
        numbers = [self._numbers.setdefault(key, len(self._numbers)) for key in keys]
        return [
            None if gradient is None else self._tensor(number, gradient, name)
            for number, gradient, name in zip(numbers, gradients, names, strict=True)
        ]

    def _tensor(self, number: int, gradient: Gradient, name: str) -> Tensor:
        dtype, shape = gradient.dtype.name, tf.TensorShape(gradient.shape)
        known = self._tensors.get(number)
        if known is None:
            known = self._tensors[number] = self._make(number, gradient, name)
        if known.dtype != dtype or not known.shape.is_compatible_with(shape):
            raise ValueError(
                f"gradient '{name}' is {dtype} {shape}, at the first step it was {known.dtype} {known.shape}"
            )
        return known

    def _make(self, number: int, gradient: Gradient, name: str) -> Tensor:
        dtype, shape = gradient.dtype.name, tf.TensorShape(gradient.shape)
        compressor = self._policy.compressor_for(name)
        spec, slots = None, []
        is_dense = isinstance(gradient, tf.Tensor)
        if is_dense and dtype in COMPRESSED_DTYPES and not compressor.linear:
            spec = compressor.spec_for(name, dtype, dimensions(shape))
            num_slots = compressor.slots_for(name, dtype, dimensions(shape))
            slots = make_slots(num_slots, shape, name, self._restored.pop(number, None))
        return Tensor(number, name, dtype, shape, compressor, spec, slots)

    def memories(self) -> dict[int, list[tf.Variable]]:
        """Returns the slots of all tensors that have some, by number."""
        return {number: tensor.slots for number, tensor in sorted(self._tensors.items()) if tensor.slots}

    def waiting(self) -> dict[int, np.ndarray]:
        """Returns restored slots of tensors that have not appeared yet, by number."""
        return dict(self._restored)

    def restore(self, memories: dict[int, np.ndarray]) -> None:
        """Overwrites slots; those of tensors that have not appeared yet wait for them.

        Args:
          memories: By number, float32 [slots, *shape].

        Raises:
          ValueError: A tensor has other slots or another shape.
        """
        for number, values in memories.items():
            tensor = self._tensors.get(number)
            if tensor is None:
                continue
            expected = (len(tensor.slots), *dimensions(tensor.shape))
            if values.shape != expected:
                raise ValueError(
                    f"the saved memory of '{tensor.name}' has shape {values.shape}, expected {expected}: it "
                    "is of another model or another memory"
                )
        for number, values in memories.items():
            if number not in self._tensors:
                self._restored[number] = values
                continue
            for slot, value in zip(self._tensors[number].slots, values, strict=True):
                slot.assign(value)


def dimensions(shape: tf.TensorShape) -> list[int | None]:
    """Returns a shape as a list; one unknown dimension where even the rank is unknown."""
    return shape.as_list() if shape.rank is not None else [None]
