"""The session's time zone: TIMESTAMPs are kept in UTC and met as local time.

    stored       UTC, in rows, keys and defaults at rest
    expression   the column's value as a DATETIME of the session's zone (`local`); a session in UTC
                 meets the column itself, so it loses nothing, keys included
    written      back into UTC by the assignment (catalog/convert/mode.py, Mode.zone)

Plans are kept by time_zone, so a plan knows its zone.
"""

from datetime import tzinfo

from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog.convert import values
from exuvia.catalog.model import ColumnInfo, TableInfo, evolve
from exuvia.catalog.temporal import shift_zone
from exuvia.sql import types
from exuvia.sql.expr import Call, Expr


def is_shifted(kind: FieldType, zone: tzinfo | None) -> bool:
    """Whether a stored value is not what the session sees."""
    return zone is not None and kind.Tp == TypeCode.TIMESTAMP


def local(expr: Expr, zone: tzinfo | None) -> Expr:
    """A stored column as the session's zone shows it."""
    if not is_shifted(expr.type, zone):
        return expr
    kind = types.datetime(types.fraction_digits(expr.type))
    return Call(type=kind, function="at_zone", arguments=(expr,), extra=(zone,))


def column_in(column: ColumnInfo, source: tzinfo | None, target: tzinfo | None) -> ColumnInfo:
    """A column whose literal TIMESTAMP default is of one zone, with the same moment of another."""
    text = column.default
    if source == target or column.type.Tp != TypeCode.TIMESTAMP or not isinstance(text, str):
        return column
    if column.default_is_expr or not text[:1].isdigit():
        return column  # CURRENT_TIMESTAMP is the same everywhere
    moved = shift_zone(values.from_text(text, column.type, values.LENIENT), source, target)
    return evolve(column, default=str(values.to_text(moved, column.type)))


def table_in(table: TableInfo, source: tzinfo | None, target: tzinfo | None) -> TableInfo:
    """As `column_in`, of all columns."""
    if source == target:
        return table
    return evolve(table, cols=tuple(column_in(each, source, target) for each in table.cols))
