"""Runs Horovod's rendezvous for a job of one rank on each host; `namespace_job` runs it on the switch.

Prints its port, and ends when its standard input does.
"""

import sys

from horovod.runner.common.util.hosts import SlotInfo, get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer


def assignments(num_ranks: int) -> list[SlotInfo]:
    """Returns the assignment of ranks to hosts, one rank on each host."""
    hosts = ",".join(f"host{rank}:1" for rank in range(num_ranks))
    return get_host_assignments(parse_hosts(hosts), num_ranks)


def main() -> None:
    server = RendezvousServer()
    port = server.start()
    server.init(assignments(int(sys.argv[1])))
    print(port, flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
