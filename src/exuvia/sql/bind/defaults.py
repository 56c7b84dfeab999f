"""DEFAULT(column): the column's default as a value, whatever the row holds."""

from collections.abc import Sequence

from sqlglot import exp

from exuvia.base.mysql_errors import ErrBadField, ErrNoDefaultForField
from exuvia.catalog.convert import values
from exuvia.catalog.model import ColumnInfo, TableInfo
from exuvia.sql.bind.scope import Field, Scope
from exuvia.sql.expr import IMPLICIT, Constant, Expr
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.text import parse_expression


def default_of(arguments: Sequence[exp.Expression], scope: Scope) -> Expr:
    """The expression. Raises 1054, 1364 where the column has none."""
    named = arguments[0] if len(arguments) == 1 else None
    if not isinstance(named, exp.Column):
        raise Misplaced(")")
    column = _field(named, scope).column
    if column is None:
        raise ErrNoDefaultForField(named.name)
    if column.default_is_expr or values.is_current_timestamp(column):
        return scope.bind(parse_expression(str(column.default)))
    return _constant(column)


def is_own_default(tree: exp.Expression, name: str) -> bool:
    """Whether a tree is DEFAULT(column) of the column with that name (lower case)."""
    return any(named is not None and named.name.lower() == name for named in [_asked(tree)])


def asks_generated_default(tree: exp.Expression, table: TableInfo) -> bool:
    """Whether DEFAULT(column) of a generated column stands somewhere in a tree."""
    generated = {each.name.L for each in table.cols if each.is_generated}
    if not generated:
        return False
    asked = [_asked(each) for each in tree.find_all(exp.Anonymous)]
    return any(named is not None and named.name.lower() in generated for named in asked)


def _asked(tree: exp.Expression) -> exp.Column | None:
    if not isinstance(tree, exp.Anonymous) or str(tree.this).upper() != "DEFAULT":
        return None
    named = tree.expressions[0] if len(tree.expressions) == 1 else None
    return named if isinstance(named, exp.Column) else None


def _field(named: exp.Column, scope: Scope) -> Field:
    wide: Scope | None = scope
    while wide is not None:
        found = wide.find(named.name, named.table)
        if found is not None:
            return found
        wide = wide.parent
    raise ErrBadField(named.name, scope.clause)


def _constant(column: ColumnInfo) -> Constant:
    value = values.default_of(column)
    if value is None and column.not_null and not column.generated_expr_string:
        raise ErrNoDefaultForField(column.name.O)
    return Constant(type=column.type, coercibility=IMPLICIT, value=value)
