"""The Store on LMDB, made of the other modules. See kv/store.py for the methods."""

import logging
import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from functools import partial

import lmdb

from exuvia.base.clock import Clock
from exuvia.base.errors import Unavailable
from exuvia.kv import keys as k
from exuvia.kv.lmdb.caretaker import Caretaker, CaretakerThread
from exuvia.kv.lmdb.committer import (
    TOUCHED,
    GroupCommitter,
    apply_arranged,
    apply_bulk,
    apply_bulks,
    apply_chain,
    apply_packet,
    is_small,
    read_sequence,
    recover,
    touch,
    uncollected,
)
from exuvia.kv.lmdb.environment import Environment, LmdbSettings
from exuvia.kv.lmdb.native import Reading, translate
from exuvia.kv.lmdb.pages import count, split
from exuvia.kv.lmdb.process import FilePresence, Presences
from exuvia.kv.lmdb.shared_locks import Inbox, RecordGuard, mapped
from exuvia.kv.lmdb.snapshot import LmdbSnapshot, require_same_process
from exuvia.kv.lmdb.wake import Wake
from exuvia.kv.lock_table import LockTable
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
from exuvia.kv.transaction import TransactionalStore
from exuvia.kv.validate import Arranged, arrange

CLOSED = "the store is closed"
FRESH_ATTEMPTS = 10
GIVES_WAY_S = 0.001
"""A chain of bulks continues for this time while others wait: its sync takes longer."""

log = logging.getLogger(__name__)


