"""Loss scaling around a distributed optimizer: all ranks skip a step, or none does.

Keras's LossScaleOptimizer looks at this rank's gradients and steps only where they are finite. With our
optimizer inside, a rank that overflows alone would stay away from the exchange that the others wait
in; Keras wraps an optimizer so by itself under the mixed_float16 policy. So its question is put to
all ranks. Outside of ours it needs no help: it sees aggregated gradients, equal on all ranks.
"""

import functools

import tensorflow as tf

from tfcompress.tensors import Gradient

_MARK = "_tfcompress_asks_all_ranks"


def let_all_ranks_decide() -> None:
    """Makes Keras's LossScaleOptimizer ask all ranks when it is around one of our optimizers.

    Does nothing to others, and nothing the second time.
    """
    scaler = _loss_scale_optimizer()
    if scaler is None or hasattr(scaler, _MARK):
        return
    setattr(scaler, _MARK, True)
    if hasattr(scaler, "check_finite"):
        _wrap_check_finite(scaler)
    else:
        _wrap_apply_gradients(scaler)


def _loss_scale_optimizer() -> type | None:
    keras_3 = getattr(tf.keras.optimizers, "LossScaleOptimizer", None)
    if keras_3 is not None:
        return keras_3
    # Keras 2 offers a metaclass by this name, which makes instances of the class that is looked for.
    return type(tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD()))


def _wrap_check_finite(scaler: type) -> None:
    """For Keras 3."""
    check_finite = scaler.check_finite

    @functools.wraps(check_finite)
    def check_on_all_ranks(self: object, grads: list[Gradient]) -> object:
        finite = check_finite(self, grads)
        aggregator = getattr(self.inner_optimizer, "_tfcompress_aggregator", None)
        return finite if aggregator is None else aggregator.all_finite(finite)

    scaler.check_finite = check_on_all_ranks


def _wrap_apply_gradients(scaler: type) -> None:
    """For Keras 2, whose check cannot be reached: gradients become NaN where any rank's is not finite."""
    apply_gradients = scaler.apply_gradients

    @functools.wraps(apply_gradients)
    def apply_alike(self: object, grads_and_vars: object, *args: object, **kwargs: object) -> object:
        grads_and_vars = list(grads_and_vars)
        aggregator = getattr(self.inner_optimizer, "_tfcompress_aggregator", None)
        if aggregator is not None:
            finite = aggregator.all_finite(_all_finite([g for g, _ in grads_and_vars if g is not None]))
            grads_and_vars = [(_poison(g, finite), v) for g, v in grads_and_vars]
        return apply_gradients(self, grads_and_vars, *args, **kwargs)

    scaler.apply_gradients = apply_alike


def _all_finite(gradients: list[Gradient]) -> tf.Tensor:
    flags = [
        tf.reduce_all(tf.math.is_finite(g.values if isinstance(g, tf.IndexedSlices) else g))
        for g in gradients
    ]
    return tf.reduce_all(tf.stack(flags))


def _poison(gradient: Gradient, finite: tf.Tensor) -> Gradient:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_poison(gradient.values, finite), gradient.indices, gradient.dense_shape)
    return tf.cond(
        finite, lambda: gradient, lambda: tf.fill(tf.shape(gradient), tf.cast(float("nan"), gradient.dtype))
    )
