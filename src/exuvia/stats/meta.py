"""Row counts of tables, and the rows changed since their analysis: mysql.stats_meta.

    statement        records the rows it wrote            in its transaction's TransactionDeltas,
                                                          undone with it
    COMMIT           Deltas.merge                         in memory of the front
    every 3 s        one transaction a thousand tables    added to mysql.stats_meta
    shutdown         the remaining deltas

    LOCK STATS t     a row in mysql.stats_table_locked    analyses skip the table
    writes           added to that row                    mysql.stats_meta does not change
    UNLOCK STATS t   added to mysql.stats_meta            and the row is removed

A killed front loses the counts of at most three seconds, which it had not flushed. Only the
accuracy of statistics depends on them.

A row's version is assigned in the writing transaction, above every earlier version. TiDB uses the
*start* of that transaction: one that begins first and commits last is missed by a reader of
`version > last`. Here all writers assign from one key, so of two writers the later one conflicts
and tries again. Versions therefore have the order of commits, and "all up to v" is exact in every
snapshot. Writers are few: a flush per node every three seconds, analyses, and the notifier.

Rows of mysql.stats_meta have no primary key (seed 004); their hidden handle is the table's id.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from exuvia.catalog import reader, writer
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.system_tables import planned
from exuvia.catalog.table import Table
from exuvia.cluster.member import Member
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

# -- locked statistics -----------------------------------------------------------------------------

LOCKS = "stats_table_locked"


class Locked(NamedTuple):
    """A physical table with locked statistics; `modified` and `rows` are added at UNLOCK STATS."""

    table_id: int
    modified: int = 0
    rows: int = 0
    version: int = 0


def get_lock(txn: Transaction, table_id: int) -> Locked | None:
    """The lock of a physical table."""
    row = reader.get(txn, planned(txn, LOCKS), keys.i64(table_id))
    return None if row is None else Locked._make(row)


def locked_ids(txn: Transaction) -> frozenset[int]:
    """The ids of all locked tables."""
    return frozenset(row[0] for _, row in reader.scan(txn, planned(txn, LOCKS)))


def lock(txn: Transaction, table_ids: Iterable[int]) -> None:
    """Lock tables that are not locked yet."""
    for table_id in table_ids:
        if get_lock(txn, table_id) is None:
            writer.insert(txn, planned(txn, LOCKS), list(Locked(table_id)))


def add_to_lock(txn: Transaction, table_id: int, rows: int, modified: int, version: int) -> bool:
    """Add written rows to the lock of a table; False if it is not locked."""
    locked = get_lock(txn, table_id)
    if locked is None:
        return False
    later = Locked(table_id, locked.modified + modified, locked.rows + rows, version)
    writer.update(txn, planned(txn, LOCKS), keys.i64(table_id), list(locked), list(later))
    return True


def unlock(txn: Transaction, table_id: int) -> Locked | None:
    """Remove and return the lock, or return None."""
    locked = get_lock(txn, table_id)
    if locked is not None:
        writer.delete(txn, planned(txn, LOCKS), keys.i64(table_id), list(locked))
    return locked


# -- rows ------------------------------------------------------------------------------------------

TABLE = "stats_meta"
CHANNEL = "stats"
VERSION_INDEX = "idx_ver"
_VERSION_KEY = keys.meta("statsversion")


class Meta(NamedTuple):
    """A row of mysql.stats_meta; `modified` and `rows` are modify_count and count.

    `analyzed_count` None: never analyzed; `analyzed_at` in seconds since 1970."""

    version: int
    table_id: int
    modified: int = 0
    rows: int = 0
    snapshot: int = 0
    histograms_version: int | None = None
    analyzed_count: int | None = None
    analyzed_at: int | None = None
    analyzed_indexes: str = ""

    @property
    def index_ids(self) -> frozenset[int]:
        """The indexes that have statistics."""
        return frozenset(int(part) for part in self.analyzed_indexes.split(",") if part)


class Delta(NamedTuple):
    """Rows that sessions wrote to a table: the change of the row count, and the number of
    writes."""

    rows: int
    modified: int


def whole_id(table: Table) -> int:
    """The id of the statistics of the whole table, or of the partition that `table` represents."""
    return table.info.statistics_id if table.is_partitioned else table.physical_id


def never_analyzed(meta: Meta, version: int) -> Meta:
    """The row after its statistics were dropped."""
    return Meta(version, meta.table_id, meta.modified, meta.rows, meta.snapshot)


def draw_version(txn: Transaction) -> int:
    """Assign the version of the rows that this transaction writes here."""
    txn_version = max(keys.read_number(txn.get(_VERSION_KEY)), txn.sequence) + 1
    txn.put(_VERSION_KEY, keys.number(txn_version))
    return txn_version


def get(txn: Transaction, table_id: int) -> Meta | None:
    """The row of a physical table."""
    row = reader.get(txn, planned(txn, TABLE), keys.i64(table_id))
    return None if row is None else _meta(row)


def put(txn: Transaction, meta: Meta) -> None:
    """Insert or replace the row; its version must have been assigned by `txn`."""
    table, handle = planned(txn, TABLE), keys.i64(meta.table_id)
    old = reader.get(txn, table, handle)
    if old is None:
        writer.insert(txn, table, _row(meta), handle)
    else:
        writer.update(txn, table, handle, old, _row(meta))


def delete(txn: Transaction, table_id: int) -> None:
    """Remove the row, if it exists."""
    table, handle = planned(txn, TABLE), keys.i64(table_id)
    old = reader.get(txn, table, handle)
    if old is not None:
        writer.delete(txn, table, handle, old)


def add(txn: Transaction, deltas: Mapping[int, Delta]) -> int:
    """Add written rows, by physical table id; returns the assigned version.

    Rows of a table with locked statistics are added to its lock."""
    version = draw_version(txn)
    for table_id, delta in deltas.items():
        if add_to_lock(txn, table_id, delta.rows, delta.modified, version):
            continue
        old = get(txn, table_id) or Meta(version, table_id)
        changed = old._replace(
            version=version,
            rows=max(0, old.rows + delta.rows),
            modified=old.modified + delta.modified,
        )
        put(txn, changed)
    txn.notify(CHANNEL)
    return version


def changed(
    txn: Transaction, after: int, upto: int | None = None, limit: int | None = None
) -> Iterator[Meta]:
    """Rows with after < version <= upto, in order of versions, read by the index.

    At most `limit`, but complete versions: a reader continues after the last version."""
    table = planned(txn, TABLE)
    for _, handle in _entries(txn, table, after, upto, limit):
        row = reader.get(txn, table, handle)
        if row is not None:
            yield _meta(row)


def changed_ids(txn: Transaction, after: int, upto: int, limit: int) -> list[tuple[int, int]]:
    """(version, table id) of such rows, from the index only."""
    entries = _entries(txn, planned(txn, TABLE), after, upto, limit)
    return [(version, keys.read_i64(handle)) for version, handle in entries]


def _entries(
    txn: Transaction, table: Table, after: int, upto: int | None, limit: int | None
) -> Iterator[tuple[int, bytes]]:
    """(version, handle) of the version index."""
    index = table.info.index(VERSION_INDEX)
    assert index is not None
    form = table.form(index)
    begin = form.prefix + form.keys.encode([after + 1])
    end = (
        table.index_span(index).end if upto is None else form.prefix + form.keys.encode([upto + 1])
    )
    last = after
    for n, (values, handle) in enumerate(reader.scan_index(txn, table, index, Span(begin, end))):
        version = values[0] if values is not None else 0
        if limit is not None and n >= limit and version != last:
            return
        last = version
        yield version, handle


def _meta(row: Row) -> Meta:
    return Meta._make([*row[:8], row[8] or ""])


def _row(meta: Meta) -> Row:
    return [*meta[:8], meta.analyzed_indexes or None]


def table_of(txn: Transaction) -> Table:
    """The table, for reading all of it."""
    return planned(txn, TABLE)


# -- a front's own ---------------------------------------------------------------------------------

FLUSH_S = 3.0
BATCH = 1000


class TransactionDeltas:
    """The rows that one transaction wrote.

    Each entry has the transaction's mark after its statement, so a rollback of a statement or to a
    savepoint removes its entries."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, int]] = []

    def add(self, mark: int, table_id: int, rows: int, modified: int) -> None:
        """A statement wrote to a physical table. `mark`: of the transaction, after it."""
        self._entries.append((mark, table_id, rows, modified))

    def back_to(self, mark: int) -> None:
        """Remove entries after the mark."""
        entries = self._entries
        while entries and entries[-1][0] > mark:
            entries.pop()

    def sums(self) -> dict[int, Delta]:
        """The sum of each physical table, by id."""
        by_table: dict[int, Delta] = {}
        for _, table_id, rows, modified in self._entries:
            delta = Delta(rows, modified)
            sum_so_far = by_table.get(table_id)
            by_table[table_id] = delta if sum_so_far is None else _sum(sum_so_far, delta)
        return by_table


