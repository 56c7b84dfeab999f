"""The Store on PostgreSQL, made of the other modules. See kv/store.py for the methods."""

import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from itertools import pairwise

from psycopg.pq.abc import PGresult

from exuvia.base.aside import waiting
from exuvia.base.clock import Clock
from exuvia.base.errors import ExuviaError, OutcomeUnknown, Unavailable
from exuvia.base.mysql_errors import ErrTooManyConcurrentTrxs
from exuvia.kv import keys as k
from exuvia.kv.chain import resolved
from exuvia.kv.lock_table import TABLE_BYTES, Alone, LockTable
from exuvia.kv.packet import (
    OF_CLIENTS,
    STAMP_BYTES,
    Bulk,
    BulkResult,
    Packet,
    Requirement,
    SnapshotUse,
    Span,
)
from exuvia.kv.postgres.advisory import AdvisoryLocks
from exuvia.kv.postgres.committer import ChainRefused, PacketCommitter
from exuvia.kv.postgres.connection import (
    BYTEA,
    BYTEAS,
    INT8,
    Declined,
    Lost,
    PgPool,
    Query,
    byteas,
    int8,
    read_int8,
)
from exuvia.kv.postgres.grouped import GroupedReads, GroupedSnapshot
from exuvia.kv.postgres.habits import Habits
from exuvia.kv.postgres.server import Server, TableUpkeep
from exuvia.kv.postgres.snapshot import (
    FORKED,
    PostgresSnapshot,
    SnapshotView,
    pairs_of,
    seen_at,
)
from exuvia.kv.postgres.wake import HeldPresence, Listener, is_held
from exuvia.kv.transaction import TransactionalStore

CLOSED = "the store is closed"
IDLE_S, QUERY_S = 300.0, 3600.0
KEEP_EVERY_S = 1.0
RESTORED_S = 5.0
HELD_S = 0.5  # a process known to live at that time is not checked again
STALL_S = 1.0
EXACT_KEYS = 100_000

_NOW = Query(b"now", b"SELECT k, v FROM kv WHERE k = ANY ($1)", (BYTEAS,))
_COUNT = Query(
    b"count_some",
    b"SELECT count(*) FROM (SELECT 1 FROM kv WHERE k >= $1 AND k < $2 LIMIT $3) found",
    (BYTEA, BYTEA, INT8),
)
_CUTS = Query(
    b"cuts",
    b"SELECT k FROM (SELECT k, row_number() OVER (ORDER BY k) - 1 AS n FROM kv "
    b"WHERE k >= $1 AND k < $2) found WHERE n > 0 AND n % $3 = 0 ORDER BY k",
    (BYTEA, BYTEA, INT8),
)
_BOUNDS = Query(
    b"bounds",
    b"SELECT unnest(histogram_bounds::text::bytea[]), greatest(c.reltuples, 0)::bigint "
    b"FROM pg_stats s JOIN pg_class c ON c.oid = 'kv'::regclass "
    b"WHERE s.schemaname = current_schema() AND s.tablename = 'kv' AND s.attname = 'k'",
)
_MEASURES = Query(
    b"measures",
    b"SELECT pg_database_size(current_database()), pg_relation_size('kv'), "
    b"pg_relation_size('kv_pkey'), n_live_tup, n_dead_tup, "
    b"(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()), "
    b"(SELECT coalesce(max(age(backend_xmin)), 0) FROM pg_stat_activity) "
    b"FROM pg_stat_user_tables WHERE relid = 'kv'::regclass",
)
MEASURES = (
    "database_bytes",
    "table_bytes",
    "index_bytes",
    "live_keys",
    "dead_keys",
    "connections",
    "oldest_snapshot_transactions",
)
GROUPED = ("grouped_reads", "grouped_questions")
"""Reads of statements that shared questions (grouped.py), and these questions; of this process."""

log = logging.getLogger(__name__)


