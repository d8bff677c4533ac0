"""Starts one rank of a job where neither ssh nor MPI does: as a task of SLURM, in a pod, by hand.

    srun python start_rank.py --address "$FIRST_HOST" python train.py
    python start_rank.py --rank 1 --size 2 --address 10.0.0.1 python train.py

Every rank runs this program. Rank 0 is on the host of the address, and runs Horovod's rendezvous there, by
which all ranks find each other; Gloo then carries what they exchange. Consecutive ranks share a host.
"""

import argparse
import os
import socket
import subprocess
import sys
import threading
import time

import psutil
from horovod.runner.common.util.hosts import SlotInfo, get_host_assignments, parse_hosts
from horovod.runner.gloo_run import create_slot_env_vars
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

# Where SLURM and Kubernetes (a Job with completionMode Indexed) say which rank this is, and of how many.
RANK_VARIABLES = ("SLURM_PROCID", "JOB_COMPLETION_INDEX")
SIZE_VARIABLES = ("SLURM_NTASKS", "NUM_RANKS")


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rank", type=int, default=_from_environment(RANK_VARIABLES), help=_help(RANK_VARIABLES)
    )
    parser.add_argument(
        "--size", type=int, default=_from_environment(SIZE_VARIABLES), help=_help(SIZE_VARIABLES)
    )
    parser.add_argument(
        "--ranks-per-host", type=int, default=1, metavar="N", help="the same on all hosts (default: 1)"
    )
    parser.add_argument("--address", required=True, help="name or address of the host of rank 0")
    parser.add_argument(
        "--port", type=int, default=29400, help="of the rendezvous, free on that host (default: %(default)s)"
    )
    parser.add_argument(
        "--interface", help="network interface that Gloo uses (default: the one that leads to rank 0)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=120,
        metavar="S",
        help="how long ranks wait for rank 0 (default: 120)",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the training program and its arguments")
    arguments = parser.parse_args(words)
    if not arguments.command:
        parser.error("say what to run: start_rank.py --address HOST python train.py")
    if arguments.rank is None or arguments.size is None:
        parser.error("neither SLURM nor Kubernetes says which rank this is: give --rank and --size")
    if not 0 <= arguments.rank < arguments.size:
        parser.error(f"rank {arguments.rank} of {arguments.size}: ranks are numbered from 0")
    if arguments.size % arguments.ranks_per_host:
        parser.error(f"{arguments.size} ranks do not fill hosts of {arguments.ranks_per_host} each")
    return arguments


def _from_environment(names: tuple[str, ...]) -> int | None:
    return next((int(os.environ[name]) for name in names if name in os.environ), None)


def _help(names: tuple[str, ...]) -> str:
    return f"default: {' or '.join(names)} of the environment"


def assignments(size: int, ranks_per_host: int) -> list[SlotInfo]:
    """Returns where each rank is; hosts have names of their own here, which only need to differ."""
    hosts = ",".join(f"host{i}:{ranks_per_host}" for i in range(size // ranks_per_host))
    return get_host_assignments(parse_hosts(hosts), size)


def serve(port: int, ranks: list[SlotInfo]) -> None:
    """Runs the rendezvous until this program ends."""
    server = RendezvousHTTPServer(("", port), RendezvousHandler, False)
    server.init(ranks)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def wait_for(address: str, port: int, seconds: float) -> tuple[str, str]:
    """Waits until the rendezvous answers; returns its address and that of this host on the way there.

    Raises:
      SystemExit: It did not in so many seconds.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((address, port), timeout=5) as connection:
                return connection.getpeername()[0], connection.getsockname()[0]
        except OSError as error:
            if time.monotonic() > end:
                raise SystemExit(f"rank 0 does not answer at {address}:{port}: {error}") from error
            time.sleep(0.2)


def interface_of(address: str) -> str:
    """Returns the name of the network interface that has an address of this host."""
    interfaces = psutil.net_if_addrs().items()
    return next(name for name, own in interfaces if any(each.address == address for each in own))


def main() -> None:
    arguments = parse_arguments()
    ranks = assignments(arguments.size, arguments.ranks_per_host)
    if arguments.rank == 0:
        serve(arguments.port, ranks)
    server, own = wait_for(arguments.address, arguments.port, arguments.timeout)
    environment = {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": arguments.interface or interface_of(own),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": server,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(arguments.port),
        **create_slot_env_vars(ranks[arguments.rank]),
    }
    sys.exit(subprocess.run(arguments.command, env={**os.environ, **environment}, check=False).returncode)


if __name__ == "__main__":
    main()
