"""A view in a FROM: its query is read and planned in its place, as a derived table.

Its names are its own: neither common table expressions nor columns of the query around it are in
sight. What no longer fits (a table or column that is gone) is 1356; a view that stands for itself,
which a rename can make, is 1462.
"""

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadField,
    ErrNoDB,
    ErrNonUniq,
    ErrNoSuchTable,
    ErrSpDoesNotExist,
    ErrViewInvalid,
    ErrViewRecursive,
    ErrWrongNumberOfColumnsInSelect,
)
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.model import ViewInfo, evolve
from exuvia.catalog.table import Table
from exuvia.sql.parse.text import parse_one
from exuvia.sql.select.build import Build, Planned

INVOKER = 1  # of information_schema/tables.py's SECURITIES
REPLACED = "replaced view"  # in a context's memory: (id, error) of the view that is being replaced
_GONE = frozenset(
    {
        ErrNoDB.code,
        ErrBadDB.code,
        ErrNonUniq.code,
        ErrBadField.code,
        ErrNoSuchTable.code,
        ErrWrongNumberOfColumnsInSelect.code,
        ErrSpDoesNotExist.code,
        ErrViewInvalid.code,
    }
)


_KEPT = Flag.NOT_NULL | Flag.UNSIGNED | Flag.ZEROFILL | Flag.BINARY | Flag.BLOB
_FLAGS = _KEPT | Flag.ENUM | Flag.SET


def plain_type(kind: FieldType) -> FieldType:
    """The type of a view's column: keys and defaults are its table's affair. NULL is no type."""
    if kind.Tp == TypeCode.NULL:
        return FieldType(Tp=TypeCode.STRING, Flen=0, Charset="binary", Collate="binary")
    return evolve(kind, Flag=int(Flag(kind.Flag) & _FLAGS))


def planned_view(table: Table, view: ViewInfo, build: Build) -> Planned:
    """The view's query, planned, its columns named as the view's. Raises 1356, 1462."""
    place = table.database.db_name.O, table.info.name.O
    replaced = build.context.memory.get(REPLACED, (0, None))
    if table.info.id == replaced[0]:
        raise replaced[1]
    if table.info.id in build.views:
        raise ErrViewRecursive(*place)
    tree = parse_one(view.view_select)
    handles, build.handles = build.handles, False
    build.views.append(table.info.id)
    trusted = 0 if view.view_security == INVOKER else 1
    build.context.trusted += trusted
    try:
        assert isinstance(tree, exp.Expression)
        planned = build.plan(tree, None, {})
    except Refused as error:
        gone = error.code in _GONE and error is not replaced[1]
        raise ErrViewInvalid(*place) if gone else error from None
    finally:
        build.context.trusted -= trusted
        build.views.pop()
        build.handles = handles
    if len(planned.columns) != len(table.info.cols):
        raise ErrViewInvalid(*place)
    pairs = zip(table.info.cols, planned.columns, strict=True)
    columns = [shown._replace(name=own.name.O, table="") for own, shown in pairs]
    return planned._replace(columns=columns)
