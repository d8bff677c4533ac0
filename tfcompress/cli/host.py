"""Measures what exchanging costs this machine, whatever its links."""

import socket
import threading

import numpy as np

from tfcompress.costs import HostCost
from tfcompress.measure import best_seconds

_REPEATS = 3
# Bytes that two ends of a connection send to each other, and elements that are summed.
_NUM_BYTES = 1 << 24
_NUM_ELEMENTS = 1 << 20


def measure_host() -> HostCost:
    """Returns the costs of this machine's network stack and memory, from about a quarter of a second."""
    return HostCost(_transfer_seconds(), half_seconds())


def _transfer_seconds() -> float:
    """Both ends of a TCP connection of this machine send at once, as neighbours in a ring do."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):
        sent = np.zeros(_NUM_BYTES, np.uint8)
        received = [np.empty_like(sent) for _ in range(2)]

        def exchange() -> None:
            threads = [threading.Thread(target=end.sendall, args=(sent,)) for end in (one, other)]
            threads += [
                threading.Thread(target=_receive, args=pair)
                for pair in zip((one, other), received, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return best_seconds(exchange, repeats=_REPEATS) / _NUM_BYTES


def _receive(end: socket.socket, vector: np.ndarray) -> None:
    left = vector.data
    while left:
        left = left[end.recv_into(left) :]


def half_seconds() -> float:
    """Returns the seconds of an element in float16, see `HostCost`.

    NumPy sums float16 as Gloo does: without the processor's instructions for vectors of it.
    """
    values = np.random.default_rng(0).standard_normal(_NUM_ELEMENTS).astype(np.float32)
    halves, sums = values.astype(np.float16), np.empty(_NUM_ELEMENTS, np.float16)

    def run() -> None:
        np.copyto(sums, values, casting="same_kind")
        np.add(sums, halves, out=sums)
        np.copyto(values, sums)

    return best_seconds(run, repeats=_REPEATS) / _NUM_ELEMENTS
