"""Statistics in the store: mysql.stats_histograms, stats_buckets and stats_top_n.

    (table_id, is_index, hist_id)    one column (0) or index (1) of a physical table, or of a
                                     partitioned table as a whole
    version                          of stats_meta at the write; readers with a copy compare it

Their rows have counted hidden handles. A handle made of a version would become too large in a store
that moved to another server (REPLACED of kv/postgres/server.py). `cm_sketch` has the hashes from
which partitions are merged: some hashes of different values (pipeline/kernels/summary.py).

Encoding of values in mysql.stats_buckets and stats_top_n:

    column    MySQL's text of the value; bytes unchanged
    index     a JSON array of its parts' texts; bytes as hexadecimal digits; NULL as null

Text is readable, and independent of the encoding of rows. Texts are cut to LONGEST characters,
which suffices for bounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from exuvia.base.decoding import from_json
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog import reader, writer
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.convert import values
from exuvia.catalog.system_tables import planned
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

HISTOGRAMS, BUCKETS, TOP_N = "stats_histograms", "stats_buckets", "stats_top_n"
_STATS_VERSION = 2
_LAST = keys.meta("freshstats")
_LAST_HANDLE = keys.meta("freshstats", "handle")


class StoredBucket(NamedTuple):
    """`rows` rows from `lower` to `upper`, `repeats` of which are the upper value."""

    rows: int
    repeats: int
    lower: bytes
    upper: bytes
    distinct: int = 0


class Statistics(NamedTuple):
    """The statistics of one column or index; values in the encoding of this module."""

    table_id: int
    is_index: bool
    hist_id: int
    distinct: int
    nulls: int = 0
    size: int = 0
    version: int = 0
    correlation: float = 0.0
    sketch: bytes = b""
    is_analyzed: bool = True
    top: tuple[tuple[bytes, int], ...] = ()
    buckets: tuple[StoredBucket, ...] = ()


class Handles:
    """Assigns handles to the rows of one transaction; `keep` stores the last handle."""

    def __init__(self, txn: Transaction, version: int) -> None:
        self._txn = txn
        last = txn.get(_LAST_HANDLE)
        self._last = _after_versions(version) if last is None else keys.read_number(last)

    def take(self) -> bytes:
        self._last += 1
        return keys.i64(self._last)

    def keep(self) -> None:
        self._txn.put(_LAST_HANDLE, keys.number(self._last))


def _after_versions(version: int) -> int:
    """A handle above all those of programs that used the version and a 20-bit number."""
    return min(version << 20, 1 << 62)


def write(txn: Transaction, statistics: Iterable[Statistics], version: int) -> None:
    """Insert or replace statistics. `version`: assigned by `txn`."""
    txn.put(_LAST, keys.number(version))
    handles = Handles(txn, version)
    histograms, buckets, top_n = (planned(txn, name) for name in (HISTOGRAMS, BUCKETS, TOP_N))
    for stats in statistics:
        place = stats.table_id, int(stats.is_index), stats.hist_id
        remove(txn, *place)
        analyzed = _STATS_VERSION if stats.is_analyzed else 0
        row: Row = [
            *place,
            stats.distinct,
            stats.nulls,
            stats.size,
            0,
            version,
            stats.sketch or None,
        ]
        row += [analyzed, int(stats.is_analyzed), stats.correlation, None]
        steps: list[tuple[Row, bytes]] = [
            (
                [*place, number, of.rows, of.repeats, of.upper, of.lower, of.distinct],
                handles.take(),
            )
            for number, of in enumerate(stats.buckets)
        ]
        common: list[tuple[Row, bytes]] = [
            ([*place, value, count], handles.take()) for value, count in stats.top
        ]
        for table, rows in (
            (histograms, [(row, handles.take())]),
            (buckets, steps),
            (top_n, common),
        ):
            writer.announce(txn, table, rows)
            for line, handle in rows:
                writer.insert(txn, table, line, handle)
    handles.keep()


def last_version(txn: Transaction) -> int:
    """The version of the last write of any table; 0 before the first."""
    return keys.read_number(txn.get(_LAST))


def remove(txn: Transaction, table_id: int, *place: int) -> None:
    """Remove the statistics of a table, of its columns or indexes (is_index), or of one."""
    for name in (HISTOGRAMS, BUCKETS, TOP_N):
        table = planned(txn, name)
        for handle, row in list(_rows(txn, name, (table_id, *place))):
            writer.delete(txn, table, handle, row)


def read(txn: Transaction, table_id: int, *place: int) -> list[Statistics]:
    """The statistics of a table, of its columns or indexes, or of one, by (is_index, hist_id)."""
    buckets: dict[tuple[int, int], list[StoredBucket]] = {}
    top: dict[tuple[int, int], list[tuple[bytes, int]]] = {}
    for _, row in _rows(txn, BUCKETS, (table_id, *place)):
        bucket = StoredBucket(row[4], row[5], row[7] or b"", row[6], row[8])
        buckets.setdefault((row[1], row[2]), []).append(bucket)
    for _, row in _rows(txn, TOP_N, (table_id, *place)):
        top.setdefault((row[1], row[2]), []).append((row[3] or b"", row[4]))
    return [
        stats._replace(
            buckets=tuple(buckets.get((int(stats.is_index), stats.hist_id), ())),
            top=tuple(top.get((int(stats.is_index), stats.hist_id), ())),
        )
        for stats in heads(txn, table_id, *place)
    ]


def heads(txn: Transaction, table_id: int, *place: int) -> list[Statistics]:
    """The statistics of `read`, without buckets and common values."""
    return [
        Statistics(
            row[0], bool(row[1]), row[2], row[3], row[4], row[5], row[7], row[11], row[8] or b"",
            is_analyzed=bool(row[9]),
        )
        for _, row in _rows(txn, HISTOGRAMS, (table_id, *place))
    ]  # fmt: skip


def _rows(txn: Transaction, name: str, place: tuple[int, ...]) -> Iterator[tuple[bytes, Row]]:
    """Rows of one of the three tables, by its index."""
    table = planned(txn, name)
    index = table.info.index("tbl")
    assert index is not None
    form = table.form(index)
    prefix = form.prefix + form.keys.whole(place)
    for _, handle in reader.scan_index(txn, table, index, Span(prefix, keys.after(prefix))):
        row = reader.get(txn, table, handle)
        if row is not None:
            yield handle, row


# -- bounds ----------------------------------------------------------------------------------------

LONGEST = 256


def dump(value: Value, field: FieldType) -> bytes:
    """The text of a column's value, which is not NULL."""
    if isinstance(value, str | bytes):
        value = value[:LONGEST]
    return values.to_bytes(value, field)


