"""Definitions of generated columns: stored as TiDB's text, with TiDB's refusals.

    stored    generated_expr_string "`a` + 8", generated_stored, dependences {"a": {}}
    1054      an unknown column                      3107   a later generated column
    3102      a function that reads more than a row  3109   the AUTO_INCREMENT column
    3106      a virtual primary key; a stored one added by ALTER TABLE
    1221      DEFAULT of a generated column

The value of an expression, here and in an index, must depend only on the row:

    session, clock, random, effects   3102 in a generated column, 3758 in an expression index
    aggregates, windows               1111, 3593             subqueries, variables    as above
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrDependentByFunctionalIndex,
    ErrDependentByGeneratedColumn,
    ErrGeneratedColumnFunctionIsNotAllowed,
    ErrGeneratedColumnNonPrior,
    ErrGeneratedColumnRefAutoInc,
    ErrGeneratedColumnRowValueIsNotAllowed,
    ErrInvalidGroupFuncUse,
    ErrWrongUsage,
)
from exuvia.catalog.model import ColumnInfo, TableInfo, evolve
from exuvia.sql import walks
from exuvia.sql.bind.aggregates import AGGREGATES
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.calls import SPECIAL, UNIT_CALLS
from exuvia.sql.bind.literals import MOMENT_LITERALS
from exuvia.sql.functions import FUNCTIONS
from exuvia.sql.generated import PLACE, names_in, scope_of
from exuvia.sql.nodes import ColumnDefinition
from exuvia.sql.parse.restore import restored
from exuvia.sql.parse.text import parse_expression


def with_generation(info: ColumnInfo, written: ColumnDefinition) -> ColumnInfo:
    """The column with its expression, which is not yet bound. Raises 1221, 3102, 1111."""
    tree = written.generated
    if tree is None:
        return info
    if written.default is not None:
        raise ErrWrongUsage("DEFAULT", "generated column")
    if written.auto_increment:
        raise ErrWrongUsage("AUTO_INCREMENT", "generated column")
    name = info.name.O
    error = disallowed(
        tree,
        ErrGeneratedColumnFunctionIsNotAllowed(name),
        ErrGeneratedColumnRowValueIsNotAllowed(name),
    )
    if error is not None:
        raise error
    return evolve(
        info,
        generated_expr_string=restored(tree),
        generated_stored=written.stored,
        dependences={column: {} for column in names_in(tree)},
    )


class TableColumns:
    """Columns of a table, in order, for checking the generated columns among them."""

    def __init__(self, columns: Sequence[ColumnInfo], may_read_auto: bool = False) -> None:
        self._by_name = {
            column.name.L: (n, column) for n, column in enumerate(columns) if not column.hidden
        }
        self._number = len(columns)
        self._scope = scope_of(columns)
        self._may_read_auto = may_read_auto

    def check_generated(self, column: ColumnInfo) -> None:
        """Raises 1054, 3107, 3109, and the errors of binding (1582)."""
        by_name = self._by_name
        own = by_name[column.name.L][0] if column.name.L in by_name else self._number
        names = list(column.dependences or {})
        tree = parse_expression(column.generated_expr_string)
        for name in names:
            if name not in by_name:
                spellings = (
                    node.name
                    for node in walks.find_all(tree, exp.Column)
                    if node.name.lower() == name
                )
                raise ErrBadField(next(spellings, name), PLACE)
        for name in names:
            at, other = by_name[name]
            if other.is_generated and at >= own:
                raise ErrGeneratedColumnNonPrior()
        for name in names:
            if by_name[name][1].auto_increment and not self._may_read_auto:
                raise ErrGeneratedColumnRefAutoInc(column.name.O)
        bind(tree, self._scope)


def check_places(table: TableInfo, moved: ColumnInfo, after: str | None) -> None:
    """Raises 3107 if a generated column would read a later generated column after the move.

    `after`: the column of AFTER, "" for FIRST, None for no move."""
    columns = [moved if column.id == moved.id else column for column in table.public_columns]
    if after is not None:
        columns.remove(moved)
        names = [column.name.L for column in columns]
        columns.insert(names.index(after.lower()) + 1 if after else 0, moved)
    places = {column.name.L: n for n, column in enumerate(columns) if column.is_generated}
    for n, column in enumerate(columns):
        if any(places.get(name, -1) > n for name in column.dependences or {}):
            raise ErrGeneratedColumnNonPrior()


def dependents(table: TableInfo, name: str) -> list[ColumnInfo]:
    """The generated columns, including hidden ones, whose expression names this column."""
    lower = name.lower()
    return [
        column
        for column in table.cols
        if column.is_generated and column.name.L != lower and lower in (column.dependences or {})
    ]


def check_independent(table: TableInfo, column: ColumnInfo) -> None:
    """Raises 3108, 3837 if an expression reads the column: it cannot be dropped or renamed."""
    for dependent in dependents(table, column.name.L):
        if dependent.hidden:
            raise ErrDependentByFunctionalIndex(column.name.O)
        raise ErrDependentByGeneratedColumn(column.name.O)


# -- disallowed expressions ------------------------------------------------------------------------


_WORDS = (
    "benchmark connection_id curdate current_date current_role current_time current_timestamp"
    " current_user curtime database found_rows get_lock is_free_lock is_used_lock json_merge"
    " last_insert_id load_file localtime localtimestamp master_pos_wait name_const now rand"
    " release_all_locks release_lock row_count schema session_user sleep sysdate system_user"
    " unix_timestamp user utc_date utc_time utc_timestamp uuid uuid_short values version"
    " tidb_version tidb_is_ddl_owner nextval lastval setval"
)
ILLEGAL = frozenset(_WORDS.split())
_TREES = (
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.CurrentUser,
    exp.CurrentRole,
    exp.Localtime,
    exp.Localtimestamp,
    exp.CurrentDatetime,
    exp.Query,
    exp.Parameter,
    exp.SessionParameter,
    exp.Placeholder,
)


def names_of_calls(tree: exp.Expression) -> Iterator[str]:
    """Names of the functions it calls, in lower case, outermost first."""
    for call in walks.find_all(tree, exp.Anonymous):
        yield str(call.this).lower()


def disallowed(tree: exp.Expression, forbidden: Refused, row: Refused) -> Refused | None:
    """The error of a disallowed expression, or None. `row`: the error of a row value."""
    if any(tree.find(kind) for kind in _TREES):
        return forbidden
    for name in names_of_calls(tree):
        if name == "row":
            return row
        if name in AGGREGATES:
            return ErrInvalidGroupFuncUse()
        if name in ILLEGAL or not _is_known(name):
            return forbidden
    if walks.find(tree, exp.AggFunc):
        return ErrInvalidGroupFuncUse()
    if walks.find(tree, exp.Window):
        return forbidden
    return (
        row if walks.find(tree, exp.Tuple) and not walks.find(tree, exp.Interval, exp.In) else None
    )


def _is_known(name: str) -> bool:
    return any(name in group for group in (FUNCTIONS, SPECIAL, UNIT_CALLS, MOMENT_LITERALS))
