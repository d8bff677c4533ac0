"""Runs Horovod's rendezvous for a job; `namespace_job` runs it on the switch.

python benchmarks/rendezvous.py HOSTS RANKS_PER_HOST

Prints its port, and ends when its standard input does.
"""

import sys

from horovod.runner.common.util.hosts import SlotInfo, get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer


def assignments(num_hosts: int, ranks_per_host: int = 1) -> list[SlotInfo]:
    """Returns the assignment of ranks to hosts; those of a host have consecutive numbers."""
    hosts = ",".join(f"host{host}:{ranks_per_host}" for host in range(num_hosts))
    return get_host_assignments(parse_hosts(hosts), num_hosts * ranks_per_host)


def main() -> None:
    server = RendezvousServer()
    port = server.start()
    server.init(assignments(*map(int, sys.argv[1:])))
    print(port, flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
