"""What Spark asks to be filtered, as ranges of keys: only the rows in them are read.

    a = 1, a <=> 1, a IN (1, 2)    points of a first part of a key
    a IS NULL                      likewise, of an index
    a > 1, >=, <, <=               a range of the part behind points
    NOT a                          false
    a <> 1, a LIKE 'x%', ...       no range

Spark compares texts as bytes, numbers and times as numbers; keys have the order of MySQL. Where the
two differ there is no range, and points may find more than was asked for:

    texts             points by any collation; ranges where it compares bytes (NO PAD)
    ENUM              points
    DATE, DATETIME    no IS NULL: Spark reads a zero date as NULL
    BOOLEAN           false alone: every other number is true
    DECIMAL           of a value of fewer than ROUNDED_DIGITS digits
    FLOAT, DOUBLE, TIME, YEAR, SET, BIT    nothing

So rows are never missed, and Spark looks at all that come once more. The key is the one whose
ranges hold the fewest rows, about; a row that an index leads to costs as much as ten that are read
in order.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from pyspark.sql import datasource as asked
from pyspark.sql.datasource import Filter

from exuvia.base.types import Family, FieldType, TypeCode, Value, pack_date, pack_datetime
from exuvia.catalog import decimals
from exuvia.catalog.codec import key_codec
from exuvia.catalog.collation import collation
from exuvia.catalog.model import ColumnInfo, IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.sql.access.choose import RANGE_SHARE, shown_indexes

MOST_POINTS = 10_000
COUNTED_SPANS = 256
SPARK_DIGITS = 38
ROUNDED_DIGITS = 28
"""PySpark converts a filter's DECIMAL in Python's default context, which rounds it to this many
digits. A filter on a longer value would miss rows."""

_RANGES: dict[type[Filter], str] = {
    asked.GreaterThan: ">",
    asked.GreaterThanOrEqual: ">=",
    asked.LessThan: "<",
    asked.LessThanOrEqual: "<=",
}


class Condition(NamedTuple):
    """`operator`: in, null, >, >=, < or <=; `column` in lower case."""

    column: str
    operator: str
    values: tuple[Any, ...]


def conditions_of(filters: Iterable[Filter]) -> list[Condition]:
    """Those of the filters that keys may serve; all of them hold for each row wanted."""
    found = []
    for each in filters:
        if isinstance(each, asked.Not) and isinstance(each.child, asked.EqualTo):
            if each.child.value is True and len(each.child.attribute) == 1:
                found.append(Condition(each.child.attribute[0].lower(), "in", (False,)))
            continue
        if len(getattr(each, "attribute", ())) != 1:
            continue
        column = each.attribute[0].lower()  # type: ignore[attr-defined]
        if type(each) in _RANGES:
            found.append(Condition(column, _RANGES[type(each)], (each.value,)))  # type: ignore[attr-defined]
        elif isinstance(each, asked.EqualNullSafe) and each.value is None:
            found.append(Condition(column, "null", ()))
        elif isinstance(each, asked.EqualTo | asked.EqualNullSafe):
            found.append(Condition(column, "in", (each.value,)))
        elif isinstance(each, asked.In):
            found.append(Condition(column, "in", tuple(each.value)))
        elif isinstance(each, asked.IsNull):
            found.append(Condition(column, "null", ()))
    return found


# -- values as keys hold them ----------------------------------------------------------------------


def _bound(value: Any, field: FieldType, of_range: bool) -> Value | None:
    """As the column holds it; None where keys and Spark may disagree about it."""
    if field.Tp == TypeCode.ENUM:
        words = list(field.Elems or ())
        return words.index(value) + 1 if not of_range and words.count(value) == 1 else None
    if field.Tp in (TypeCode.SET, TypeCode.YEAR, TypeCode.BIT):
        return None
    if isinstance(value, bool):
        return None if value or of_range else 0
    if field.family in (Family.INT, Family.UINT):
        return _whole(value, field.family == Family.UINT)
    if field.family == Family.DECIMAL and isinstance(value, int | Decimal):
        return _decimal(Decimal(value), field)
    if field.family == Family.STRING and isinstance(value, str):
        order = collation(field.Collate)
        return value if not of_range or (order.keeps_text and not order.pads) else None
    if field.family == Family.BYTES and isinstance(value, bytes | bytearray):
        return bytes(value)
    return _packed(value, field)


def _whole(value: Any, unsigned: bool) -> int | None:
    if not isinstance(value, int | Decimal) or value != int(value):
        return None
    least = 0 if unsigned else -(1 << 63)
    return int(value) if least <= value < least + (1 << 64) else None


def _decimal(value: Decimal, field: FieldType) -> Decimal | None:
    _, digits, exponent = value.as_tuple()
    if len(digits) >= ROUNDED_DIGITS:
        return None
    fits = isinstance(exponent, int) and -exponent <= decimals.scale_of(field)
    return value if fits and decimals.precision_of(field) <= SPARK_DIGITS else None


def _packed(value: Any, field: FieldType) -> int | None:
    if field.family == Family.DATE and type(value) is date:
        return pack_date(value.year, value.month, value.day)
    if field.family != Family.DATETIME or not isinstance(value, datetime):
        return None
    if (value.tzinfo is None) == (field.Tp == TypeCode.TIMESTAMP):
        return None
    at = value if value.tzinfo is None else value.astimezone(UTC)
    day = pack_date(at.year, at.month, at.day)
    return pack_datetime(day, at.hour, at.minute, at.second, at.microsecond)


# -- ranges ----------------------------------------------------------------------------------------

Values = tuple[Value, ...]


def spans_of(
    table: Table, index: IndexInfo, conditions: Sequence[Condition]
) -> tuple[Span, ...] | None:
    """The ranges of a key, of one (physical) table; None where it is no help."""
    positions = table.handle_positions if index.exuvia_clustered else table.form(index).positions
    rows: list[Values] = [()]
    sides: tuple[Values, Values, bool, bool] = (), (), True, True
    used = 0
    for position, part in zip(positions, index.idx_cols, strict=True):
        column = table.info.cols[position]
        about = [each for each in conditions if each.column == column.name.L]
        points = _points(column, about)
        if points is None:
            sides = _sides(column.type, about, part.length >= 0)
            used += bool(sides[0] or sides[1])
            break
        used += 1
        rows = [(*row, value) for row in rows for value in points]
        if len(rows) > MOST_POINTS:
            return None
    if not used:
        return None
    low, high, from_low, to_high = sides
    if high and not low and not (index.exuvia_clustered and table.info.pk_is_handle):
        low, from_low = (None,), False
    found = set()
    for row in rows:
        first = (*row, *low)
        span = key_codec.index_range(table, index, first, (*row, *high), from_low, to_high)
        if span.start < span.end:
            found.add(span)
    return _apart(sorted(found))


def _points(column: ColumnInfo, about: Sequence[Condition]) -> list[Value] | None:
    """The fewest values that one of the conditions leaves; None where none says so."""
    found: list[list[Value]] = []
    field = column.type
    for each in about:
        if each.operator == "null" and field.family not in (Family.DATE, Family.DATETIME):
            found.append([] if column.not_null else [None])
        elif each.operator == "in":
            given = [value for value in each.values if value is not None]
            bounds = [_bound(value, field, False) for value in given]
            if None not in bounds:
                found.append(bounds)
    return min(found, key=len, default=None)


def _sides(
    field: FieldType, about: Sequence[Condition], is_cut: bool
) -> tuple[Values, Values, bool, bool]:
    """The narrowest bounds, and whether they are in the range. What is cut to a prefix is."""
    ends: dict[str, list[tuple[Any, bool]]] = {">": [], "<": []}
    for each in about:
        bound = _bound(each.values[0], field, True) if each.operator[0] in ends else None
        if bound is not None:
            ends[each.operator[0]].append((bound, each.operator.endswith("=")))
    lows = max(ends[">"], key=lambda end: (end[0], not end[1]), default=None)
    highs = min(ends["<"], default=None)
    return (
        () if lows is None else (lows[0],),
        () if highs is None else (highs[0],),
        lows is None or lows[1] or is_cut,
        highs is None or highs[1] or is_cut,
    )


def _apart(found: list[Span]) -> tuple[Span, ...]:
    """Neighbours that overlap (cut keys) become one."""
    merged: list[Span] = []
    for span in found:
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(span.end, merged[-1].end))
        else:
            merged.append(span)
    return tuple(merged)


# -- the choice of a key ---------------------------------------------------------------------------

ROWS = 0


class Located(NamedTuple):
    """Ranges of row keys, or of an index's entries: which (physical) table, and about how many keys
    the range has."""

    physical_id: int
    span: Span
    keys: int


class Narrowed(NamedTuple):
    """`index_id`: of whose entries the ranges are, ROWS of rows."""

    index_id: int
    ranges: tuple[Located, ...]

    @property
    def keys(self) -> int:
        """About how many keys lie in the ranges."""
        return sum(each.keys for each in self.ranges)


def narrowed(store: Store, table: Table, conditions: Sequence[Condition]) -> Narrowed:
    """The ranges that cost least to read, of all partitions; all rows where no key is any help."""
    whole = tuple(
        Located(part.physical_id, part.row_span(), store.count(part.row_span()))
        for part in table.parts
    )
    best, least = Narrowed(ROWS, whole), sum(each.keys for each in whole)
    for index in shown_indexes(table.info) if conditions else ():
        is_of_parts = index.holds_every_row and not index.is_global
        found = _narrowed(store, table, index, conditions) if is_of_parts else None
        if found is None:
            continue
        cost = found.keys * (RANGE_SHARE if found.index_id else 1)
        if cost < least:
            best, least = found, cost
    return best


def _narrowed(
    store: Store, table: Table, index: IndexInfo, conditions: Sequence[Condition]
) -> Narrowed | None:
    ranges: list[Located] = []
    for part in table.parts:
        spans = spans_of(part, index, conditions)
        if spans is None:
            return None
        counts = [store.count(span) for span in spans[:COUNTED_SPANS]]
        beyond = -(-sum(counts) // COUNTED_SPANS)
        counts += [beyond] * (len(spans) - len(counts))
        ranges += map(Located, [part.physical_id] * len(spans), spans, counts)
    return Narrowed(ROWS if index.exuvia_clustered else index.id, tuple(ranges))
