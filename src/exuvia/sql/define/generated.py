"""Generated columns as they are defined: kept as TiDB's text, refused where TiDB refuses.

kept      generated_expr_string "`a` + 8", generated_stored, dependences {"a": {}}
1054      a column that is not there            3107   a generated column that comes later
3102      a function that sees more than a row  3109   the AUTO_INCREMENT column
3106      a virtual primary key; a stored one added by ALTER TABLE
1221      DEFAULT beside it
"""

from collections.abc import Sequence

from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrDependentByFunctionalIndex,
    ErrDependentByGeneratedColumn,
    ErrGeneratedColumnFunctionIsNotAllowed,
    ErrGeneratedColumnNonPrior,
    ErrGeneratedColumnRefAutoInc,
    ErrGeneratedColumnRowValueIsNotAllowed,
    ErrWrongUsage,
)
from exuvia.catalog.model import ColumnInfo, TableInfo, evolve
from exuvia.sql.define.disallowed import disallowed
from exuvia.sql.generated import PLACE, bound_expression, names_in
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


def check_generated(
    columns: Sequence[ColumnInfo], column: ColumnInfo, may_read_auto: bool = False
) -> None:
    """The column's expression against the columns around it, itself among them.

    Raises 1054, 3107, 3109, and what binding refuses (1582)."""
    by_name = {each.name.L: (n, each) for n, each in enumerate(columns) if not each.hidden}
    own = by_name[column.name.L][0] if column.name.L in by_name else len(columns)
    names = list(column.dependences or {})
    for name in names:
        if name not in by_name:
            raise ErrBadField(_as_written(column, name), PLACE)
    for name in names:
        at, other = by_name[name]
        if other.is_generated and at >= own:
            raise ErrGeneratedColumnNonPrior()
    for name in names:
        if by_name[name][1].auto_increment and not may_read_auto:
            raise ErrGeneratedColumnRefAutoInc(column.name.O)
    bound_expression(column.generated_expr_string, columns)


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


def _as_written(column: ColumnInfo, name: str) -> str:
    tree = parse_expression(column.generated_expr_string)
    found = (each.name for each in tree.find_all(exp.Column) if each.name.lower() == name)
    return next(found, name)


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
