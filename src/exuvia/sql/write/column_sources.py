"""What a column gets that a statement does not name: its default, the time, an id.

constant default    the same value in every row
CURRENT_TIMESTAMP   the statement's time, cut to the column's digits
DEFAULT (expr)      evaluated for each row
AUTO_INCREMENT      given later (write/insert.py)
generated           NULL here; computed before the row is written (write/rows.py)
none                NULL; for NOT NULL 1364, and with IGNORE a warning and the type's zero
"""

from collections.abc import Callable

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrNoDefaultForField,
    ErrTruncatedWrongValue,
    ErrTruncatedWrongValueForField,
    WarnDataTruncated,
)
from exuvia.base.types import Flag, TypeCode, Value
from exuvia.catalog.convert import values
from exuvia.catalog.convert.values import STRICT
from exuvia.catalog.model import ColumnInfo
from exuvia.sql import constants
from exuvia.sql.cells import assign_to
from exuvia.sql.parse.text import parse_expression
from exuvia.sql.statement.context import Context
from exuvia.sql.type_text import is_now_default

ColumnSource = Callable[[Context], Value]


def now_for(column: ColumnInfo, context: Context) -> Value:
    """The statement's time as the column holds it."""
    if column.type.Tp not in (TypeCode.DATETIME, TypeCode.TIMESTAMP):
        return None
    now = context.utc_now if column.type.Tp == TypeCode.TIMESTAMP else context.now
    return now - (now & 0xFFFFF) % 10 ** (6 - max(0, column.type.Decimal))


def constant_default(column: ColumnInfo) -> Value:
    """The default, where it is one value for all rows; None otherwise."""
    if column.auto_increment or column.default_is_expr or is_now_default(column):
        return None
    return values.default_of(column)


def source_of(column: ColumnInfo) -> ColumnSource | None:
    """How to get the column's default at a run; None where `constant_default` is all there is."""
    if column.auto_increment or column.is_generated:
        return None
    if is_now_default(column):
        return lambda context: now_for(column, context)
    if column.default_is_expr:
        return _expression(column)
    if column.not_null and column.type.Tp == TypeCode.ENUM and column.default is None:
        return lambda context: 1  # MySQL's: the first of its values
    lacks = column.not_null or column.type.Flag & Flag.NO_DEFAULT_VALUE
    if lacks and values.default_of(column) is None:
        return _missing(column)
    return None


def _expression(column: ColumnInfo) -> ColumnSource:
    tree = parse_expression(str(column.default))

    def source(context: Context) -> Value:
        value, kind = constants.evaluate(tree, context, "expression")
        try:
            return assign_to(column, kind, STRICT._replace(zone=context.zone))(value, 1)
        except Refused as error:
            raise _as_cast(error, values.to_text(value, kind)) from None

    return source


def _as_cast(error: Refused, text: str) -> Refused:
    """What a default's expression gives is cast: TiDB words its refusal so, blanks unfilled."""
    if error.code == WarnDataTruncated.code:
        return WarnDataTruncated.with_text("Data truncated for column '%s' at row %d")
    if error.code == ErrTruncatedWrongValueForField.code and error.message.startswith("Incorrect "):
        return ErrTruncatedWrongValue("DOUBLE", text)
    return error


def _missing(column: ColumnInfo) -> ColumnSource:
    def source(context: Context) -> Value:
        missing = ErrNoDefaultForField(column.name.O)
        if context.strict:
            raise missing
        context.note(missing.code, missing.message)
        return values.zero_of(column.type) if column.not_null else None

    return source


def default_for(column: ColumnInfo, context: Context) -> Value:
    """The value of the word DEFAULT. Raises 1364."""
    source = source_of(column)
    return constant_default(column) if source is None else source(context)
