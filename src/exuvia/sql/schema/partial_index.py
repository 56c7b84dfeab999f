"""The WHERE of an index becomes the terms of its predicate (catalog/predicate.py).

    WHERE b > 3 AND 7 >= c AND d IN ('x', 'y') AND e IS NOT NULL
    Term(b, >, 3)  Term(c, <=, 7)  Term(d, in, ('x','y'))  Term(e, is not null)

Columns against literals, with TiDB's refusals (8200, "Unsupported add partial index: ..."); AND and
IN are what TiDB's manual lists beyond its parser. A literal is of the column's kind:

    whole number, TRUE     integers, BIT, YEAR, ENUM, SET
    1.5, 1e3               FLOAT, DOUBLE, DECIMAL
    text                   CHAR, VARCHAR, TEXT; dates and times; ENUM and SET with = != IN
    x'ab', b'01'           BINARY, VARBINARY, BLOB

Literals are converted here: a TIMESTAMP is read in the session's zone.
"""

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import Final

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrModifyColumnReferencedByPartialCondition,
    ErrUnsupportedDDLOperation,
)
from exuvia.base.types import Family, TypeCode, Value
from exuvia.catalog.codec.key_encoder import encoder_of
from exuvia.catalog.convert import values
from exuvia.catalog.model import ColumnInfo, PredicateTerm, SchemaState, TableInfo
from exuvia.cluster import member
from exuvia.ddl.elements import index_with_predicate_on
from exuvia.kv.transaction import Transaction
from exuvia.sql.access.implied import MIRRORED, operator_of, value_bound
from exuvia.sql.access.ranger import INEXACT, Doubtful
from exuvia.sql.expressions import bytes_of_literal, literal_of
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.restore import restored
from exuvia.sql.type_text import type_text

_WORDS: Final = (TypeCode.ENUM, TypeCode.SET)
_KINDS: Final = {
    "bigint": ({Family.INT, Family.UINT}, set(_WORDS)),
    "decimal": ({Family.FLOAT, Family.DECIMAL}, set()),
    "varchar": ({Family.STRING, Family.DATE, Family.DATETIME, Family.TIME}, set(_WORDS)),
    "binary": ({Family.BYTES}, set()),
}
"""literal type -> (families of columns, further column types) that it can be compared with."""
_ANY_TYPE: Final = "the kind of partial index condition is not supported"


def _refused(text: str) -> Refused:
    return ErrUnsupportedDDLOperation(f"add partial index: {text}")


def predicate_of(
    where: Tree | None, columns: Sequence[ColumnInfo], zone: tzinfo | None
) -> tuple[PredicateTerm, ...]:
    """The terms of an index's WHERE, () without one. Raises 8200."""
    if where is None:
        return ()
    return tuple(_term(conjunct, columns, zone) for conjunct in _conjuncts(where))


def _conjuncts(tree: Tree) -> Iterator[Tree]:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.this)
        yield from _conjuncts(tree.expression)
    else:
        yield tree


def _term(tree: Tree, columns: Sequence[ColumnInfo], zone: tzinfo | None) -> PredicateTerm:
    negated = isinstance(tree, exp.Not)
    inner = tree.this if negated else tree
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        column = _column(inner.this, columns, "IS NULL expression", "{}")
        operator = "is not null" if negated else "is null"
        return PredicateTerm(name=column.name, operator=operator, exuvia_column=column.id)
    if isinstance(tree, exp.In) and tree.args.get("query") is None:
        column = _column(tree.this, columns, "IN expression", "`{}`")
        constants = list(tree.expressions)
        written = f"({','.join(restored(constant) for constant in constants)})"
        return _compared(column, "in", constants, written, zone)
    sign = operator_of(tree)
    if sign is None:
        if isinstance(tree, exp.Binary):
            raise _refused(f"binary operation {tree.key} is not supported")
        raise _refused(_ANY_TYPE)
    left, right = tree.this, tree.expression
    if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
        left, right, sign = right, left, MIRRORED[sign]
    column = _column(left, columns, "binary operation", "`{}`")
    return _compared(column, sign, [right], restored(right), zone)


