"""Keras callbacks that work on Keras 3, tf_keras and Keras 2; most of Horovod's own work on the last only.

Keras calls callbacks in the order of the list: those that write logs stand before those that read them:

    callbacks=[
        tfc.callbacks.BroadcastVariables(0),
        tfc.callbacks.LearningRateWarmup(initial_lr=0.1 * hvd.size()),
        tfc.callbacks.MetricAverage(),
        tfc.callbacks.CompressionStats(),
        tfc.callbacks.PrepareCheckpoint(),
        keras.callbacks.ReduceLROnPlateau(),
        keras.callbacks.CSVLogger(path),
    ]
"""

from tfcompress.callbacks.average_moving_statistics import (
    AverageMovingStatistics,
    average_moving_statistics,
)
from tfcompress.callbacks.broadcast_variables import BroadcastVariables
from tfcompress.callbacks.compression_stats import CompressionStats
from tfcompress.callbacks.end_rounds import EndRounds
from tfcompress.callbacks.learning_rate_warmup import LearningRateWarmup
from tfcompress.callbacks.metric_average import MetricAverage
from tfcompress.callbacks.prepare_checkpoint import PrepareCheckpoint

__all__ = [
    "AverageMovingStatistics",
    "BroadcastVariables",
    "CompressionStats",
    "EndRounds",
    "LearningRateWarmup",
    "MetricAverage",
    "PrepareCheckpoint",
    "average_moving_statistics",
]
