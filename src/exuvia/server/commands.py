"""Commands of the protocol by their first byte (source: MySQL protocol, "Command Phase").

A command gives a Task to run, or None where the protocol wants no answer.
"""

from collections.abc import Callable
from typing import Protocol

from exuvia.base.mysql_errors import ErrUnknownCom
from exuvia.server import packets
from exuvia.server.connections import Connections
from exuvia.server.framing import Outgoing
from exuvia.server.packets import Login
from exuvia.server.statements import Chunks, Statements, Task


class Shared(Protocol):
    """What a connection shares with others."""

    @property
    def connections(self) -> Connections:
        """All of this node's."""


class Client(Protocol):
    """The connection a command came from (server/mysql.py)."""

    login: Login | None

    @property
    def parts(self) -> Shared:
        """What it shares with others."""

    def enter(self, login: Login) -> None:
        """Begin a new session."""

    def change(self, login: Login, outgoing: Outgoing) -> None:
        """Begin one for who proves to be another user."""

    def kill(self) -> None:
        """End it."""

    def hang_up(self) -> None:
        """The client said goodbye."""


Handler = Callable[[Client, Statements, bytes], Task | None]


def task_for(client: Client, statements: Statements, payload: bytes) -> Task | None:
    """What a command asks for. Raises 1047 for one that is unknown or refused."""
    handler = _HANDLERS.get(payload[0]) if payload else None
    if handler is None:
        raise ErrUnknownCom()
    return handler(client, statements, payload[1:])


def _quit(client: Client, statements: Statements, payload: bytes) -> None:
    client.hang_up()


def _ping(client: Client, statements: Statements, payload: bytes) -> Task:
    return Task(True, "ping", "", statements.done)


def _set_option(client: Client, statements: Statements, payload: bytes) -> Task:
    statements.several = payload[:2] == b"\0\0"
    return Task(True, "option", "", statements.ended)


def _statistics(client: Client, statements: Statements, payload: bytes) -> Task:
    connections = client.parts.connections

    def work(outgoing: Outgoing) -> Chunks:
        line = f"Uptime: {connections.uptime_s}  Threads: {len(connections.all())}"
        outgoing.add(line.encode())
        yield outgoing.take()

    return Task(True, "statistics", "", work)


def _reset(client: Client, statements: Statements, payload: bytes) -> Task:
    assert client.login is not None
    return _entering(client, client.login._replace(database=statements.session.database))


def _change_user(client: Client, statements: Statements, payload: bytes) -> Task:
    assert client.login is not None
    login = packets.read_change_user(payload, client.login)

    def work(outgoing: Outgoing) -> Chunks:
        client.change(login, outgoing)
        yield outgoing.take()

    return Task(True, "change user", "", work)


def _entering(client: Client, login: Login) -> Task:
    def work(outgoing: Outgoing) -> Chunks:
        client.enter(login)
        outgoing.add(packets.ok(0, 0, packets.AUTOCOMMIT, 0))
        yield outgoing.take()

    return Task(True, "reset", "", work)


def _kill(client: Client, statements: Statements, payload: bytes) -> Task:
    number = int.from_bytes(payload[:4], "little")
    return statements.query(f"KILL CONNECTION {number}".encode())


_HANDLERS: dict[int, Handler] = {
    0x01: _quit,
    0x02: lambda client, statements, payload: statements.use(payload),
    0x03: lambda client, statements, payload: statements.query(payload),
    0x04: lambda client, statements, payload: statements.fields(payload),
    0x09: _statistics,
    0x0A: lambda client, statements, payload: statements.query(b"SHOW PROCESSLIST"),
    0x0C: _kill,
    0x0D: lambda client, statements, payload: Task(True, "debug", "", statements.ended),
    0x0E: _ping,
    0x11: _change_user,
    0x16: lambda client, statements, payload: statements.prepare(payload),
    0x17: lambda client, statements, payload: statements.execute(payload),
    0x18: lambda client, statements, payload: statements.long_data(payload),
    0x19: lambda client, statements, payload: statements.forget(payload),
    0x1A: lambda client, statements, payload: statements.reset(payload),
    0x1B: _set_option,
    0x1C: lambda client, statements, payload: statements.fetch(payload),
    0x1F: _reset,
}
