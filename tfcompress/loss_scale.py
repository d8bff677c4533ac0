"""Loss scaling around a distributed optimizer: all ranks skip a step, or none does.

Keras's LossScaleOptimizer looks at this rank's gradients and steps only where they are finite. With our
optimizer inside, a rank that overflows alone would stay away from the exchange that the others wait
in; Keras wraps an optimizer so by itself under the mixed_float16 policy. So all ranks vote on its
question. Inside of ours it needs no help: it sees reduced gradients, equal on all ranks.
"""

import functools
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import tensorflow as tf

from tfcompress import keras_objects
from tfcompress.routes.base import all_finite, poisoned
from tfcompress.state import Gradient

_MARK = "_tfcompress_asks_all_ranks"


def let_all_ranks_decide(optimizer: Any) -> None:
    """Makes the LossScaleOptimizer of an optimizer's own Keras ask all ranks where it is around one of ours.

    Keras makes that object itself, after this call, and tells nobody: so it is the class that is changed,
    once. Around other optimizers it does what it did.
    """
    scaler = _loss_scale_optimizer(keras_objects.keras_of(optimizer))
    if hasattr(scaler, _MARK):
        return
    setattr(scaler, _MARK, True)
    if hasattr(scaler, "check_finite"):
        _wrap_check_finite(scaler)
    else:
        _wrap_apply_gradients(scaler)


def _loss_scale_optimizer(keras: ModuleType) -> Any:
    if keras_objects.is_keras_3(keras):
        return keras.optimizers.LossScaleOptimizer
    # Keras 2 offers a metaclass by this name, which makes instances of the class that is looked for.
    return type(keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD()))


def _wrap_check_finite(scaler: Any) -> None:
    """For Keras 3."""
    check_finite = scaler.check_finite

    @functools.wraps(check_finite)
    def check_on_all_ranks(self: Any, grads: list[Gradient]) -> Any:
        finite = check_finite(self, grads)
        step = getattr(self.inner_optimizer, "_tfcompress_step", None)
        return finite if step is None else step.all_finite(finite)

    scaler.check_finite = check_on_all_ranks


def _wrap_apply_gradients(scaler: Any) -> None:
    """For Keras 2, whose check cannot be reached: gradients become NaN where any rank's is not finite."""
    apply_gradients = scaler.apply_gradients

    @functools.wraps(apply_gradients)
    def apply_alike(self: Any, grads_and_vars: Iterable, *args: Any, **kwargs: Any) -> Any:
        grads_and_vars = list(grads_and_vars)
        step = getattr(self.inner_optimizer, "_tfcompress_step", None)
        if step is not None:
            flags = [all_finite(gradient) for gradient, _ in grads_and_vars if gradient is not None]
            finite = step.all_finite(tf.reduce_all(tf.stack(flags)))
            grads_and_vars = [(_poison(g, finite), v) for g, v in grads_and_vars]
        return apply_gradients(self, grads_and_vars, *args, **kwargs)

    scaler.apply_gradients = apply_alike


def _poison(gradient: Gradient, finite: tf.Tensor) -> Gradient:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_poison(gradient.values, finite), gradient.indices, gradient.dense_shape)
    return poisoned(gradient, finite)
