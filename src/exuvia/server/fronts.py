"""Shared resources of one node's fronts: the listening sockets, and the number of clients of each.

One front is one Python interpreter, so a node uses more processors with more fronts (`exuvia serve
--fronts N`). The keeper (node/supervise.py) opens the sockets and forks the fronts. All fronts
accept from these sockets. So the port stays open while a front is restarted.

Without balancing, the front that wakes up first would accept most clients. So the fronts write
their numbers of clients into shared memory. A front that has more clients than another waits
LEAVE_S before it accepts. It does not wait longer, because the other front may hang. Each slot has
one writer, so no lock is needed.

This module imports only the standard library, because the keeper forks and has to stay small.
"""

import mmap
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress

LEAVE_S = 0.002
BACKLOG = 512
NOBODY_SERVES = (
    "this node cannot serve: its front ended before it was ready and is started again; "
    "the node's log says why"
)
_ABSENT = (1 << 32) - 1
_SLOT_BYTES = 4


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at every address of the host, at one port; port 0 means a free one.

    Clients wait until a front accepts. Raises OSError."""
    listeners: list[socket.socket] = []
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, address in dict.fromkeys((info[0], str(info[4][0])) for info in infos):
            listeners.append(socket.create_server((address, port), family=family, backlog=BACKLOG))
            port = port or listeners[0].getsockname()[1]
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    for listener in listeners:
        listener.setblocking(False)
    return listeners


def turn_away(listeners: Iterable[socket.socket]) -> None:
    """Send 1053 to the clients that wait: most drivers wait for a greeting without a limit."""
    payload = b"\xff" + struct.pack("<H", 1053) + b"#08S01" + NOBODY_SERVES.encode()
    packet = struct.pack("<I", len(payload)) + payload  # three bytes of length, and number 0
    for listener in listeners:
        with suppress(OSError):  # nobody waits any more
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    client.send(packet)


class ClientCounts:
    """The number of clients of each front of a node. Create it before the fronts are forked."""

    def __init__(self, fronts: int = 1) -> None:
        self._slots = memoryview(mmap.mmap(-1, _SLOT_BYTES * fronts)).cast("I")
        for number in range(fronts):
            self.remove(number)

    def remove(self, number: int) -> None:
        """Record that the front has ended."""
        self._slots[number] = _ABSENT

    def put(self, number: int, clients: int) -> None:
        """Set the number of clients of a front."""
        self._slots[number] = clients

    def total(self) -> int:
        """The number of clients of all running fronts."""
        return sum(clients for clients in self._slots if clients != _ABSENT)

    def has_more(self, number: int) -> bool:
        """Whether another front has fewer clients than this one."""
        return min(self._slots) < self._slots[number]


class Place:
    """One front: its number within the node, and its number of clients."""

    def __init__(self, counts: ClientCounts | None = None, number: int = 0) -> None:
        self._counts = counts or ClientCounts()
        self.number = number
        self.put(0)

    def put(self, clients: int) -> None:
        """Set the number of clients of this front."""
        self._counts.put(self.number, clients)

    @property
    def total(self) -> int:
        """Number of clients of the node."""
        return self._counts.total()

    @property
    def has_more(self) -> bool:
        """Whether another front of the node has fewer clients."""
        return self._counts.has_more(self.number)