class LmdbStore(TransactionalStore):
    """One per process and folder. Thread-safe.

    `environment`, `caretaker` and `committer` are for administration and tests."""

    def __init__(
        self, path: str, settings: LmdbSettings, clock: Clock, embedded: bool = False
    ) -> None:
        self.environment = Environment(path, settings, clock, embedded)
        self.environment.before_closing = self._end_views
        self.caretaker = Caretaker(self.environment)
        self.committer = GroupCommitter(self.environment)
        self._presences = Presences(self.environment.file("presence"))
        self._wake = Wake(self.environment.file("wake"), self._counters, clock, settings.fallback_s)
        if self.environment.alone:
            self._wake.sweep()
        self.caretaker_thread = CaretakerThread(self.caretaker.step, clock)
        self._closed = self._forked = False
        self._opening = threading.Lock()
        self._table: LockTable | None = None
        self._guard: RecordGuard | None = None
        self._inbox: Inbox | None = None
        _stores.add(self)

    # -- reading ---------------------------------------------------------------------------------

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> LmdbSnapshot:
        """A view of all commits. The caretaker ends it if it is forgotten."""
        self._require_open()
        if use in OF_CLIENTS:
            self.caretaker.require_room()
        environment = self.environment
        file = environment.pages
        transaction, sequence = self._fresh()
        pages = (file, file.metas()) if file is not None and file is environment.pages else None
        path = environment.data_path
        view = LmdbSnapshot(transaction, sequence, self.caretaker.forget, path, pages)
        self.caretaker.watch(view, use)
        if self._closed:  # closed meanwhile, perhaps without seeing this snapshot
            view.end(CLOSED)
            raise Unavailable(CLOSED)
        return view

    def _fresh(self) -> tuple[Reading, int]:
        """A read transaction and the sequence it sees.

        A killed writer may have left a commit that only the next writer makes visible. It is made
        visible here: otherwise a reader could see the former state now and the commit later.

        Just after a writer was killed, engine 1.0 may show a new reader a root that is being
        overwritten. (Measured: up to 5 in 340 kills, never twice in a row; not with engine 0.9.)
        The first read detects that, and a new transaction is correct."""
        if self.environment.gate.abandoned:
            self.committer.run(recover)
        for attempt in range(1, FRESH_ATTEMPTS + 1):
            transaction = self.environment.read()
            try:
                return transaction, read_sequence(transaction)
            except lmdb.Error as error:
                transaction.abort()
                failure = error
                self._require_open()
                if not isinstance(error, lmdb.CorruptedError):
                    raise translate(error, self.environment.data_path) from error
                log.warning("a fresh snapshot was not readable", extra={"attempt": attempt})
        raise translate(failure, self.environment.data_path)

    def _require_open(self) -> None:
        if self._closed:
            require_same_process(self._forked)
            raise Unavailable(CLOSED)

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        """Change how long snapshots live, unused and in total."""
        self.caretaker.idle_s, self.caretaker.query_s = idle_s, query_s

    # -- writing ---------------------------------------------------------------------------------

    def commit(self, packet: Packet) -> int:
        """Validate and apply; returns once the commit is on disk."""
        self._require_open()
        moved = self.environment.gate.progress
        sequence: int
        if is_small(packet):
            work = partial(apply_packet, packet=packet, moved=moved)
            sequence = self.committer.run(work, size=len(packet.writes))
        else:
            with uncollected(len(packet.writes)):
                arranged = arrange(packet)
                self._touch(arranged)
            work = partial(apply_arranged, arranged=arranged, moved=moved)
            sequence = self.committer.run(work, size=arranged.size)
        if packet.channels:
            self._wake.announce(packet.channels)
        return sequence

    def _touch(self, arranged: Arranged) -> None:
        if arranged.size < TOUCHED:
            return
        try:
            transaction = self.environment.read()
        except Unavailable:
            return  # no snapshot is available: it commits without
        try:
            touch(transaction, arranged)
        except lmdb.Error as error:
            raise translate(error, self.environment.data_path) from error
        finally:
            transaction.abort()

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """See Store.commit_chain; the packets share a transaction with other queued commits."""
        self._require_open()
        sequences, refusal = self.committer.run(
            partial(apply_chain, packets=packets, moved=self.environment.gate.progress),
            size=sum(len(packet.writes) for packet in packets),
        )
        channels = {name for packet in packets[: len(sequences)] for name in packet.channels}
        if channels:
            self._wake.announce(sorted(channels))
        if refusal is not None:
            raise refusal
        return list(sequences)

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
        self.environment.require_room()
        bulk = Bulk(keys, payloads, requirements, puts, report, overwrite)
        work = partial(apply_bulk, bulk=bulk, moved=self.environment.gate.progress)
        result: BulkResult = self.committer.run(work, alone=True)
        return result

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        self._require_open()
        self.environment.require_room()
        gate, written_s = self.environment.gate, 0.0

        def is_enough() -> bool:
            nonlocal written_s
            written_s = gate.lasts_s
            is_needed = written_s >= GIVES_WAY_S and (self.committer.waiting > 0 or gate.has_waiter)
            return is_needed or written_s >= most_s

        work = partial(apply_bulks, bulks=batches, moved=gate.progress, is_enough=is_enough)
        with gate.with_bulks():
            results: list[BulkResult] = self.committer.run(work, alone=True)
        return [*results[:-1], results[-1]._replace(written_s=written_s)]

    @property
    def write_holds(self) -> tuple[int, float, float]:
        """(number of this process's tenures of the write lock, their sum, the longest). Unit: s."""
        gate = self.environment.gate
        return gate.tenures, gate.held_s, gate.longest_s

    # -- waking and presence ---------------------------------------------------------------------

    def counter(self, channel: str) -> int:
        """The channel's counter now."""
        return self._counters([channel])[0]

    def _counters(self, channels: Sequence[str]) -> list[int]:
        """The counters of several channels, in one read."""
        self._require_open()
        transaction, _ = self._fresh()
        try:
            raws = [transaction.get(k.meta("channel", channel)) for channel in channels]
        except lmdb.Error as error:
            raise translate(error, self.environment.data_path) from error
        finally:
            transaction.abort()
        return [k.read_number(raw and raw[STAMP_BYTES:]) for raw in raws]

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Wait for the counter to pass `after`; woken by commits of any process."""
        self._require_open()
        return self._wake.wait(channel, after, timeout_s)

    def hold(self, name: str) -> FilePresence:
        self._require_open()
        return self._presences.hold(name)

    def held(self, name: str) -> bool:
        """Whether a living process has the presence."""
        self._require_open()
        return self._presences.held(name)

    def lock_table(self) -> LockTable:
        """See Store.lock_table; opened at the first call."""
        self._require_open()
        with self._opening:
            if self._table is None:
                file = self.environment.file
                table = mapped(file("rowlocks"))
                guard = RecordGuard(self.environment.locks, file("rowlocks.wake"))
                guard.sweep()
                inbox = Inbox(guard)
                self._table = LockTable(table, guard, self._payload, inbox.name.encode)
                inbox.listen(self._table.message)
                self._guard, self._inbox = guard, inbox
            return self._table

    def _payload(self, key: bytes) -> bytes | None:
        view = self.snapshot()
        try:
            raw = view.get(key)
        finally:
            view.close()
        return raw and raw[STAMP_BYTES:]

    # -- room ------------------------------------------------------------------------------------

    def free_bytes(self) -> int | None:
        """Free bytes on the disk of the folder."""
        return self.environment.free_bytes()

    @property
    def folder(self) -> str | None:
        """The folder of the data file."""
        return self.environment.path

    # -- spans -----------------------------------------------------------------------------------

    def count(self, span: Span) -> int:
        """The approximate number of keys; see kv/lmdb/pages.py for the precision."""
        view = self.snapshot()
        try:
            return count(view, span)
        finally:
            view.close()

    def split(self, span: Span, parts: int) -> list[Span]:
        """Adjacent spans of about equal size; see kv/lmdb/pages.py."""
        view = self.snapshot()
        try:
            return split(view, span, parts)
        finally:
            view.close()

    # -- closing ---------------------------------------------------------------------------------

    def measures(self) -> dict[str, float]:
        self._require_open()
        try:
            return self.caretaker.measures()
        except lmdb.Error as error:
            raise translate(error, self.environment.data_path) from error

    def close(self) -> None:
        """Finish the running commit, end all snapshots, leave. A second call is harmless."""
        if self._closed:
            return
        self.committer.close(CLOSED)
        self._closed = True
        self.caretaker_thread.close()
        self._wake.close(CLOSED)
        if self._table is not None and self._inbox is not None and self._guard is not None:
            self._table.close()
            self._inbox.close()
            self._guard.close(self._inbox.name)
        self._end_views(CLOSED)
        self._presences.close()
        self.environment.close()
        _stores.discard(self)

    def _end_views(self, why: str) -> None:
        for view in self.caretaker.views():
            view.end(why)

    def orphan(self) -> None:
        """In a forked child: nothing of the parent's may be used or released."""
        self._closed = self._forked = True
        for view in self.caretaker.views():
            view.orphan()
        self.environment.orphan()
        self._wake.orphan()


_stores: "weakref.WeakSet[LmdbStore]" = weakref.WeakSet()
_parents: list[LmdbStore] = []
"""Stores of the process that forked this one: they must not be closed here."""


def _after_fork() -> None:
    for store in list(_stores):
        store.orphan()
        _parents.append(store)
        _stores.discard(store)


os.register_at_fork(after_in_child=_after_fork)
