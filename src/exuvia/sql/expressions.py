"""Expressions over the rows of a few tables: bound to types once, then called row by row.

    compiled(tree, visible, context) -> Compiled      .type, .call(row, context)
    condition(tree, visible, context) -> keeps(row, context)

The only place where statements meet `bind` and `evaluate`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.types import FieldType
from exuvia.catalog.model import ColumnInfo
from exuvia.sql.access.bounds import literal_value
from exuvia.sql.bind.bind import bind, bind_condition
from exuvia.sql.bind.scope import Field, Scope
from exuvia.sql.evaluate.compile import compile_expression, predicate
from exuvia.sql.expr import Expr
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.literals import letters_of, type_of
from exuvia.sql.parse.placeholders import position_of
from exuvia.sql.result import Row, Value
from exuvia.sql.statement.context import Context


class Visible(NamedTuple):
    """A table whose columns may be named. Its `columns` stand in rows from `offset` on; `public`
    ones have names."""

    alias: str
    database: str
    columns: tuple[ColumnInfo, ...]
    public: tuple[ColumnInfo, ...]
    offset: int = 0
    origin: str = ""


class Compiled(NamedTuple):
    """A bound expression, ready to call."""

    bound: Expr
    type: FieldType
    call: Callable[[Row, Context], Value]


def compiled(
    tree: Tree, visible: Sequence[Visible], context: Context, place: str = "field list"
) -> Compiled:
    """Bind and compile. Raises 1054 with `place`, and what binding refuses."""
    return compiled_bound(bound(tree, visible, context, place))


def compiled_bound(expr: Expr) -> Compiled:
    """An expression that is bound already, ready to call."""
    return Compiled(expr, expr.type, compile_expression(expr))


def bound(
    tree: Tree,
    visible: Sequence[Visible],
    context: Context,
    place: str = "field list",
    aggregates: bool = False,
) -> Expr:
    """The typed expression. `aggregates`: whether COUNT, SUM, ... may stand in it (else 1111)."""
    scope = Scope(fields_of(visible), context, clause=place)
    if aggregates:
        scope.grouped = []
    return bind(tree, scope)


def condition(
    tree: Tree, visible: Sequence[Visible], context: Context, place: str = "where clause"
) -> Callable[[Row, Context], bool]:
    """A condition: whether it is true of a row. Raises 1054 with `place`."""
    return predicate(bind_condition(tree, Scope(fields_of(visible), context, clause=place)))


def fields_of(visible: Sequence[Visible]) -> list[Field]:
    """The names in sight, by position in the row."""
    return [
        Field(
            each.offset + position,
            column.name.O,
            column.type,
            each.alias,
            each.database,
            column,
            each.origin or each.alias,
        )
        for each in visible
        for position, column in enumerate(each.columns)
        if column in each.public
    ]


def constant_type(tree: Tree, context: Context) -> FieldType:
    """The type of a literal or `?`, in parentheses or not."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Placeholder):
        return context.parameter_types[position_of(tree)]
    value = literal_value(tree)
    return type_of(value, letters_of([value]))
