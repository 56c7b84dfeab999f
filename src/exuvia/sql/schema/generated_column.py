"""Generated columns as they are defined: kept as TiDB's text, refused where TiDB refuses.

    kept      generated_expr_string "`a` + 8", generated_stored, dependences {"a": {}}
    1054      a column that is not there            3107   a generated column that comes later
    3102      a function that sees more than a row  3109   the AUTO_INCREMENT column
    3106      a virtual primary key; a stored one added by ALTER TABLE
    1221      DEFAULT beside it

The value of an expression, here and in an index, must follow from the row alone:

    session, clock, chance, effects   3102 in a generated column, 3758 in an expression index
    aggregates, windows               1111, 3593             subqueries, variables    as the first
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
    """The column with its expression, which nobody has bound yet. Raises 1221, 3102, 1111."""
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
        dependences={each: {} for each in names_in(tree)},
    )


class TableColumns:
    """Columns of a table, in order, against which generated columns among them are checked."""

    def __init__(self, columns: Sequence[ColumnInfo], may_read_auto: bool = False) -> None:
        self._by_name = {
            column.name.L: (n, column) for n, column in enumerate(columns) if not column.hidden
        }
        self._number = len(columns)
        self._scope = scope_of(columns)
        self._may_read_auto = may_read_auto

    def check_generated(self, column: ColumnInfo) -> None:
        """Raises 1054, 3107, 3109, and what binding refuses (1582)."""
        by_name = self._by_name
        own = by_name[column.name.L][0] if column.name.L in by_name else self._number
        names = list(column.dependences or {})
        tree = parse_expression(column.generated_expr_string)
        for name in names:
            if name not in by_name:
                found = (
                    each.name
                    for each in walks.find_all(tree, exp.Column)
                    if each.name.lower() == name
                )
                raise ErrBadField(next(found, name), PLACE)
        for name in names:
            at, other = by_name[name]
            if other.is_generated and at >= own:
                raise ErrGeneratedColumnNonPrior()
        for name in names:
            if by_name[name][1].auto_increment and not self._may_read_auto:
                raise ErrGeneratedColumnRefAutoInc(column.name.O)
        bind(tree, self._scope)


def check_places(table: TableInfo, moved: ColumnInfo, after: str | None) -> None:
    """With the changed column where FIRST ("") or AFTER puts it, every generated column reads only
    generated columns before it. Raises 3107."""
    columns = [moved if each.id == moved.id else each for each in table.public_columns]
    if after is not None:
        columns.remove(moved)
        names = [each.name.L for each in columns]
        columns.insert(names.index(after.lower()) + 1 if after else 0, moved)
    places = {each.name.L: n for n, each in enumerate(columns) if each.is_generated}
    for n, each in enumerate(columns):
        if any(places.get(name, -1) > n for name in each.dependences or {}):
            raise ErrGeneratedColumnNonPrior()


def dependents(table: TableInfo, name: str) -> list[ColumnInfo]:
    """The generated columns whose expression names that column, hidden ones too."""
    wanted = name.lower()
    return [
        each
        for each in table.cols
        if each.is_generated and each.name.L != wanted and wanted in (each.dependences or {})
    ]


def check_independent(table: TableInfo, column: ColumnInfo) -> None:
    """Nothing is computed from the column, so that it may go or be renamed. Raises 3108, 3837."""
    for each in dependents(table, column.name.L):
        if each.hidden:
            raise ErrDependentByFunctionalIndex(column.name.O)
        raise ErrDependentByGeneratedColumn(column.name.O)


# -- what an expression may not contain ------------------------------------------------------------


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
    """Why the expression is refused: `forbidden` as a rule, `row` for a row value."""
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
    return any(name in each for each in (FUNCTIONS, SPECIAL, UNIT_CALLS, MOMENT_LITERALS))
