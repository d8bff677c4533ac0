"""What an aggregator knows of each gradient from step to step."""

import contextlib
import dataclasses
import functools
from collections.abc import Hashable, Sequence

import numpy as np
import tensorflow as tf

from tfcompress.compressor import Compressor, Policy, Transport, is_linear
from tfcompress.memory import make_slots
from tfcompress.schedule import Schedule, stages_of

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
      is_table: Whether it comes as IndexedSlices.
      compressor: The one that the policy gives it.
      transport: How it travels.
      spec: What is applied to it in the last stage; None where all-reduce carries it as it is.
      slots: The memory's.
      stages: What is applied in each stage, strings [stages]; None where it does not travel as a frame.
    """

    number: int
    name: str
    dtype: str
    shape: tf.TensorShape
    is_table: bool
    compressor: Compressor
    transport: Transport
    spec: str | None
    slots: list[tf.Variable]
    stages: tf.Variable | None

    def describe(self) -> tuple[str, str, list[int | None], str]:
        """Returns what the handshake compares."""
        spec = self.spec or self.compressor.spec
        if self.transport is Transport.PAYLOAD_SUM:  # Frames say their seeds; payloads do not.
            spec += f", seed {self.compressor.seed}, {self.compressor.payload_dtype}"
        return self.name, self.dtype, dimensions(self.shape), spec


class TensorTable:
    """The tensors of one model by the variables that they belong to.

    Variables may come and go: a layer is frozen, another one is thawed. Each keeps its memory.
    """

    def __init__(self, plan: Policy | Schedule) -> None:
        self._boundaries, self._policies = stages_of(plan)
        self._boundary_variable: tf.Variable | None = None
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
        compressor = self._policies[-1].compressor_for(name)
        transport = compressor.transport
        is_table = isinstance(gradient, tf.IndexedSlices)
        made = functools.partial(Tensor, number, name, dtype, shape, is_table, compressor)
        if dtype not in COMPRESSED_DTYPES or transport is Transport.ALLREDUCE:
            return made(Transport.ALLREDUCE, None, [], None)
        specs = _specs(self._policies, name, dtype, shape, compressor, is_table)
        num_slots = compressor.slots_for(name, dtype, dimensions(shape))
        if is_table:
            num_slots = int(compressor.row_residual)
        initial = self._restored.pop(number, None)
        if initial is not None:
            _check_memory(name, initial, (num_slots, *dimensions(shape)))
        # On a GPU where there is one, as the gradients; what updates a table's residual in place has no
        # kernel there.
        with tf.device("CPU:0") if is_table else contextlib.nullcontext():
            slots = make_slots(num_slots, shape, name, initial)
        if specs[-1] == compressor.spec and transport is Transport.PAYLOAD_SUM:
            return made(transport, specs[-1], slots, None)
        return made(Transport.PACKET, specs[-1], slots, _strings(specs))

    def has_schedule(self) -> bool:
        """Whether what is applied depends on the step."""
        return bool(self._boundaries)

    def acts_on_one_rank(self) -> bool:
        """Whether a compressor clips, or its memory stands for the optimizer's momentum."""
        return any(
            compressor.clip_norm is not None or compressor.memory.startswith("momentum")
            for compressor in self._policies[-1].compressors()
        )

    def stage(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the stage that a step, counted from 1, belongs to: int64 scalar."""
        with tf.init_scope():
            if self._boundary_variable is None:
                self._boundary_variable = tf.Variable(
                    tf.constant(self._boundaries, tf.int64, shape=[len(self._boundaries)]),
                    trainable=False,
                    shape=[None],
                )
        return tf.searchsorted(self._boundary_variable, [step - 1], side="right", out_type=tf.int64)[0]

    def change(self, plan: Policy | Schedule) -> list[Tensor]:
        """Applies another policy from the next step on; memories go on.

        Returns:
          The tensors as they are now.

        Raises:
          ValueError: A tensor would need another memory, or another way to travel.
        """
        boundaries, policies = stages_of(plan)
        changed = {}
        for number, tensor in sorted(self._tensors.items()):
            specs = None
            compressor = policies[-1].compressor_for(tensor.name)
            if tensor.transport is Transport.PACKET:
                name, dtype, shape = tensor.name, tensor.dtype, tensor.shape
                specs = _specs(policies, name, dtype, shape, tensor.compressor, tensor.is_table)
                if is_linear(specs[-1]):
                    raise ValueError(f"gradient '{name}' travels in a packet, and must go on to")
            elif tensor.transport is Transport.PAYLOAD_SUM and not all(
                p.compressor_for(tensor.name).spec_for(tensor.name, tensor.dtype, dimensions(tensor.shape))
                == tensor.spec
                for p in policies
            ):
                raise ValueError(f"gradient '{tensor.name}' must go on with '{tensor.spec}'")
            elif tensor.dtype in COMPRESSED_DTYPES and tensor.compressor.kind() != compressor.kind():
                raise ValueError(
                    f"gradient '{tensor.name}' travels as a {tensor.transport.value}, and must go on to: "
                    f"'{tensor.compressor.spec}' cannot become '{compressor.spec}'"
                )
            changed[number] = (tensor, specs)
        self._boundaries, self._policies = boundaries, policies
        if self._boundary_variable is not None:
            self._boundary_variable.assign(boundaries)
        for number, (tensor, specs) in changed.items():
            if specs is not None:
                tensor.stages.assign(specs)
                self._tensors[number] = dataclasses.replace(tensor, spec=specs[-1])
        return list(self._tensors.values())

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
            _check_memory(tensor.name, values, expected)
        for number, values in memories.items():
            if number not in self._tensors:
                self._restored[number] = values
                continue
            for slot, value in zip(self._tensors[number].slots, values, strict=True):
                slot.assign(value)


def _check_memory(name: str, values: np.ndarray, expected: tuple) -> None:
    if values.shape != expected:
        raise ValueError(
            f"the saved memory of '{name}' has shape {values.shape}, expected {expected}: it is of another "
            "model or another memory"
        )


def _specs(
    policies: Sequence[Policy],
    name: str,
    dtype: str,
    shape: tf.TensorShape,
    like: Compressor,
    is_table: bool,
) -> list[str]:
    """The spec of a tensor in each stage. All have the memory and the transport of `like`."""
    specs = []
    for policy in policies:
        compressor = policy.compressor_for(name)
        if compressor.kind() != like.kind():
            raise ValueError(
                f"gradient '{name}' cannot change from '{like.spec}' to '{compressor.spec}': the memory, the "
                "treatment of rows, how it travels, seed and clipping must stay the same"
            )
        specs.append(compressor.spec_for(name, dtype, dimensions(shape), is_table))
    if len({is_linear(spec) for spec in specs}) > 1:
        raise ValueError(f"gradient '{name}' must travel alike in all stages: {specs}")
    slots = {p.compressor_for(name).slots_for(name, dtype, dimensions(shape)) for p in policies}
    if slots != {like.slots_for(name, dtype, dimensions(shape))}:
        raise ValueError(f"gradient '{name}' must have a memory in all stages or in none: {specs}")
    return specs


def _strings(values: Sequence[str]) -> tf.Variable:
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.Variable(tf.constant(values), trainable=False, shape=[None])


def dimensions(shape: tf.TensorShape) -> list[int | None]:
    """Returns a shape as a list; one unknown dimension where even the rank is unknown."""
    return shape.as_list() if shape.rank is not None else [None]