def load(raw: bytes, field: FieldType) -> Value:
    """Inverse of `dump`."""
    if field.family == Family.BYTES:
        return raw
    if field.Tp == TypeCode.BIT:
        return int.from_bytes(raw, "big")
    text = raw.decode("utf-8", "replace")
    if field.family in (Family.STRING, Family.JSON):
        return text
    return values.from_text(text, field, values.LENIENT)


def dump_many(row: Sequence[Value], fields: Sequence[FieldType]) -> bytes:
    """The text of an index's parts."""
    return msgspec.json.encode([_text(v, f) for v, f in zip(row, fields, strict=True)])


def _text(value: Value, field: FieldType) -> str | None:
    if value is None:
        return None
    raw = dump(value, field)
    is_bytes = field.family == Family.BYTES or field.Tp == TypeCode.BIT
    return raw.hex() if is_bytes else raw.decode("utf-8", "replace")


def load_many(raw: bytes, fields: Sequence[FieldType]) -> list[Value]:
    """Inverse of `dump_many`."""
    texts = from_json(raw, list[str | None])
    return [_value(text, field) for text, field in zip(texts, fields, strict=True)]


def _value(text: str | None, field: FieldType) -> Value:
    if text is None:
        return None
    is_bytes = field.family == Family.BYTES or field.Tp == TypeCode.BIT
    return load(bytes.fromhex(text) if is_bytes else text.encode(), field)


def display_text(raw: bytes, is_index: bool) -> str:
    """The text in SHOW STATS_BUCKETS: several parts of an index in parentheses."""
    if not is_index:
        return raw.decode("utf-8", "backslashreplace")
    texts = from_json(raw, list[str | None])
    shown_texts = ["NULL" if text is None else text for text in texts]
    return shown_texts[0] if len(texts) == 1 else f"({', '.join(shown_texts)})"
