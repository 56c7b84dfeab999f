"""Expressions without a table: the value side of SET, KILL, DO and DEFAULT (expression)."""

from sqlglot import exp

from exuvia.base.types import FieldType, Value
from exuvia.sql import expressions
from exuvia.sql.nodes import Tree
from exuvia.sql.select.relational import relational
from exuvia.sql.statement.context import Context


def evaluate(tree: Tree, context: Context, place: str = "field list") -> tuple[Value, FieldType]:
    """Value and type. Raises Refused (1054 with `place` where a column is named)."""
    if tree.find(exp.Query):
        answer = relational(exp.Select(expressions=[tree.copy()]), context)
        return answer.rows[0][0], answer.columns[0].type
    found = expressions.compiled(tree, (), context, place)
    return found.call([], context), found.type
