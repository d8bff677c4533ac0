"""Rounds of local steps: each rank trains by itself, then all go on from the same weights."""

import dataclasses
import io
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfcompress.devices import HOST
from tfcompress.outer import OuterStep
from tfcompress.state import Gradient, Parameter, make_variable, parameter_of, scope_name, tf_variable
from tfcompress.step import Step

_COUNT, _ANCHORS, _VELOCITIES, _TABLES = "count", "anchor", "velocity", "tables"


@dataclasses.dataclass(frozen=True)
class _Trained:
    """A variable that is trained in rounds.

    Attributes:
      variable: Its weights, this rank's own within a round.
      anchor: What they were on all ranks when the round began.
      velocity: The outer step's, the same on all ranks; None without momentum.
    """

    variable: tf.Variable
    anchor: tf.Variable
    velocity: tf.Variable | None

    def difference(self, as_rows: bool) -> tf.Tensor | tf.IndexedSlices:
        """Returns what the round has taken from the anchor; as rows, those that are not zero."""
        dense = self.anchor - self.variable.read_value()
        if not as_rows:
            return dense
        is_changed = tf.reduce_any(tf.not_equal(dense, 0), axis=list(range(1, dense.shape.rank)))
        rows = tf.where(is_changed)[:, 0]
        return tf.IndexedSlices(tf.gather(dense, rows), rows, tf.constant(dense.shape.as_list(), tf.int64))

    def parameter(self, named: Parameter) -> Parameter:
        """Returns what an exchange sees: of its variables, the anchors are those that ranks have alike."""
        return dataclasses.replace(named, variable=self.anchor)


