"""The connections of this node and of the cluster: ids, SHOW PROCESSLIST, KILL, limits.

    id = front's number (11 bits) | count (20 bits) | 0        as TiDB's, unique in the cluster

The id fits the four bytes of the greeting and of COM_PROCESS_KILL. A front without a number counts
1, 2, 3. Requests about the whole cluster (cluster/questions.py):

    here          this front's own, and those of the node's other fronts (server/fronts.py)
    everywhere    requests those of every other front
    kill          the front's number in the id selects the front; its own are ended here

The caller checks privileges. Only the user whose connections may be ended is sent to other fronts.

The reaper enforces these limits once a second:

    a transaction of a silent client   exuvia_max_idle_snapshot_s   error at its next statement
    one that reads for too long        exuvia_max_snapshot_s        ended by the store
    a connection of a silent client    wait_timeout of its session; closed (4031)
                                       tidb_idle_transaction_timeout in a transaction
    one that stops within a packet     net_read_timeout of its session; closed (4031)
    new connections                    max_connections; 0: the limit at the start      (1040)
    the slow log                       tidb_slow_log_threshold      (server/slow_log.py)

An abandoned reader makes a store grow.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from exuvia.base import limits
from exuvia.base.clock import Clock
from exuvia.base.mysql_errors import ErrConCount, ErrUnknown
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import Member, MemberInfo
from exuvia.cluster.questions import ENDED, Asking, Handler, Topic
from exuvia.kv.store import Store
from exuvia.server.fronts import Place
from exuvia.server.packets import Login
from exuvia.server.slow_log import SlowLog
from exuvia.sql.parse.secrets import without_secrets
from exuvia.sql.statement.services import Everywhere, Killed, ProcessInfo

MOST = 1024
_COUNT_BITS = 20
_MOST_COUNT = (1 << _COUNT_BITS) - 1
_LIST: Topic[None, list[ProcessInfo]] = Topic("processes", None, list[ProcessInfo])
_Kill = tuple[int, bool, str | None]  # connection, query only, only of that user
_KILL: Topic[_Kill, Killed] = Topic("kill", _Kill, Killed)
_MOST_TEXT = 4096


def id_of_connection(front: int, count: int) -> int:
    """The id of a front's connection, in the format of the module head."""
    return (front << _COUNT_BITS | count) << 1 if front else count


def front_of(connection_id: int) -> int:
    """The number of the front that assigned this id, or 0."""
    return connection_id >> _COUNT_BITS + 1


class ClientConnection(Protocol):
    """The part of a connection that this module uses (server/connection.py)."""

    id: int
    host: str
    port: int
    login: Any
    task: Any
    statements: Any
    since: float

    def kill(self) -> None:
        """Close it; on the protocol thread."""

    def shut_down(self) -> None:
        """Close it because the node stops; on the protocol thread."""

    def expire(self) -> None:
        """Close it if it is still idle; on the protocol thread."""

    def unfinished_s(self, now: float) -> float:
        """Time since the last part of an unfinished packet; 0 without one. Unit: s."""

    def interrupt(self) -> None:
        """Interrupt its command; any thread."""

    def leave(self) -> None:
        """Close it if no command or transaction is open; on the protocol thread."""


class Connections:
    """The connections of a front. Add and remove on the protocol thread; list and kill anywhere."""

    def __init__(
        self,
        clock: Clock,
        most: int = MOST,
        number: Callable[[], int] = lambda: 0,
        place: Place | None = None,
    ) -> None:
        self.place = place or Place()
        self.most = most
        self.allowed = 0  # max_connections; 0: not set
        self.draining = False
        self._number = number
        self._clock = clock
        self._lock = threading.Lock()
        self._clients: dict[int, ClientConnection] = {}
        self._count = 0
        self._began = clock.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, client: ClientConnection) -> int:
        """Register a connection. Returns its id. Raises 1040."""
        with self._lock:
            if self.place.total >= min(self.allowed or self.most, self.most):
                raise ErrConCount()
            number = self._next_id()
            self._clients[number] = client
            self.place.put(len(self._clients))
            self._loop = asyncio.get_running_loop()
            return number

    def _next_id(self) -> int:
        while True:
            self._count = self._count % _MOST_COUNT + 1
            number = id_of_connection(self._number(), self._count)
            if number not in self._clients:
                return number

    def remove(self, client: ClientConnection) -> None:
        with self._lock:
            self._clients.pop(client.id, None)
            self.place.put(len(self._clients))

    def drain(self) -> None:
        """The node stops: close each connection once it has no open command or transaction.

        On the protocol thread."""
        self.draining = True
        for client in self.all():
            client.leave()

    def forget(self, client: ClientConnection) -> None:
        """Close a connection whose client has been silent too long; any thread."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(client.expire)

    @property
    def uptime_s(self) -> int:
        """How long this front has been accepting connections. Unit: s."""
        return int(self._clock.monotonic() - self._began)

    def all(self) -> list[ClientConnection]:
        """Every connection, in order of registration."""
        with self._lock:
            return list(self._clients.values())

    def others_of(self, login: Login, connection_id: int) -> int:
        """How many other connections of this front belong to that account."""
        mine = login.account[:2] if login.account is not None else (login.user, "")
        return sum(
            (
                client.login.account[:2]
                if client.login.account is not None
                else (client.login.user, "")
            )
            == mine
            for client in self.all()
            if client.login is not None and client.id != connection_id
        )

    def list(self) -> list[ProcessInfo]:
        """The rows of SHOW PROCESSLIST."""
        now = self._clock.monotonic()
        return [_process(client, now) for client in self.all()]

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """End a connection, or only its statement. With `only_of` only if it is that user's."""
        with self._lock:
            client, loop = self._clients.get(connection_id), self._loop
        if client is None or loop is None:
            return "unknown"
        if only_of is not None and (client.login is None or client.login.user != only_of):
            return "denied"
        if query_only:
            client.interrupt()
        else:
            loop.call_soon_threadsafe(client.kill)
        return "killed"


