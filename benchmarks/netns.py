"""Emulates hosts on a switch in one machine: network namespaces whose links have a chosen bandwidth.

Hosts and switch have their own namespaces. Therefore the machine's addresses and firewall do not matter, and
removing the namespaces removes everything.
"""

import contextlib
import dataclasses
import ipaddress
import os
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator

# The interface of every host, inside its namespace.
INTERFACE = "eth0"
_SWITCH = "switch"
# Reserved for benchmarks of networks (RFC 2544). The switch has the first address, the hosts the next ones.
_SUBNET = ipaddress.ip_network("198.18.0.0/24")
# `sudo` and `su` often leave these out of PATH.
_TOOL_FOLDERS = ("/usr/sbin", "/sbin")
_UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
# Burst of the token bucket: with a larger one small messages would cost nothing, with a smaller one the rate
# would depend on the latency of the kernel's timers.
_BURST_SECONDS = 250e-6
_SMALLEST_BURST_BYTES = 2 * 1514
# A packet that would wait longer than this is dropped.
_QUEUE_MILLISECONDS = 200


class NetworkError(Exception):
    """The machine refused an operation; the message says which and why."""


@dataclasses.dataclass(frozen=True)
class Bandwidth:
    """Bandwidth of each direction of a link.

    Attributes:
      label: The text that was parsed.
      bits_per_second: The limit, or None.
    """

    label: str
    bits_per_second: int | None

    @classmethod
    def parse(cls, text: str) -> "Bandwidth":
        """Reads "100mbit", "2.5gbit" or "unlimited".

        Raises:
          ValueError: The text has another form.
        """
        label = text.strip().lower()
        if label == "unlimited":
            return cls(label, None)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", label)
        bits_per_second = round(float(match[1]) * _UNITS[match[2]]) if match else 0
        if not bits_per_second:
            raise ValueError(f"expected a bandwidth such as 100mbit, 2.5gbit or unlimited, got {text!r}")
        return cls(label, bits_per_second)

    @property
    def burst_bytes(self) -> int:
        """Bytes of a burst."""
        return max(round(self.bits_per_second / 8 * _BURST_SECONDS), _SMALLEST_BURST_BYTES)


@dataclasses.dataclass(frozen=True)
class Network:
    """A network of hosts 0, 1, ... on one switch.

    Attributes:
      name: Unique name on the machine.
      num_hosts: Number of hosts, without the switch.
    """

    name: str
    num_hosts: int

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of the switch and of the hosts."""
        return [f"{self.name}-{part}" for part in (_SWITCH, *range(self.num_hosts))]

    @property
    def switch_address(self) -> str:
        """The address at which all hosts reach the switch."""
        return str(_SUBNET[1])

    def on_host(self, host: int, command: list[str]) -> list[str]:
        """Returns the command that runs another one on a host."""
        return _inside(self.namespaces[1 + host], command)

    def on_switch(self, command: list[str]) -> list[str]:
        """Returns the command that runs another one on the switch, which all hosts reach."""
        return _inside(self.namespaces[0], command)

    def limit(self, bandwidth: Bandwidth) -> None:
        """Limits all links, in both directions, also where they carry traffic.

        Args:
          bandwidth: A limit, not "unlimited".

        Raises:
          NetworkError: The machine refused.
        """
        switch, *hosts = self.namespaces
        for number, host in enumerate(hosts):
            _limit(host, INTERFACE, bandwidth)
            _limit(switch, f"port{number}", bandwidth)

    def _create(self, bandwidth: Bandwidth) -> None:
        switch, *hosts = self.namespaces
        for namespace in self.namespaces:
            _run("ip", "netns", "add", namespace)
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
        _run("ip", "-n", switch, "link", "add", _SWITCH, "type", "bridge")
        _bring_up(switch, _SWITCH, self.switch_address)
        for number, host in enumerate(hosts):
            port = f"port{number}"
            _run("ip", "link", "add", INTERFACE, "netns", host, "type", "veth", "peer", port, "netns", switch)
            _run("ip", "-n", switch, "link", "set", port, "master", _SWITCH, "up")
            _bring_up(host, INTERFACE, str(_SUBNET[2 + number]))
        if bandwidth.bits_per_second is not None:
            self.limit(bandwidth)

    def _remove(self) -> None:
        existing = {line.split()[0] for line in _run("ip", "netns", "list").splitlines() if line.strip()}
        with contextlib.ExitStack() as stack:  # Continues with the next one if one fails.
            for namespace in existing.intersection(self.namespaces):
                stack.callback(_run, "ip", "netns", "delete", namespace)


@contextlib.contextmanager
def network(num_hosts: int, bandwidth: Bandwidth) -> Iterator[Network]:
    """Makes a network, and removes it at the end of the block in any case.

    Raises:
      NetworkError: The machine refused; `obstacle` can tell beforehand.
      ValueError: There are more hosts than addresses.
    """
    if num_hosts > _SUBNET.num_addresses - 3:
        raise ValueError(f"expected at most {_SUBNET.num_addresses - 3} hosts, got {num_hosts}")
    made = Network(f"tfc-{os.getpid()}-{secrets.token_hex(4)}", num_hosts)
    try:
        made._create(bandwidth)
        yield made
    finally:
        with _uninterrupted():
            made._remove()


def obstacle() -> str | None:
    """Returns why this machine cannot make networks, and what to do about it; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces and link limits need root: start it with sudo -E $(which python)"
    for tool in ("ip", "tc"):
        if not _find(tool):
            return f"there is no '{tool}' on this machine: install iproute2 (Debian: apt install iproute2)"
    try:
        with network(1, Bandwidth.parse("100mbit")):
            return None
    except NetworkError as error:
        return f"this machine permits no network namespaces with limited links, even to root: {error}"


def _inside(namespace: str, command: list[str]) -> list[str]:
    return [_find("ip") or "ip", "netns", "exec", namespace, *command]


def _bring_up(namespace: str, interface: str, address: str) -> None:
    # Horovod listens on an interface's first address, and IPv6 would add traffic.
    _run("ip", "-n", namespace, "link", "set", interface, "addrgenmode", "none")
    _run("ip", "-n", namespace, "address", "add", f"{address}/{_SUBNET.prefixlen}", "dev", interface)
    _run("ip", "-n", namespace, "link", "set", interface, "up")


def _limit(namespace: str, interface: str, bandwidth: Bandwidth) -> None:
    bucket = ["rate", f"{bandwidth.bits_per_second}bit", "burst", str(bandwidth.burst_bytes)]
    queue = ["latency", f"{_QUEUE_MILLISECONDS}ms"]
    _run("tc", "-n", namespace, "qdisc", "replace", "dev", interface, "root", "tbf", *bucket, *queue)


def _find(tool: str) -> str | None:
    return shutil.which(tool, path=os.pathsep.join([os.environ.get("PATH", ""), *_TOOL_FOLDERS]))


def _run(tool: str, *arguments: str) -> str:
    command = [_find(tool) or tool, *arguments]
    # Runs in its own session, so that Ctrl-C does not interrupt clean-up commands.
    done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode:
        raise NetworkError(f"{' '.join([tool, *arguments])}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delays signals that would end this program until the end of the block."""
    received: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {each: signal.signal(each, lambda number, _: received.append(number)) for each in signals}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for number in received:
            signal.raise_signal(number)
