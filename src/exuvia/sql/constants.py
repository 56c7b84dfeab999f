"""Expressions without a table: the value side of SET, KILL, DO and DEFAULT (expression)."""

from exuvia.base.types import FieldType
from exuvia.sql import expressions
from exuvia.sql.context import Context
from exuvia.sql.nodes import Tree
from exuvia.sql.result import Value


def evaluate(tree: Tree, context: Context) -> tuple[Value, FieldType]:
    """Value and type. Raises Refused (1054 where a column is named)."""
    found = expressions.compiled(tree, (), context)
    return found.call([], context), found.type
