"""An IndexDefinition becomes an IndexInfo, with MySQL's refusals.

    1061 name twice · 1280 bad name · 1069 more than 64 · 1070 more than 16 parts
    1072 no such column · 1060 column twice · 1089 prefix where none may be
    1170 TEXT without a prefix · 1071 more than 3072 bytes

An expression in it is a hidden virtual column, which comes and goes with the index, in the same
states; names and refusals are TiDB's:

    INDEX i (c, (a + 1))  ->  `_V$_i_1` AS (a + 1) VIRTUAL, hidden     index i (c, _V$_i_1)

    3762 a plain column in parentheses · 3758 a function that sees more than a row
    3754 the AUTO_INCREMENT column · 3753 JSON · 3757 TEXT and BLOB · 3756 in a primary key
    1054 · 1060

That of a multi-valued index holds an array (sql/generated.py), and its part says of what elements:

    INDEX i ((CAST(j AS UNSIGNED ARRAY)))  ->  `_V$_i_0` JSON, hidden     a part of UNSIGNED

    3146 no JSON · 1235 two of them, a type that none has, elsewhere in an expression
    8200 on rows of a predicate
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import tzinfo

from sqlglot import exp

from exuvia.base.errors import Broken, Refused
from exuvia.base.limits import IDENTIFIER_CHARS, INDEXES_PER_TABLE, KEY_BYTES, KEY_PARTS
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrBlobKeyWithoutLength,
    ErrDupFieldName,
    ErrDupKeyName,
    ErrFunctionalIndexFunctionIsNotAllowed,
    ErrFunctionalIndexOnBlob,
    ErrFunctionalIndexOnField,
    ErrFunctionalIndexOnJSONOrGeometryFunction,
    ErrFunctionalIndexPrimaryKey,
    ErrFunctionalIndexRefAutoIncrement,
    ErrFunctionalIndexRowValueIsNotAllowed,
    ErrInvalidTypeForJSON,
    ErrJSONUsedAsKey,
    ErrKeyColumnDoesNotExits,
    ErrKeyPart0,
    ErrMultiplePriKey,
    ErrNotSupportedYet,
    ErrPKIndexCantBeInvisible,
    ErrTableCantHandleFt,
    ErrTooLongIndexComment,
    ErrTooLongKey,
    ErrTooManyKeyParts,
    ErrTooManyKeys,
    ErrUnsupportedDDLOperation,
    ErrUnsupportedOnGeneratedColumn,
    ErrWrongKeyColumn,
    ErrWrongKeyColumnFunctionalIndex,
    ErrWrongNameForIndex,
    ErrWrongSubKey,
)
from exuvia.base.types import TEXT_BLOBS, Family, FieldType, Flag, TypeCode
from exuvia.catalog.model import (
    ColumnInfo,
    IndexColumn,
    IndexInfo,
    Name,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.cluster.member import before_0_5
from exuvia.kv.transaction import Transaction
from exuvia.sql import types, walks
from exuvia.sql.bind.cast import ARRAY_HERE, element_type
from exuvia.sql.charsets import CHARSETS
from exuvia.sql.expr import Expr
from exuvia.sql.generated import PREFIX, bound_expression, names_in
from exuvia.sql.nodes import IndexDefinition, IndexPart, Tree
from exuvia.sql.parse.restore import restored
from exuvia.sql.parse.text import parse_expression
from exuvia.sql.schema.column_definition import check_name, name_elsewhere
from exuvia.sql.schema.generated_column import disallowed
from exuvia.sql.schema.partial_index import predicate_of

_COMMENT_CHARS = 1024
_STRINGS = (Family.STRING, Family.BYTES)
_PART_BYTES = {
    TypeCode.TINY: 1,
    TypeCode.SHORT: 2,
    TypeCode.INT24: 3,
    TypeCode.LONG: 4,
    TypeCode.LONGLONG: 8,
    TypeCode.FLOAT: 4,
    TypeCode.DOUBLE: 8,
    TypeCode.YEAR: 1,
    TypeCode.DATE: 3,
    TypeCode.TIME: 3,
    TypeCode.DATETIME: 8,
    TypeCode.TIMESTAMP: 4,
    TypeCode.ENUM: 2,
    TypeCode.SET: 8,
}


def without_fulltext(
    indexes: Iterable[IndexDefinition], warn: Callable[[int, str], None]
) -> list[IndexDefinition]:
    """The indexes without FULLTEXT ones. Adds warning 1214 for each of those."""
    found = []
    for each in indexes:
        if each.kind == "fulltext":
            warn(ErrTableCantHandleFt.code, ErrTableCantHandleFt().message)
        else:
            found.append(each)
    return found


def fulltext_names(indexes: Iterable[IndexDefinition], taken: Iterable[str]) -> tuple[str, ...]:
    """The names of FULLTEXT keys. `taken`: names of the table's other keys, in lower case. Raises
    1061, 1280."""
    held, found = set(taken), []
    for each in indexes:
        if each.kind == "fulltext":
            text = _named(each) or _named_by(each.parts[0].column or "functional_index", held)
            if text.lower() in held:
                raise ErrDupKeyName(text)
            held.add(text.lower())
            found.append(text)
    return tuple(found)


def index_info(
    written: IndexDefinition,
    columns: Sequence[ColumnInfo],
    table: Name,
    index_id: int,
    taken: Iterable[str],
    zone: tzinfo | None = None,
) -> IndexInfo:
    """The index; `taken` holds the lower-case names already in use, `zone` is where moments are
    meant. Raises Refused."""
    if written.kind in ("fulltext", "spatial"):
        raise ErrNotSupportedYet(f"{written.kind.upper()} index")
    if written.kind != "primary" and written.clustered is not None:
        said = "CLUSTERED/NONCLUSTERED keyword is only supported for primary key"
        raise ErrUnsupportedDDLOperation.with_text(said)
    if len(written.comment) > _COMMENT_CHARS:
        raise ErrTooLongIndexComment(written.name or "", _COMMENT_CHARS)
    if written.kind == "primary" and written.where is not None:
        raise ErrUnsupportedDDLOperation(
            "add partial index: create an primary key with partial index is not supported"
        )
    if written.kind == "primary" and written.invisible:
        raise ErrPKIndexCantBeInvisible()
    names = frozenset(taken)
    parts = _parts(written.parts, columns, written.kind == "primary")
    text = "PRIMARY" if written.kind == "primary" else _index_name(written, parts, names)
    if text.lower() in names:
        raise ErrMultiplePriKey() if written.kind == "primary" else ErrDupKeyName(text)
    return IndexInfo(
        id=index_id,
        idx_name=name(text),
        tbl_name=table,
        idx_cols=parts,
        is_unique=written.kind in ("unique", "primary"),
        is_primary=written.kind == "primary",
        is_invisible=written.invisible,
        comment=written.comment,
        index_type={"HASH": 2, "RTREE": 3}.get(written.using or "", 1),
        is_global=written.is_global,
        exuvia_predicate=predicate_of(written.where, columns, zone),
        exuvia_generated=written.generated,
    )


def _index_name(
    written: IndexDefinition, parts: tuple[IndexColumn, ...], taken: frozenset[str]
) -> str:
    return _named(written) or _named_by(parts[0].name.O, taken)


def _named(written: IndexDefinition) -> str | None:
    if written.name is None:
        return None
    text = check_name(written.name, ErrWrongNameForIndex)
    if text.upper() == "PRIMARY":
        raise ErrWrongNameForIndex(text)
    return text


def _named_by(base: str, taken: AbstractSet[str]) -> str:
    if base.upper() != "PRIMARY" and base.lower() not in taken:
        return base
    found = _numbered(base, taken)
    return found if len(found) <= IDENTIFIER_CHARS else _numbered(base[:_CUT_CHARS], taken)


_CUT_CHARS = 30  # of a column's name that leaves no room for a number, as in TiDB


def _numbered(base: str, taken: AbstractSet[str]) -> str:
    number = 2
    while f"{base}_{number}".lower() in taken:
        number += 1
    return f"{base}_{number}"


def _parts(
    written: Sequence[IndexPart], columns: Sequence[ColumnInfo], primary: bool
) -> tuple[IndexColumn, ...]:
    if len(written) > KEY_PARTS:
        raise ErrTooManyKeyParts(KEY_PARTS)
    by_name = {column.name.L: column for column in columns}
    found: list[IndexColumn] = []
    total = 0
    for part in written:
        if part.column is None:
            raise Broken("an expression of an index has no hidden column")
        column = by_name.get(part.column.lower())
        if column is None and primary:
            raise ErrKeyColumnDoesNotExits(part.column)
        if column is None:
            raise ErrKeyColumnDoesNotExits.with_text(f"column does not exist: {part.column}")
        if primary and column.is_virtual:
            raise ErrUnsupportedOnGeneratedColumn(
                "Defining a virtual generated column as primary key"
            )
        if any(each.exuvia_column == column.id for each in found):
            raise ErrDupFieldName(part.column)
        array = array_of(column)
        length = -1 if array is not None else _prefix(column, part.length)
        total += _bytes(column.type if array is None else array, length)
        if total > KEY_BYTES:
            raise ErrTooLongKey(total, KEY_BYTES)
        found.append(
            IndexColumn(
                name=column.name,
                offset=column.offset,
                length=length,
                exuvia_column=column.id,
                exuvia_array=array,
            )
        )
    return tuple(found)


def array_of(column: ColumnInfo) -> FieldType | None:
    """The type of the elements of a multi-valued index's hidden column; None of any other."""
    if not column.hidden or column.type.Tp != TypeCode.JSON:
        return None
    return element_type(parse_expression(column.generated_expr_string))


