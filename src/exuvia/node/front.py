"""The front of a node: the wire protocol, the sessions, their commits. Long CPU work runs
elsewhere.

    main thread      asyncio: sockets, quick statements
    pool threads     statements that may block
    loop threads     acknowledger and heartbeat with schema loader, reaper of idle transactions
    http thread      status and metrics                       of front 0 of the node
    supervisor       keeps the back alive (supervise.py)      of front 0 of the node

If one of its loops breaks, the process ends with code 70 and `exuvia serve` starts another one.
Without that loop every schema change would wait for this front, or it would no longer serve.

A node listens before it joins, so that the cluster knows its address. It accepts connections once
it may serve. Several fronts of one node are several members (server/fronts.py).
"""

import asyncio
import ctypes
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from exuvia.base import interruption, private_files
from exuvia.base.clock import Clock, SystemClock
from exuvia.base.errors import ExuviaError
from exuvia.base.mysql_errors import (
    ErrInfoSchemaExpired,
    ErrSecureTransportRequired,
    ErrTooManyUserConnections,
)
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.sysvar import variables
from exuvia.cluster import member as members
from exuvia.cluster import nodes
from exuvia.cluster.assent import withdraw
from exuvia.cluster.owner import OwnerWatch
from exuvia.cluster.questions import Answering
from exuvia.cluster.server_locks import row_locks_of
from exuvia.cluster.versions import Acknowledger, MetadataLocks, writers
from exuvia.ddl.submit import Submitter
from exuvia.kv.store import pinned
from exuvia.node.assemble import Loops, Options, VersionFollower, assemble, keep_for_good
from exuvia.node.supervise import CRASHED, Supervisor, end_by_force
from exuvia.node.telemetry import statement_traces
from exuvia.pipeline.throttle import LatencyReports
from exuvia.server import connection
from exuvia.server.connection import INFLATING, Acceptor, Pool
from exuvia.server.fronts import Place
from exuvia.server.http import AccessPolicy, Http, Status, application, is_loopback
from exuvia.server.logins import Logins
from exuvia.server.memory_limit import MemoryLimit
from exuvia.server.metrics import Metrics
from exuvia.server.packets import FOUND_ROWS, INTERACTIVE, Login
from exuvia.server.page import PageSources, StatusPage
from exuvia.server.processes import ClusterProcesses, Connections, Reaper, answers
from exuvia.server.slow_log import ClusterSlowLog, SlowLog
from exuvia.server.statements import quoted
from exuvia.server.transport import context_of, why_refused
from exuvia.server.watchers import Watchers
from exuvia.sql.duck import engine
from exuvia.sql.privileges.accounts import Accounts
from exuvia.sql.session.session import Session
from exuvia.sql.statement.bindings import BindingsFollower
from exuvia.sql.statement.services import Services
from exuvia.stats.cache import FreshStatistics
from exuvia.stats.meta import Deltas

FILES_PER_CONNECTION = 2
STOP_S = 4.5
STATEMENTS_STOP_S = 0.5
LOOPS_STOP_S = 1.2
BACK_STOP_S = 3.5
HEAPS = 2  # malloc's heaps
_M_ARENA_MAX = -8  # malloc.h
_ARROW_ALLOCATES = "ARROW_DEFAULT_MEMORY_POOL"
_NO_LARGE_PAGES = {"NUMPY_MADVISE_HUGEPAGE": "0"}
"""Arrays of a million rows are allocated and freed often, and the host must find every large page
again."""

_log = logging.getLogger(__name__)