class Rounds:
    """Counts local steps, and ends a round after so many of them, or when it is told to.

    A round begins by taking the weights as they are for the anchors: what was broadcast, loaded or assigned
    between two rounds counts. All state is created by `prepare`, outside any graph that is being traced.
    """

    def __init__(
        self,
        step: Step,
        num_steps: int,
        outer: OuterStep,
        feedback_decay: float,
        *,
        sends_rows: bool = False,
    ) -> None:
        """Takes how rounds end.

        Args:
          step: Reduces the differences.
          num_steps: Of a round, at least 1.
          outer: What becomes of the mean difference.
          feedback_decay: Factor of the residuals after each round, in (0, 1].
          sends_rows: Whether differences of tables are sent as the rows that a round has changed.

        Raises:
          ValueError: A number is outside its range.
        """
        if num_steps < 1:
            raise ValueError(f"steps must be at least 1, got {num_steps}")
        if not 0 < feedback_decay <= 1:
            raise ValueError(f"feedback_decay must be above 0 and at most 1, got {feedback_decay}")
        self._step = step
        self._num_steps = num_steps
        self._outer = outer
        self._feedback_decay = feedback_decay
        self._sends_rows = sends_rows
        self._tables: set[int] = set()
        self._trained: dict[Hashable, tuple[Parameter, _Trained]] = {}
        self._count = make_variable(np.int64(0), "tfcompress/local_steps")
        self._waiting: dict[str, np.ndarray] = {}
        self._end_eagerly: Callable[[], None] | None = None

    def prepare(self, variables: Sequence[object]) -> None:
        """Creates the state of variables that are trained; does nothing for those that have some.

        Args:
          variables: Keras's variables or tf.Variables.

        Raises:
          ValueError: Restored state is of another model.
        """
        for position, variable in enumerate(variables):
            parameter, inner = parameter_of(variable), tf_variable(variable)
            if parameter.key in self._trained:
                continue
            name = scope_name(parameter.name)
            with tf.init_scope():
                # Not what the variable holds: one that is made while a step is traced holds nothing yet.
                anchor = self._made(_ANCHORS, position, inner, f"{name}/anchor")
                velocity = None
                if self._outer.momentum:
                    velocity = self._made(_VELOCITIES, position, inner, f"{name}/velocity")
            self._trained[parameter.key] = (parameter, _Trained(inner, anchor, velocity))
        self._waiting = {}

    def _made(self, kind: str, position: int, like: tf.Variable, name: str) -> tf.Variable:
        restored = self._waiting.get(f"{kind}_{position}")
        if restored is None:
            return make_variable(tf.zeros(like.shape, like.dtype), name)
        _check_shape(name, restored, like.shape)
        return make_variable(tf.cast(restored, like.dtype), name)

    def note_tables(self, gradients_and_variables: Iterable[tuple[Gradient, object]]) -> None:
        """Takes the variables whose gradients are rows for tables; before `run`, while a step is traced."""
        for gradient, variable in gradients_and_variables:
            if isinstance(gradient, tf.IndexedSlices):
                self._tables.add(list(self._trained).index(parameter_of(variable).key))

    def run(self, take_step: Callable[[], object]) -> None:
        """Takes a local step; begins a round before it and ends one after it where it is time to.

        Args:
          take_step: The inner optimizer's step; its variables are those of `prepare`.
        """
        if self._num_steps == 1:
            self._begin()
            take_step()
            self._end()
            return
        tf.cond(tf.equal(self._count, 0), _done(self._begin), _done())
        take_step()
        count = self._count.assign_add(1, read_value=True)
        tf.cond(count >= self._num_steps, _done(self._end), _done())

    def end(self) -> None:
        """Ends a round that has begun, however few its steps. Eagerly; every rank must call it."""
        if not self.num_taken():
            return
        if self._end_eagerly is None:
            # Together, in one function: all collectives are pending at once, as in a training step.
            self._end_eagerly = tf.function(self._end, autograph=False)
        self._end_eagerly()

    def num_taken(self) -> int:
        """Returns how many steps of a round have been taken: 0 between two rounds."""
        with tf.init_scope():
            return int(self._count.numpy())

    def variables(self) -> list[tf.Variable]:
        """Returns all state, which is the same on all ranks."""
        each = [(t.anchor, t.velocity) for _, t in self._trained.values()]
        return [self._count, *(variable for pair in each for variable in pair if variable is not None)]

    def _begin(self) -> None:
        for _, each in self._trained.values():
            each.anchor.assign(each.variable.read_value(), read_value=False)

    def _end(self) -> None:
        parameters = [each.parameter(named) for named, each in self._trained.values()]
        trained = [each for _, each in self._trained.values()]
        differences = [
            each.difference(self._sends_rows and position in self._tables)
            for position, each in enumerate(trained)
        ]
        reduced = self._step.reduce(differences, parameters)
        alone = not self._step.state.ranks.may_exchange()
        for each, mine, mean in zip(trained, map(_dense, differences), map(_dense, reduced), strict=True):
            if alone and self._outer.averages:  # To the bit what the inner optimizer has made.
                each.variable.assign_add(mine - mean, read_value=False)
            else:
                each.variable.assign(each.anchor - self._outer_update(each, mean), read_value=False)
        self._decay_residuals()
        self._count.assign(0, read_value=False)

    def _outer_update(self, each: _Trained, mean: tf.Tensor) -> tf.Tensor:
        """What the outer step takes from the anchor."""
        if each.velocity is not None:
            momentum = tf.cast(self._outer.momentum, mean.dtype)
            velocity = each.velocity.assign(momentum * each.velocity + mean, read_value=True)
            mean = mean + momentum * velocity if self._outer.nesterov else velocity
        return mean if self._outer.rate == 1 else tf.cast(self._outer.rate, mean.dtype) * mean

    def _decay_residuals(self) -> None:
        """After the commit of this exchange, which is before the next one."""
        if self._feedback_decay == 1:
            return
        for slots in self._step.state.memories.by_name().values():
            for slot in slots:
                slot.assign(self._feedback_decay * slot.read_value(), read_value=False)

    # ---- In checkpoints ------------------------------------------------------------------------------------

    def serialize(self) -> bytes:
        """Returns the state as bytes: velocities, and within a round what it needs to go on; or nothing."""
        count = self.num_taken()
        trained = [each for _, each in self._trained.values()]
        arrays = {f"{_ANCHORS}_{i}": each.anchor for i, each in enumerate(trained) if count}
        arrays |= {
            f"{_VELOCITIES}_{i}": each.velocity for i, each in enumerate(trained) if each.velocity is not None
        }
        if not arrays:
            return b""
        file = io.BytesIO()
        values: dict[str, Any] = {
            name: tf.cast(variable, _carrier(variable.dtype)).numpy() for name, variable in arrays.items()
        }
        tables = np.array(sorted(self._tables if count else ()), np.int64)
        np.savez(file, **{_COUNT: np.int64(count), _TABLES: tables, **values})
        return file.getvalue()

    def deserialize(self, data: bytes) -> None:
        """Restores what `serialize` returned; what variables that do not exist yet have waits for them.

        Raises:
          ValueError: It is of another model.
        """
        arrays = {}
        if data:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        with tf.init_scope():
            self._count.assign(arrays.pop(_COUNT, np.int64(0)))
            self._tables.update(arrays.pop(_TABLES, np.array([], np.int64)).tolist())
            for position, (named, each) in enumerate(self._trained.values()):
                for kind, variable in ((_ANCHORS, each.anchor), (_VELOCITIES, each.velocity)):
                    value = arrays.get(f"{kind}_{position}")
                    if value is not None and variable is not None:
                        _check_shape(named.name, value, variable.shape)
                        variable.assign(tf.cast(value, variable.dtype))
        self._waiting = {} if self._trained else arrays


def _dense(difference: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """On a CPU, which adds rows that come twice in their order: all ranks get the same bits."""
    if not isinstance(difference, tf.IndexedSlices):
        return difference
    with tf.device(HOST):
        return tf.convert_to_tensor(difference)


def _carrier(dtype: tf.DType) -> tf.DType:
    """NumPy's files have no bfloat16."""
    return tf.float32 if dtype == tf.bfloat16 else dtype


def _done(act: Callable[[], None] | None = None) -> Callable[[], tf.Tensor]:
    """Makes of what returns nothing the branch of a tf.cond."""

    def branch() -> tf.Tensor:
        if act is not None:
            act()
        return tf.constant(act is not None)

    return branch


def _check_shape(name: str, values: np.ndarray, expected: tf.TensorShape) -> None:
    if values.shape != tuple(expected):
        raise ValueError(
            f"the saved round of '{name}' has shape {values.shape}, expected {tuple(expected)}: it is of "
            "another model"
        )