class Deltas:
    """The front's unflushed deltas. Thread-safe."""

    channel = ""

    def __init__(self, store: Store, member: Member) -> None:
        self._store = store
        self._member = member
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pending: dict[int, Delta] = {}

    def merge(self, ledger: Mapping[int, Delta]) -> None:
        """Add the deltas of a committed transaction, by physical table id."""
        if not ledger:
            return
        with self._lock:
            for table_id, delta in ledger.items():
                pending = self._pending.get(table_id)
                self._pending[table_id] = delta if pending is None else _sum(pending, delta)

    def step(self, now: float) -> float:
        """Write a batch; returns the seconds until the next."""
        with self._writing:
            return self._step()

    def _step(self) -> float:
        batch = self._take()
        if not batch:
            return FLUSH_S

        def flush(txn: Transaction) -> None:
            self._member.guard(txn)
            add(txn, batch)

        try:
            self._store.transact(flush)
        except BaseException:
            self.merge(batch)
            raise
        return 0.0 if len(batch) == BATCH else FLUSH_S

    def flush(self, batches: int = 100) -> None:
        """Write every delta, and wait for a batch of another thread: for the shutdown of the
        front."""
        for _ in range(batches):
            with self._writing, self._lock:
                if not self._pending:
                    return
            self.step(0.0)

    def _take(self) -> dict[int, Delta]:
        with self._lock:
            batch = dict(islice(self._pending.items(), BATCH))
            for table_id in batch:
                del self._pending[table_id]
        return batch


def _sum(one: Delta, other: Delta) -> Delta:
    return Delta(one.rows + other.rows, one.modified + other.modified)
