"""Hosts on a switch, inside one machine: network namespaces whose links have a chosen bandwidth.

Everything lives in namespaces of its own, the switch too, so that neither the machine's addresses nor its
firewall matter and removing the namespaces removes all of it.
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
# A token bucket lets this much pass at once: more would carry small messages at no cost, less would make the
# rate depend on how soon the kernel's timers wake up.
_BURST_SECONDS = 250e-6
_SMALLEST_BURST_BYTES = 2 * 1514
# A packet that would wait longer than this is dropped.
_QUEUE_MILLISECONDS = 200


class NetworkError(Exception):
    """The machine refused something; the message has what and why."""


@dataclasses.dataclass(frozen=True)
class Bandwidth:
    """Of each direction of a link.

    Attributes:
      label: As it was asked for.
      bits_per_second: None where there is no limit.
    """

    label: str
    bits_per_second: int | None

    @classmethod
    def parse(cls, text: str) -> "Bandwidth":
        """Reads "100mbit", "2.5gbit" or "unlimited".

        Raises:
          ValueError: It is none of these.
        """
        label = text.strip().lower()
        if label == "unlimited":
            return cls(label, None)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", label)
        bits_per_second = round(float(match[1]) * _UNITS[match[2]]) if match else 0
        if not bits_per_second:
            raise ValueError(f"a bandwidth is such as 100mbit, 2.5gbit or unlimited, not {text!r}")
        return cls(label, bits_per_second)

    @property
    def burst_bytes(self) -> int:
        """What may pass at once."""
        return max(round(self.bits_per_second / 8 * _BURST_SECONDS), _SMALLEST_BURST_BYTES)


@dataclasses.dataclass(frozen=True)
class Network:
    """Hosts 0, 1, ... on one switch, while it exists.

    Attributes:
      name: Of this network among others on the machine.
      num_hosts: Besides the switch.
    """

    name: str
    num_hosts: int

    @property
    def namespaces(self) -> list[str]:
        """The switch's and the hosts'."""
        return [f"{self.name}-{part}" for part in (_SWITCH, *range(self.num_hosts))]

    @property
    def switch_address(self) -> str:
        """Where all hosts reach what runs on the switch."""
        return str(_SUBNET[1])

    def on_host(self, host: int, command: list[str]) -> list[str]:
        """Returns the command that runs another one on a host."""
        return _inside(self.namespaces[1 + host], command)

    def on_switch(self, command: list[str]) -> list[str]:
        """Returns the command that runs another one where all hosts reach it."""
        return _inside(self.namespaces[0], command)

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
                _limit(host, INTERFACE, bandwidth)
                _limit(switch, port, bandwidth)

    def _remove(self) -> None:
        existing = {line.split()[0] for line in _run("ip", "netns", "list").splitlines() if line.strip()}
        with contextlib.ExitStack() as stack:  # Goes on to the next one where one fails.
            for namespace in existing.intersection(self.namespaces):
                stack.callback(_run, "ip", "netns", "delete", namespace)


@contextlib.contextmanager
def network(num_hosts: int, bandwidth: Bandwidth) -> Iterator[Network]:
    """Makes a network, and removes it however the block ends.

    Raises:
      NetworkError: The machine refused; `obstacle` tells beforehand.
      ValueError: More hosts than there are addresses.
    """
    if num_hosts > _SUBNET.num_addresses - 3:
        raise ValueError(f"at most {_SUBNET.num_addresses - 3} hosts, not {num_hosts}")
    made = Network(f"tfc-{os.getpid()}-{secrets.token_hex(4)}", num_hosts)
    try:
        made._create(bandwidth)
        yield made
    finally:
        with _uninterrupted():
            made._remove()


def obstacle() -> str | None:
    """Returns why there can be no networks here, and what to do about it; None where there can."""
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
    # Horovod listens on an interface's first address, and IPv6 would add chatter of its own.
    _run("ip", "-n", namespace, "link", "set", interface, "addrgenmode", "none")
    _run("ip", "-n", namespace, "address", "add", f"{address}/{_SUBNET.prefixlen}", "dev", interface)
    _run("ip", "-n", namespace, "link", "set", interface, "up")


def _limit(namespace: str, interface: str, bandwidth: Bandwidth) -> None:
    bucket = ["rate", f"{bandwidth.bits_per_second}bit", "burst", str(bandwidth.burst_bytes)]
    queue = ["latency", f"{_QUEUE_MILLISECONDS}ms"]
    _run("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", "tbf", *bucket, *queue)


def _find(tool: str) -> str | None:
    return shutil.which(tool, path=os.pathsep.join([os.environ.get("PATH", ""), *_TOOL_FOLDERS]))


def _run(tool: str, *arguments: str) -> str:
    command = [_find(tool) or tool, *arguments]
    # A session of its own: Ctrl-C is for this program, not for what it calls to clean up.
    done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode:
        raise NetworkError(f"{' '.join([tool, *arguments])}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals that would end this program wait for the end of the block."""
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
