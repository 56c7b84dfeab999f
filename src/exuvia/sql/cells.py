"""Conversion of cells and assigned values to the type of their column.

cell    literal, `?`     the value itself; its type is known at planning
        DEFAULT          the column's default, or error 1364 if it has no default
        expression       bound once and evaluated for each row

assign(value, row number) -> the value as stored in the column. In strict mode, errors name the
column and the row.
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


def literal_for(column: ColumnInfo, tree: Tree) -> Tree:
    """Returns hexadecimal and bit literals as numbers if the column is numeric.

    Other trees are unchanged, also for ENUM, SET and BIT columns."""
    literal = isinstance(tree, exp.HexString | exp.BitString)
    if not literal or column.type.Tp in _NAMES_AND_BITS or column.type.family not in _NUMBERS:
        return tree
    return exp.Cast(this=tree, to=exp.DataType(this=exp.DType.UBIGINT, nested=False))


MOMENT = FieldType(Tp=TypeCode.DATETIME, Flen=26, Decimal=6)


def is_dated(source: FieldType, target: FieldType) -> bool:
    """Whether a TIME becomes a DATE, DATETIME or TIMESTAMP. `on_day` gives the day."""
    return source.Tp == TypeCode.TIME and target.family in (Family.DATE, Family.DATETIME)


def on_day(time: Value, now: int) -> Value:
    """The TIME on the day of `now`, a packed DATETIME. The value is of the type MOMENT."""
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
    """Returns the converter from values of type `source` to the column.

    The converter raises Refused 1048, 1264, 1265, ..."""
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
    """As `assign_to`, for the values of many rows. None of the values may be NULL.

    Its errors do not name the row: call `assign_to` for each row to get the row."""
    target = column.type
    assign = assign_to(column, source, mode)

    def one_by_one(column_values: Sequence[Value]) -> Sequence[Value]:
        return [assign(value, 0) for value in column_values]

    if source.Tp == TypeCode.NULL:
        return one_by_one
    if target.Tp in INTEGER_BITS and source.family in (Family.INT, Family.UINT):
        least, most = values.bounds_of(target)
        return lambda column_values: (
            column_values
            if least <= min(column_values) and max(column_values) <= most
            else one_by_one(column_values)
        )
    is_text = target.family == Family.STRING and source.family == Family.STRING
    plain = is_text and target.Tp not in TEXT_BLOBS and target.Charset not in NARROW_CHARSETS
    if not plain or target.Flen < 0:
        return one_by_one

    def texts(column_values: Sequence[Value]) -> Sequence[Value]:
        fits = max(map(len, column_values)) <= target.Flen and not any(
            map(_ends_in_blank, column_values)
        )
        return column_values if fits else one_by_one(column_values)

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
    """The stored value when strict mode is off: the nearest value, else the zero of the type."""
    return values.narrowed(value, source, column.type, mode)
