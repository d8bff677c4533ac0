"""Trains on Spark's executors: `spark-submit spark_job.py`, or `python spark_job.py` on this machine."""

import argparse

import cloudpickle
import horovod.spark
import training
from pyspark.sql import SparkSession

# Ranks are processes of their own, which do not see what Spark gives to its executors (addPyFile).
cloudpickle.register_pickle_by_value(training)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--compression", default="int8", metavar="PRESET|SPEC", help="default: %(default)s")
    arguments = parser.parse_args()
    builder = SparkSession.builder.appName("tfcompress")
    # Without spark-submit the executors are threads of this machine.
    session = builder.config("spark.master", f"local[{arguments.ranks}]").getOrCreate()
    results = horovod.spark.run(
        training.train, args=(arguments.compression,), num_proc=arguments.ranks, use_gloo=True, verbose=1
    )
    for result in results:
        print(result)
    session.stop()


if __name__ == "__main__":
    main()
