"""A program that has the store embedded: sessions in its own process, a member now and then.

    connect -> Embedded, one of a process and a store -> sessions
    a statement begins      a member again, if it was none: presence, epoch, schema
    a transaction is open   it stays one: it acknowledges versions as any front does
    quiet for LINGER_S      it leaves; what it does then nobody waits for

    its threads        what a front has for its sessions; they rest while it is no member
    its child          a back (back.py), from the first time that there is work for an owner and
                       none lives, until the last connection is closed: no server has to run, and
                       beside nodes it is not started

It is a front to all others: fenced when it is silent for a lease (law 3), and refused whatever it
commits then (law 2). A program may be silent in more ways than a node: stopped in a debugger, its
interpreter held by a library. What keeps others waiting although the program answers is a
transaction of it that nobody goes on with: one that holds a schema change back is rolled back once
it is idle for a lease. Nobody ends the program itself, unless it is stopped inside of the store's
write gate (kv/lmdb/caretaker.py). Nothing here changes what is the program's: signals, logging,
the interpreter's settings, its exit.

A forked child has none of it. What it inherited refuses to be used; it connects anew.
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
"""A member for so long after its last transaction: to join and to leave is a commit each."""
LOOK_S = 0.5
LOOPS_STOP_S = 2.0
BACK_STOP_S = 5.0
FORKED = "the connection was opened before this process was forked: connect again in it"

_log = logging.getLogger(__name__)


class EmbeddedSession:
    """A session and what others are told of it."""

    def __init__(self, session: Session, now: float) -> None:
        self.session = session
        self.since = now
        self.running = False
        self.killed = False

    def shown(self, now: float) -> ProcessInfo:
        """A line of SHOW PROCESSLIST."""
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
    """Those of one program and store. Any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._lock = threading.Lock()
        self._sessions: dict[int, EmbeddedSession] = {}
        self._count = 0

    @property
    def uptime_s(self) -> int:
        """Since when it has the store open. Unit: s."""
        return int(self._clock.monotonic() - self._began)

    def open(self, services: Services, database: str, found_rows: bool) -> EmbeddedSession:
        """A session under an id of its own."""
        with self._lock:
            self._count += 1
            number = id_of_connection(services.member.info.number, self._count)
            session = Session(services, number, client_found_rows=found_rows)
            found = EmbeddedSession(session, self._clock.monotonic())
            self._sessions[number] = found
        return found

    def remove(self, session: EmbeddedSession) -> None:
        """It was closed."""
        with self._lock:
            self._sessions.pop(session.session.connection_id, None)

    def all(self) -> list[EmbeddedSession]:
        """Every one that is open."""
        with self._lock:
            return list(self._sessions.values())

    def list(self) -> list[ProcessInfo]:
        """What SHOW PROCESSLIST shows."""
        now = self._clock.monotonic()
        return [each.shown(now) for each in self.all()]

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """End a session or what it runs; with `only_of` only if it is that user's."""
        with self._lock:
            found = self._sessions.get(connection_id)
        if found is None:
            return "unknown"
        if only_of is not None and found.session.user != only_of:
            return "denied"
        found.killed = found.killed or not query_only
        found.session.interrupt()
        if found.killed:
            found.session.reap(self._clock.monotonic(), -1.0)  # one that is between statements
        return "killed"


class _Attendance:
    """Leaves when all is quiet."""

    channel = ""

    def __init__(self, embedded: "Embedded") -> None:
        self._embedded = embedded

    def step(self, now: float) -> float:
        return self._embedded.leave_if_quiet(now)


class _IdleTransactions:
    """Ends what nobody goes on with; sooner where a schema change waits for it."""

    channel = ""

    def __init__(self, services: Services, sessions: EmbeddedSessions) -> None:
        self._services = services
        self._sessions = sessions

    def step(self, now: float) -> float:
        services = self._services
        with services.store.read() as txn:
            idle_s = float(variables.read_int(txn, "exuvia_max_idle_snapshot_s"))
            tables = [pair for each in announced(txn).values() for pair in each.tables.items()]
        waited = {hold.session for pair in tables for hold in services.locks.blockers(*pair)}
        lease_s = services.member.info.lease_s
        for each in self._sessions.all():
            is_waited = each.session.connection_id in waited
            each.session.reap(now, min(idle_s, lease_s) if is_waited else idle_s)
        return LOOK_S


