"""Starts a program as the ranks of a Horovod job on the hosts of a `netns.Network`."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from horovod.runner.gloo_run import create_slot_env_vars
from netns import INTERFACE, Network
from rendezvous import assignments

_FOLDER = pathlib.Path(__file__).parent
_POLL_SECONDS = 0.1
# When a rank fails, the others soon fail as a consequence. Those that have not ended by then are stopped.
_GRACE_SECONDS = 5
_SHOWN_LINES = 15


class JobError(Exception):
    """Ranks failed or took too long; the message ends with their last lines."""


def environment_of(cycle_time: float, threads: int | None) -> dict[str, str]:
    """Returns variables for ranks that are timed.

    Args:
      cycle_time: Milliseconds between Horovod's cycles.
      threads: Of each rank, for TensorFlow and the codecs; None for theirs.
    """
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "HOROVOD_CYCLE_TIME": str(cycle_time)}
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    return environment | (dict.fromkeys(names, str(threads)) if threads else {})


def run_ranks(
    network: Network,
    command: Sequence[str],
    timeout_seconds: float,
    environment: dict[str, str],
    ranks_per_host: int = 1,
) -> None:
    """Runs a command on every host, as the ranks of one job, and waits for all of them.

    Args:
      network: The network.
      command: The command, the same for all ranks.
      timeout_seconds: Time limit of the job, and of each of Horovod's collectives.
      environment: Variables added to those of this process.
      ranks_per_host: Ranks on each host; among them they talk over its loopback device.

    Raises:
      JobError: A rank failed, or the job took too long.
    """
    shared = {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": INTERFACE,
        # The default of 30 seconds is too short for large gradients on slow links.
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(round(timeout_seconds)),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": network.switch_address,
        **environment,
    }
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shared["HOROVOD_GLOO_RENDEZVOUS_PORT"] = stack.enter_context(_rendezvous(network, ranks_per_host))
        slots = assignments(network.num_hosts, ranks_per_host)
        logs = [folder / f"rank{slot.rank}.log" for slot in slots]
        ranks = []
        for slot, log in zip(slots, logs, strict=True):
            own = {**shared, **create_slot_env_vars(slot)}
            on_host = network.on_host(slot.rank // ranks_per_host, list(command))
            ranks.append(stack.enter_context(_process(on_host, own, log)))
        _wait(ranks, logs, timeout_seconds)


@contextlib.contextmanager
def _rendezvous(network: Network, ranks_per_host: int) -> Iterator[str]:
    """Runs a rendezvous server during the block, and yields its port."""
    command = [sys.executable, str(_FOLDER / "rendezvous.py"), str(network.num_hosts), str(ranks_per_host)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen(network.on_switch(command), start_new_session=True, **pipes)
    try:
        port = server.stdout.readline().strip()
        if not port:
            raise JobError("Horovod's rendezvous server did not start")
        yield port
    finally:
        _stop(server)


@contextlib.contextmanager
def _process(
    command: list[str], environment: dict[str, str], log: pathlib.Path
) -> Iterator[subprocess.Popen]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen) -> None:
    """Ends a process and its children, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


def _wait(ranks: list[subprocess.Popen], logs: list[pathlib.Path], timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while any(rank.poll() is None for rank in ranks) and not any(rank.returncode for rank in ranks):
        if time.monotonic() > deadline:
            late = [number for number, rank in enumerate(ranks) if rank.returncode is None]
            reason = f"did not end within {timeout_seconds:.0f} s"
            raise JobError("\n".join(_describe(number, reason, logs[number]) for number in late))
        time.sleep(_POLL_SECONDS)
    if not any(rank.returncode for rank in ranks):
        return
    deadline = time.monotonic() + _GRACE_SECONDS
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    failed = [(number, rank.returncode) for number, rank in enumerate(ranks) if rank.returncode]
    raise JobError("\n".join(_describe(n, f"ended with code {code}", logs[n]) for n, code in failed))


def _describe(rank: int, reason: str, log: pathlib.Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    shown = "\n".join(f"  {line}" for line in lines[-_SHOWN_LINES:]) or "  (it printed nothing)"
    return f"rank {rank} {reason}; its last lines:\n{shown}"
