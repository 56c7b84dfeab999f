"""A program that has the store embedded: it runs sessions in its own process.

    connect -> Embedded, one for each process and store -> sessions
    a statement begins      the process joins the cluster if it is not a member: presence, epoch,
                            schema
    a transaction is open   it stays a member and acknowledges versions as a front does
    quiet for LINGER_S      it leaves the cluster; nobody waits for it while it is away

    its threads        those that a front has for its sessions; they pause while it is not a member
    its child          a back (back.py). It is started when there is work for an owner and no back
                       is alive, and ends when the last connection is closed. So no server has to
                       run; where nodes run, no back is started

The other members treat it as a front. It is fenced when it is silent for a lease (law 3), and its
later commits are refused (law 2). A program may be silent for more reasons than a node: it is
stopped in a debugger, or a library holds the interpreter lock.

A program that answers may still hold up others by an idle transaction. A transaction that blocks a
schema change is rolled back once it is idle for a lease. The program itself is ended only if it is
stopped inside the store's write gate (kv/lmdb/caretaker.py). The program's signals, logging,
interpreter settings and exit are not changed.

A forked child cannot use what it inherited. It has to connect again.
"""

import atexit
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import unquote, urlsplit

from exuvia.base.clock import Clock, SystemClock
from exuvia.base.errors import ExuviaError
from exuvia.base.limits import DEFAULT_LEASE_S
from exuvia.base.mysql_errors import ErrQueryInterrupted, ErrServerShutdown
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.catalog.sysvar import variables
from exuvia.cluster import member as members
from exuvia.cluster import nodes
from exuvia.cluster.assent import withdraw
from exuvia.cluster.member import Member, Silence
from exuvia.cluster.owner import OwnerWatch
from exuvia.cluster.questions import Answering, posted
from exuvia.cluster.server_locks import row_locks_of
from exuvia.cluster.versions import Acknowledger, MetadataLocks, announced, writers
from exuvia.ddl import queue
from exuvia.ddl.submit import Submitter
from exuvia.kv.store import Store, open_store, pinned, require_shared
from exuvia.node.assemble import EVALUATOR, LEAST_STALL_S, Loops, VersionFollower
from exuvia.node.supervise import Supervisor
from exuvia.server.processes import ClusterProcesses, answers, id_of_connection
from exuvia.sql.parse.secrets import without_secrets
from exuvia.sql.privileges.accounts import Accounts
from exuvia.sql.session.session import Session
from exuvia.sql.statement.bindings import BindingsFollower
from exuvia.sql.statement.services import Killed, ProcessInfo, Services
from exuvia.stats.analyze_jobs import ANALYZE
from exuvia.stats.cache import FreshStatistics
from exuvia.stats.meta import Deltas

LINGER_S = 1.0
"""Stays a member for this time after its last transaction: joining and leaving cost a commit
each."""
LOOK_S = 0.5
LOOPS_STOP_S = 2.0
BACK_STOP_S = 5.0
FORKED = "the connection was opened before this process was forked: connect again in it"

_log = logging.getLogger(__name__)


class EmbeddedSession:
    """A session and its state for SHOW PROCESSLIST."""

    def __init__(self, session: Session, now: float) -> None:
        self.session = session
        self.since = now
        self.running = False
        self.killed = False

    def process_info(self, now: float) -> ProcessInfo:
        """The row of SHOW PROCESSLIST."""
        session = self.session
        return ProcessInfo(
            id=session.connection_id,
            user=session.user,
            host=session.host,
            database=session.database,
            command="Query" if self.running else "Sleep",
            time_s=int(now - self.since),
            state="in transaction" if session.current is not None else "",
            info=without_secrets(session.statement) if self.running else "",
        )


class EmbeddedSessions:
    """The sessions of one program in one store. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._lock = threading.Lock()
        self._sessions: dict[int, EmbeddedSession] = {}
        self._count = 0

    @property
    def uptime_s(self) -> int:
        """Time since the store was opened. Unit: s."""
        return int(self._clock.monotonic() - self._began)

    def open(self, services: Services, database: str, found_rows: bool) -> EmbeddedSession:
        """Open a session with a new connection id."""
        with self._lock:
            self._count += 1
            number = id_of_connection(services.member.info.number, self._count)
            session = Session(services, number, client_found_rows=found_rows)
            session_row = EmbeddedSession(session, self._clock.monotonic())
            self._sessions[number] = session_row
        return session_row

    def remove(self, session: EmbeddedSession) -> None:
        """Remove a session that was closed."""
        with self._lock:
            self._sessions.pop(session.session.connection_id, None)

    def all(self) -> list[EmbeddedSession]:
        """All open sessions."""
        with self._lock:
            return list(self._sessions.values())

    def list(self) -> list[ProcessInfo]:
        """The rows of SHOW PROCESSLIST."""
        now = self._clock.monotonic()
        return [session.process_info(now) for session in self.all()]

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """End a session, or only its statement. With `only_of` only if it is that user's."""
        with self._lock:
            target = self._sessions.get(connection_id)
        if target is None:
            return "unknown"
        if only_of is not None and target.session.user != only_of:
            return "denied"
        target.killed = target.killed or not query_only
        target.session.interrupt()
        if target.killed:
            target.session.reap(self._clock.monotonic(), -1.0)  # if between statements
        return "killed"


