"""Trains on a Ray cluster, or on this machine where there is none: `python ray_job.py --ranks 2`."""

import argparse
import pathlib

import ray
from horovod.ray import RayExecutor
from training import train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--compression", default="int8", metavar="PRESET|SPEC", help="default: %(default)s")
    arguments = parser.parse_args()
    # Workers find `training` in this folder, which Ray copies to their hosts.
    ray.init(runtime_env={"working_dir": str(pathlib.Path(__file__).parent)})
    executor = RayExecutor(RayExecutor.create_settings(timeout_s=120), num_workers=arguments.ranks)
    executor.start()
    for result in executor.run(train, args=[arguments.compression]):
        print(result)
    executor.shutdown()


if __name__ == "__main__":
    main()
