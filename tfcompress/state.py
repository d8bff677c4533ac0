"""Memory slots of the variables of one model, and how they are saved and restored."""

import dataclasses
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from tfcompress import comm
from tfcompress.devices import HOST
from tfcompress.notices import warn
from tfcompress.parts import WHOLE, Part

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A variable as an exchange sees it.

    Attributes:
      key: Identifies it within this process.
      name: Its path, such as "dense/kernel": the same in checkpoints, policies, statistics and messages.
      shape: Of the dense gradient; fully defined where it is known.
      variable: The variable itself, None under stock Horovod, which does not tell it.
    """

    key: Hashable
    name: str
    shape: tf.TensorShape
    variable: tf.Variable | None = None


@dataclasses.dataclass(frozen=True)
class _FactorKey:
    """Identifies the right factor that low-rank steps keep of a parameter."""

    parameter: Hashable
    rank: int


def factor_of(parameter: Parameter, rank: int) -> Parameter:
    """Returns the right factor that low-rank steps keep of a matrix, as a parameter: [rank, columns].

    It is the same on all ranks. Zeros stand for a factor that is not known.
    """
    shape = tf.TensorShape([rank, parameter.shape[-1]])
    return Parameter(_FactorKey(parameter.key, rank), f"{parameter.name}:factor_{rank}", shape)


def tf_variable(variable: object) -> tf.Variable:
    """Returns the tf.Variable inside a Keras 3 variable, or the argument itself."""
    inner = getattr(variable, "value", None)
    return inner if isinstance(inner, tf.Variable) else variable


def parameter_of(variable: object, position: int = 0) -> Parameter:
    """Returns what an exchange sees of a variable: a Keras 3 variable, a tf.Variable, or a watched tensor.

    Args:
      variable: The variable or tensor.
      position: Among the sources of a tape; tensors are made anew at every step, and known by it.
    """
    inner = tf_variable(variable)
    if not isinstance(inner, tf.Variable):
        name = f"source_{position}_of_shape_{'x'.join(map(str, inner.shape))}"
        return Parameter(name, name, inner.shape)
    name = getattr(variable, "path", None) or inner.name.partition(":")[0]
    return Parameter(inner.ref(), name, inner.shape, inner)  # An id would be another's when this one is gone.


def make_variable(
    initial: tf.Tensor | np.ndarray, name: str | None = None, *, varies: bool = False
) -> tf.Variable:
    """Creates a variable that is not trained, outside any graph that is being traced.

    Not through `tf.Variable`: in later traces of a tf.function that refuses to create anything.

    Args:
      initial: Its value.
      name: Its name.
      varies: Whether the first dimension may change.
    """
    with tf.init_scope():
        value = tf.convert_to_tensor(initial)
        shape = tf.TensorShape([None, *value.shape[1:]]) if varies else value.shape
        return ResourceVariable(value, trainable=False, name=name, shape=shape)


@dataclasses.dataclass
class _Entry:
    """The slots of one parameter, float32 of a part of its shape, and the memory that they are of."""

    name: str
    memory: str
    slots: list[tf.Variable]
    shape: tuple[int, ...]
    part: Part


class Memories:
    """The memory slots of one model's parameters.

    Slots belong to a parameter, whatever compressor it has at the moment. In checkpoints they are found by
    the parameter's name. Slots that were restored wait until their parameter appears: a layer may be frozen.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}
        self._names: dict[Hashable, str] = {}
        self._waiting: dict[str, np.ndarray] = {}
        self._warned: set[str] = set()

    def unique_name(self, parameter: Parameter) -> str:
        """Returns the parameter's name, with a number where another parameter of this model has the same."""
        if parameter.key not in self._names:
            taken = set(self._names.values())
            name, number = parameter.name, 1
            while name in taken:
                number += 1
                name = f"{parameter.name}#{number}"
            self._names[parameter.key] = name
        return self._names[parameter.key]

    def slots_of(
        self, parameter: Parameter, memory: str, num_slots: int, on_cpu: bool, part: Part = WHOLE
    ) -> list[tf.Variable]:
        """Returns the slots of a parameter; creates them at the first call.

        Args:
          parameter: Of fully defined shape.
          memory: Its memory, such as "residual".
          num_slots: How many that needs.
          on_cpu: Whether they must be there: no kernel for GPUs updates a table's residual.
          part: What this rank has of the parameter; that of the first call stays.

        Raises:
          ValueError: The shape is not known, or restored slots are of another model or memory. Or another
            part was asked for before: the gradient was a table, and now is dense.
        """
        name = self.unique_name(parameter)
        if parameter.key in self._entries:
            entry = self._entries[parameter.key]
            if entry.part != part:
                raise ValueError(
                    f"gradient '{name}' is dense in one step and IndexedSlices in another, which cannot "
                    "share a memory with hierarchical=True: set sparse_as_dense=True"
                )
            return entry.slots
        if num_slots == 0:
            return []
        if not comm.talks_eagerly():
            raise ValueError(
                f"gradient '{name}' would need a memory, which a TF1-style graph and its session do not "
                "update: use a compression without memory, such as tfc.Compression.qsgd(), or tf.function"
            )
        if not parameter.shape.is_fully_defined():
            raise ValueError(
                f"gradient '{name}' has the unknown shape {parameter.shape}, and a memory keeps a vector of "
                "its size: use tfc.DistributedGradientTape or tfc.DistributedOptimizer, which see the "
                "variable, or a spec without memory"
            )
        shape = tuple(parameter.shape.as_list())
        initial = self._waiting.pop(name, None)
        if initial is not None:
            _check_shape(name, initial, (num_slots, *shape))
        with tf.init_scope(), tf.device(HOST if on_cpu else None):
            own = (num_slots, *part.shape_of(shape))
            values = tf.zeros(own) if initial is None else part.of(initial)
            slots = [make_variable(values[i], f"{scope_name(name)}/memory_{i}") for i in range(num_slots)]
        self._entries[parameter.key] = _Entry(name, memory, slots, shape, part)
        return slots

    def match_waiting(self, parameters: Sequence[Parameter]) -> None:
        """Gives restored slots to the parameters of a step; warns, by name, of what is not plain.

        Keras numbers layers anew in each process, and leaves the model's name out of the paths of a model
        that it has loaded. Where all names that wait differ from all names of parameters in these alone, and
        shapes are equal, the slots go to the parameters in the order of their numbers.

        Args:
          parameters: Those that have a memory.
        """
        if self._waiting:
            shapes = {self.unique_name(each): tuple(each.shape.as_list()) for each in parameters}
            self._settle(shapes)
            self._warn_of_waiting(shapes)

    def _settle(self, shapes: Mapping[str, tuple]) -> None:
        """Renames what waits for names of these shapes, and assigns what has slots already."""
        renamed = _renumbered(self._waiting, shapes)
        if renamed:
            pairs = ", ".join(f"{saved} to {name}" for saved, name in sorted(renamed.items()))
            warn(f"saved residuals go to variables that are numbered otherwise now: {pairs}")
        for saved, name in renamed.items():
            self._waiting[name] = self._waiting.pop(saved)
        present = [entry for entry in self._entries.values() if entry.name in self._waiting]
        for entry in present:
            _check_shape(entry.name, self._waiting[entry.name], (len(entry.slots), *entry.shape))
        with tf.init_scope():
            for entry in present:
                values = entry.part.of(self._waiting.pop(entry.name))
                for slot, value in zip(entry.slots, values, strict=True):
                    slot.assign(value)

    def memory_of(self, parameter: Parameter) -> str:
        """Returns the memory whose slots a parameter has, such as "residual"; nothing where it has none."""
        entry = self._entries.get(parameter.key)
        return entry.memory if entry else ""

    def adopt(self, other: "Memories", parameters: Sequence[Parameter]) -> None:
        """Takes over the slots that other memories have of some parameters."""
        ranks = {key.rank for key in other._entries if isinstance(key, _FactorKey)}
        factors = [factor_of(parameter, rank) for parameter in parameters for rank in ranks]
        for parameter in (*parameters, *factors):
            if parameter.key in other._entries and parameter.key not in self._entries:
                entry = other._entries.pop(parameter.key)
                self._entries[parameter.key] = dataclasses.replace(entry, name=self.unique_name(parameter))

    def __bool__(self) -> bool:
        return bool(self._entries)

    def by_name(self) -> dict[str, list[tf.Variable]]:
        """Returns the slots of all parameters that have some, by name."""
        return {entry.name: entry.slots for entry in self._entries.values()}

    def whole(self) -> dict[str, tf.Tensor]:
        """Returns all slots by name, zero where they are another rank's part: float32 [slots, *shape]."""
        return {
            each.name: each.part.whole(tf.stack([slot.read_value() for slot in each.slots]), each.shape)
            for each in self._entries.values()
        }

    def waiting(self) -> dict[str, np.ndarray]:
        """Returns restored slots whose parameters have not appeared, by name."""
        return dict(self._waiting)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Copies all slots, by name: float32 [slots, *shape]."""
        held = {name: np.stack([slot.numpy() for slot in slots]) for name, slots in self.by_name().items()}
        return {**self._waiting, **held}

    def restore(self, memories: Mapping[str, np.ndarray]) -> None:
        """Overwrites slots; those of parameters that have not appeared wait for them.

        Args:
          memories: By name, float32 [slots, *shape].

        Raises:
          ValueError: A parameter has another memory or shape; nothing was overwritten.
        """
        waited = self._waiting
        self._waiting = {**waited, **memories}
        try:
            self._settle({entry.name: entry.shape for entry in self._entries.values()})
        except ValueError:
            self._waiting = waited
            raise

    def _warn_of_waiting(self, names: Iterable[str]) -> None:
        """Warns, once, by name, of restored residuals that no parameter of a step takes."""
        left = self._waiting.keys() - set(names)
        if left and not left <= self._warned:
            warn(
                f"the saved residuals of {', '.join(sorted(left))} belong to no variable of this step; they "
                "wait until variables of these names appear, and stay in checkpoints until then"
            )
            self._warned |= left


def _renumbered(saved: Mapping[str, np.ndarray], shapes: Mapping[str, tuple]) -> dict[str, str]:
    """Returns which saved name is which of today's, if all differ in numbers and prefixes alone."""
    old = sorted(saved.keys() - shapes.keys(), key=_order)
    new = sorted(shapes.keys() - saved.keys(), key=_order)
    pairs = dict(zip(old, new, strict=False))
    same = all(_order(a)[0] == _order(b)[0] and saved[a].shape[1:] == shapes[b] for a, b in pairs.items())
    return pairs if len(old) == len(new) and same else {}


def _order(name: str) -> tuple[str, list[int]]:
    """The last two parts of a name without numbers, and its numbers."""
    stem = re.sub(r"[_#]\d+(?=/|#|$)", "", name)
    return "/".join(stem.split("/")[-2:]), [int(number) for number in re.findall(r"\d+", name)]


def scope_name(name: str) -> str:
    """A name that TensorFlow takes."""
    return re.sub(r"[^A-Za-z0-9_.\\/-]", "_", name).lstrip("_/-\\") or "variable"


def _check_shape(name: str, values: np.ndarray, expected: Sequence[int]) -> None:
    if values.shape != tuple(expected):
        raise ValueError(
            f"the saved memory of '{name}' has shape {values.shape}, expected {tuple(expected)}: it is of "
            "another model or another memory"
        )
