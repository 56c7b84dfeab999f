"""Expressions that an index holds: a WHERE that says `a + 1 = 5` is as good as one that names the
hidden column of an index on (a + 1), or an indexed generated column of the same type.

The texts compared are those of parse/restore.py. A literal is part of the text, so plans of tables
with such indexes are not kept by shape.
"""

from collections.abc import Mapping

from sqlglot import exp

from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog.table import Table
from exuvia.sql.generated import generated_columns
from exuvia.sql.parse.restore import restored
from exuvia.sql.parse.text import parse_expression

_KEPT = "expressions"


def expressions_of(table: Table) -> Mapping[str, int]:
    """Text of an expression -> position of the indexed column that holds its value."""
    found: Mapping[str, int] | None = table.kept.get(_KEPT)
    if found is None:
        found = table.kept[_KEPT] = _found(table)
    return found


def _found(table: Table) -> dict[str, int]:
    info = table.info
    if not any(column.is_generated for column in info.cols):
        return {}
    indexed = {part.exuvia_column for index in info.indexes for part in index.idx_cols}
    return {
        _bare(each.column.generated_expr_string): each.position
        for each in generated_columns(info)
        if each.column.id in indexed
        and (each.column.hidden or _same(each.column.type, each.bound.type))
    }


def _bare(text: str) -> str:
    """The text without parentheses around it all."""
    tree = parse_expression(text)
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return restored(tree)


def _same(column: FieldType, value: FieldType) -> bool:
    """Whether every value of the expression is the same in the column, and compares alike."""
    alike = column.family == value.family and column.unsigned == value.unsigned
    if not alike or column.Collate != value.Collate:
        return False
    if column.family == Family.DECIMAL:
        return column.Decimal == value.Decimal and column.Flen >= value.Flen
    if column.family in (Family.STRING, Family.BYTES):
        return column.Tp != TypeCode.STRING and column.Flen >= value.Flen >= 0
    return column.Tp == value.Tp and column.Decimal == value.Decimal