class Front:
    """All parts of the front. They run as long as `run` runs."""

    def __init__(
        self,
        options: Options,
        listeners: Sequence[socket.socket],
        place: Place,
        clock: Clock,
        announce: Callable[[int, int], None],
    ) -> None:
        self.code = 0
        self._options = options
        self._clock = clock
        self._announce = announce
        self._listeners = listeners
        self._supervisor: Supervisor | None = None
        self._http: Http | None = None
        self._stopping = asyncio.Event()
        self.connections = Connections(
            clock, options.most_connections, lambda: self._base.member.info.number, place
        )
        self.metrics = Metrics()
        self._slow = SlowLog(clock)
        self.pool = Pool(options.most_connections + INFLATING)
        self._end_traces: Callable[[], None] = lambda: None
        self._environment = _NO_LARGE_PAGES | os.environ  # the back's, and its workers'

    async def run(self) -> None:
        """Serve until a signal comes. Raises StoreMoved when the store has moved and all has
        stopped."""
        _share_memory()
        loop = self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        tls = _tls(self._options)
        if not self.connections.place.number:
            options = self._options
            self._http = Http(options.status_host, options.status_port, tls)
        port: int = self._listeners[0].getsockname()[1]
        try:
            await self._begin(f"{self._options.host}:{port}")
        except ExuviaError:
            if self._http is not None:
                self._http.stop(0.0)
            raise
        traces, self._end_traces = statement_traces(
            self._options.trace_statements, self._base.member, self._clock
        )
        parts = connection.ServerParts(
            self._open_session,
            self.connections,
            self.pool,
            self.metrics,
            self._clock,
            variables.find("version").default,
            self._slow,
            lambda: self._accounts,
            tls,
            traces=traces,
        )
        keep_for_good()
        acceptor = Acceptor(parts, self._listeners)
        acceptor.start()
        self._announce(port, self._http.port if self._http else 0)
        _log.info("the front serves", extra={"member": self._base.member.id, "port": port})
        await self._stopping.wait()
        acceptor.stop(for_good=not self.code)
        if not self.code:
            await self._drain()
        # Stop in order, everything within STOP_S; what hangs is cut off
        may_live = end_by_force(STOP_S, self.code)
        if self._supervisor is not None:
            self._supervisor.begin_stop()
        for client in self.connections.all():
            client.shut_down()
        deadline = self._clock.monotonic() + STATEMENTS_STOP_S
        while self.connections.all() and self._clock.monotonic() < deadline:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(self._end_threads)
        moved = self._loops.moved()
        fields = {"threads": threading.active_count(), "exit_code": self.code}
        _log.info("the front stopped", extra=fields)
        if moved is not None:
            may_live.set()
            raise moved

    async def _drain(self) -> None:
        """Let open transactions end, for `drain_s` or until another signal comes."""
        self._stopping.clear()
        self._base.member.draining = True
        deadline = self._clock.monotonic() + self._options.drain_s
        self.connections.drain()
        if self._supervisor is not None and await asyncio.to_thread(self._has_followers):
            self._supervisor.begin_stop()
        clients = len(self.connections.all())
        if clients:
            fields = {"clients": clients, "drain_s": self._options.drain_s}
            _log.info("the front waits for transactions under way", extra=fields)
        while self.connections.all() and self._clock.monotonic() < deadline:
            if self._stopping.is_set():
                break
            await asyncio.sleep(0.01)

    def _has_followers(self) -> bool:
        """Whether another node's back takes over the work of this node's back.

        Without one, this back is needed as long as there are clients."""
        own = self._base.member.info
        try:
            with self._base.store.read() as txn:
                backs = [member for member in members.live(txn) if member.kind == "back"]
        except ExuviaError:
            return False
        return any((back.host, back.address) != (own.host, own.address) for back in backs)

    async def _begin(self, address: str) -> None:
        private_files.remove_leftovers(engine.SPILL)  # from a front that was killed
        base = self._base = assemble(
            self._options,
            "front",
            address,
            self._clock,
            self._http.port if self._http else 0,
        )
        locks = MetadataLocks(self._clock, partial(withdraw, base.store, base.member))
        submitter = Submitter(base.store, base.schemas, base.member, self._clock, locks=locks)
        row_locks = row_locks_of(base.store, lambda: base.member.fence)
        self._deltas = Deltas(base.store, base.member)
        self._accounts = Accounts(base.store)
        named_locks = row_locks_of(base.store, lambda: base.member.fence)
        row_locks.unwaiting = threading.get_ident()  # the wire's own thread
        interruption.serve_clients()
        named_locks.unwaiting = row_locks.unwaiting
        owner = OwnerWatch(base.store)
        self._services = Services(
            store=base.store,
            schemas=base.schemas,
            ids=IdAllocator(base.store),
            submitter=submitter,
            locks=locks,
            member=base.member,
            clock=self._clock,
            processes=ClusterProcesses(base.store, base.member, self._clock, self.connections),
            slow=ClusterSlowLog(base.store, base.member, self._clock, self._slow),
            row_locks=row_locks,
            named_locks=named_locks,
            deltas=self._deltas,
            accounts=self._accounts,
            owner=owner,
            secure_file_priv=self._options.secure_file_priv,
            node_values=_node_values(self._options, address),
        )
        self._loops = Loops(base.store, self._clock, self._broken)
        own = *answers(self.connections), self.metrics.handler(), self._slow.handler()
        states = nodes.handler(base.member, self._clock)
        latencies = LatencyReports(base.store, base.member, self.metrics.durations)
        handlers = (*own, writers(self._services.locks), states)
        self._loops.start(
            VersionFollower(
                base.store,
                Acknowledger(base.store, base.member, self._services.locks, owner),
                base.loader,
            ),
            Reaper(base.store, self.connections, self._slow),
            MemoryLimit(base.store, self.connections),
            self._deltas,
            FreshStatistics(base.store, self._services.plans.forget),
            BindingsFollower(base.store, self._services.bindings),
            self._accounts,
            Answering(base.store, base.member, handlers),
            latencies,
        )
        if self._http is not None:
            self._begin_node(self._http, address, latencies)

    def _begin_node(self, http: Http, address: str, latencies: LatencyReports) -> None:
        """Start the parts of which a node has one: its back, and the status pages."""
        base, options = self._base, self._options
        command = [sys.executable, "-m", "exuvia.node.back", pinned(options.store)]
        command += ["--parent", str(os.getpid()), "--address", address]
        command += ["--lease", str(options.lease_s), "--spark-master", options.spark_master]
        command += ["--spark-ui-port", str(options.spark_ui_port)]
        command += ["--spark-event-log", options.spark_event_log]
        supervisor = self._supervisor = Supervisor(
            command, self._clock, environment=self._environment
        )
        supervisor.start()
        status = Status(
            base.store,
            base.member,
            base.loader,
            self.connections,
            self._clock,
            lambda: supervisor.pid,
            self._loops.broken,
        )
        page = StatusPage(
            PageSources(
                base.store,
                base.member,
                base.schemas,
                self._services.owner,
                self._clock,
                latencies.window,
                self._definition,
            )
        )
        watchers = Watchers(page)
        logins = Logins(self._accounts, self._open_session, self._clock)
        policy = AccessPolicy(is_loopback(options.status_host), bool(options.ssl_cert), logins)
        http.start(application(status, self.metrics, watchers, policy), watchers.end)

    def _definition(self, database: str, table: str) -> str:
        """SHOW CREATE TABLE for the status page. Its readers are not authenticated: no rows are
        shown."""
        session: Any = Session(self._services, 0, "root", "localhost")
        try:
            description = session.execute(f"SHOW CREATE TABLE {quoted(database)}.{quoted(table)}")
            return str(description.rows[0][1])
        finally:
            session.close()

    def _open_session(self, connection_id: int, host: str, login: Login) -> Session:
        if not self._base.member.serving(self._clock.monotonic()):
            raise ErrInfoSchemaExpired()  # before reading the store, which may not answer
        found_rows = bool(login.capabilities & FOUND_ROWS)
        session: Any = Session(
            self._services, connection_id, login.user, host, client_found_rows=found_rows
        )
        session.enter_as(login.account)
        if login.capabilities & INTERACTIVE:
            session.settings.put("wait_timeout", session.variable("interactive_timeout"))
        session.is_secure = login.secure
        if session.settings.at_start("require_secure_transport") == "ON" and not login.secure:
            raise ErrSecureTransportRequired()
        most = int(session.settings.at_start("max_user_connections"))
        if most and self.connections.others_of(login, connection_id) >= most:
            raise ErrTooManyUserConnections(login.user)
        if login.database:
            session.execute(f"USE {quoted(login.database)}")
        if login.must_change_password and login.account is not None:
            # COM_RESET_CONNECTION repeats the former login: the password may have been changed
            # since
            book, now_s = self._accounts.book, self._clock.wall_ns() // 10**9
            account = book.account(login.account.user, login.account.host)
            session.must_change_password = account is None or book.is_expired(account, now_s)
        return session  # type: ignore[no-any-return]

    def _broken(self, name: str) -> None:
        """Called when a loop's thread has ended: stop the front, because nobody does its work
        now."""
        self.code = CRASHED
        self._loop.call_soon_threadsafe(self._stopping.set)

    def _end_threads(self) -> None:
        self.pool.close()
        self._loops.stop(LOOPS_STOP_S)
        try:
            self._deltas.flush()
            self._base.member.leave()
        except ExuviaError as error:
            _log.warning(
                "the member could not leave: its lease has to run out", extra={"reason": str(error)}
            )
        if self._supervisor is not None:
            self._supervisor.finish_stop(BACK_STOP_S)
        if self._http is not None:
            self._http.stop(0.5)
        self._base.store.close()
        self._end_traces()  # last: a collector may not answer