def _process(client: ClientConnection, now: float) -> ProcessInfo:
    statements, task = client.statements, client.task
    user = client.login.user if client.login is not None else "unauthenticated user"
    return ProcessInfo(
        id=client.id,
        user=user,
        host=f"{client.host}:{client.port}" if client.port else client.host,
        database=statements.session.database if statements is not None else "",
        command="Sleep" if task is None else "Query",
        time_s=int(now - client.since),
        state=_state(statements),
        info="" if task is None else without_secrets(task.about),
        attributes=() if client.login is None else client.login.attributes,
    )


def _state(statements: Any) -> str:
    """The status words as TiDB shows them, and the reason if it waits for a schema change."""
    if statements is None:
        return ""
    session = statements.session
    words = [
        "in transaction" if session.current is not None else "",
        "autocommit" if session.settings.autocommit else "",
        session.waits.reason,
    ]
    return "; ".join(filter(None, words))


class OwnConnections(Protocol):
    """The connections of one front, for requests of other fronts. Any thread."""

    @property
    def uptime_s(self) -> int:
        """How long the front has been accepting connections. Unit: s."""

    def list(self) -> list[ProcessInfo]:
        """The rows of SHOW PROCESSLIST."""

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """End a connection, or only its statement. With `only_of` only if it is that user's."""


class ClusterProcesses:
    """SHOW PROCESSLIST and KILL over all fronts of the cluster. Thread-safe."""

    def __init__(
        self, store: Store, member: Member, clock: Clock, connections: OwnConnections
    ) -> None:
        self._member = member
        self._connections = connections
        self._asking = Asking(store, member, clock)

    @property
    def uptime_s(self) -> int:
        """How long this front has been accepting connections. Unit: s."""
        return self._connections.uptime_s

    def here(self) -> Everywhere:
        """All connections of this node, and the reasons why those of some fronts are missing."""
        return self._with_others(self._asking.other_fronts_here())

    def everywhere(self) -> Everywhere:
        """All connections of the cluster with their node's address, and reasons for missing
        nodes."""
        return self._with_others(self._asking.other_fronts())

    def _with_others(self, others: Sequence[MemberInfo]) -> Everywhere:
        own = self._member.info.address
        mine = [(own, process) for process in self._connections.list()]
        return self._asking.listed(_LIST, mine, others)

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """End a connection of any node, or its statement. Raises 1105 if its node does not
        answer."""
        done = self._connections.kill(connection_id, query_only, only_of)
        number = front_of(connection_id)
        if done != "unknown" or number == self._member.info.number or connection_id < 0:
            return done
        others = self._asking.other_fronts()
        front = next((member for member in others if member.number == number), None)
        if front is None:
            return done
        answers = self._asking.ask_members(_KILL, (connection_id, query_only, only_of), [front])
        if front.id in answers.replies:
            return answers.replies[front.id]
        if answers.silent[front.id] == ENDED:
            return done
        raise ErrUnknown(f"{front.title} {answers.silent[front.id]}; it may still end the query")


def answers(connections: OwnConnections) -> tuple[Handler[Any, Any], ...]:
    """The handlers of a front for these requests."""

    def listed(body: None) -> list[ProcessInfo]:
        return [process._replace(info=process.info[:_MOST_TEXT]) for process in connections.list()]

    def killed(body: _Kill) -> Killed:
        return connections.kill(*body)

    return Handler(_LIST, listed), Handler(_KILL, killed)


# -- reaper ----------------------------------------------------------------------------------------

LOOK_S = 1.0


class Reaper:
    """The loop of the front that enforces idle and connection limits."""

    channel = "idle"

    def __init__(self, store: Store, connections: Connections, slow: SlowLog) -> None:
        self._store = store
        self._connections = connections
        self._slow = slow
        self._snapshots = float(limits.SNAPSHOT_IDLE_S), float(limits.SNAPSHOT_QUERY_S)

    def step(self, now: float) -> float:
        """Check every session once. Returns the time until the next check. Unit: s."""
        with self._store.read() as txn:
            idle_s = variables.read_float(txn, "exuvia_max_idle_snapshot_s")
            query_s = variables.read_float(txn, "exuvia_max_snapshot_s")
            self._connections.allowed = variables.read_int(txn, "max_connections")
            self._slow.read_threshold(txn)
        if self._snapshots != (idle_s, query_s):  # until one is set, the store's own limits hold
            self._snapshots = idle_s, query_s
            self._store.limit_snapshots(idle_s, query_s)
        for client in self._connections.all():
            statements = client.statements
            if statements is None or client.task is not None:
                continue
            statements.session.reap(now, idle_s)
            session, silent_s = statements.session, now - client.since
            most_s = [int(session.variable("wait_timeout"))]
            if session.current is not None:
                most_s.append(int(session.variable("tidb_idle_transaction_timeout")))
            unfinished_s = client.unfinished_s(now)
            stops = unfinished_s > int(session.variable("net_read_timeout"))
            if stops or any(0 < limit_s < silent_s for limit_s in most_s):
                self._connections.forget(client)
        return LOOK_S
