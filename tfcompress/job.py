"""The Horovod job that runs this program, as a command line sees it: what its links and its ranks cost."""

import dataclasses

from tfcompress.comm import Ranks, horovod
from tfcompress.costs import CodecCost, Links
from tfcompress.probe import measure_links, slowest


class Job:
    """The ranks of the job. Each method is called by all of them, in the same order."""

    def __init__(self) -> None:
        """Meets the other ranks.

        Raises:
          ImportError: Horovod is not installed.
        """
        horovod().init()
        self._ranks = Ranks()

    @property
    def num_ranks(self) -> int:
        """Number of ranks; 1 where nothing started this program as a job."""
        return self._ranks.size()

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return horovod().rank()

    def links(self, half_seconds: float) -> Links:
        """Measures the collectives between all ranks; takes about a second on slow links.

        Args:
          half_seconds: See `Links`.
        """
        return dataclasses.replace(measure_links(self._ranks, "job"), half_seconds=half_seconds)

    def slowest(self, cost: CodecCost) -> CodecCost:
        """Returns the largest of each number that ranks have measured."""
        return slowest(self._ranks, [cost])[0]