class _Attendance:
    """Leaves the cluster when no session is active."""

    channel = ""

    def __init__(self, embedded: "Embedded") -> None:
        self._embedded = embedded

    def step(self, now: float) -> float:
        return self._embedded.leave_if_quiet(now)


class _IdleTransactions:
    """Rolls back idle transactions, sooner if a schema change waits for them."""

    channel = ""

    def __init__(self, services: Services, sessions: EmbeddedSessions) -> None:
        self._services = services
        self._sessions = sessions

    def step(self, now: float) -> float:
        services = self._services
        with services.store.read() as txn:
            idle_s = float(variables.read_int(txn, "exuvia_max_idle_snapshot_s"))
            tables = [
                pair for version in announced(txn).values() for pair in version.tables.items()
            ]
        waited = {hold.session for pair in tables for hold in services.locks.blockers(*pair)}
        lease_s = services.member.info.lease_s
        for session in self._sessions.all():
            is_waited = session.session.connection_id in waited
            session.session.reap(now, min(idle_s, lease_s) if is_waited else idle_s)
        return LOOK_S


class _BackAtNeed:
    """Starts the program's own back when there is work for an owner and no back is alive."""

    channel = "job"

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self._store = store
        self._supervisor = supervisor
        self._silence = Silence(store)

    def step(self, now: float) -> float:
        if self._supervisor.started:
            return LOOK_S
        with self._store.read() as txn:
            backs = [member for member in members.live(txn) if member.kind == "back"]
            self._silence.keep_only(backs)
            lives = [not self._silence.is_over(txn, back, now) for back in backs]
            is_needed = not any(lives) and bool(queue.unfinished(txn) or posted(txn, ANALYZE))
        if is_needed:
            self._supervisor.start()
        return LOOK_S