def part_bytes(column: ColumnInfo, length: int) -> int:
    """Bytes that a part of a key takes; `length` is a prefix or -1. Raises 1089, 1170, 3152."""
    array = array_of(column)
    return _bytes(column.type, _prefix(column, length)) if array is None else _bytes(array, -1)


def _prefix(column: ColumnInfo, length: int) -> int:
    """The prefix length kept: -1 where the whole column is meant. Raises 1089, 1170, 3152."""
    kind = column.type
    if kind.Tp == TypeCode.JSON:
        raise ErrJSONUsedAsKey(column.name.O)
    if kind.family in _STRINGS and kind.Flen == 0:
        raise ErrWrongKeyColumn(column.name.O)
    if length < 0:
        if kind.Tp in TEXT_BLOBS:
            raise ErrBlobKeyWithoutLength(column.name.O)
        return -1
    if length == 0:
        raise ErrKeyPart0(column.name.O)
    if kind.family not in _STRINGS:
        raise ErrWrongSubKey()
    if kind.Tp in TEXT_BLOBS:
        return length
    if length > kind.Flen:
        raise ErrWrongSubKey()
    return -1 if length == kind.Flen else length


def _bytes(kind: FieldType, length: int) -> int:
    if kind.family in _STRINGS:
        width = CHARSETS.get(kind.Charset, ("", "", 4))[2]
        return (kind.Flen if length < 0 else length) * width
    if kind.Tp == TypeCode.NEWDECIMAL:
        return kind.Flen // 9 * 4 + (kind.Flen % 9 + 1) // 2
    if kind.Tp == TypeCode.BIT:
        return (kind.Flen + 7) // 8
    digits = (
        kind.Decimal if kind.Tp in (TypeCode.TIME, TypeCode.DATETIME, TypeCode.TIMESTAMP) else 0
    )
    return _PART_BYTES[TypeCode(kind.Tp)] + (digits + 1) // 2


