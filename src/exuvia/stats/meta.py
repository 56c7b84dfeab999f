"""How many rows tables have and how many changed since their analysis: mysql.stats_meta.

    statement        notes the rows it wrote              in its transaction's TransactionDeltas,
                                                          undone with it
    COMMIT           Deltas.merge                         in memory of the front
    every 3 s        one transaction a thousand tables    added to mysql.stats_meta
    shutdown         the rest

    LOCK STATS t     a row in mysql.stats_table_locked    analyses leave the table alone
    writes           added to that row                    mysql.stats_meta stays as it is
    UNLOCK STATS t   given back to mysql.stats_meta       and the row goes

A front that is killed loses what it had not flushed: at most three seconds of counts. Nothing but
the accuracy of statistics depends on them.

A row's version is drawn in the writing transaction, above every version before it. TiDB stamps a
row with the *start* of that transaction: one that begins first and commits last is never seen by a
reader who asks for `version > last`. Here all writers draw from one key, so two of them conflict
and the later one draws anew: versions come into the world in the order of their commits, and "all
up to v" is exact in every snapshot. Writers are few: a flush per node every three seconds,
analyses, and the notifier.

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
    """A locked (physical) table; `modified` and `rows` wait for UNLOCK STATS."""

    table_id: int
    modified: int = 0
    rows: int = 0
    version: int = 0


def get_lock(txn: Transaction, table_id: int) -> Locked | None:
    """The lock of a (physical) table."""
    row = reader.get(txn, planned(txn, LOCKS), keys.i64(table_id))
    return None if row is None else Locked._make(row)


def locked_ids(txn: Transaction) -> frozenset[int]:
    """Ids of everything that is locked."""
    return frozenset(row[0] for _, row in reader.scan(txn, planned(txn, LOCKS)))


def lock(txn: Transaction, table_ids: Iterable[int]) -> None:
    """Lock what is not locked yet."""
    for table_id in table_ids:
        if get_lock(txn, table_id) is None:
            writer.insert(txn, planned(txn, LOCKS), list(Locked(table_id)))


def add_to_lock(txn: Transaction, table_id: int, rows: int, modified: int, version: int) -> bool:
    """Keep what sessions did to a locked table; False where it is not locked."""
    known = get_lock(txn, table_id)
    if known is None:
        return False
    later = Locked(table_id, known.modified + modified, known.rows + rows, version)
    writer.update(txn, planned(txn, LOCKS), keys.i64(table_id), list(known), list(later))
    return True


def unlock(txn: Transaction, table_id: int) -> Locked | None:
    """Take the lock away; what waited in it, None where there was none."""
    known = get_lock(txn, table_id)
    if known is not None:
        writer.delete(txn, planned(txn, LOCKS), keys.i64(table_id), list(known))
    return known


# -- rows ------------------------------------------------------------------------------------------

TABLE = "stats_meta"
CHANNEL = "stats"
VERSION_INDEX = "idx_ver"
_VERSION_KEY = keys.meta("statsversion")


class Meta(NamedTuple):
    """One row; `modified` and `rows` are modify_count and count.

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
    """What sessions did to a table: rows more or less, and how many were touched."""

    rows: int
    modified: int


def whole_id(table: Table) -> int:
    """The id of the statistics of the whole table, or of the partition that `table` represents."""
    return table.info.statistics_id if table.is_partitioned else table.physical_id


def never_analyzed(known: Meta, version: int) -> Meta:
    """The row after its statistics were dropped."""
    return Meta(version, known.table_id, known.modified, known.rows, known.snapshot)


def draw_version(txn: Transaction) -> int:
    """The version of what this transaction writes here."""
    txn_version = max(keys.read_number(txn.get(_VERSION_KEY)), txn.sequence) + 1
    txn.put(_VERSION_KEY, keys.number(txn_version))
    return txn_version