class PostgresStore(TransactionalStore):
    """One per process and URL. Thread-safe."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._server = server = Server(url)
        settings = server.settings
        base = server.prepare()
        self.gated = server.has_gates()
        system = max(2, settings.connections // 6)
        commits = max(1, settings.connections // 6)
        questions = max(1, settings.connections // 12)
        clients = lockers = (settings.connections - system - commits - questions) // 2
        wait_s = settings.wait_s

        def of_clients(most: int) -> Exception:
            log.warning("no connection for a client's snapshot", extra={"most": most})
            return ErrTooManyConcurrentTrxs(f"all {most} connections for clients are in use")

        def of_all(most: int) -> Exception:
            return Unavailable(f"all {most} connections to the store's server are in use")

        self._clients = PgPool(
            lambda: server.connect("client"), clients, wait_s, of_clients, STALL_S
        )
        self._system = PgPool(lambda: server.connect("system"), system, wait_s, of_all)
        self._commits = PgPool(lambda: server.connect("commit"), commits, wait_s, of_all)
        self._spans = PgPool(lambda: server.connect("span"), clients, wait_s, of_all)
        self._pool_of = {
            SnapshotUse.SYSTEM: self._system,
            SnapshotUse.CLIENT: self._clients,
            SnapshotUse.ONCE: self._clients,
            SnapshotUse.SPAN: self._spans,
            SnapshotUse.LOOK: self._system,
        }
        # a holder of a snapshot may wait for one of these; a holder of one of these never waits
        self._questions = PgPool(lambda: server.connect("question"), questions, wait_s, of_all)
        self._lockers = PgPool(lambda: server.connect("lock"), lockers, 0.0, of_all)
        self._grouped = GroupedReads(lambda: server.connect("read"), settings.answer_s)
        self._base = base
        self._committer = PacketCommitter(server, self._commits, base, self.gated)
        self._listener = Listener(server, self._questions, self._counters, clock)
        self._mutex = threading.Lock()
        self._habits = Habits()
        self._held_at: dict[str, float] = {}
        self._order = 0
        self._views: weakref.WeakSet[PostgresSnapshot] = weakref.WeakSet()
        self._presences: set[HeldPresence] = set()
        self._table: LockTable | None = None
        self._advisory = (
            AdvisoryLocks(settings.schema, self._lockers, self._questions, settings.answer_s)
            if self.gated
            else None
        )
        self._idle_s, self._query_s = IDLE_S, QUERY_S
        self._closed = threading.Event()
        self._forked = False
        self._keeper = threading.Thread(target=self._keep, name="exuvia-keeper", daemon=True)
        self._keeper.start()
        _stores.add(self)

    # -- reading ---------------------------------------------------------------------------------

    @property
    def near(self) -> bool:
        return False

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> PostgresSnapshot | GroupedSnapshot:
        """A view of all commits."""
        if use == SnapshotUse.ONCE:
            here = waiting()
            if here is not None:
                self._require_open()
                return GroupedSnapshot(self._grouped, here)
        return self.own_snapshot(use)

    def own_snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> PostgresSnapshot:
        """A view of all commits, with a connection of its own."""
        self._require_open()
        pool = self._pool_of[use]
        view = PostgresSnapshot(
            pool,
            self._base,
            self._next_order,
            self._forget,
            self._server.settings.answer_s,
            self._habits if use in (SnapshotUse.SYSTEM, SnapshotUse.LOOK) else None,
        )
        with self._mutex:
            self._views.add(view)
        if use not in (*OF_CLIENTS, SnapshotUse.LOOK):
            view.begin()
        return view

    def at_moment(self, name: str) -> PostgresSnapshot:
        """The snapshot that a process has exported (PostgresSnapshot.export) and keeps open.

        Raises Unavailable if it is no longer open."""
        self._require_open()
        view = PostgresSnapshot(
            self._spans,
            self._base,
            self._next_order,
            self._forget,
            self._server.settings.answer_s,
            moment=name,
        )
        try:
            view.begin()
        except Declined as error:
            raise Unavailable(
                f"the moment {name} has ended: who held it has ended, or held it for as long as it "
                f"may ({error})"
            ) from error
        with self._mutex:
            self._views.add(view)
        return view

    def _next_order(self) -> int:
        with self._mutex:
            self._order += 1
            return self._order

    def _forget(self, view: PostgresSnapshot) -> None:
        with self._mutex:
            self._views.discard(view)

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise Unavailable(FORKED if self._forked else CLOSED)

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        """Change how long snapshots live, unused and in total."""
        self._idle_s, self._query_s = idle_s, query_s

    def view_at(self, position: str) -> SnapshotView | None:
        return seen_at(position) if position else None

    def _keep(self) -> None:
        """The loop that ages snapshots, keeps presences and closes idle connections."""
        while not self._closed.wait(KEEP_EVERY_S):
            now = time.monotonic()
            for view in self._open_views():
                view.age(now, self._idle_s, self._query_s)
            for pool in self._pools():
                pool.drop_idle()
            self._grouped.keep()
            with self._mutex:
                presences = list(self._presences)
            for presence in presences:
                presence.keep()

    def _open_views(self) -> list[PostgresSnapshot]:
        with self._mutex:
            return list(self._views)

    # -- writing ---------------------------------------------------------------------------------

    def commit(self, packet: Packet) -> int:
        """Validate and apply. Returns its stamp once it is as durable as the server's settings."""
        self._require_open()
        before = self._listener.reads(packet.channels) if packet.channels else {}
        stamp = self._committer.commit(packet)
        if packet.channels:
            self._listener.announce(packet.channels, before)
        return stamp

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """See Store.commit_chain; one transaction of the server, a savepoint for each packet."""
        self._require_open()
        refusal: ExuviaError | None = None
        before = self._listener.reads(
            {channel for packet in packets for channel in packet.channels}
        )
        try:
            stamps = self._committer.chained(packets, resolved)
        except ChainRefused as refused:
            stamps, refusal = refused.stamps, refused.refusal
        channels = [name for packet in packets[: len(stamps)] for name in packet.channels]
        if channels:
            self._listener.announce(channels, before)
        if refusal is not None:
            raise refusal
        return stamps

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        self._require_open()
        return self._committer.bulk(Bulk(keys, payloads, requirements, puts, report, overwrite))

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        """Each bulk is a transaction that does not wait for the disk; the last one does."""
        self._require_open()
        results: list[BulkResult] = []
        deadline = time.monotonic() + most_s
        try:
            for bulk in batches:
                try:
                    results.append(self._committer.bulk(bulk, synced=False))
                except ExuviaError:
                    if not results:
                        raise
                    break
                if time.monotonic() >= deadline:
                    break
        finally:
            if results:
                self._synced()
        return results

    def _synced(self) -> None:
        try:
            self._committer.sync()
        except Unavailable as error:
            raise OutcomeUnknown(f"{error}: whether the last bulks survive is not known") from error

    # -- waking and presence ---------------------------------------------------------------------

    def counter(self, channel: str) -> int:
        """The channel's counter, as cached in this process."""
        self._require_open()
        return self._listener.counter(channel)

    def _counters(self, channels: Sequence[str]) -> list[int]:
        """Counters of channels, in one read."""
        names = [k.meta("channel", channel) for channel in channels]
        raws = self._now(names)
        return [k.read_number(raw and raw[STAMP_BYTES:]) for raw in map(raws.get, names)]

    def _now(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The present raw values."""
        (result,) = self._ask(_NOW, byteas(keys))
        return dict(pairs_of(result))

    def _ask(self, statement: Query, *values: bytes) -> list[PGresult]:
        """A read outside of any snapshot; repeated on a new connection if the old one was lost."""
        self._require_open()
        attempt = 0
        while True:
            connection = self._questions.take()
            try:
                return connection.run(((statement, values),), self._server.settings.answer_s)
            except Lost:
                attempt += 1
                if attempt > 1:
                    raise
            finally:
                self._questions.give(connection)
            self._questions.suspect()

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Wait for the counter to pass `after`; woken by commits of any process."""
        self._require_open()
        return self._listener.wait(channel, after, timeout_s)

    def hold(self, name: str) -> HeldPresence:
        self._require_open()
        presence = HeldPresence(self._server, name, self._let_go)
        with self._mutex:
            self._presences.add(presence)
        return presence

    def _let_go(self, presence: HeldPresence) -> None:
        with self._mutex:
            self._presences.discard(presence)
        self._held_at.pop(presence.name, None)

    def held(self, name: str) -> bool:
        """Whether a living process has the presence. The end of another is visible after HELD_S.

        After lost connections those of other processes may be lost, too, and are being made again:
        until then all presences count as held."""
        self._require_open()
        now = time.monotonic()
        if now - max(pool.lost_s for pool in self._pools()) < RESTORED_S:
            return True
        if now - self._held_at.get(name, -HELD_S) < HELD_S:
            return True
        is_alive = is_held(self._questions, self._server, name)
        if is_alive:
            self._held_at[name] = now
        else:
            self._held_at.pop(name, None)
        return is_alive

    def _pools(self) -> tuple[PgPool, ...]:
        return *set(self._pool_of.values()), self._lockers, self._questions, self._commits

    def lock_server(self) -> AdvisoryLocks | None:
        """None if the server's advisory locks are not reliable."""
        return self._advisory

    def lock_table(self) -> LockTable:
        """The lock table of this process."""
        self._require_open()
        with self._mutex:
            if self._table is None:
                self._table = LockTable(bytearray(TABLE_BYTES), Alone(), self._payload)
            return self._table

    def _payload(self, key: bytes) -> bytes | None:
        raw = self._now([key]).get(key)
        return raw and raw[STAMP_BYTES:]

    # -- spans -----------------------------------------------------------------------------------

    def count(self, span: Span) -> int:
        """The number of keys: exact up to EXACT_KEYS, above that by the server's statistics."""
        (result,) = self._ask(_COUNT, span.start, span.end, int8(EXACT_KEYS + 1))
        some = read_int8(result.get_value(0, 0))
        if some <= EXACT_KEYS:
            return some
        bounds, rows = self._bounds()
        inside = sum(1 for bound in bounds if span.start <= bound < span.end)
        return max(some, inside * rows // max(1, len(bounds) - 1))

    def _bounds(self) -> tuple[list[bytes], int]:
        """Keys at about equal distances, and the total number of rows."""
        (result,) = self._ask(_BOUNDS)
        keys = [result.get_value(n, 0) or b"" for n in range(result.ntuples)]
        return keys, read_int8(result.get_value(0, 1)) if keys else 0

    def split(self, span: Span, parts: int) -> list[Span]:
        """Adjacent spans of about equal size."""
        if parts <= 1:
            return [span] if span.start < span.end else []
        size = max(1, -(-self.count(span) // parts))
        (result,) = self._ask(_CUTS, span.start, span.end, int8(size))
        cuts = [result.get_value(n, 0) or b"" for n in range(result.ntuples)]
        bounds = [span.start, *cuts[: parts - 1], span.end]
        return [Span(a, b) for a, b in pairwise(bounds) if a < b]

    # -- closing ---------------------------------------------------------------------------------

    def measures(self) -> dict[str, float]:
        (result,) = self._ask(_MEASURES)
        values = [read_int8(result.get_value(0, n)) for n in range(len(MEASURES))]
        grouped = self._grouped.statements, self._grouped.questions
        return dict(zip((*MEASURES, *GROUPED), map(float, (*values, *grouped)), strict=True))

    def promises(self) -> dict[str, str]:
        """The server's settings that determine the durability of an acknowledged commit."""
        return self._server.promises()

    def upkeep(self) -> TableUpkeep:
        """The state of the table of all rows."""
        return self._server.upkeep()

    def close(self) -> None:
        """End all snapshots and close all connections. A second call is harmless."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._listener.close(CLOSED)
        if self._table is not None:
            self._table.close()
        for view in self._open_views():
            view.end(CLOSED)
        with self._mutex:
            presences = list(self._presences)
        for presence in presences:
            presence.release()
        self._grouped.close(CLOSED)
        for pool in self._pools():
            pool.close_idle(CLOSED)
        self._keeper.join()
        _stores.discard(self)

    def orphan(self) -> None:
        """In a forked child: nothing of the parent's may be used or released."""
        self._forked = True
        self._closed.set()
        self._grouped.orphan()
        for view in list(self._views):
            view.orphan()


_stores: "weakref.WeakSet[PostgresStore]" = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store.orphan()


os.register_at_fork(after_in_child=_after_fork)
