"""Gradients of several backward passes, added up locally before they are exchanged."""

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfcompress.state import Gradient, Parameter, make_variable


class LocalAccumulator:
    """Adds up gradients and lets every k-th call through."""

    def __init__(self, num_passes: int, average: bool) -> None:
        """Takes what Horovod's wrappers take.

        Args:
          num_passes: k, at least 1.
          average: Whether the sum is divided by k.

        Raises:
          ValueError: k is below 1.
        """
        if num_passes < 1:
            raise ValueError(f"backward_passes_per_step must be at least 1, got {num_passes}")
        self._num_passes = num_passes
        self._scale = 1.0 / num_passes if average else 1.0
        self._sums: dict[Hashable, tf.Variable] = {}
        self._count: tf.Variable | None = None

    def run(
        self,
        gradients: Sequence[Gradient],
        parameters: Sequence[Parameter],
        apply: Callable[[list[Gradient]], object],
        skip: Callable[[], object],
    ) -> None:
        """Adds gradients; at every k-th call, calls `apply` with the sums and starts again.

        Args:
          gradients: None adds nothing; the sum of earlier calls is applied all the same.
          parameters: What each is the gradient of, the same at every call.
          apply: Called while tracing too, in a branch of a tf.cond.
          skip: Called instead at the other calls, in the other branch.

        Raises:
          ValueError: A gradient is IndexedSlices.
        """
        if self._num_passes == 1:
            apply(list(gradients))
            return
        added = [
            self._sum_for(parameter, gradient).assign_add(gradient, read_value=False)
            for parameter, gradient in zip(parameters, gradients, strict=True)
            if gradient is not None
        ]
        with tf.control_dependencies([op for op in added if op is not None]):
            count = self._make_count().assign_add(1, read_value=True)
        sums = [self._sums.get(parameter.key) for parameter in parameters]

        def apply_sums() -> tf.Tensor:
            apply([None if total is None else self._scaled(total) for total in sums])
            resets = [
                total.assign(tf.zeros_like(total), read_value=False) for total in sums if total is not None
            ]
            resets.append(self._make_count().assign(0, read_value=False))
            with tf.control_dependencies([op for op in resets if op is not None]):
                return tf.constant(True)

        def skip_step() -> tf.Tensor:
            skip()
            return tf.constant(False)

        tf.cond(tf.equal(count, self._num_passes), apply_sums, skip_step)

    def _scaled(self, total: tf.Variable) -> tf.Tensor:
        return total.read_value() * tf.cast(self._scale, total.dtype)

    def snapshot(self) -> tuple[int, dict[Hashable, np.ndarray]]:
        """Copies what `run` changes: how many gradients the sums hold, and this rank's sums by key."""
        count = 0 if self._count is None else int(self._count.numpy())
        return count, {key: total.numpy() for key, total in self._sums.items()}

    def restore(self, count: int, sums: Mapping[Hashable, np.ndarray]) -> None:
        """Goes back to a snapshot; sums that are not in it become zero."""
        if count or self._count is not None:
            self._make_count().assign(count)
        for key, total in self._sums.items():
            total.assign(sums[key] if key in sums else tf.zeros_like(total))

    def _make_count(self) -> tf.Variable:
        if self._count is None:
            self._count = make_variable(np.int64(0))
        return self._count

    def _sum_for(self, parameter: Parameter, gradient: tf.Tensor | tf.IndexedSlices) -> tf.Variable:
        if isinstance(gradient, tf.IndexedSlices):
            raise ValueError(
                "backward_passes_per_step adds up dense gradients, and an embedding's are not: pass "
                "sparse_as_dense=True"
            )
        if parameter.key not in self._sums:
            with tf.init_scope():
                self._sums[parameter.key] = make_variable(tf.zeros(parameter.shape, gradient.dtype))
        return self._sums[parameter.key]
