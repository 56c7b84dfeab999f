"""An IndexDefinition becomes an IndexInfo, with MySQL's refusals.

    1061 duplicate name · 1280 bad name · 1069 more than 64 · 1070 more than 16 parts
    1072 unknown column · 1060 duplicate column · 1089 prefix not allowed
    1170 TEXT without a prefix · 1071 more than 3072 bytes

An expression in an index is a hidden virtual column. It is added and dropped with the index and has
the same states. Names and refusals are TiDB's:

    INDEX i (c, (a + 1))  ->  `_V$_i_1` AS (a + 1) VIRTUAL, hidden     index i (c, _V$_i_1)

    3762 a plain column in parentheses · 3758 a function that reads more than a row
    3754 the AUTO_INCREMENT column · 3753 JSON · 3757 TEXT and BLOB · 3756 in a primary key
    1054 · 1060

The hidden column of a multi-valued index is an array (sql/generated.py); the part has the type of
its elements:

    INDEX i ((CAST(j AS UNSIGNED ARRAY)))  ->  `_V$_i_0` JSON, hidden     a part of UNSIGNED

    3146 not JSON · 1235 two arrays, an unsupported type, an array within an expression
    8200 a partial index
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
    remaining = []
    for index in indexes:
        if index.kind == "fulltext":
            warn(ErrTableCantHandleFt.code, ErrTableCantHandleFt().message)
        else:
            remaining.append(index)
    return remaining


def fulltext_names(
    indexes: Iterable[IndexDefinition], used_names: Iterable[str]
) -> tuple[str, ...]:
    """The names of FULLTEXT keys. `used_names`: lower-case names of the table's other keys. Raises
    1061, 1280."""
    used, names = set(used_names), []
    for index in indexes:
        if index.kind == "fulltext":
            text = _named(index) or _named_by(index.parts[0].column or "functional_index", used)
            if text.lower() in used:
                raise ErrDupKeyName(text)
            used.add(text.lower())
            names.append(text)
    return tuple(names)


def index_info(
    written: IndexDefinition,
    columns: Sequence[ColumnInfo],
    table: Name,
    index_id: int,
    used_names: Iterable[str],
    zone: tzinfo | None = None,
) -> IndexInfo:
    """The index. `used_names`: lower-case names in use. `zone`: the zone of written moments.

    Raises Refused."""
    if written.kind in ("fulltext", "spatial"):
        raise ErrNotSupportedYet(f"{written.kind.upper()} index")
    if written.kind != "primary" and written.clustered is not None:
        reason = "CLUSTERED/NONCLUSTERED keyword is only supported for primary key"
        raise ErrUnsupportedDDLOperation.with_text(reason)
    if len(written.comment) > _COMMENT_CHARS:
        raise ErrTooLongIndexComment(written.name or "", _COMMENT_CHARS)
    if written.kind == "primary" and written.where is not None:
        raise ErrUnsupportedDDLOperation(
            "add partial index: create an primary key with partial index is not supported"
        )
    if written.kind == "primary" and written.invisible:
        raise ErrPKIndexCantBeInvisible()
    names = frozenset(used_names)
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
    written: IndexDefinition, parts: tuple[IndexColumn, ...], used_names: frozenset[str]
) -> str:
    return _named(written) or _named_by(parts[0].name.O, used_names)


def _named(written: IndexDefinition) -> str | None:
    if written.name is None:
        return None
    text = check_name(written.name, ErrWrongNameForIndex)
    if text.upper() == "PRIMARY":
        raise ErrWrongNameForIndex(text)
    return text


def _named_by(base: str, used_names: AbstractSet[str]) -> str:
    if base.upper() != "PRIMARY" and base.lower() not in used_names:
        return base
    candidate = _numbered(base, used_names)
    return (
        candidate
        if len(candidate) <= IDENTIFIER_CHARS
        else _numbered(base[:_CUT_CHARS], used_names)
    )


_CUT_CHARS = 30  # a longer column name is cut to this, to append a number, as in TiDB


def _numbered(base: str, used_names: AbstractSet[str]) -> str:
    number = 2
    while f"{base}_{number}".lower() in used_names:
        number += 1
    return f"{base}_{number}"


def _parts(
    written: Sequence[IndexPart], columns: Sequence[ColumnInfo], primary: bool
) -> tuple[IndexColumn, ...]:
    if len(written) > KEY_PARTS:
        raise ErrTooManyKeyParts(KEY_PARTS)
    by_name = {column.name.L: column for column in columns}
    parts: list[IndexColumn] = []
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
        if any(previous.exuvia_column == column.id for previous in parts):
            raise ErrDupFieldName(part.column)
        array = array_of(column)
        length = -1 if array is not None else _prefix(column, part.length)
        total += _bytes(column.type if array is None else array, length)
        if total > KEY_BYTES:
            raise ErrTooLongKey(total, KEY_BYTES)
        parts.append(
            IndexColumn(
                name=column.name,
                offset=column.offset,
                length=length,
                exuvia_column=column.id,
                exuvia_array=array,
            )
        )
    return tuple(parts)


def array_of(column: ColumnInfo) -> FieldType | None:
    """The element type of a multi-valued index's hidden column; None for any other column."""
    if not column.hidden or column.type.Tp != TypeCode.JSON:
        return None
    return element_type(parse_expression(column.generated_expr_string))