def _tls(options: Options) -> ssl.SSLContext | None:
    """The TLS context of the clients' connections. Raises OSError for invalid files."""
    if not options.ssl_cert:
        return None
    context = context_of(options.ssl_cert, options.ssl_key)
    reason = why_refused(options.ssl_cert, context)
    if reason:
        fields = {"file": options.ssl_cert, "reason": reason}
        _log.warning("clients that verify the certificate refuse it", extra=fields)
    return context


def _node_values(options: Options, address: str) -> dict[str, str]:
    """System variables that show what this node was started with."""
    has_tls = bool(options.ssl_cert)
    folder = options.secure_file_priv
    return {
        "bind_address": options.host,
        "have_openssl": "YES" if has_tls else "DISABLED",
        "have_ssl": "YES" if has_tls else "DISABLED",
        "port": address.rpartition(":")[2],
        "secure_file_priv": folder and os.path.join(os.path.realpath(folder), ""),
        "ssl_cert": options.ssl_cert,
        "ssl_key": options.ssl_key,
        "tls_version": "TLSv1.2,TLSv1.3" if has_tls else "",
    }


def _share_memory() -> None:
    """Make all threads of this process share one heap. Call it before threads start.

    Hundreds of threads serve statements in turn. By default glibc has eight heaps per core, and
    Arrow one per thread. Each heap stays as large as the largest statement that it ever served."""
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS)
    os.environ.setdefault(_ARROW_ALLOCATES, "system")


def serve(
    options: Options,
    listeners: Sequence[socket.socket],
    place: Place,
    announce: Callable[[int, int], None],
) -> int:
    """Run a front until SIGTERM or SIGINT, or until a loop breaks. Returns the exit code.

    `announce` is called with the two ports once clients may connect. Raises Unavailable if it
    cannot start."""

    async def run() -> int:
        front = Front(options, listeners, place, SystemClock(), announce)
        await front.run()
        return front.code

    # Raise the limit of open files towards what the connections need
    requested = FILES_PER_CONNECTION * options.most_connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = requested if hard == resource.RLIM_INFINITY else min(requested, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return asyncio.run(run())
