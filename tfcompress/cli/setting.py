"""Where `plan` predicts steps: on links that are described, or on those of the job that runs it."""

import argparse
import dataclasses
import math
from collections.abc import Callable

from tfcompress.cli.host import half_seconds, measure_host
from tfcompress.costs import CodecCost, Links


@dataclasses.dataclass(frozen=True)
class Setting:
    """The job whose steps are predicted.

    Attributes:
      num_ranks: Number of ranks.
      links: What their collectives cost.
      title: What is said of it.
      codec_cost: What a codec costs in the job, from what it costs this process.
      is_reported_here: Whether this process reports.
    """

    num_ranks: int
    links: Links
    title: str
    codec_cost: Callable[[CodecCost], CodecCost] = lambda own: own
    is_reported_here: bool = True


def setting_of(arguments: argparse.Namespace) -> Setting:
    """Returns the job that `ranks`, `bandwidth` and `latency` describe, or the one that runs this program.

    Raises:
      SystemExit: One of the first two is missing, or both, and this is no job.
    """
    ranks, rate = arguments.ranks, arguments.bandwidth
    if (ranks is None) != (rate is None):
        raise SystemExit("--ranks and --bandwidth describe a job together: give both or, in a job, neither")
    if ranks is None:
        return _running_job()
    limit = f"{rate / 1e6:,g} Mbit/s" if math.isfinite(rate) else "no limit"
    links = Links.of_bandwidth(ranks, rate / 8, arguments.latency, measure_host())
    return Setting(ranks, links, f"{ranks} ranks, {limit}, {1e3 * arguments.latency:g} ms")


def _running_job() -> Setting:
    try:
        from tfcompress.job import Job  # Needs TensorFlow, which links that are described do not.

        job = Job()
    except ImportError as error:
        raise SystemExit(f"give --ranks and --bandwidth: there is no job to measure ({error})") from error
    if job.num_ranks < 2:
        raise SystemExit(
            "give --ranks and --bandwidth, or measure a job: horovodrun -np 2 tfcompress plan FILE.npz"
        )
    title, links = f"the {job.num_ranks} ranks of this job", job.links(half_seconds())
    return Setting(job.num_ranks, links, title, job.slowest, job.rank == 0)
