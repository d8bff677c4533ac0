"""Trains on Spark's executors: `spark-submit spark_job.py`, or `python spark_job.py` on this machine."""

import argparse
import pathlib

import horovod.spark
from pyspark.sql import SparkSession
from training import train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--compression", default="int8", metavar="PRESET|SPEC", help="default: %(default)s")
    arguments = parser.parse_args()
    builder = SparkSession.builder.appName("tfcompress")
    # Without spark-submit the executors are threads of this machine.
    session = builder.config("spark.master", f"local[{arguments.ranks}]").getOrCreate()
    session.sparkContext.addPyFile(str(pathlib.Path(__file__).with_name("training.py")))
    results = horovod.spark.run(
        train, args=(arguments.compression,), num_proc=arguments.ranks, use_gloo=True, verbose=1
    )
    for result in results:
        print(result)
    session.stop()


if __name__ == "__main__":
    main()
