"""Trains by Horovod's KerasEstimator on Keras 2: with `spark-submit`, or with `python` on one host."""

import argparse
import tempfile
import types

import numpy as np
import tensorflow as tf
from horovod.spark.common.store import Store
from horovod.spark.keras import KerasEstimator
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import DataFrame, SparkSession

import tfcompress as tfc

NUM_ROWS, NUM_FEATURES = 4096, 32


class CompressedKerasEstimator(KerasEstimator):
    """Horovod's, with `gradient_compression` in effect: whatever `tfc.DistributedOptimizer` takes.

    In Horovod 0.28.1 the model that ranks load is compiled without it.
    """

    def _get_keras_utils(self) -> type:
        module = horovod_with(self.getGradientCompression() or tfc.Compression.none)
        methods = {"horovod_fn": staticmethod(lambda: module), "get_horovod": staticmethod(module)}
        return type("KerasUtils", (super()._get_keras_utils(),), methods)


def horovod_with(compression: object):
    """Returns a function that returns what the estimator uses of `horovod.tensorflow.keras`."""

    def module() -> types.SimpleNamespace:
        # Within the function: ranks get it by value.
        import horovod.tensorflow as hvd

        import tfcompress as tfc

        return types.SimpleNamespace(
            init=hvd.init,
            rank=hvd.rank,
            local_rank=hvd.local_rank,
            size=hvd.size,
            # The driver only compiles and saves the model; ranks load it.
            DistributedOptimizer=lambda optimizer, **_: optimizer,
            load_model=lambda file: tfc.load_model(file, compression=compression),
            callbacks=types.SimpleNamespace(
                BroadcastGlobalVariablesCallback=tfc.callbacks.BroadcastVariables,
                MetricAverageCallback=tfc.callbacks.MetricAverage,
            ),
        )

    return module


def make_data(session: SparkSession) -> DataFrame:
    x = np.random.default_rng(0).standard_normal((NUM_ROWS, NUM_FEATURES))
    names = [f"x{i}" for i in range(NUM_FEATURES)]
    rows = session.createDataFrame(np.column_stack([x, np.abs(x).sum(axis=1)]).tolist(), [*names, "y"])
    return VectorAssembler(inputCols=names, outputCol="x").transform(rows).select("x", "y")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--compression", default="int8", metavar="PRESET|SPEC", help="default: %(default)s")
    parser.add_argument("--store", help="folder that all hosts see (default: one of this machine)")
    arguments = parser.parse_args()
    builder = SparkSession.builder.appName("tfcompress")
    # Without spark-submit the executors are threads of this machine.
    session = builder.config("spark.master", f"local[{arguments.ranks}]").getOrCreate()
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input([NUM_FEATURES]), layers.Dense(256, "relu"), layers.Dense(1)])
    with tempfile.TemporaryDirectory() as folder:
        estimator = CompressedKerasEstimator(
            num_proc=arguments.ranks,
            store=Store.create(arguments.store or folder),
            model=model,
            # Horovod multiplies the learning rate by the number of ranks.
            optimizer=tf.keras.optimizers.SGD(1e-3),
            loss="mse",
            gradient_compression=tfc.make_compressor(arguments.compression),
            feature_cols=["x"],
            label_cols=["y"],
            batch_size=64,
            epochs=2,
            callbacks=[tfc.callbacks.CompressionStats()],
            verbose=0,
        )
        trained = estimator.fit(make_data(session))
    history = trained.getHistory()
    print({"loss": history["loss"], "bytes saved": f"{history['compression_ratio'][-1]:.1f} times"})
    session.stop()


if __name__ == "__main__":
    main()
