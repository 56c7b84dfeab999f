"""The connections of this node: their numbers, SHOW PROCESSLIST, KILL, how many there may be."""

import asyncio
import threading
from typing import Any, Protocol

from exuvia.base.clock import Clock
from exuvia.base.mysql import refuse
from exuvia.sql.session.services import Process

MOST = 1024


class Client(Protocol):
    """A connection as this list sees it (server/mysql.py)."""

    id: int
    host: str
    login: Any
    task: Any
    statements: Any
    since: float

    def kill(self) -> None:
        """Close it; on the wire's thread."""

    def interrupt(self) -> None:
        """End what it runs; any thread."""


class Connections:
    """Added and removed on the wire's thread; listed and killed from any."""

    def __init__(self, clock: Clock, most: int = MOST) -> None:
        self.most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._clients: dict[int, Client] = {}
        self._last_id = 0
        self._began = clock.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, client: Client) -> int:
        """A number for a new connection. Raises 1040."""
        with self._lock:
            if len(self._clients) >= self.most:
                raise refuse(1040)
            self._last_id += 1
            self._clients[self._last_id] = client
            self._loop = asyncio.get_running_loop()
            return self._last_id

    def remove(self, client: Client) -> None:
        """It is closed."""
        with self._lock:
            self._clients.pop(client.id, None)

    @property
    def uptime_s(self) -> int:
        """How long this node has been taking connections. Unit: s."""
        return int(self._clock.monotonic() - self._began)

    def all(self) -> list[Client]:
        """Every connection, by number."""
        with self._lock:
            return list(self._clients.values())

    def list(self) -> list[Process]:
        """What SHOW PROCESSLIST shows."""
        now = self._clock.monotonic()
        return [_process(client, now) for client in self.all()]

    def kill(self, connection_id: int, query_only: bool) -> bool:
        """End a connection or what it runs; False when there is none of that number."""
        with self._lock:
            client, loop = self._clients.get(connection_id), self._loop
        if client is None or loop is None:
            return False
        if query_only:
            client.interrupt()
        else:
            loop.call_soon_threadsafe(client.kill)
        return True


def _process(client: Client, now: float) -> Process:
    statements, task = client.statements, client.task
    user = client.login.user if client.login is not None else "unauthenticated user"
    database = statements.session.database if statements is not None else ""
    command = "Sleep" if task is None else "Query"
    about = "" if task is None else task.about
    return Process(
        client.id, user, client.host, database, command, int(now - client.since), "", about
    )
