"""DEFAULT NEXTVAL(s), DEFAULT NEXT VALUE FOR s: a default that a sequence gives.

Kept as TiDB keeps it: an expression, nextval(`db`.`s`).
"""

from sqlglot import exp

from exuvia.base.mysql_errors import ErrColumnTypeUnsupportedNextValue
from exuvia.base.types import INTEGER_BITS, TypeCode
from exuvia.catalog.model import ColumnInfo, evolve
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.text import parse_expression
from exuvia.sql.show.type_text import identifier

_NUMBERS = frozenset({*INTEGER_BITS, TypeCode.FLOAT, TypeCode.DOUBLE, TypeCode.NEWDECIMAL})
HEAD = "nextval("


def sequence_named(tree: Tree) -> exp.Column | None:
    """The sequence of a NEXTVAL call, None for any other expression."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.Anonymous) or tree.name.lower() != "nextval":
        return None
    named = tree.expressions[0] if len(tree.expressions) == 1 else None
    return named if isinstance(named, exp.Column) else None


def with_sequence(info: ColumnInfo, named: exp.Column) -> ColumnInfo:
    """The column with that default. Raises 8228 for a type that is no number."""
    if info.type.Tp not in _NUMBERS:
        raise ErrColumnTypeUnsupportedNextValue(info.name.O)
    return evolve(info, default=_text(named.table, named.name), default_is_expr=True)


def in_database(info: ColumnInfo, database: str) -> ColumnInfo:
    """The column with its sequence's database spelled out."""
    if not info.default_is_expr or not str(info.default).startswith(HEAD):
        return info
    named = sequence_named(parse_expression(str(info.default)))
    if named is None or named.table:
        return info
    return evolve(info, default=_text(database, named.name))


def _text(database: str, sequence: str) -> str:
    parts = [part for part in (database, sequence) if part]
    return f"{HEAD}{'.'.join(map(identifier, parts))})"
