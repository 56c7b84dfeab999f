"""The store on PostgreSQL: the parts put together. kv/store.py says what each method promises."""

import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from itertools import pairwise

from psycopg.pq.abc import PGresult

from exuvia.base.clock import Clock
from exuvia.base.errors import ExuviaError, OutcomeUnknown, Unavailable
from exuvia.base.mysql_errors import ErrTooManyConcurrentTrxs
from exuvia.kv import keys as k
from exuvia.kv.chain import resolved
from exuvia.kv.lock_table import TABLE_BYTES, Alone, LockTable
from exuvia.kv.packet import STAMP_BYTES, Bulk, BulkResult, Packet, Requirement, SnapshotUse, Span
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
HELD_S = 0.5  # a process that lived so long ago is not asked for again
STALL_S = 1.0
EXACT_KEYS = 100_000
BUSY_S = 2.0

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
            SnapshotUse.SPAN: self._spans,
            SnapshotUse.LOOK: self._system,
        }
        # whoever has a snapshot may wait for one of these; who has one of these waits for nobody
        self._questions = PgPool(lambda: server.connect("question"), questions, wait_s, of_all)
        self._lockers = PgPool(lambda: server.connect("lock"), lockers, 0.0, of_all)
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

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> PostgresSnapshot:
        """A view of all that is committed."""
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
        if use not in (SnapshotUse.CLIENT, SnapshotUse.LOOK):
            view.begin()
        return view

    def at_moment(self, name: str) -> PostgresSnapshot:
        """What a snapshot sees that some process has exported (PostgresSnapshot.export) and holds
        open. Raises Unavailable where nobody does any more."""
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
        """Change how long snapshots live, unused and at all."""
        self._idle_s, self._query_s = idle_s, query_s

    def view_at(self, position: str) -> SnapshotView | None:
        return seen_at(position) if position else None

    def _keep(self) -> None:
        """What must be looked after now and then."""
        while not self._closed.wait(KEEP_EVERY_S):
            now = time.monotonic()
            for view in self._open_views():
                view.age(now, self._idle_s, self._query_s)
            for pool in self._pools():
                pool.drop_idle()
            with self._mutex:
                presences = list(self._presences)
            for presence in presences:
                presence.keep()

    def _open_views(self) -> list[PostgresSnapshot]:
        with self._mutex:
            return list(self._views)

    # -- writing ---------------------------------------------------------------------------------

    def commit(self, packet: Packet) -> int:
        """Validate and apply; returns its stamp once it is as durable as the server promises."""
        self._require_open()
        before = self._listener.reads(packet.channels) if packet.channels else {}
        stamp = self._committer.commit(packet)
        if packet.channels:
            self._listener.announce(packet.channels, before)
        return stamp

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """See Store.commit_chain; one transaction of the server's, a savepoint a packet."""
        self._require_open()
        refusal: ExuviaError | None = None
        before = self._listener.reads(
            {channel for packet in packets for channel in packet.channels}
        )
        try:
            stamps = self._committer.chained(packets, resolved)
        except ChainRefused as refused:
            stamps, refusal = refused.stamps, refused.refusal
        told = [name for packet in packets[: len(stamps)] for name in packet.channels]
        if told:
            self._listener.announce(told, before)
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
        """Each a transaction that does not wait for the disk, and one behind them that does."""
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
        """The channel's counter, as this process knows it."""
        self._require_open()
        return self._listener.counter(channel)

    def _counters(self, channels: Sequence[str]) -> list[int]:
        """Counters of channels, in one look."""
        names = [k.meta("channel", channel) for channel in channels]
        found = self._now(names)
        return [k.read_number(raw and raw[STAMP_BYTES:]) for raw in map(found.get, names)]

    def _now(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Raw values as they stand now."""
        (result,) = self._asked(_NOW, byteas(keys))
        return dict(pairs_of(result))

    def _asked(self, statement: Query, *values: bytes) -> list[PGresult]:
        """One read outside of any snapshot; tried again on a new connection where the old one was
        lost."""
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
        """Whether a living process has the presence; another's end is seen HELD_S late. Where
        connections have just been lost, others' may have been too, and are being made again: then
        nobody is said to have ended."""
        self._require_open()
        now = time.monotonic()
        if now - max(pool.lost_s for pool in self._pools()) < RESTORED_S:
            return True
        if now - self._held_at.get(name, -HELD_S) < HELD_S:
            return True
        held = is_held(self._questions, self._server, name)
        if held:
            self._held_at[name] = now
        else:
            self._held_at.pop(name, None)
        return held

    def _pools(self) -> tuple[PgPool, ...]:
        return *set(self._pool_of.values()), self._lockers, self._questions, self._commits

    def lock_server(self) -> AdvisoryLocks | None:
        """None where the server's advisory locks cannot be relied on."""
        return self._advisory

    def lock_table(self) -> LockTable:
        """Of this process."""
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
        """About how many keys: exact up to EXACT_KEYS, beyond by the server's statistics, if these
        are of any use."""
        (found,) = self._asked(_COUNT, span.start, span.end, int8(EXACT_KEYS + 1))
        some = read_int8(found.get_value(0, 0))
        if some <= EXACT_KEYS:
            return some
        bounds, rows = self._bounds()
        inside = sum(1 for bound in bounds if span.start <= bound < span.end)
        return max(some, inside * rows // max(1, len(bounds) - 1))

    def _bounds(self) -> tuple[list[bytes], int]:
        """Keys with about as many rows between each two, and how many rows there are."""
        (found,) = self._asked(_BOUNDS)
        keys = [found.get_value(n, 0) or b"" for n in range(found.ntuples)]
        return keys, read_int8(found.get_value(0, 1)) if keys else 0

    def split(self, span: Span, parts: int) -> list[Span]:
        """Adjoining spans of about equal size."""
        if parts <= 1:
            return [span] if span.start < span.end else []
        size = max(1, -(-self.count(span) // parts))
        (found,) = self._asked(_CUTS, span.start, span.end, int8(size))
        cuts = [found.get_value(n, 0) or b"" for n in range(found.ntuples)]
        bounds = [span.start, *cuts[: parts - 1], span.end]
        return [Span(a, b) for a, b in pairwise(bounds) if a < b]

    # -- the end ---------------------------------------------------------------------------------

    def measures(self) -> dict[str, float]:
        (found,) = self._asked(_MEASURES)
        values = [read_int8(found.get_value(0, n)) for n in range(len(MEASURES))]
        return dict(zip(MEASURES, map(float, values), strict=True))

    def promises(self) -> dict[str, str]:
        """The server's settings that say what an acknowledged commit survives."""
        return self._server.promises()

    def upkeep(self) -> TableUpkeep:
        """How the server keeps the table of all rows."""
        return self._server.upkeep()

    def close(self) -> None:
        """End all snapshots, leave. Twice is harmless."""
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
        for pool in self._pools():
            pool.close_idle(CLOSED)
        self._keeper.join()
        _stores.discard(self)

    def orphan(self) -> None:
        """In a forked child: nothing of the parent's may be used, or given back."""
        self._forked = True
        self._closed.set()
        for view in list(self._views):
            view.orphan()


_stores: "weakref.WeakSet[PostgresStore]" = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store.orphan()


os.register_at_fork(after_in_child=_after_fork)
