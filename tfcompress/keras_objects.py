"""Access to Keras's variables and optimizers, of whatever version and inside whatever wrapper."""

import functools
import importlib
import importlib.util
import json
import os
import zipfile
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfcompress.state import tf_variable

# Has the methods and attributes of the optimizer that a mixin stands in front of.
if TYPE_CHECKING:
    OptimizerBase = Any
else:
    OptimizerBase = object


def variables(optimizer: Any) -> list[tf.Variable]:
    """Returns the state of an optimizer: Keras's variables, what tf_keras leaves out of them, and rounds'."""
    listed = optimizer.variables
    listed = listed() if callable(listed) else listed
    loss_scale = getattr(optimizer, "_loss_scale", None)
    unlisted = [
        _rate(innermost(optimizer)),
        getattr(loss_scale, "current_loss_scale", None),
        getattr(loss_scale, "counter", None),
    ]
    rounds = rounds_of(optimizer)
    found = [*map(tf_variable, listed), *(v for v in unlisted if isinstance(v, tf.Variable))]
    found += [] if rounds is None else rounds.variables()
    return list({id(variable): variable for variable in found}.values())


def training_variables(model: Any, optimizer: Any) -> list[tf.Variable]:
    """Returns the variables of a built model and of its optimizer, the same list on all ranks."""
    # A rank that has restored a checkpoint has the variables of a built optimizer, and all must have them.
    if hasattr(optimizer, "build") and not (is_built(optimizer) and is_built(innermost(optimizer))):
        optimizer.build(model.trainable_variables)
    found = [*map(tf_variable, model.variables), *variables(optimizer)]
    return list({id(variable): variable for variable in found}.values())


def is_built(optimizer: Any) -> bool:
    """Returns whether an optimizer has its variables, of either Keras."""
    # Keras 3 says `built`; tf_keras says `_built`, and says it only of those that are.
    return getattr(optimizer, "built", getattr(optimizer, "_built", False))


def keras_of(optimizer: Any) -> ModuleType:
    """Returns the Keras that an optimizer belongs to: keras, tf_keras, or Keras 2 inside TensorFlow."""
    for cls in type(optimizer).__mro__:
        package = cls.__module__.partition(".")[0]
        if package in ("keras", "tf_keras"):
            return importlib.import_module(package)
    return tf.keras


def is_archive(file: Any) -> bool:
    """Returns whether a model's file is in the format `.keras`; an open h5py.File is not."""
    return isinstance(file, str | os.PathLike) and zipfile.is_zipfile(file)


def read_assets(file: Any, name: str) -> list[bytes]:
    """Returns the assets of a name in a model's file; none of files in other formats than `.keras`."""
    if not is_archive(file):
        return []
    with zipfile.ZipFile(file) as archive:
        return [archive.read(path) for path in archive.namelist() if path.endswith(f"/{name}")]


def keras_of_file(filepath: Any) -> ModuleType:
    """Returns the Keras that wrote a model's file, where the file says so, and TensorFlow's own else."""
    if not is_archive(filepath):
        return tf.keras
    with zipfile.ZipFile(filepath) as archive:
        version = json.loads(archive.read("metadata.json"))["keras_version"]
    name = "tf_keras" if version.startswith("2.") else "keras"
    return importlib.import_module(name) if importlib.util.find_spec(name) else tf.keras


def is_optimizer(candidate: object) -> bool:
    """Returns whether an object is a Keras optimizer, legacy ones included."""
    return hasattr(candidate, "get_config") and hasattr(candidate, "apply_gradients")


def is_legacy(optimizer: Any) -> bool:
    """Returns whether an optimizer is of Keras 2's former kind, `tf_keras.optimizers.legacy`."""
    return hasattr(optimizer, "_create_all_weights")


@functools.cache
def is_keras_3(keras: ModuleType) -> bool:
    """Returns whether a Keras is version 3 or later."""
    return int(getattr(keras, "__version__", "2").partition(".")[0]) >= 3


def innermost(optimizer: Any) -> Any:
    """Returns the optimizer inside Keras's LossScaleOptimizer, or the argument itself."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return optimizer


def put_in_front(optimizer: Any, *fronts: type, remade: Callable[[Any], Any] | None = None) -> None:
    """Gives an optimizer a class with `fronts` before its own, which passes for its own.

    Args:
      optimizer: What changes its class.
      fronts: The classes whose methods come first, in their order.
      remade: What becomes of an optimizer that Keras makes from this one's configuration; None leaves that to
        the optimizer's own class.
    """
    base: Any = type(optimizer)
    front: Any = type(base.__name__, (*fronts, base), {})
    if remade is not None:

        def from_config(cls: type, config: dict, *args: Any, **kwargs: Any) -> Any:
            return remade(base.from_config(config, *args, **kwargs))

        front.from_config = classmethod(from_config)
    # The user's own class to everyone who asks, Keras's serialisation first of all.
    for attribute in ("__qualname__", "__module__", "__doc__"):
        setattr(front, attribute, getattr(base, attribute))
    optimizer.__class__ = front


def rounds_of(optimizer: Any) -> Any:
    """Returns the rounds of what `tfc.LocalSteps` returned, also inside a LossScaleOptimizer; else None."""
    inner = getattr(innermost(optimizer), "_tfcompress_rounds", None)
    return getattr(optimizer, "_tfcompress_rounds", inner)


def learning_rate(optimizer: Any) -> tf.Variable:
    """Returns the variable that holds the learning rate.

    Raises:
      ValueError: The learning rate is a schedule or a function, which overrides whatever is assigned.
    """
    rate = _rate(innermost(optimizer))
    if not isinstance(rate, tf.Variable):
        raise ValueError(
            "the learning rate must be a number to be changed during training, but it is a "
            f"{type(rate).__name__}: pass a number, or let the schedule do the warm-up"
        )
    return rate


def _rate(optimizer: Any) -> Any:
    # tf_keras shows the current value of a schedule as a variable, in `learning_rate`.
    rate = getattr(optimizer, "_learning_rate", None)
    return tf_variable(optimizer.learning_rate if rate is None else rate)


def has_own_train_step(model: Any) -> bool:
    """Returns whether a model's training step is not Keras's own."""
    own = type(model).train_step
    return own.__module__.partition(".")[0] not in ("keras", "tf_keras")


def horovod_synchronises(optimizer: Any) -> bool:
    """Returns whether stock Horovod has wrapped an optimizer, of a Keras where that exchanges gradients."""
    return hasattr(innermost(optimizer), "_allreduce") and not is_keras_3(keras_of(optimizer))


def steps_per_execution(model: Any) -> int:
    """Returns how many training steps a compiled model takes in one call, of either Keras."""
    steps = getattr(model, "_steps_per_execution", None)  # Keras 2 has a variable.
    return model.steps_per_execution if steps is None else int(steps)


def turn_off_automatic_xla(model: Any) -> None:
    """Makes Keras 3 compile the training step without XLA where "auto" would choose it.

    Keras keeps what "auto" has become and not the word: beside a GPU an explicit True is turned off, too.
    """
    chooses = getattr(model, "_resolve_auto_jit_compile", None)
    if chooses is not None and model.jit_compile and chooses():
        model.jit_compile = False
        model.make_train_function(force=True)