def part_bytes(column: ColumnInfo, length: int) -> int:
    """The size of a key's part in bytes. `length`: a prefix, or -1. Raises 1089, 1170, 3152."""
    array = array_of(column)
    return _bytes(column.type, _prefix(column, length)) if array is None else _bytes(array, -1)


def _prefix(column: ColumnInfo, length: int) -> int:
    """The stored prefix length, -1 for the whole column. Raises 1089, 1170, 3152."""
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
    """Raises 3522 if the primary key is invisible, or the unique index that replaces one."""
    primary = _primary_of(table)
    if primary is not None and primary.is_invisible:
        raise ErrPKIndexCantBeInvisible()


def keys_beginning_with(table: TableInfo, column: ColumnInfo) -> set[str]:
    """Lower-case names of the public keys that begin with the column; AUTO_INCREMENT needs one."""
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
            and all(column is not None and column.not_null for column in columns)
        )
        if whole and first is None:
            first = index
    return first


def check_count(indexes: int) -> None:
    """Raises 1069 for more than 64 indexes."""
    if indexes > INDEXES_PER_TABLE:
        raise ErrTooManyKeys(INDEXES_PER_TABLE)


# -- expressions -----------------------------------------------------------------------------------


_ANONYMOUS = "expression_index"
_KEPT_FLAGS = Flag.UNSIGNED | Flag.BINARY | Flag.ZEROFILL


def check_expression_places(written: IndexDefinition, database: str, table: str) -> None:
    """Check that expressions of an index name only columns of its own table. Raises 1054."""
    for part in written.parts:
        elsewhere = part.expression and name_elsewhere(part.expression, database, table)
        if elsewhere:
            raise ErrBadField(elsewhere, "expression")


def with_hidden(
    written: IndexDefinition,
    columns: Sequence[ColumnInfo],
    used_names: Iterable[str],
    reads_auto: bool = False,
) -> tuple[IndexDefinition, tuple[ColumnInfo, ...]]:
    """The definition on columns only, and the hidden columns for its expressions.

    `used_names`: lower-case names of indexes. `reads_auto`: an expression may name the
    AUTO_INCREMENT column."""
    if all(part.expression is None for part in written.parts):
        return written, ()
    if written.kind == "primary":
        raise ErrFunctionalIndexPrimaryKey()
    index = written.name or _free_name(frozenset(used_names))
    parts: list[IndexPart] = []
    hidden_columns: list[ColumnInfo] = []
    for number, part in enumerate(written.parts):
        if part.expression is not None:
            text = f"{PREFIX}_{index}_{number}"
            all_columns = [*columns, *hidden_columns]
            if any(column.name.L == text.lower() for column in all_columns):
                raise ErrDupKeyName(index) if index.lower() in used_names else ErrDupFieldName(text)
            _check(index, part.expression, columns, reads_auto)
            expression_text = restored(part.expression)
            visible = [column if not column.hidden else _without_name(column) for column in columns]
            array = element_type(part.expression)
            try:
                inner = part.expression.this if array is not None else part.expression
                bound = bound_expression(restored(inner), visible)
            except Refused as error:
                raise _in_index(error) from None
            if array is not None and bound.family is not Family.JSON:
                raise ErrInvalidTypeForJSON(1, "cast_as_array")
            hidden_columns.append(
                ColumnInfo(
                    id=len(all_columns) + 1,
                    name=name(text),
                    offset=len(all_columns),
                    type=types.JSON if array is not None else _type(bound, expression_text),
                    hidden=True,
                    generated_expr_string=expression_text,
                    dependences={column_name: {} for column_name in names_in(part.expression)},
                )
            )
            part = IndexPart(text, descending=part.descending)
        parts.append(part)
    _check_arrays(written, hidden_columns)
    facts = {field: getattr(written, field) for field in written.__struct_fields__}
    definition = IndexDefinition(**{**facts, "name": index, "parts": tuple(parts)})
    return definition, tuple(hidden_columns)


