"""Twenty clients that ask SELECT 1 all the time, in a process of their own: what the others of a
test compute does not delay them.

    python pingers.py PORT      a line on stdin -> two numbers: longest wait, own delay

The wait of a question that is still open counts, too. `own delay` is how late this process itself
was woken: what the machine adds to every wait."""

import selectors
import socket
import struct
import subprocess
import sys
import time
from types import TracebackType
from typing import NamedTuple, Self

CLIENTS = 20
EVERY_S = 0.05
LOOK_S = 0.003
_QUESTION = struct.pack("<I", 9) + b"\x03SELECT 1"


class Waits(NamedTuple):
    """Unit: s."""

    longest_s: float
    own_delay_s: float


class Pingers:
    """with Pingers(port) as pingers: ...; pingers.waits() are those since the last call."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.waits()

    def waits(self) -> Waits:
        """The longest wait of a client since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        longest, delay = self._process.stdout.readline().split()
        return Waits(float(longest), float(delay))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()


# -- the process -----------------------------------------------------------------------------------


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        assert part, "the server is gone"
        found += part
    return found


def packet(connection: socket.socket) -> bytes:
    """The payload of the next packet."""
    return _exactly(connection, int.from_bytes(_exactly(connection, 4)[:3], "little"))


def log_in(port: int, more_capabilities: int = 0) -> socket.socket:
    """A connection of root's; the protocol is the caller's."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    packet(connection)
    capabilities = 1 | 4 | 0x200 | 0x2000 | 0x8000 | 0x80000 | 1 << 24 | more_capabilities
    login = struct.pack("<IIB23x", capabilities, 1 << 24, 45) + b"root\0\0mysql_native_password\0"
    connection.sendall(struct.pack("<I", len(login) | 1 << 24) + login)
    assert packet(connection)[0] == 0
    return connection


def _serve(port: int) -> None:
    selector = selectors.DefaultSelector()
    asked_at: dict[socket.socket, float] = {}
    ask_at: dict[socket.socket, float] = {}
    for n in range(CLIENTS):
        connection = log_in(port)
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)
        ask_at[connection] = time.monotonic() + n * EVERY_S / CLIENTS
    selector.register(sys.stdin, selectors.EVENT_READ)
    longest = delay = 0.0
    while True:
        now = time.monotonic()
        for connection in [each for each, at in ask_at.items() if at <= now]:
            del ask_at[connection]
            asked_at[connection] = now
            connection.send(_QUESTION)
        ready = selector.select(LOOK_S)
        delay = max(delay, time.monotonic() - now - LOOK_S)
        now = time.monotonic()
        for key, _ in ready:
            if key.fileobj is sys.stdin:
                if not sys.stdin.readline():
                    return
                longest = max([longest, *[now - at for at in asked_at.values()]])
                print(longest, delay, flush=True)
                longest = delay = 0.0
                continue
            assert isinstance(key.fileobj, socket.socket)
            assert key.fileobj.recv(1 << 16), "the server is gone"
            longest = max(longest, now - asked_at.pop(key.fileobj))
            ask_at[key.fileobj] = now + EVERY_S


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
