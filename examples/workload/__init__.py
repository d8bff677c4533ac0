"""Shared code of the examples: arguments, the training loop, measurements and reports.

An example defines a `Task`; `run` trains it once for each `--compression`.
"""

from workload.arguments import make_parser
from workload.data import batches, share
from workload.task import Task, adam, sgd
from workload.training import mean_over_ranks, run

__all__ = ["Task", "adam", "batches", "make_parser", "mean_over_ranks", "run", "sgd", "share"]