def check_visible(table: TableInfo) -> None:
    """The primary key, or the unique index that stands for one, is seen by plans. Raises 3522."""
    primary = _primary_of(table)
    if primary is not None and primary.is_invisible:
        raise ErrPKIndexCantBeInvisible()


def keys_beginning_with(table: TableInfo, column: ColumnInfo) -> set[str]:
    """Names, in lower case, of the public keys whose first column it is: where AUTO_INCREMENT may
    be."""
    names = {
        index.idx_name.L
        for index in table.indexes
        if index.state == SchemaState.PUBLIC
        and index.holds_every_row
        and index.idx_cols[0].exuvia_column == column.id
    }
    if table.pk_is_handle and table.key_columns == (column.id,):
        names.add("primary")
    return names


def _primary_of(table: TableInfo) -> IndexInfo | None:
    if table.pk_is_handle:
        return None
    first = None
    for index in table.indexes:
        columns = [table.column(part.name.L) for part in index.idx_cols]
        if index.is_primary:
            return index
        whole = (
            index.is_unique
            and index.holds_every_row
            and all(each is not None and each.not_null for each in columns)
        )
        if whole and first is None:
            first = index
    return first


def check_count(indexes: int) -> None:
    """Refused 1069 beyond 64."""
    if indexes > INDEXES_PER_TABLE:
        raise ErrTooManyKeys(INDEXES_PER_TABLE)


# -- expressions -----------------------------------------------------------------------------------


_ANONYMOUS = "expression_index"
_KEPT_FLAGS = Flag.UNSIGNED | Flag.BINARY | Flag.ZEROFILL


def check_expression_places(written: IndexDefinition, database: str, table: str) -> None:
    """The expressions of an index name columns of its own table. Raises 1054."""
    for part in written.parts:
        elsewhere = part.expression and name_elsewhere(part.expression, database, table)
        if elsewhere:
            raise ErrBadField(elsewhere, "expression")


