"""One rank of the job that test_killed.py starts: `killed_job.py FOLDER`.

After the second epoch rank 1 kills itself, before the residuals are averaged for the checkpoint.
"""

import os
import pathlib
import signal
import sys
import traceback

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import tfcompress as tfc

FOLDER = pathlib.Path(sys.argv[1])
keras = tf.keras


class KillRankOne(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def train():
    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(64)])
    optimizer = tfc.DistributedOptimizer(
        keras.optimizers.SGD(0.01), compression=tfc.Compression.topk(0.01, min_elements=0)
    )
    model.compile(optimizer, "mse", jit_compile=False)
    callbacks = [tfc.callbacks.BroadcastVariables(), KillRankOne(), tfc.callbacks.PrepareCheckpoint()]
    if hvd.rank() == 0:
        callbacks.append(keras.callbacks.ModelCheckpoint(str(FOLDER / "model_{epoch}.keras")))
    x = np.random.default_rng(hvd.rank()).standard_normal((64, 64)).astype(np.float32)
    model.fit(x, x, batch_size=8, epochs=5, verbose=0, callbacks=callbacks)


hvd.init()
# horovodrun ends the ranks that are left; they get the time to say what they saw.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
(FOLDER / f"pid.{hvd.rank()}").write_text(str(os.getpid()))
try:
    train()
except BaseException:
    (FOLDER / f"error.{hvd.rank()}").write_text(traceback.format_exc())
    raise
