"""Spark's pushed filters as ranges of keys: only rows in the ranges are read.

    a = 1, a <=> 1, a IN (1, 2)    points of a key's first part
    a IS NULL                      points of an index's first part
    a > 1, >=, <, <=               a range of the part after the points
    NOT a                          false
    a <> 1, a LIKE 'x%', ...       no range

Spark compares texts as bytes, numbers and times as numbers. Keys have MySQL's order. Where the two
differ no range is used, and points may match too many rows:

    texts             points in any collation; ranges if it compares bytes (NO PAD)
    ENUM              points
    DATE, DATETIME    no IS NULL: Spark reads a zero date as NULL
    BOOLEAN           false only: every other number is true
    DECIMAL           for values of fewer than ROUNDED_DIGITS digits
    FLOAT, DOUBLE, TIME, YEAR, SET, BIT    nothing

No row is missed, and Spark filters the rows again. The chosen key is the one with the fewest rows
in its ranges. A row read through an index counts as ten rows read in order.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from pyspark.sql import datasource as pushed
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
    pushed.GreaterThan: ">",
    pushed.GreaterThanOrEqual: ">=",
    pushed.LessThan: "<",
    pushed.LessThanOrEqual: "<=",
}


class Condition(NamedTuple):
    """`operator`: in, null, >, >=, < or <=; `column` in lower case."""

    column: str
    operator: str
    values: tuple[Any, ...]


def conditions_of(filters: Iterable[Filter]) -> list[Condition]:
    """Returns the filters that a key range can serve; all of them are ANDed."""
    conditions = []
    for filter_ in filters:
        if isinstance(filter_, pushed.Not) and isinstance(filter_.child, pushed.EqualTo):
            if filter_.child.value is True and len(filter_.child.attribute) == 1:
                conditions.append(Condition(filter_.child.attribute[0].lower(), "in", (False,)))
            continue
        if len(getattr(filter_, "attribute", ())) != 1:
            continue
        column = filter_.attribute[0].lower()  # type: ignore[attr-defined]
        if type(filter_) in _RANGES:
            conditions.append(Condition(column, _RANGES[type(filter_)], (filter_.value,)))  # type: ignore[attr-defined]
        elif isinstance(filter_, pushed.EqualNullSafe) and filter_.value is None:
            conditions.append(Condition(column, "null", ()))
        elif isinstance(filter_, pushed.EqualTo | pushed.EqualNullSafe):
            conditions.append(Condition(column, "in", (filter_.value,)))
        elif isinstance(filter_, pushed.In):
            conditions.append(Condition(column, "in", tuple(filter_.value)))
        elif isinstance(filter_, pushed.IsNull):
            conditions.append(Condition(column, "null", ()))
    return conditions


# -- values in keys --------------------------------------------------------------------------------


def _bound(value: Any, field: FieldType, of_range: bool) -> Value | None:
    """Returns a filter's value in the column's stored form, or None if keys and Spark may disagree
    about it."""
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
    """Returns the ranges of a key of one physical table, or None if the conditions do not restrict
    the key."""
    positions = table.handle_positions if index.exuvia_clustered else table.form(index).positions
    rows: list[Values] = [()]
    sides: tuple[Values, Values, bool, bool] = (), (), True, True
    used = 0
    for position, part in zip(positions, index.idx_cols, strict=True):
        column = table.info.cols[position]
        about = [condition for condition in conditions if condition.column == column.name.L]
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
    key_spans = set()
    for row in rows:
        first = (*row, *low)
        span = key_codec.index_range(table, index, first, (*row, *high), from_low, to_high)
        if span.start < span.end:
            key_spans.add(span)
    return _merged(sorted(key_spans))


def _points(column: ColumnInfo, about: Sequence[Condition]) -> list[Value] | None:
    """Returns the shortest list of points of the conditions, or None if no condition has points."""
    choices: list[list[Value]] = []
    field = column.type
    for condition in about:
        if condition.operator == "null" and field.family not in (Family.DATE, Family.DATETIME):
            choices.append([] if column.not_null else [None])
        elif condition.operator == "in":
            present = [value for value in condition.values if value is not None]
            bounds = [_bound(value, field, False) for value in present]
            if None not in bounds:
                choices.append(bounds)
    return min(choices, key=len, default=None)


def _sides(
    field: FieldType, about: Sequence[Condition], is_cut: bool
) -> tuple[Values, Values, bool, bool]:
    """Returns (low, high, low is included, high is included). Bounds of a prefix key part are
    always included."""
    ends: dict[str, list[tuple[Any, bool]]] = {">": [], "<": []}
    for condition in about:
        bound = _bound(condition.values[0], field, True) if condition.operator[0] in ends else None
        if bound is not None:
            ends[condition.operator[0]].append((bound, condition.operator.endswith("=")))
    lows = max(ends[">"], key=lambda end: (end[0], not end[1]), default=None)
    highs = min(ends["<"], default=None)
    return (
        () if lows is None else (lows[0],),
        () if highs is None else (highs[0],),
        lows is None or lows[1] or is_cut,
        highs is None or highs[1] or is_cut,
    )


def _merged(spans: list[Span]) -> tuple[Span, ...]:
    """Merges overlapping neighbours, which prefix key parts produce."""
    merged: list[Span] = []
    for span in spans:
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(span.end, merged[-1].end))
        else:
            merged.append(span)
    return tuple(merged)


# -- the choice of a key ---------------------------------------------------------------------------

ROWS = 0


class Located(NamedTuple):
    """A range of row keys or index entries of one physical table. `keys`: approximate number of
    keys in the range."""

    physical_id: int
    span: Span
    keys: int


class Narrowed(NamedTuple):
    """The ranges to read. `index_id`: the index of the entries, or ROWS for ranges of rows."""

    index_id: int
    ranges: tuple[Located, ...]

    @property
    def keys(self) -> int:
        """Approximate number of keys in all ranges."""
        return sum(located.keys for located in self.ranges)


def narrowed(store: Store, table: Table, conditions: Sequence[Condition]) -> Narrowed:
    """Returns the cheapest ranges of all partitions; the full table if no key helps."""
    whole = tuple(
        Located(part.physical_id, part.row_span(), store.count(part.row_span()))
        for part in table.parts
    )
    best, least = Narrowed(ROWS, whole), sum(located.keys for located in whole)
    for index in shown_indexes(table.info) if conditions else ():
        is_of_parts = index.holds_every_row and not index.is_global
        candidate = _narrowed(store, table, index, conditions) if is_of_parts else None
        if candidate is None:
            continue
        cost = candidate.keys * (RANGE_SHARE if candidate.index_id else 1)
        if cost < least:
            best, least = candidate, cost
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