def get(txn: Transaction, table_id: int) -> Meta | None:
    """The row of a (physical) table."""
    row = reader.get(txn, planned(txn, TABLE), keys.i64(table_id))
    return None if row is None else _meta(row)


def put(txn: Transaction, meta: Meta) -> None:
    """Write the row, over what stands there; its version must have been drawn by `txn`."""
    table, handle = planned(txn, TABLE), keys.i64(meta.table_id)
    old = reader.get(txn, table, handle)
    if old is None:
        writer.insert(txn, table, _row(meta), handle)
    else:
        writer.update(txn, table, handle, old, _row(meta))


def delete(txn: Transaction, table_id: int) -> None:
    """Remove the row, if there is one."""
    table, handle = planned(txn, TABLE), keys.i64(table_id)
    old = reader.get(txn, table, handle)
    if old is not None:
        writer.delete(txn, table, handle, old)


def add(txn: Transaction, deltas: Mapping[int, Delta]) -> int:
    """Add what sessions did, by (physical) table id; the version that it got.

    What was done to a table whose statistics are locked waits there (stats/meta.py)."""
    version = draw_version(txn)
    for table_id, delta in deltas.items():
        if add_to_lock(txn, table_id, delta.rows, delta.modified, version):
            continue
        known = get(txn, table_id) or Meta(version, table_id)
        changed = known._replace(
            version=version,
            rows=max(0, known.rows + delta.rows),
            modified=known.modified + delta.modified,
        )
        put(txn, changed)
    txn.notify(CHANNEL)
    return version


def changed(
    txn: Transaction, after: int, upto: int | None = None, limit: int | None = None
) -> Iterator[Meta]:
    """Rows with after < version <= upto, in the order of versions: by the index, never a scan.

    At most `limit`, but all of a version: who has read them goes on behind the last one's."""
    table = planned(txn, TABLE)
    for _, handle in _entries(txn, table, after, upto, limit):
        row = reader.get(txn, table, handle)
        if row is not None:
            yield _meta(row)


def changed_ids(txn: Transaction, after: int, upto: int, limit: int) -> list[tuple[int, int]]:
    """(version, table id) of such rows: the index alone."""
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
    """The table, for those who read it whole."""
    return planned(txn, TABLE)


# -- a front's own ---------------------------------------------------------------------------------

FLUSH_S = 3.0
BATCH = 1000


class TransactionDeltas:
    """What one transaction did so far; entries bear the transaction's mark they were made at, so
    that a savepoint, or the undoing of a statement, takes its entries with it."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, int]] = []

    def add(self, mark: int, table_id: int, rows: int, modified: int) -> None:
        """A statement wrote to a (physical) table. `mark`: of the transaction, after it."""
        self._entries.append((mark, table_id, rows, modified))

    def back_to(self, mark: int) -> None:
        """Forget what was done after the mark."""
        entries = self._entries
        while entries and entries[-1][0] > mark:
            entries.pop()

    def sums(self) -> dict[int, Delta]:
        """By (physical) table id."""
        found: dict[int, Delta] = {}
        for _, table_id, rows, modified in self._entries:
            delta = Delta(rows, modified)
            known = found.get(table_id)
            found[table_id] = delta if known is None else _sum(known, delta)
        return found


class Deltas:
    """The front's own. Thread-safe."""

    channel = ""

    def __init__(self, store: Store, member: Member) -> None:
        self._store = store
        self._member = member
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pending: dict[int, Delta] = {}

    def merge(self, ledger: Mapping[int, Delta]) -> None:
        """A transaction committed: what it did, by (physical) table id."""
        if not ledger:
            return
        with self._lock:
            for table_id, delta in ledger.items():
                known = self._pending.get(table_id)
                self._pending[table_id] = delta if known is None else _sum(known, delta)

    def step(self, now: float) -> float:
        """Write a batch; seconds until the next."""
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
        """Write all there is, and what another thread is writing: before the front ends."""
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
