"""A class in front of a Keras optimizer's own, at which the gradients of every step arrive.

`DistributedOptimizer` and `LocalSteps` each have one, which says what becomes of the gradients.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfcompress import checkpoint, keras_objects, loss_scale
from tfcompress.plan import Given, compressors_of
from tfcompress.state import Gradient
from tfcompress.statistics import note_use
from tfcompress.step import Step


class Wrapped(keras_objects.OptimizerBase):
    """What stands in front of any Keras optimizer.

    Those derived from it have `_tfcompress_run(gradients, variables, apply)`, which takes a step; `apply` is
    the optimizer's own, and takes gradients.
    """

    _tfcompress_step: Step

    def save_assets(self, dir_path: str) -> None:
        """Adds the residuals to a file that Keras writes."""
        checkpoint.save_assets(self._tfcompress_step.state, dir_path)


class _Keras3(keras_objects.OptimizerBase):
    """For Keras 3: `fit` and custom loops all arrive at `apply`."""

    @tf.autograph.experimental.do_not_convert  # As `Step.reduce`.
    def apply(self, grads: Iterable, trainable_variables: Iterable | None = None) -> None:
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        if not self.built and variables:
            self.build(variables)  # Not in the branch of a tf.cond, where the optimizer's step may be.
        given = None if trainable_variables is None else variables
        apply = super().apply
        self._tfcompress_run(list(grads), variables, lambda gradients: apply(gradients, given))


class _Keras2(keras_objects.OptimizerBase):
    """For Keras 2 and tf_keras, legacy optimizers too: all paths arrive at `apply_gradients`."""

    @tf.autograph.experimental.do_not_convert  # As `Step.reduce`.
    def apply_gradients(self, grads_and_vars: Iterable, *args: Any, **kwargs: Any) -> Any:
        grads, variables = zip(*grads_and_vars, strict=True)
        with tf.init_scope():  # Not in the branch of a tf.cond, where the optimizer's step may be.
            if keras_objects.is_legacy(self):
                _ = self.iterations
                self._create_all_weights(variables)
            else:
                self.build(list(variables))
        apply_gradients = super().apply_gradients

        def apply(gradients: Sequence[Gradient]) -> None:
            apply_gradients(list(zip(gradients, variables, strict=True)), *args, **kwargs)

        self._tfcompress_run(grads, variables, apply)
        return self.iterations


def refuse_unfit(optimizer: Any) -> None:
    """Refuses what cannot be wrapped any more, or is no optimizer.

    Raises:
      TypeError: It is not a Keras optimizer.
      ValueError: It has been used, or wrapped already.
    """
    if not keras_objects.is_optimizer(optimizer):
        hint = ""
        if isinstance(optimizer, str):
            hint = f": pass keras.optimizers.get({optimizer!r})"
        elif isinstance(optimizer, tf.compat.v1.train.Optimizer):
            hint = ": one of tf.compat.v1 goes to hvd.DistributedOptimizer(optimizer, compression=...)"
        raise TypeError(f"expected a Keras optimizer, got {optimizer!r}{hint}")
    if checkpoint.find_state(optimizer) is not None:
        raise ValueError(
            "the optimizer has been wrapped already, by tfc.DistributedOptimizer or tfc.LocalSteps: wrap it "
            "once, or make a new optimizer"
        )
    if keras_objects.is_built(optimizer):
        raise ValueError(
            "the optimizer has been used already, and steps that were traced with it would go on without "
            "exchanging: wrap it before the model is compiled or the first step is taken, or load it with "
            "tfc.load_model"
        )


def attach(
    optimizer: Any, wrapped: type, step: Step, plan: Given, remade: Callable, **attributes: object
) -> None:
    """Puts a class in front of an optimizer's own, and gives it the state that its methods need.

    Args:
      optimizer: A Keras optimizer; its class changes, and says that it does not.
      wrapped: The class, derived from `Wrapped`.
      step: What reduces gradients.
      plan: What the user has chosen.
      remade: What becomes of an optimizer that Keras makes from this one's configuration.
      attributes: Further ones of `wrapped`.
    """
    loss_scale.let_all_ranks_decide(optimizer)
    note_use(compressors_of(plan), step.state)
    keras = _Keras3 if hasattr(type(optimizer), "apply") else _Keras2
    keras_objects.put_in_front(optimizer, wrapped, keras, remade=remade)
    for name, value in {"_tfcompress_step": step, **attributes}.items():
        object.__setattr__(optimizer, name, value)  # Keras would track them as its own variables.
    optimizer._tfcompress_memory = checkpoint.saved_memories(step.state)  # Seen by tf.train.Checkpoint.