def _column(tree: Tree, columns: Sequence[ColumnInfo], place: str, template: str) -> ColumnInfo:
    if not isinstance(tree, exp.Column):
        raise _refused(f"partial index condition must include a column name in the {place}")
    column = next(
        (candidate for candidate in columns if candidate.name.L == tree.name.lower()), None
    )
    if column is None or column.hidden:
        text = f"column name {template.format(tree.name)} referenced in partial index condition"
        raise _refused(f"{text} is not found in table")
    if column.is_generated:
        text = f"generated column {column.name.O} cannot be used in partial index condition"
        raise _refused(text)
    if column.type.family == Family.JSON:
        raise _refused(_ANY_TYPE)
    return column


def _compared(
    column: ColumnInfo, operator: str, constants: list[Tree], written: str, zone: tzinfo | None
) -> PredicateTerm:
    encode = encoder_of(column.type)
    zone = zone if column.type.Tp == TypeCode.TIMESTAMP else None
    keys = tuple(encode(_value(column, operator, constant, zone)).hex() for constant in constants)
    return PredicateTerm(
        name=column.name, operator=operator, written=written, keys=keys, exuvia_column=column.id
    )


def _value(column: ColumnInfo, operator: str, tree: Tree, zone: tzinfo | None) -> Value:
    if isinstance(tree, exp.Introducer) and tree.name.lower() in ("_utf8mb4", "_utf8"):
        tree = tree.expression  # texts as in SHOW CREATE TABLE
    kind, raw = column.type, bytes_of_literal(tree)
    literal = literal_of(tree) if raw is None else (raw,)
    if raw is not None and kind.family in (Family.INT, Family.UINT, Family.DECIMAL, Family.FLOAT):
        literal = (int.from_bytes(raw, "big"),)
    if not literal:
        text = "a literal value on the other side of the binary operation"
        raise _refused(f"partial index condition must include {text}")
    (value,) = literal
    if value is None:
        text = f"{'=' if operator == 'in' else operator} NULL is not supported"
        raise _refused(f"{text} in partial index condition because it is always false")
    named = _literal_type(value)
    families, types = _KINDS[named]
    numbered = named == "varchar" and kind.Tp in (*_WORDS, TypeCode.YEAR, TypeCode.BIT)
    goes = kind.Tp in types or (kind.family in families and not numbered)
    bound = _word(column, operator, value) if numbered and goes else INEXACT
    if goes and not numbered:
        bound = value_bound(kind, operator, value, zone)
    if not goes or bound is INEXACT or isinstance(bound, Doubtful):
        raise _refused(
            f"the type {type_text(kind)} of the column `{column.name.O}` in partial index "
            f"condition is not compatible with the literal value type {named}"
        )
    return bound


def _literal_type(value: Value) -> str:
    if isinstance(value, int):
        return "bigint"
    if isinstance(value, float | Decimal):
        return "decimal"
    return "varchar" if isinstance(value, str) else "binary"


def _word(column: ColumnInfo, operator: str, text: str) -> Value:
    """The number of an ENUM's or SET's text; INEXACT for < and >, which compare the texts."""
    if operator not in ("=", "!=", "in"):
        return INEXACT
    try:
        return values.from_text(text, column.type)
    except Refused:
        return INEXACT


# -- refusals for tables with a partial index ------------------------------------------------------


def check_nodes(txn: Transaction) -> None:
    """Raises 8200 while a node serves that would ignore the predicate and index every row."""
    older = [node.title for node in member.before_0_4(txn)]
    if older:
        raise _refused(f"{', '.join(older)} of an older release serves")


def check_not_partitioned(table: TableInfo) -> None:
    """Raises 8200 if a table to be partitioned has a partial index."""
    if any(index.is_partial for index in table.indexes):
        raise _refused("partial index is not supported on partitioned table")


def check_partitioned(table: TableInfo, where: Tree | None) -> None:
    """Raises 8200 for a partial index on a partitioned table."""
    if where is not None and table.partition is not None:
        raise _refused("partial index on partitioned table is not supported")


def check_free(table: TableInfo, column: ColumnInfo) -> None:
    """Raises 8272 for a column of a partial index's predicate, which contains converted values.

    If the index is retained for UNDO, the job refuses the change."""
    index = index_with_predicate_on(table, column.id)
    if index is not None and index.state == SchemaState.PUBLIC:
        raise ErrModifyColumnReferencedByPartialCondition(column.name.O, index.idx_name.O)
