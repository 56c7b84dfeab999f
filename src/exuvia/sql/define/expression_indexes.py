"""Indexes on expressions: each expression is a hidden virtual column of its index.

    INDEX i (c, (a + 1))  ->  `_V$_i_1` AS (a + 1) VIRTUAL, hidden     index i (c, _V$_i_1)

The column comes and goes with its index, in the same states. Names and refusals are TiDB's:
3762 a plain column in parentheses · 3758 a function that sees more than a row · 3754 the
AUTO_INCREMENT column · 3753 JSON · 3757 TEXT and BLOB · 3756 in a primary key · 1054 · 1060
"""

from collections.abc import Iterable, Sequence

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrDupFieldName,
    ErrFunctionalIndexFunctionIsNotAllowed,
    ErrFunctionalIndexOnBlob,
    ErrFunctionalIndexOnField,
    ErrFunctionalIndexOnJSONOrGeometryFunction,
    ErrFunctionalIndexPrimaryKey,
    ErrFunctionalIndexRefAutoIncrement,
    ErrFunctionalIndexRowValueIsNotAllowed,
    ErrNotSupportedYet,
    ErrWrongKeyColumnFunctionalIndex,
)
from exuvia.base.types import TEXT_BLOBS, Family, FieldType, Flag, TypeCode
from exuvia.catalog.model import ColumnInfo, evolve, name
from exuvia.sql.define.disallowed import disallowed
from exuvia.sql.expr import Expr
from exuvia.sql.generated import bound_expression, names_in
from exuvia.sql.nodes import IndexDefinition, IndexPart, Tree
from exuvia.sql.parse.restore import restored

PREFIX = "_V$"
_ANONYMOUS = "expression_index"
_KEPT_FLAGS = Flag.UNSIGNED | Flag.BINARY | Flag.ZEROFILL


def with_hidden(
    written: IndexDefinition, columns: Sequence[ColumnInfo], taken: Iterable[str]
) -> tuple[IndexDefinition, tuple[ColumnInfo, ...]]:
    """The definition over plain columns, and the hidden columns it needs. `taken`: lower-case names
    of indexes."""
    if all(part.expression is None for part in written.parts):
        return written, ()
    if written.kind == "primary":
        raise ErrFunctionalIndexPrimaryKey()
    index = written.name or _free_name(frozenset(taken))
    parts: list[IndexPart] = []
    hidden: list[ColumnInfo] = []
    for number, part in enumerate(written.parts):
        if part.expression is not None:
            text = f"{PREFIX}_{index}_{number}"
            known = [*columns, *hidden]
            if any(each.name.L == text.lower() for each in known):
                raise ErrDupFieldName(text)
            hidden.append(_column(text, index, part.expression, columns, len(known)))
            part = IndexPart(text, descending=part.descending)
        parts.append(part)
    facts = {field: getattr(written, field) for field in written.__struct_fields__}
    definition = IndexDefinition(**{**facts, "name": index, "parts": tuple(parts)})
    return definition, tuple(hidden)


def all_with_hidden(
    written: Sequence[IndexDefinition], columns: tuple[ColumnInfo, ...]
) -> tuple[list[IndexDefinition], tuple[ColumnInfo, ...]]:
    """Every index of a new table, and its columns with the hidden ones behind them."""
    taken = [each.name.lower() for each in written if each.name]
    definitions: list[IndexDefinition] = []
    for each in written:
        definition, hidden = with_hidden(each, columns, taken)
        if hidden and definition.name:
            taken.append(definition.name.lower())
        definitions.append(definition)
        columns = (*columns, *hidden)
    return definitions, columns


def _free_name(taken: frozenset[str]) -> str:
    if _ANONYMOUS not in taken:
        return _ANONYMOUS
    number = 2
    while f"{_ANONYMOUS}_{number}" in taken:
        number += 1
    return f"{_ANONYMOUS}_{number}"


def _column(
    text: str, index: str, tree: Tree, columns: Sequence[ColumnInfo], offset: int
) -> ColumnInfo:
    _check(index, tree, columns)
    shown = restored(tree)
    visible = [each if not each.hidden else _without_name(each) for each in columns]
    try:
        bound = bound_expression(shown, visible)
    except Refused as error:
        raise _in_index(error) from None
    return ColumnInfo(
        id=offset + 1,
        name=name(text),
        offset=offset,
        type=_type(bound),
        hidden=True,
        generated_expr_string=shown,
        dependences={each: {} for each in names_in(tree)},
    )


def _without_name(column: ColumnInfo) -> ColumnInfo:
    """A hidden column stands where it stands, but no expression names it."""
    return evolve(column, name=name("\0"))


def _in_index(error: Refused) -> Refused:
    text = error.message.replace("'generated column function'", "'expression'")
    return Refused(error.code, error.state, text)


def _check(index: str, tree: Tree, columns: Sequence[ColumnInfo]) -> None:
    if isinstance(tree, exp.Column):
        raise ErrFunctionalIndexOnField()
    error = disallowed(
        tree,
        ErrFunctionalIndexFunctionIsNotAllowed(index),
        ErrFunctionalIndexRowValueIsNotAllowed(index),
    )
    if error is not None:
        raise error
    auto = {each.name.L for each in columns if each.auto_increment}
    if auto & set(names_in(tree)):
        raise ErrFunctionalIndexRefAutoIncrement(index)
    if any(cast.to.this == exp.DType.ARRAY for cast in tree.find_all(exp.Cast)):
        raise ErrNotSupportedYet("multi-valued index")


def _type(bound: Expr) -> FieldType:
    kind = bound.type
    if kind.Tp == TypeCode.JSON:
        raise ErrFunctionalIndexOnJSONOrGeometryFunction()
    if kind.Tp == TypeCode.NULL:
        raise ErrWrongKeyColumnFunctionalIndex("NULL")
    if kind.Tp in TEXT_BLOBS:
        raise ErrFunctionalIndexOnBlob()
    flag = int(Flag(kind.Flag) & _KEPT_FLAGS)
    if kind.family == Family.FLOAT:
        return evolve(kind, Flag=flag, Flen=-1, Decimal=-1)  # digits would round what is compared
    code = TypeCode.VARCHAR if kind.Tp == TypeCode.VAR_STRING else kind.Tp
    return evolve(kind, Tp=code, Flag=flag)