def all_with_hidden(
    written: Sequence[IndexDefinition],
    columns: tuple[ColumnInfo, ...],
    reads_auto: bool = False,
) -> tuple[list[IndexDefinition], tuple[ColumnInfo, ...]]:
    """Every index of a new table, and its columns followed by the hidden ones."""
    used_names = [index.name.lower() for index in written if index.name]
    definitions: list[IndexDefinition] = []
    for index in written:
        definition, hidden_columns = with_hidden(index, columns, used_names, reads_auto)
        if hidden_columns and definition.name:
            used_names.append(definition.name.lower())
        definitions.append(definition)
        columns = (*columns, *hidden_columns)
    return definitions, columns


def _free_name(used_names: frozenset[str]) -> str:
    if _ANONYMOUS not in used_names:
        return _ANONYMOUS
    number = 2
    while f"{_ANONYMOUS}_{number}" in used_names:
        number += 1
    return f"{_ANONYMOUS}_{number}"


def _without_name(column: ColumnInfo) -> ColumnInfo:
    """The hidden column at its position, with a name that no expression can use."""
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
    auto = {column.name.L for column in columns if column.auto_increment}
    if auto & set(names_in(tree)) and not reads_auto:
        raise ErrFunctionalIndexRefAutoIncrement(index)
    inside = (cast for cast in walks.find_all(tree, exp.Cast) if cast is not tree)
    if any(cast.to.this == exp.DType.ARRAY for cast in inside):
        raise ErrNotSupportedYet(ARRAY_HERE)


def _check_arrays(written: IndexDefinition, hidden_columns: Sequence[ColumnInfo]) -> None:
    arrays = sum(array_of(column) is not None for column in hidden_columns)
    if arrays > 1:
        raise ErrNotSupportedYet("more than one multi-valued key part per index")
    if arrays and written.where is not None:
        raise ErrUnsupportedDDLOperation("add partial index: it is multi-valued")


def check_array_nodes(txn: Transaction) -> None:
    """Raises 8200 while a node serves that would index each row once, by its whole array."""
    older = [member.title for member in before_0_5(txn)]
    if older:
        text = f"multi-valued index: {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(text)


def _type(bound: Expr, expression_text: str) -> FieldType:
    kind = bound.type
    if kind.Tp == TypeCode.JSON:
        raise ErrFunctionalIndexOnJSONOrGeometryFunction()
    if kind.Tp == TypeCode.NULL:
        raise ErrWrongKeyColumnFunctionalIndex("NULL")
    if kind.family in _STRINGS and kind.Flen == 0:
        raise ErrWrongKeyColumnFunctionalIndex(expression_text)
    if kind.Tp in TEXT_BLOBS:
        raise ErrFunctionalIndexOnBlob()
    flag = int(Flag(kind.Flag) & _KEPT_FLAGS)
    if kind.family == Family.FLOAT:
        return evolve(kind, Flag=flag, Flen=-1, Decimal=-1)  # a scale would round compared values
    code = TypeCode.VARCHAR if kind.Tp == TypeCode.VAR_STRING else kind.Tp
    return evolve(kind, Tp=code, Flag=flag)
