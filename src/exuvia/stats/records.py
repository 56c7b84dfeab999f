"""mysql.stats_histograms, stats_buckets and stats_top_n: what an analysis found, at rest.

    (table_id, is_index, hist_id)    one column (0) or index (1) of a physical table, or of a
                                     partitioned table as a whole
    version                          of stats_meta, when it was written: who keeps a copy compares

Their rows have hidden handles, counted: a version times what a transaction may write is too large a
number where the store has come to another server (REPLACED of kv/postgres/server.py).
`cm_sketch` holds what merges partitions: some of the hashes of different values
(pipeline/kernels/summary.py).

Values of columns and indexes as mysql.stats_buckets and stats_top_n hold them.

    column    MySQL's text of the value; bytes as they are
    index     a JSON array of its parts' texts; bytes as hexadecimal digits; NULL as null

They are text so that people can read them, and so that a change of encoding changes nothing at
rest. Texts longer than LONGEST characters are cut: bounds need no more.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

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
    """Of one column or index; values as stats/records.py has them."""

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
    """Handles for the rows one transaction writes; `keep` says how many were taken."""

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
    """Above all handles of before the counter: a version, and 20 bits for a number in it."""
    return min(version << 20, 1 << 62)


def write(txn: Transaction, found: Iterable[Statistics], version: int) -> None:
    """Put statistics, in place of what stands there. `version`: drawn by `txn`."""
    txn.put(_LAST, keys.number(version))
    handles = Handles(txn, version)
    histograms, buckets, top_n = (planned(txn, name) for name in (HISTOGRAMS, BUCKETS, TOP_N))
    for each in found:
        place = each.table_id, int(each.is_index), each.hist_id
        remove(txn, *place)
        analyzed = _STATS_VERSION if each.is_analyzed else 0
        row: Row = [*place, each.distinct, each.nulls, each.size, 0, version, each.sketch or None]
        row += [analyzed, int(each.is_analyzed), each.correlation, None]
        steps: list[tuple[Row, bytes]] = [
            (
                [*place, number, of.rows, of.repeats, of.upper, of.lower, of.distinct],
                handles.take(),
            )
            for number, of in enumerate(each.buckets)
        ]
        common: list[tuple[Row, bytes]] = [
            ([*place, value, count], handles.take()) for value, count in each.top
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
    """The version of what was written last, of any table; 0 before the first."""
    return keys.read_number(txn.get(_LAST))


def remove(txn: Transaction, table_id: int, *place: int) -> None:
    """Remove the statistics of a table, of its columns or indexes (is_index), or of one."""
    for name in (HISTOGRAMS, BUCKETS, TOP_N):
        table = planned(txn, name)
        for handle, row in list(_rows(txn, name, (table_id, *place))):
            writer.delete(txn, table, handle, row)


def read(txn: Transaction, table_id: int, *place: int) -> list[Statistics]:
    """Likewise, whole; in the order of (is_index, hist_id)."""
    buckets: dict[tuple[int, int], list[StoredBucket]] = {}
    top: dict[tuple[int, int], list[tuple[bytes, int]]] = {}
    for _, row in _rows(txn, BUCKETS, (table_id, *place)):
        bucket = StoredBucket(row[4], row[5], row[7] or b"", row[6], row[8])
        buckets.setdefault((row[1], row[2]), []).append(bucket)
    for _, row in _rows(txn, TOP_N, (table_id, *place)):
        top.setdefault((row[1], row[2]), []).append((row[3] or b"", row[4]))
    return [
        each._replace(
            buckets=tuple(buckets.get((int(each.is_index), each.hist_id), ())),
            top=tuple(top.get((int(each.is_index), each.hist_id), ())),
        )
        for each in heads(txn, table_id, *place)
    ]


def heads(txn: Transaction, table_id: int, *place: int) -> list[Statistics]:
    """Without buckets and common values."""
    return [
        Statistics(
            row[0], bool(row[1]), row[2], row[3], row[4], row[5], row[7], row[11], row[8] or b"",
            is_analyzed=bool(row[9]),
        )
        for _, row in _rows(txn, HISTOGRAMS, (table_id, *place))
    ]  # fmt: skip


def _rows(txn: Transaction, name: str, place: tuple[int, ...]) -> Iterator[tuple[bytes, Row]]:
    """Rows of these tables by their index."""
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
    """One value of a column, not NULL."""
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
    """The values of an index's parts."""
    return msgspec.json.encode([_text(v, f) for v, f in zip(row, fields, strict=True)])


def _text(value: Value, field: FieldType) -> str | None:
    if value is None:
        return None
    raw = dump(value, field)
    is_bytes = field.family == Family.BYTES or field.Tp == TypeCode.BIT
    return raw.hex() if is_bytes else raw.decode("utf-8", "replace")


def load_many(raw: bytes, fields: Sequence[FieldType]) -> list[Value]:
    """Inverse of `dump_many`."""
    texts = msgspec.json.decode(raw, type=list[str | None])
    return [_value(text, field) for text, field in zip(texts, fields, strict=True)]


def _value(text: str | None, field: FieldType) -> Value:
    if text is None:
        return None
    is_bytes = field.family == Family.BYTES or field.Tp == TypeCode.BIT
    return load(bytes.fromhex(text) if is_bytes else text.encode(), field)


def shown(raw: bytes, is_index: bool) -> str:
    """As SHOW STATS_BUCKETS prints it: an index of several parts in parentheses."""
    if not is_index:
        return raw.decode("utf-8", "backslashreplace")
    texts = msgspec.json.decode(raw, type=list[str | None])
    shown_texts = ["NULL" if text is None else text for text in texts]
    return shown_texts[0] if len(texts) == 1 else f"({', '.join(shown_texts)})"