class _BackAtNeed:
    """Starts the program's own back when there is work for an owner, and none lives."""

    channel = "job"

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self._store = store
        self._supervisor = supervisor
        self._silence = Silence(store)

    def step(self, now: float) -> float:
        if self._supervisor.started:
            return LOOK_S
        with self._store.read() as txn:
            backs = [each for each in members.live(txn) if each.kind == "back"]
            self._silence.keep_only(backs)
            lives = [not self._silence.is_over(txn, each, now) for each in backs]
            wanted = not any(lives) and bool(queue.unfinished(txn) or posted(txn, ANALYZE))
        if wanted:
            self._supervisor.start()
        return LOOK_S


class Embedded:
    """See the module. Thread-safe. Raises Unavailable where the store cannot be opened."""

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
        """A member while it lasts, and as long after it as its transaction is open. Raises 1317 for
        one that was killed, 1053 once the store is lost or has moved, Unavailable."""
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
        """It was silent for a lease, and was fenced: without a transaction nothing is lost by it,
        so its next statement begins when it has joined again."""
        deadline = self._clock.monotonic() + self._member.info.lease_s
        while not self._member.serving(now := self._clock.monotonic()) and now < deadline:
            seen = self.store.counter("owner")  # a new epoch tells it
            if self._member.serving(now):
                return
            self.store.wait("owner", seen, min(LOOK_S, deadline - now))

    def leave_if_quiet(self, now: float) -> float:
        """Leave where nothing is under way; seconds until the next look. Unit: s."""
        with self._lock:
            if self._running or not all(each.session.is_idle for each in self.sessions.all()):
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
        """The last connection is closed: leave, end the child, close the store."""
        self._supervisor.begin_stop()
        self._loops.stop(LOOPS_STOP_S)
        for each in self.sessions.all():
            each.session.close()
        try:
            if not self._member.fenced:
                self._deltas.flush()
                self._member.leave()
        except ExuviaError as error:
            _log.warning("left without saying so", extra={"reason": str(error)})
        self.services.row_locks.close()
        self.services.named_locks.close()
        self._supervisor.finish_stop(BACK_STOP_S)
        self.store.close()


# -- of this process -------------------------------------------------------------------------------


class _OfProcess:
    """What this process has embedded, by store."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, Embedded] = {}
        self.parents: list[Embedded] = []


_here = _OfProcess()


def _place(url: str) -> str:
    """The same for all ways to write where an LMDB store is."""
    parts = urlsplit(url)
    return os.path.realpath(unquote(parts.path)) if parts.scheme == "lmdb" else url


def enter(url: str, lease_s: float = DEFAULT_LEASE_S, clock: Clock | None = None) -> Embedded:
    """What this process has embedded of that store, for one connection more; see `depart`. The
    first one's URL and lease count. Raises Unavailable."""
    require_shared(url)
    place = _place(url)
    with _here.lock:
        found = _here.known.get(place)
        if found is None:
            found = _here.known[place] = Embedded(url, lease_s, clock or SystemClock())
        found.connections += 1
    return found


def depart(embedded: Embedded) -> None:
    """One connection less. A connection that is let go after the process began to end finds all
    closed."""
    with _here.lock:
        embedded.connections -= 1
        if embedded.connections or embedded.forked:
            return
        if _here.known.pop(_place(embedded.url), None) is not None:
            embedded.close()


@atexit.register
def _end_all() -> None:
    """While threads and libraries still live."""
    with _here.lock:
        for each in _here.known.values():
            each.close()
        _here.known.clear()


def _after_fork() -> None:
    """In a forked child: nothing of it is used, nor let go."""
    for each in _here.known.values():
        each.forked = True
    _here.lock = threading.Lock()
    _here.parents += _here.known.values()
    _here.known = {}


os.register_at_fork(after_in_child=_after_fork)
