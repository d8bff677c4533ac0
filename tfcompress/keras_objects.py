"""What is needed of Keras's variables and optimizers, of whatever version and inside whatever wrapper."""

import tensorflow as tf


def tf_variable(variable: object) -> tf.Variable:
    """Returns the tf.Variable inside a Keras 3 variable, or the argument itself."""
    inner = getattr(variable, "value", None)
    return inner if isinstance(inner, tf.Variable) else variable


def variables(optimizer: object) -> list[tf.Variable]:
    """Returns the state of an optimizer: what Keras lists as its variables, and what tf_keras leaves out."""
    listed = optimizer.variables
    listed = listed() if callable(listed) else listed
    loss_scale = getattr(optimizer, "_loss_scale", None)
    unlisted = [
        _rate(innermost(optimizer)),
        getattr(loss_scale, "current_loss_scale", None),
        getattr(loss_scale, "counter", None),
    ]
    found = [*map(tf_variable, listed), *(v for v in unlisted if isinstance(v, tf.Variable))]
    return list({id(variable): variable for variable in found}.values())


def training_variables(model: object, optimizer: object) -> list[tf.Variable]:
    """Returns the variables of a built model and of its optimizer, the same list on all ranks."""
    # A rank that has restored a checkpoint has the variables of a built optimizer, and all must have them.
    if hasattr(optimizer, "build") and not (is_built(optimizer) and is_built(innermost(optimizer))):
        optimizer.build(model.trainable_variables)
    found = [*map(tf_variable, model.variables), *variables(optimizer)]
    return list({id(variable): variable for variable in found}.values())


def is_built(optimizer: object) -> bool:
    """Returns whether an optimizer has its variables, of either Keras."""
    # Keras 3 says `built`; tf_keras says `_built`, and says it only of those that are.
    return getattr(optimizer, "built", getattr(optimizer, "_built", False))


def innermost(optimizer: object) -> object:
    """Returns the optimizer inside Keras's LossScaleOptimizer, or the argument itself."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return optimizer


def learning_rate(optimizer: object) -> tf.Variable:
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


def _rate(optimizer: object) -> object:
    # tf_keras shows the current value of a schedule as a variable, in `learning_rate`.
    rate = getattr(optimizer, "_learning_rate", None)
    return tf_variable(optimizer.learning_rate if rate is None else rate)
