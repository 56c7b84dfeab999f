"""What the fronts of one node share: sockets to listen on, and how many clients each has.

One front is one interpreter, so a node that has more processors to give has more fronts
(`exuvia serve --fronts N`). The keeper (node/supervise.py) opens the sockets and forks the fronts,
which all accept from them; so the port stays the node's while a front is started again.

Whoever is awake first would take most clients. So each front's number of clients stands in memory
that all of them map, and one that has more than another leaves a new client to it for LEAVE_S. That
one may hang, so the client is not left for longer. One slot is written by one process: no lock.

Only the standard library is loaded here, for the keeper forks and stays small.
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
    """Bound and listening at every address of the host, at one port; port 0 is a free one. Clients
    wait until somebody accepts. Raises OSError."""
    found: list[socket.socket] = []
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, address in dict.fromkeys((info[0], str(info[4][0])) for info in infos):
            found.append(socket.create_server((address, port), family=family, backlog=BACKLOG))
            port = port or found[0].getsockname()[1]
    except OSError:
        for each in found:
            each.close()
        raise
    for each in found:
        each.setblocking(False)
    return found


def turn_away(listeners: Iterable[socket.socket]) -> None:
    """Tell the clients who wait that nobody serves them (1053): most drivers wait for a greeting
    for as long as they are connected."""
    said = b"\xff" + struct.pack("<H", 1053) + b"#08S01" + NOBODY_SERVES.encode()
    packet = struct.pack("<I", len(said)) + said  # three bytes of length, and number 0
    for listener in listeners:
        with suppress(OSError):  # nobody waits any more
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    client.send(packet)


class ClientCounts:
    """How many clients each front of a node has. To be made before the fronts are forked."""

    def __init__(self, fronts: int = 1) -> None:
        self._slots = memoryview(mmap.mmap(-1, _SLOT_BYTES * fronts)).cast("I")
        for number in range(fronts):
            self.left(number)

    def left(self, number: int) -> None:
        """That front has ended."""
        self._slots[number] = _ABSENT

    def put(self, number: int, clients: int) -> None:
        """That front has so many."""
        self._slots[number] = clients

    def total(self) -> int:
        """Of all fronts that live."""
        return sum(each for each in self._slots if each != _ABSENT)

    def has_more(self, number: int) -> bool:
        """Whether another front has fewer than that one."""
        return min(self._slots) < self._slots[number]


class Place:
    """One front's number among those of its node, and its line of the counts."""

    def __init__(self, counts: ClientCounts | None = None, number: int = 0) -> None:
        self._counts = counts or ClientCounts()
        self.number = number
        self.put(0)

    def put(self, clients: int) -> None:
        """It has so many."""
        self._counts.put(self.number, clients)

    @property
    def total(self) -> int:
        """Clients of the node."""
        return self._counts.total()

    @property
    def has_more(self) -> bool:
        """Whether another front of the node has fewer."""
        return self._counts.has_more(self.number)