def with_hidden(
    written: IndexDefinition,
    columns: Sequence[ColumnInfo],
    taken: Iterable[str],
    reads_auto: bool = False,
) -> tuple[IndexDefinition, tuple[ColumnInfo, ...]]:
    """The definition over plain columns, and the hidden columns it needs. `taken`: lower-case names
    of indexes; `reads_auto`: an expression may name the AUTO_INCREMENT column."""
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
                raise ErrDupKeyName(index) if index.lower() in taken else ErrDupFieldName(text)
            _check(index, part.expression, columns, reads_auto)
            shown = restored(part.expression)
            visible = [each if not each.hidden else _without_name(each) for each in columns]
            array = element_type(part.expression)
            try:
                inner = part.expression.this if array is not None else part.expression
                bound = bound_expression(restored(inner), visible)
            except Refused as error:
                raise _in_index(error) from None
            if array is not None and bound.family is not Family.JSON:
                raise ErrInvalidTypeForJSON(1, "cast_as_array")
            hidden.append(
                ColumnInfo(
                    id=len(known) + 1,
                    name=name(text),
                    offset=len(known),
                    type=types.JSON if array is not None else _type(bound, shown),
                    hidden=True,
                    generated_expr_string=shown,
                    dependences={each: {} for each in names_in(part.expression)},
                )
            )
            part = IndexPart(text, descending=part.descending)
        parts.append(part)
    _check_arrays(written, hidden)
    facts = {field: getattr(written, field) for field in written.__struct_fields__}
    definition = IndexDefinition(**{**facts, "name": index, "parts": tuple(parts)})
    return definition, tuple(hidden)


def all_with_hidden(
    written: Sequence[IndexDefinition],
    columns: tuple[ColumnInfo, ...],
    reads_auto: bool = False,
) -> tuple[list[IndexDefinition], tuple[ColumnInfo, ...]]:
    """Every index of a new table, and its columns with the hidden ones behind them."""
    taken = [each.name.lower() for each in written if each.name]
    definitions: list[IndexDefinition] = []
    for each in written:
        definition, hidden = with_hidden(each, columns, taken, reads_auto)
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


def _without_name(column: ColumnInfo) -> ColumnInfo:
    """A hidden column stands where it stands, but no expression names it."""
    return evolve(column, name=name("\0"))


def _in_index(error: Refused) -> Refused:
    text = error.message.replace("'generated column function'", "'expression'")
    return Refused(error.code, error.state, text)


def _check(index: str, tree: Tree, columns: Sequence[ColumnInfo], reads_auto: bool) -> None:
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
    if auto & set(names_in(tree)) and not reads_auto:
        raise ErrFunctionalIndexRefAutoIncrement(index)
    inside = (each for each in walks.find_all(tree, exp.Cast) if each is not tree)
    if any(cast.to.this == exp.DType.ARRAY for cast in inside):
        raise ErrNotSupportedYet(ARRAY_HERE)


def _check_arrays(written: IndexDefinition, hidden: Sequence[ColumnInfo]) -> None:
    arrays = sum(array_of(each) is not None for each in hidden)
    if arrays > 1:
        raise ErrNotSupportedYet("more than one multi-valued key part per index")
    if arrays and written.where is not None:
        raise ErrUnsupportedDDLOperation("add partial index: it is multi-valued")


def check_array_nodes(txn: Transaction) -> None:
    """Raises 8200 while a node serves that would give each row one entry, of its whole array."""
    older = [each.title for each in before_0_5(txn)]
    if older:
        text = f"multi-valued index: {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(text)


def _type(bound: Expr, shown: str) -> FieldType:
    kind = bound.type
    if kind.Tp == TypeCode.JSON:
        raise ErrFunctionalIndexOnJSONOrGeometryFunction()
    if kind.Tp == TypeCode.NULL:
        raise ErrWrongKeyColumnFunctionalIndex("NULL")
    if kind.family in _STRINGS and kind.Flen == 0:
        raise ErrWrongKeyColumnFunctionalIndex(shown)
    if kind.Tp in TEXT_BLOBS:
        raise ErrFunctionalIndexOnBlob()
    flag = int(Flag(kind.Flag) & _KEPT_FLAGS)
    if kind.family == Family.FLOAT:
        return evolve(kind, Flag=flag, Flen=-1, Decimal=-1)  # digits would round what is compared
    code = TypeCode.VARCHAR if kind.Tp == TypeCode.VAR_STRING else kind.Tp
    return evolve(kind, Tp=code, Flag=flag)