class Embedded:
    """The connection of this process to one store. Thread-safe.

    Raises Unavailable if the store cannot be opened."""

    def __init__(self, url: str, lease_s: float, clock: Clock) -> None:
        self.url = url
        self.connections = 0
        self.forked = False
        self._broken = ""
        self._clock = clock
        self._running = 0
        self._lock = threading.Lock()
        self._awake = threading.Event()
        stall_s = max(lease_s / 2, LEAST_STALL_S)
        self.store = open_store(url, clock, stall_s, embedded=True)
        try:
            bootstrap(self.store)
            self._begin(lease_s)
        except BaseException:
            self.store.close()
            raise

    def _begin(self, lease_s: float) -> None:
        store, clock = self.store, self._clock
        address = f"embedded:{os.getpid()}"
        member = self._member = Member.join(store, clock, "front", address, lease_s)
        self._quiet_since = clock.monotonic()
        schemas = Schemas(store, evaluator=EVALUATOR)
        self._loader = Loader(schemas, member.loaded, min(1.0, lease_s / 5), "version")
        self._loader.step(clock.monotonic())
        locks = MetadataLocks(clock, partial(withdraw, store, member))
        sessions = self.sessions = EmbeddedSessions(clock)
        self._deltas = Deltas(store, member)
        owner = OwnerWatch(store)
        accounts = Accounts(store)
        services = self.services = Services(
            store=store,
            schemas=schemas,
            ids=IdAllocator(store),
            submitter=Submitter(store, schemas, member, clock, locks=locks),
            locks=locks,
            member=member,
            clock=clock,
            processes=ClusterProcesses(store, member, clock, sessions),
            row_locks=row_locks_of(store, lambda: member.fence),
            named_locks=row_locks_of(store, lambda: member.fence),
            deltas=self._deltas,
            accounts=accounts,
            owner=owner,
        )
        command = [sys.executable, "-m", "exuvia.node.back", pinned(self.url)]
        command += ["--parent", str(os.getpid()), "--address", address, "--lease", str(lease_s)]
        command += ["--log-level", "WARNING"]
        # a thread of its own starts the child, which ends with that thread (prctl PDEATHSIG)
        self._supervisor = Supervisor(command, clock, apart=True)
        handlers = (*answers(sessions), writers(locks), nodes.handler(member, clock))
        self._loops = Loops(store, clock, self._stop, self._awake)
        self._loops.start(
            VersionFollower(store, Acknowledger(store, member, locks, owner), self._loader),
            Answering(store, member, handlers),
            FreshStatistics(store, services.plans.forget),
            BindingsFollower(store, services.bindings),
            self._deltas,
            accounts,
            _Attendance(self),
            _IdleTransactions(services, sessions),
            _BackAtNeed(store, self._supervisor),
        )
        self._awake.set()

    def _stop(self, name: str) -> None:
        moved = self._loops.moved()
        self._broken = str(moved) if moved is not None else f"{name} has failed"

    # -- membership --------------------------------------------------------------------------------

    @contextmanager
    def statement(self, of: EmbeddedSession) -> Iterator[None]:
        """Keep this process a member during the statement, and while its transaction is open.

        Raises 1317 if the connection was killed, 1053 if the store is lost or has moved,
        Unavailable."""
        if of.killed:
            of.session.close()
            raise ErrQueryInterrupted.with_text("the connection was killed")
        if self._broken:
            raise ErrServerShutdown.with_text(f"{self._broken}: close the connections, and connect")
        with self._lock:
            if not self._awake.is_set():
                self._member.come_back()
                self._loader.step(self._clock.monotonic())
                self.services.bindings.load(self.store)
                self._awake.set()
            self._running += 1
        of.running, of.since = True, self._clock.monotonic()
        try:
            if of.session.current is None:
                self._wait_until_serving()
            yield
        finally:
            of.running, of.since = False, self._clock.monotonic()
            with self._lock:
                self._running -= 1
                self._quiet_since = of.since

    def _wait_until_serving(self) -> None:
        """Wait until the member has rejoined after it was fenced.

        It was silent for a lease. Without an open transaction nothing is lost, so the next
        statement just waits."""
        deadline = self._clock.monotonic() + self._member.info.lease_s
        while not self._member.serving(now := self._clock.monotonic()) and now < deadline:
            counter = self.store.counter("owner")  # a new epoch notifies this channel
            if self._member.serving(now):
                return
            self.store.wait("owner", counter, min(LOOK_S, deadline - now))

    def leave_if_quiet(self, now: float) -> float:
        """Leave the cluster if no session is active. Returns the time until the next check. Unit:
        s."""
        with self._lock:
            if self._running or not all(session.session.is_idle for session in self.sessions.all()):
                return LOOK_S
            left_s = self._quiet_since + LINGER_S - now
            if left_s > 0:
                return left_s
            self._deltas.flush()
            self._member.leave()
            self._awake.clear()
        return LOOK_S

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Called for the last connection: leave the cluster, end the child, close the store."""
        self._supervisor.begin_stop()
        self._loops.stop(LOOPS_STOP_S)
        for session in self.sessions.all():
            session.session.close()
        try:
            if not self._member.fenced:
                self._deltas.flush()
                self._member.leave()
        except ExuviaError as error:
            _log.warning(
                "the member could not leave: its lease has to run out", extra={"reason": str(error)}
            )
        self.services.row_locks.close()
        self.services.named_locks.close()
        self._supervisor.finish_stop(BACK_STOP_S)
        self.store.close()


# -- of this process -------------------------------------------------------------------------------


class _OfProcess:
    """The embedded stores of this process, by place."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_place: dict[str, Embedded] = {}
        self.parents: list[Embedded] = []


_here = _OfProcess()


def _place(url: str) -> str:
    """The key of a store: the same for all spellings of an LMDB path."""
    parts = urlsplit(url)
    return os.path.realpath(unquote(parts.path)) if parts.scheme == "lmdb" else url


def enter(url: str, lease_s: float = DEFAULT_LEASE_S, clock: Clock | None = None) -> Embedded:
    """Count one more connection and return the Embedded of that store. `depart` is the counterpart.

    The URL and the lease of the first connection hold for all. Raises Unavailable."""
    require_shared(url)
    place = _place(url)
    with _here.lock:
        embedded = _here.by_place.get(place)
        if embedded is None:
            embedded = _here.by_place[place] = Embedded(url, lease_s, clock or SystemClock())
        embedded.connections += 1
    return embedded


def depart(embedded: Embedded) -> None:
    """Count one connection less; the last one closes the store.

    Does nothing if the process has already closed the store at its exit."""
    with _here.lock:
        embedded.connections -= 1
        if embedded.connections or embedded.forked:
            return
        if _here.by_place.pop(_place(embedded.url), None) is not None:
            embedded.close()


@atexit.register
def _end_all() -> None:
    """Close all stores while threads and libraries still work."""
    with _here.lock:
        for embedded in _here.by_place.values():
            embedded.close()
        _here.by_place.clear()


def _after_fork() -> None:
    """In a forked child: mark inherited connections as unusable, and keep them referenced."""
    for embedded in _here.by_place.values():
        embedded.forked = True
    _here.lock = threading.Lock()
    _here.parents += _here.by_place.values()
    _here.by_place = {}


os.register_at_fork(after_in_child=_after_fork)
