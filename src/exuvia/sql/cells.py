"""Values on their way into columns: what a cell or an assignment gives, converted and checked.

cell    literal, `?`     the value itself, its type known when planned
        DEFAULT          the column's default, 1364 where it has none
        expression       bound and evaluated, row by row

assign(value, row number) -> the value as the column holds it; strict mode's errors name column
and row
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import methodcaller

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadNull,
    ErrDataTooLong,
    ErrInvalidJSONText,
    ErrNoDefaultForField,
    ErrTruncatedWrongValue,
    ErrTruncatedWrongValueForField,
    ErrWarnDataOutOfRange,
    WarnDataTruncated,
)
from exuvia.base.types import INTEGER_BITS, TEXT_BLOBS, Family, FieldType, TypeCode, Value
from exuvia.catalog import decimals, temporal
from exuvia.catalog.convert import values
from exuvia.catalog.convert.values import NARROW_CHARSETS, STRICT, Mode
from exuvia.catalog.model import ColumnInfo
from exuvia.sql.nodes import Tree

Assign = Callable[[Value, int], Value]

_NUMBERS = (Family.INT, Family.UINT, Family.DECIMAL, Family.FLOAT)
_NAMES_AND_BITS = (TypeCode.ENUM, TypeCode.SET, TypeCode.BIT)


def meant_for(column: ColumnInfo, tree: Tree) -> Tree:
    """A hexadecimal or bit literal is a number where the column holds numbers.

    It is a name for an ENUM or SET, and bits for a BIT."""
    literal = isinstance(tree, exp.HexString | exp.BitString)
    if not literal or column.type.Tp in _NAMES_AND_BITS or column.type.family not in _NUMBERS:
        return tree
    return exp.Cast(this=tree, to=exp.DataType(this=exp.DType.UBIGINT, nested=False))


MOMENT = FieldType(Tp=TypeCode.DATETIME, Flen=26, Decimal=6)


def is_dated(source: FieldType, target: FieldType) -> bool:
    """Whether a TIME becomes a DATE, DATETIME or TIMESTAMP: that of a day, `on_day`."""
    return source.Tp == TypeCode.TIME and target.family in (Family.DATE, Family.DATETIME)


def on_day(time: Value, now: int) -> Value:
    """A TIME of the day of `now`, a packed DATETIME, as a MOMENT."""
    return None if time is None else temporal.add_micro(now >> 37 << 37, time)


NARROWED = frozenset(
    {
        ErrBadNull.code,
        ErrWarnDataOutOfRange.code,
        WarnDataTruncated.code,
        ErrTruncatedWrongValue.code,
        ErrNoDefaultForField.code,
        ErrTruncatedWrongValueForField.code,
        ErrDataTooLong.code,
        ErrInvalidJSONText.code,
    }
)


def assign_to(column: ColumnInfo, source: FieldType, mode: Mode = STRICT) -> Assign:
    """How a value of a type goes into a column.

    The assigner raises Refused 1048, 1264, 1265, ..."""
    target = column.type
    general = _general(column, source, mode)
    if source.Tp == TypeCode.NULL:
        return general
    if target.Tp in INTEGER_BITS and source.family in (Family.INT, Family.UINT):
        return _integer(target, general)
    if target.family == source.family == Family.DECIMAL:
        return _decimal(target, general)
    is_text = target.family == Family.STRING and source.family == Family.STRING
    plain = is_text and target.Tp not in TEXT_BLOBS and target.Charset not in NARROW_CHARSETS
    if plain and target.Flen >= 0:
        return _text(target.Flen, general)
    return general


AssignMany = Callable[[Sequence[Value]], Sequence[Value]]


def assign_many_to(column: ColumnInfo, source: FieldType, mode: Mode = STRICT) -> AssignMany:
    """As `assign_to`, for the values of many rows, none of them NULL. What it raises does not tell
    the row: whoever asks then goes through them one by one."""
    target = column.type
    assign = assign_to(column, source, mode)

    def each(given: Sequence[Value]) -> Sequence[Value]:
        return [assign(value, 0) for value in given]

    if source.Tp == TypeCode.NULL:
        return each
    if target.Tp in INTEGER_BITS and source.family in (Family.INT, Family.UINT):
        least, most = values.bounds_of(target)
        return lambda given: given if least <= min(given) and max(given) <= most else each(given)
    is_text = target.family == Family.STRING and source.family == Family.STRING
    plain = is_text and target.Tp not in TEXT_BLOBS and target.Charset not in NARROW_CHARSETS
    if not plain or target.Flen < 0:
        return each

    def texts(given: Sequence[Value]) -> Sequence[Value]:
        fits = max(map(len, given)) <= target.Flen and not any(map(_ends_in_blank, given))
        return given if fits else each(given)

    return texts


_ends_in_blank = methodcaller("endswith", " ")


def _general(column: ColumnInfo, source: FieldType, mode: Mode) -> Assign:
    target, name = column.type, column.name.O

    def assign(value: Value, row: int) -> Value:
        try:
            return values.convert(value, source, target, mode)
        except Refused as error:
            raise values.named(error, name, row) from None

    return assign


def _integer(target: FieldType, general: Assign) -> Assign:
    bits = INTEGER_BITS[TypeCode(target.Tp)]
    least, most = (0, (1 << bits) - 1) if target.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)

    def assign(value: Value, row: int) -> Value:
        if value is not None and least <= value <= most:
            return value
        return general(value, row)

    return assign


def _decimal(target: FieldType, general: Assign) -> Assign:
    scale = decimals.scale_of(target)
    unit = Decimal((0, (1,), -scale))
    most = Decimal((0, (9,) * decimals.precision_of(target), -scale))

    def assign(value: Value, row: int) -> Value:
        if value is not None and value.same_quantum(unit) and 0 < value <= most:
            return value
        return general(value, row)

    return assign


def _text(length: int, general: Assign) -> Assign:
    def assign(value: Value, row: int) -> Value:
        if value is not None and len(value) <= length and value[-1:] != " ":
            return value
        return general(value, row)

    return assign


def narrowed(
    value: Value, source: FieldType, column: ColumnInfo, mode: Mode = values.LENIENT
) -> Value:
    """What is written where strict mode refuses: the nearest value, else the type's zero."""
    return values.narrowed(value, source, column.type, mode)
