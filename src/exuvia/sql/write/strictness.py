"""The strictness of a write: by IGNORE, and by a sql_mode without STRICT_TRANS_TABLES.

                         strict        IGNORE                    not strict
a value does not fit     refused       nearest, a warning        nearest, a warning
NULL in a NOT NULL       1048          the type's zero           the type's zero, but 1048 for an
column                                                           INSERT of a single row
a constraint violation   refused       the row is left out       refused
zero dates               1292 unless NO_ZERO_DATE is off         allowed

Warnings, in TiDB's words, for parts of a value that an assignment drops without an error:

    digits after a DECIMAL's scale       INSERT .. VALUES: 1366 with column and row; else 1292
    blanks after a VARCHAR's length      1265

Errors of an UPDATE have the text of a change of type, without column and row.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadNull,
    ErrDataOutOfRange,
    ErrTruncatedWrongValue,
    ErrTruncatedWrongValueForField,
    ErrWarnDataOutOfRange,
    WarnDataTruncated,
)
from exuvia.base.types import INTEGER_BITS, Family, FieldType, TypeCode, Value
from exuvia.catalog import decimals
from exuvia.catalog.convert import values
from exuvia.catalog.convert.values import Mode, leading_number
from exuvia.catalog.model import ColumnInfo
from exuvia.sql.bind.binding import Binding
from exuvia.sql.cells import MOMENT, NARROWED, assign_to, is_dated, narrowed, on_day
from exuvia.sql.env import BY_ZERO, Execution

_STRICT_MODES = ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES")


class Strictness(NamedTuple):
    """The strictness of a statement, computed at planning: plans are cached by sql_mode.

    `forgiven`: the codes of errors that become warnings."""

    ignores: bool
    lenient: bool
    forgiven: frozenset[int]
    mode: Mode
    by_zero: bool = True

    def begin(self, context: Execution) -> None:
        """Sets the strictness of the statement that is about to write."""
        context.ignores = self.ignores
        context.strict = not self.lenient
        context.by_zero = self.by_zero


def loads_a_dump(binding: Binding) -> bool:
    """Whether the sql_mode is the one that dumps set.

    MariaDB's mysqldump also writes the values of generated columns. As in MariaDB these are ignored
    then, and computed."""
    modes = binding.variable("sql_mode").upper()
    return "NO_AUTO_VALUE_ON_ZERO" in modes and not any(mode in modes for mode in _STRICT_MODES)


def strictness(binding: Binding, ignore: bool, single_row: bool = False) -> Strictness:
    """The strictness of a statement. `single_row`: an INSERT of one row by VALUES."""
    modes = binding.variable("sql_mode").upper()
    lenient = ignore or not any(strict_mode in modes for strict_mode in _STRICT_MODES)
    forgiven = NARROWED if lenient else frozenset[int]()
    if single_row and not ignore:
        forgiven -= {ErrBadNull.code}
    mode = Mode("NO_ZERO_DATE" not in modes, zero_parts="NO_ZERO_IN_DATE" not in modes)
    if "ALLOW_INVALID_DATES" in binding.variable("sql_mode").upper():
        mode = mode._replace(any_day=True)
    if binding.zone is not None:
        mode = mode._replace(zone=binding.zone)
    by_zero = BY_ZERO in modes
    return Strictness(ignore, lenient, forgiven, mode, by_zero)


# -- truncation warnings ---------------------------------------------------------------------------

Loss = Callable[[Value, Value, Execution, int], None]  # value, stored value, context, row number
INTEGERS = {8: "tinyint", 16: "smallint", 24: "mediumint", 32: "int", 64: "bigint"}
_NUMBERS = (Family.INT, Family.UINT, Family.DECIMAL, Family.FLOAT)


def loss_of(column: ColumnInfo, source: FieldType, named: bool) -> Loss | None:
    """Returns a function to call after each assignment; None if no part can be dropped.

    `named`: the warning has column and row."""
    target = column.type
    if source.Tp == TypeCode.NULL:
        return None
    if target.family == Family.DECIMAL and _may_round(source, target):
        return _rounding(column, source, named)
    is_text = target.Tp == TypeCode.VARCHAR and source.family == Family.STRING
    if is_text and target.family == Family.STRING and target.Flen >= 0:
        return _cutting(column)
    return None


def _may_round(source: FieldType, target: FieldType) -> bool:
    if source.family == Family.DECIMAL and source.Decimal >= 0:
        return decimals.scale_of(source) > decimals.scale_of(target)
    return source.family in (Family.STRING, Family.FLOAT, Family.DECIMAL)


def _rounding(column: ColumnInfo, source: FieldType, named: bool) -> Loss:
    name, is_number = column.name.O, source.family == Family.DECIMAL

    def lost(value: Value, stored: Value, context: Execution, row: int) -> None:
        if value is None or (value if is_number else _number(value, source)) == stored:
            return
        text = values.to_text(value, source)
        warning = (
            ErrTruncatedWrongValueForField("decimal", text, name, row)
            if named
            else ErrTruncatedWrongValue("DECIMAL", text)
        )
        context.note(warning.code, warning.message)

    return lost


def _number(value: Value, source: FieldType) -> Decimal:
    if source.family == Family.STRING:
        return leading_number(value, "decimal")[0]
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _cutting(column: ColumnInfo) -> Loss:
    name, most = column.name.O, column.type.Flen

    def lost(value: Value, stored: Value, context: Execution, row: int) -> None:
        if value is not None and len(value) > most:
            warning = WarnDataTruncated(name, row)
            context.note(warning.code, warning.message)

    return lost


def updated(error: Refused, value: Value, source: FieldType, target: FieldType) -> Refused:
    """The error of an UPDATE: 1292 for texts that are not numbers."""
    if (
        error.code not in (WarnDataTruncated.code, ErrTruncatedWrongValueForField.code)
        or source.Tp == TypeCode.NULL
    ):
        return error
    is_text = source.family in (Family.STRING, Family.BYTES)
    plain = target.family in _NUMBERS and target.Tp not in (
        TypeCode.ENUM,
        TypeCode.SET,
        TypeCode.BIT,
        TypeCode.YEAR,
    )
    if not is_text or not plain:
        return error
    what = "DECIMAL" if target.family == Family.DECIMAL else "DOUBLE"
    return ErrTruncatedWrongValue(what, values.to_text(value, source))


def overflowed(error: Refused, value: Value, source: FieldType, target: FieldType) -> Refused:
    """The warning of INSERT .. SELECT and UPDATE for an integer beyond its type."""
    bits = INTEGER_BITS.get(TypeCode(target.Tp))
    if error.code != ErrWarnDataOutOfRange.code or bits is None or not isinstance(value, int):
        return error
    if source.family not in (Family.INT, Family.UINT):
        return error
    return ErrDataOutOfRange.with_text(f"constant {value} overflows {INTEGERS[bits]}")


# -- one value of a column -------------------------------------------------------------------------

Storer = Callable[[Value, Execution, int], Value]


def storer(
    column: ColumnInfo, kind: FieldType, is_auto: bool, rules: Strictness, selected: bool = False
) -> Storer:
    """Returns a converter of values that checks them.

    A forgiven error gives a warning and the nearest value. `selected`: values come from a query,
    which has other texts of warnings."""
    if is_dated(kind, column.type):
        moment = storer(column, MOMENT, is_auto, rules, selected)
        return lambda value, context, n: moment(on_day(value, context.now), context, n)
    assign = assign_to(column, kind, rules.mode)
    loss = loss_of(column, kind, not selected)

    def store(value: Value, context: Execution, number: int) -> Value:
        if is_auto and value is None:
            return None
        try:
            stored = assign(value, number)
        except Refused as error:
            if error.code not in rules.forgiven:
                raise
            warning = overflowed(error, value, kind, column.type) if selected else error
            context.note(warning.code, warning.message)
            return narrowed(value, kind, column, rules.mode)
        if loss is not None:
            loss(value, stored, context, number)
        return stored

    return store
