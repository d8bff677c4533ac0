"""Local gradients of one rank, for timing and analysis."""

import pathlib
from collections.abc import Sequence

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from workload.task import Task


def local_gradients(model: keras.Model, loss: keras.losses.Loss, batch: tuple) -> list:
    """Returns this rank's gradients of all trainable variables on one batch, without exchange."""
    inputs, labels = batch
    with tf.GradientTape() as tape:
        value = tf.add_n([loss(labels, model(inputs, training=True)), *model.losses])
    return tape.gradient(value, model.trainable_variables)


class DumpGradients(keras.callbacks.Callback):
    """Writes rank 0's gradients after given steps: one .npz per step, one array per variable.

    Sparse rows are three arrays: `<variable>:values`, `:indices` and `:shape`.
    """

    def __init__(self, folder: pathlib.Path, steps: Sequence[int], task: Task) -> None:
        super().__init__()
        self._folder, self._steps, self._task = folder, set(steps), task
        self._step = 0

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._step += 1
        if self._step not in self._steps or hvd.rank() != 0:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        batch = next(iter(self._task.train))
        gradients = local_gradients(self.model, self._task.loss, batch)
        arrays: dict[str, np.ndarray] = {}
        for variable, gradient in zip(self.model.trainable_variables, gradients, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                for part in ("values", "indices"):
                    arrays[f"{_name(variable)}:{part}"] = getattr(gradient, part).numpy()
                arrays[f"{_name(variable)}:shape"] = np.array(variable.shape)
            else:
                arrays[_name(variable)] = gradient.numpy()
        arrays = {name.replace("/", "."): array for name, array in arrays.items()}
        np.savez_compressed(self._folder / f"step_{self._step:06d}.npz", **arrays)


def _name(variable: object) -> str:
    return getattr(variable, "path", variable.name)
