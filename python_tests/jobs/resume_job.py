"""One part of an interrupted training: `resume_job.py <exchange> <folder> <first step> <last step>`.

Runs under horovodrun, and loads what the part before it saved, if it is not the first one. The mean
gradient of a step is the same whatever the number of ranks: what was applied and what waits can be
compared with the sum of the gradients.
"""

import pathlib
import sys

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import tfcompress as tfc
from tfcompress.checkpoint import state_of

SIZE = 3000


def mean_gradient(step):
    return np.random.default_rng(step).standard_normal(SIZE)


def own_gradient(step):
    """Differs between ranks; the mean over ranks is `mean_gradient`."""
    signs = np.arange(hvd.size()) - (hvd.size() - 1) / 2
    noise = np.random.default_rng(1000 + step).standard_normal(SIZE)
    return (mean_gradient(step) + signs[hvd.rank()] * noise).astype(np.float32)


def main(exchange, folder, first, last):
    hvd.init()
    variable = tf.Variable(np.zeros(SIZE, np.float32), name="kernel")
    optimizer = tfc.DistributedOptimizer(
        tf.keras.optimizers.SGD(1.0),
        compression=tfc.Compression.topk(0.01, min_elements=0, exchange=exchange),
    )
    checkpoint = tf.train.Checkpoint(variable=variable, optimizer=optimizer)
    if first > 0:
        checkpoint.restore(str(folder / f"until_{first}"))

    @tf.function
    def step(gradient):
        optimizer.apply_gradients([(gradient, variable)])

    for number in range(first, last):
        step(tf.constant(own_gradient(number)))
    tfc.prepare_checkpoint(optimizer)
    if hvd.rank() == 0:
        checkpoint.write(str(folder / f"until_{last}"))
        means = state_of(optimizer).pending()
        np.savez(
            folder / f"until_{last}.npz", applied=-variable.numpy(), pending=next(iter(means.values()))[0]
        )
    hvd.allreduce(tf.zeros(1))


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
