"""mysql.stats_meta: for every table how many rows it has, and how many changed since its analysis.

    version     drawn in the writing transaction, above every version before it

TiDB stamps a row with the *start* of the writing transaction: one that begins first and commits
last is never seen by a reader who asks for `version > last`. Here all writers draw from one key, so
two of them conflict and the later one draws anew: versions come into the world in the order of
their commits, and "all up to v" is exact in every snapshot. Writers are few: a flush per node every
three seconds, analyses, and the notifier.

The rows have no primary key (seed 004, FACTS of TiDB); their hidden handle is the table's id.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from exuvia.catalog import reader, writer
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.system_tables import planned
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction
from exuvia.stats import locked

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
    """The id a table's statistics stand under: where its rows lie, its own if it has partitions."""
    return table.info.id if table.is_partitioned else table.physical_id


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

    What was done to a table whose statistics are locked waits there (stats/locked.py)."""
    version = draw_version(txn)
    for table_id, delta in deltas.items():
        if locked.add(txn, table_id, delta.rows, delta.modified, version):
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
