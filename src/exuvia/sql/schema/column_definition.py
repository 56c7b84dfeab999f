"""A ColumnDefinition becomes a ColumnInfo, with MySQL's refusals.

Flags are TiDB's: NOT_NULL, PRI_KEY, UNIQUE_KEY, MULTIPLE_KEY, AUTO_INCREMENT, NO_DEFAULT_VALUE
(NOT NULL without a default), TIMESTAMP with ON_UPDATE_NOW; `int unsigned NOT NULL PRIMARY KEY` is
4131 (seed 001).

Its type becomes a FieldType: lengths, charset and flags as in TiDB's JSON. Limits and refusals are
those of MySQL's manual ("Data Types"): 1074, 1425, 1426, 1427, 1439, 1291.

    int unsigned    Tp 3   Flen 10 Decimal 0     varchar(255)  Tp 15  Flen 255 Decimal 0
    decimal(12,2)   Tp 246 Flen 12 Decimal 2     datetime(3)   Tp 12  Flen 23  Decimal 3

DEFAULT and ON UPDATE are checked when the column is defined, and stored as MySQL's text:

    DEFAULT 5, '5', TRUE          default "5"        must convert to the column's type: 1067
    DEFAULT b'101'                default_bit        BIT and blobs, hexadecimal
    DEFAULT CURRENT_TIMESTAMP(3)  default "CURRENT_TIMESTAMP(3)"   with the digits of the type
    DEFAULT (expression)          the text, default_is_expr
    TEXT, BLOB, JSON              1101 for a literal
"""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import Any

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.limits import COLUMNS, IDENTIFIER_CHARS
from exuvia.base.mysql_errors import (
    ErrAutoConvert,
    ErrBinlogUnsafeSystemFunction,
    ErrBlobCantHaveDefault,
    ErrColumnTypeUnsupportedNextValue,
    ErrDefValGeneratedNamedFunctionIsNotAllowed,
    ErrDupFieldName,
    ErrDuplicatedValueInType,
    ErrInvalidDefault,
    ErrInvalidFieldSize,
    ErrInvalidOnUpdate,
    ErrInvalidYearColumnLength,
    ErrMBiggerThanD,
    ErrPrimaryCantHaveNull,
    ErrSyntax,
    ErrTableMustHaveColumns,
    ErrTooBigDisplaywidth,
    ErrTooBigFieldlength,
    ErrTooBigPrecision,
    ErrTooBigScale,
    ErrTooBigSet,
    ErrTooLongFieldComment,
    ErrTooLongIdent,
    ErrTooManyFields,
    ErrTruncatedWrongValue,
    ErrTruncatedWrongValueForField,
    ErrUnsupportedOnGeneratedColumn,
    ErrWrongAutoKey,
    ErrWrongColumnName,
    ErrWrongDBName,
    ErrWrongFieldSpec,
    ErrWrongTableName,
    MySQLError,
)
from exuvia.base.types import INTEGER_BITS, TEXT_BLOBS, Family, FieldType, Flag, TypeCode
from exuvia.catalog.collation import collation
from exuvia.catalog.convert import values
from exuvia.catalog.convert.charset_codecs import CODECS
from exuvia.catalog.decimals import whole
from exuvia.catalog.model import ColumnInfo, evolve, name
from exuvia.catalog.temporal import shift_zone
from exuvia.sql import types, walks
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.scope import Scope
from exuvia.sql.charsets import CHARSETS, Defaults, resolve
from exuvia.sql.env import PlainEnv
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.functions import FUNCTIONS, session_functions
from exuvia.sql.nodes import ColumnDefinition, DataType, Tree
from exuvia.sql.parse.restore import restored
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.text import parse_expression
from exuvia.sql.schema.change import STRICT, Modes
from exuvia.sql.schema.generated_column import TableColumns, with_generation
from exuvia.sql.type_text import identifier

_COMMENT_CHARS = 1024
Inherited = tuple[str, str]  # charset and collation of the table


def check_name(text: str, wrong: MySQLError) -> str:
    """The text, checked to be a valid identifier. Raises 1059, or `wrong`."""
    if not text or text != text.rstrip(" ") or "\0" in text:
        raise wrong(text)
    if wrong is ErrWrongColumnName and text.lower() == "_tidb_rowid":
        raise wrong(text)
    if len(text) > IDENTIFIER_CHARS:
        raise ErrTooLongIdent(text)
    return text


def check_place(place: Sequence[str], database: str, table: str) -> None:
    """Check that the database and table written before a column's name are its own.

    Raises 1102, 1103."""
    if place[1:] and place[-2].lower() != database.lower():
        raise ErrWrongDBName(place[-2])
    if place and place[-1].lower() != table.lower():
        raise ErrWrongTableName(place[-1])


def place_of(column: exp.Column) -> tuple[str, ...]:
    """The table, or database and table, that a column's name is written with in an expression."""
    return tuple(part for part in (column.db, column.table) if part)


def check_generated_places(written: ColumnDefinition, database: str, table: str) -> None:
    """Check that a generated column names only columns of its own table. Raises 1102, 1103."""
    if written.generated is not None:
        for column in walks.find_all(written.generated, exp.Column):
            check_place(place_of(column), database, table)


def name_elsewhere(tree: exp.Expression, database: str, table: str) -> str | None:
    """The first column that is written with another database or table, as it is written."""
    own = (database.lower(), table.lower())
    for column in walks.find_all(tree, exp.Column):
        place = place_of(column)
        if tuple(map(str.lower, place)) != own[2 - len(place) :]:
            return ".".join((*place, column.name))
    return None


def column_info(
    written: ColumnDefinition,
    offset: int,
    inherited: Inherited,
    primary: bool,
    modes: Modes = STRICT,
) -> ColumnInfo:
    """The column, its id one more than its offset. `primary`: it is part of the primary key."""
    text = check_name(written.name, ErrWrongColumnName)
    kind = _with_flags(written, field_type(text, written.type, inherited, modes), primary)
    info = ColumnInfo(
        id=offset + 1,
        name=name(text),
        offset=offset,
        type=kind,
        comment=_comment(text, written.comment or ""),
    )
    if written.generated is not None:
        return with_generation(info, written)
    return with_default(info, written, modes)


def _with_flags(written: ColumnDefinition, kind: FieldType, primary: bool) -> FieldType:
    flag = kind.Flag
    if written.auto_increment:
        if kind.Tp not in INTEGER_BITS and kind.Tp not in (TypeCode.FLOAT, TypeCode.DOUBLE):
            raise ErrWrongFieldSpec(written.name)
        flag |= int(Flag.AUTO_INCREMENT | Flag.NOT_NULL)
    if primary:
        null = isinstance(written.default, exp.Null) and not written.primary
        if written.not_null is False or null:
            raise ErrPrimaryCantHaveNull()
        flag |= int(Flag.PRI_KEY | Flag.NOT_NULL)
    if written.not_null:
        flag |= int(Flag.NOT_NULL)
    if written.unique:
        flag |= int(Flag.UNIQUE_KEY)
    return evolve(kind, Flag=flag)


def _comment(column: str, text: str) -> str:
    if len(text) > _COMMENT_CHARS:
        raise ErrTooLongFieldComment(column, _COMMENT_CHARS)
    return text


def column_infos(
    written: Sequence[ColumnDefinition],
    inherited: Inherited,
    primary: frozenset[str],
    modes: Modes = STRICT,
) -> tuple[ColumnInfo, ...]:
    """All columns of a new table. `primary`: lower-case names of the primary key's columns.

    Raises 1060, 1113, 1117, 1075, and the errors of generated_column.py."""
    if not written:
        raise ErrTableMustHaveColumns()
    if len(written) > COLUMNS:
        raise ErrTooManyFields()
    used: set[str] = set()
    for definition in written:
        if definition.name.lower() in used:
            raise ErrDupFieldName(definition.name)
        used.add(definition.name.lower())
    if sum(definition.auto_increment for definition in written) > 1:
        raise ErrWrongAutoKey()
    columns = tuple(
        column_info(
            definition,
            n,
            inherited,
            definition.primary or definition.name.lower() in primary,
            modes,
        )
        for n, definition in enumerate(written)
    )
    table = TableColumns(columns, modes.reads_auto)
    for column in columns:
        if column.is_generated:
            table.check_generated(column)
            if column.is_virtual and column.type.Flag & Flag.PRI_KEY:
                raise ErrUnsupportedOnGeneratedColumn(
                    "Defining a virtual generated column as primary key"
                )
    return columns


# name: (code, display width signed, unsigned)
# -- the type --------------------------------------------------------------------------------------


_INTEGERS = {
    "tinyint": (TypeCode.TINY, 4, 3),
    "smallint": (TypeCode.SHORT, 6, 5),
    "mediumint": (TypeCode.INT24, 9, 8),
    "int": (TypeCode.LONG, 11, 10),
    "bigint": (TypeCode.LONGLONG, 20, 20),
}
# name: (code, bytes at most)
_TEXTS = {
    "tinytext": (TypeCode.TINY_BLOB, 255),
    "text": (TypeCode.BLOB, 65535),
    "mediumtext": (TypeCode.MEDIUM_BLOB, 16777215),
    "longtext": (TypeCode.LONG_BLOB, 4294967295),
}
_BLOBS = {
    "tinyblob": (TypeCode.TINY_BLOB, 255),
    "blob": (TypeCode.BLOB, 65535),
    "mediumblob": (TypeCode.MEDIUM_BLOB, 16777215),
    "longblob": (TypeCode.LONG_BLOB, 4294967295),
}
_TIMES = {
    "datetime": (TypeCode.DATETIME, 19),
    "timestamp": (TypeCode.TIMESTAMP, 19),
    "time": (TypeCode.TIME, 10),
}
_DISPLAY_WIDTH = 255
_ROW_BYTES = 65535


def field_type(
    column: str, written: DataType, inherited: Inherited, modes: Modes = STRICT
) -> FieldType:
    """The type of a column; `inherited` is the table's (charset, collation). Raises Refused."""
    written = written if modes.strict else _widened(column, written, inherited, modes)
    name = written.name
    if name in _INTEGERS:
        return _integer(column, written)
    if name in ("decimal", "float", "double"):
        if name == "double" and modes.strict_double and written.length and written.scale is None:
            raise ErrSyntax()
        return _fraction(column, written)
    if name in _TIMES:
        return _time(column, written)
    if name in ("enum", "set"):
        return _enumeration(column, written, inherited, modes.collations)
    if name in _PLAIN:
        return _PLAIN[name](column, written)
    return _string(column, written, inherited, modes.collations)


def _sign(written: DataType) -> int:
    flag = Flag.UNSIGNED if written.unsigned or written.zerofill else Flag(0)
    return int(flag | Flag.ZEROFILL if written.zerofill else flag)


def _integer(column: str, written: DataType) -> FieldType:
    code, signed, unsigned = _INTEGERS[written.name]
    if written.length is not None and written.length > _DISPLAY_WIDTH:
        raise ErrTooBigDisplaywidth(column, _DISPLAY_WIDTH)
    width = written.length or (unsigned if written.unsigned else signed)
    return FieldType(Tp=code, Flag=_sign(written), Flen=width, Decimal=0)


def _fraction(column: str, written: DataType) -> FieldType:
    if written.name == "decimal":
        return _decimal(column, written)
    double = written.name == "double"
    code, width = (TypeCode.DOUBLE, 22) if double else (TypeCode.FLOAT, 12)
    length, scale = written.length, written.scale
    if scale is None and length is not None and not double:
        if length > 53:
            raise ErrWrongFieldSpec(column)
        code, width = (TypeCode.FLOAT, 12) if length <= 24 else (TypeCode.DOUBLE, 22)
        length = None
    if length is not None and scale is not None:
        if length == 0:
            raise ErrTooBigDisplaywidth(column, _DISPLAY_WIDTH)
        _check_digits(column, length, scale, 255)
        return FieldType(Tp=code, Flag=_sign(written), Flen=length, Decimal=scale)
    return FieldType(Tp=code, Flag=_sign(written), Flen=width, Decimal=-1)


def _decimal(column: str, written: DataType) -> FieldType:
    length, scale = written.length or 10, written.scale or 0
    _check_digits(column, length, scale, 65)
    return FieldType(Tp=TypeCode.NEWDECIMAL, Flag=_sign(written), Flen=length, Decimal=scale)


def _check_digits(column: str, length: int, scale: int, most: int) -> None:
    if scale > 30:
        raise ErrTooBigScale(scale, column, 30)
    if length > most:
        raise ErrTooBigPrecision(length, column, most)
    if scale > length:
        raise ErrMBiggerThanD(column)


def _time(column: str, written: DataType) -> FieldType:
    code, width = _TIMES[written.name]
    digits = written.length or 0
    if digits > 6:
        raise ErrTooBigPrecision(digits, column, 6)
    flag = Flag.BINARY
    return FieldType(
        Tp=code, Flag=int(flag), Flen=width + (digits + 1 if digits else 0), Decimal=digits
    )


def _bit(column: str, written: DataType) -> FieldType:
    length = 1 if written.length is None else written.length
    if not 1 <= length <= 64:
        raise (ErrTooBigDisplaywidth(column, 64) if length else ErrInvalidFieldSize(column))
    return FieldType(Tp=TypeCode.BIT, Flag=int(Flag.UNSIGNED), Flen=length, Decimal=0)


def _year(column: str, written: DataType) -> FieldType:
    if written.length not in (None, 4):
        raise ErrInvalidYearColumnLength()
    return FieldType(Tp=TypeCode.YEAR, Flag=int(Flag.UNSIGNED | Flag.ZEROFILL), Flen=4, Decimal=0)


def _date(column: str, written: DataType) -> FieldType:
    return FieldType(Tp=TypeCode.DATE, Flag=int(Flag.BINARY), Flen=10, Decimal=0)


def _json(column: str, written: DataType) -> FieldType:
    return FieldType(Tp=TypeCode.JSON, Flag=int(Flag.BINARY), Flen=4294967295, Decimal=0)


_PLAIN = {"bit": _bit, "year": _year, "date": _date, "json": _json}


def _enumeration(
    column: str, written: DataType, inherited: Inherited, defaults: Defaults
) -> FieldType:
    charset, collate = _charset(written, inherited, defaults)
    elements = tuple(_element(raw, charset).rstrip(" ") for raw in written.elems or ())
    is_set = written.name == "set"
    used = set[str]()
    for element in elements:
        if element.lower() in used:
            raise ErrDuplicatedValueInType(column, element, "SET" if is_set else "ENUM")
        used.add(element.lower())
    if is_set and len(elements) > 64:
        raise ErrTooBigSet(column)
    lengths = [len(element) for element in elements]
    width = sum(lengths) + len(lengths) - 1 if is_set else max(lengths, default=0)
    return FieldType(
        Tp=TypeCode.SET if is_set else TypeCode.ENUM,
        Flen=width,
        Decimal=0,
        Charset=charset,
        Collate=collate,
        Elems=elements,
    )


def _element(written: str | bytes, charset: str) -> str:
    """The element as text. Bytes are decoded in the column's charset, with "?" for invalid ones."""
    if isinstance(written, str):
        return written
    return written.decode(CODECS.get(charset, "utf-8"), "replace").replace("\ufffd", "?")


def _charset(written: DataType, inherited: Inherited, defaults: Defaults) -> Inherited:
    explicit = written.charset
    for earlier in written.earlier_collates:
        explicit = resolve(explicit, earlier, inherited)[0]
    charset, collate = resolve(explicit, written.collate, inherited, defaults)
    if written.binary and written.collate is None:
        collate = "binary" if charset == "binary" else f"{charset}_bin"
    return charset, collate


def _string(column: str, written: DataType, inherited: Inherited, defaults: Defaults) -> FieldType:
    name = written.name
    if name in _BLOBS:
        code, most = _sized(_BLOBS, name, written.length, 1)
        return FieldType(Tp=code, Flag=int(Flag.BLOB | Flag.BINARY), Flen=most, Decimal=0)
    if name in ("binary", "varbinary"):
        return _bytes(column, written)
    charset, collate = _charset(written, inherited, defaults)
    width = CHARSETS[charset][2]
    flag = Flag.BINARY if charset == "binary" else Flag(0)
    if name in _TEXTS:
        code, most = _sized(_TEXTS, name, written.length, width)
        flag |= Flag.BLOB
        return FieldType(
            Tp=code, Flag=int(flag), Flen=most, Decimal=0, Charset=charset, Collate=collate
        )
    most = 255 if name == "char" else _ROW_BYTES // width
    length = _length(column, written, most)
    code = TypeCode.STRING if name == "char" else TypeCode.VARCHAR
    return FieldType(
        Tp=code, Flag=int(flag), Flen=length, Decimal=0, Charset=charset, Collate=collate
    )


def _widened(column: str, written: DataType, inherited: Inherited, modes: Modes) -> DataType:
    """The type, with TEXT or BLOB and a warning in place of a VARCHAR or VARBINARY that is too
    long."""
    if written.name not in ("varchar", "varbinary") or written.length is None:
        return written
    binary = (
        written.name == "varbinary" or _charset(written, inherited, modes.collations)[0] == "binary"
    )
    width = 1 if binary else CHARSETS[_charset(written, inherited, modes.collations)[0]][2]
    if written.length <= _ROW_BYTES // width:
        return written
    name = "blob" if binary else "text"
    text = f"Converting column '{column}' from {'VARBINARY' if binary else 'VARCHAR'}"
    modes.warn(ErrAutoConvert.code, f"{text} to {name.upper()}")
    fields = {field: getattr(written, field) for field in written.__struct_fields__}
    return DataType(**{**fields, "name": name})


def _bytes(column: str, written: DataType) -> FieldType:
    fixed = written.name == "binary"
    length = _length(column, written, 255 if fixed else _ROW_BYTES)
    code = TypeCode.STRING if fixed else TypeCode.VARCHAR
    return FieldType(Tp=code, Flag=int(Flag.BINARY), Flen=length, Decimal=0)


def _length(column: str, written: DataType, most: int) -> int:
    if written.length is None:
        if written.name in ("char", "binary"):
            return 1
        raise Misplaced(column)
    if written.length > most:
        raise ErrTooBigFieldlength(column, most)
    return written.length


def _sized(
    kinds: dict[str, tuple[TypeCode, int]], name: str, length: int | None, width: int
) -> tuple[TypeCode, int]:
    """(code, bytes) of TEXT(n) or BLOB(n): the smallest type for n characters."""
    if length is None or name not in ("text", "blob"):
        return kinds[name]
    fitting = [kind for kind in kinds.values() if length * width <= kind[1]]
    return fitting[0] if fitting else kinds[name]


# -- DEFAULT and ON UPDATE -------------------------------------------------------------------------


_NUMBERS = (Family.INT, Family.UINT, Family.DECIMAL, Family.FLOAT)
_MOMENTS = (Family.DATE, Family.DATETIME)
_NOW_TYPES = (TypeCode.DATETIME, TypeCode.TIMESTAMP)


def with_default(info: ColumnInfo, written: ColumnDefinition, modes: Modes = STRICT) -> ColumnInfo:
    """The column with its default, checked. Raises 1067, 1101, 1294, 1063."""
    info = _with_on_update(info, written.on_update)
    tree = written.default
    if tree is None:
        return _without_default(info)
    if info.auto_increment:
        raise ErrInvalidDefault(info.name.O)
    sequence = sequence_named(tree)
    if sequence is not None:
        return with_sequence(info, sequence)
    today = name_of(tree) in TODAY and info.type.family == Family.DATE
    if (written.default_is_expr or today) and not (is_now(tree) and info.type.Tp in _NOW_TYPES):
        if modes.default_calls:
            check_calls(info.name.O, tree)
        else:
            check_default(info.name.O, tree)
        return evolve(info, default=default_text(tree), default_is_expr=True)
    if isinstance(tree, exp.Null):
        if info.not_null:
            raise ErrInvalidDefault(info.name.O)
        return info
    if is_now(tree):
        return evolve(info, default=_now_text(info, tree))
    if info.type.Tp in TEXT_BLOBS or info.type.Tp == TypeCode.JSON:
        # 1101; without a strict mode DEFAULT '' means no default, and null for JSON
        error = ErrBlobCantHaveDefault(info.name.O)
        if modes.strict or literal_text(tree) != "":
            raise error
        modes.warn(error.code, error.message)
        if info.type.Tp == TypeCode.JSON:
            return evolve(info, default="null")
        return _without_default(info)
    return _with_literal(info, tree, modes)


def _without_default(info: ColumnInfo) -> ColumnInfo:
    flag = info.type.Flag
    if info.not_null and not info.auto_increment:
        return evolve(info, type=evolve(info.type, Flag=flag | int(Flag.NO_DEFAULT_VALUE)))
    return info


def _with_on_update(info: ColumnInfo, tree: Tree | None) -> ColumnInfo:
    if tree is None:
        return info
    if info.type.Tp not in _NOW_TYPES or _digits(tree) != info.type.Decimal:
        raise ErrInvalidOnUpdate(info.name.O)
    flag = info.type.Flag | int(Flag.ON_UPDATE_NOW)
    return evolve(info, type=evolve(info.type, Flag=flag))


def is_now(tree: Tree) -> bool:
    """Whether the tree is CURRENT_TIMESTAMP or one of its synonyms."""
    if isinstance(tree, exp.CurrentTimestamp | exp.Localtimestamp | exp.Localtime):
        return True
    word = tree.name.upper() if isinstance(tree, exp.Anonymous | exp.Column) else ""
    return word in ("NOW", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_TIMESTAMP")


def _digits(tree: Tree) -> int:
    literal = walks.find(tree, exp.Literal)
    return whole(literal.name) if literal is not None else 0


def _now_text(info: ColumnInfo, tree: Tree) -> str:
    if info.type.Tp not in _NOW_TYPES or _digits(tree) != info.type.Decimal:
        raise ErrInvalidDefault(info.name.O)
    return f"CURRENT_TIMESTAMP({info.type.Decimal})" if info.type.Decimal else "CURRENT_TIMESTAMP"


def _with_literal(info: ColumnInfo, tree: Tree, modes: Modes) -> ColumnInfo:
    text = literal_text(tree)
    if isinstance(text, bytes) and _is_named(info.type):
        text = _decoded(text, info.type.Charset)
    if isinstance(text, bytes) and info.type.family in _NUMBERS and info.type.Tp != TypeCode.BIT:
        text = str(int.from_bytes(text, "big"))
    if text is None:
        raise ErrInvalidDefault(info.name.O)
    if info.type.Tp == TypeCode.BIT and isinstance(text, str) and not _is_text(tree):
        # a whole number as the bytes of a BIT. Raises 1067
        if not text.isdigit() or whole(text) >= 1 << 64:
            raise ErrInvalidDefault(info.name.O)
        text = whole(text).to_bytes(8, "big")
    if isinstance(text, bytes):
        value = _bit_value(text, info.type)
        if info.type.Tp == TypeCode.BIT and int.from_bytes(value, "big") >> info.type.Flen:
            raise ErrInvalidDefault(info.name.O)
        if info.type.family == Family.BYTES and 0 <= info.type.Flen < len(value):
            raise ErrInvalidDefault(info.name.O)
        return evolve(info, default=None, default_bit=value.hex())
    if info.type.family in _MOMENTS and text.strip("0") == "" and not _is_text(tree):
        text = _ZERO_TEXT[info.type.family]
    if info.type.Tp == TypeCode.YEAR and text.strip("0") == "" and not _is_text(tree):
        text = "0000"  # the text '0' is the year 2000
    if info.type.Tp in (TypeCode.ENUM, TypeCode.SET):
        return evolve(info, default=_default_element(info, tree, text))
    if info.type.family in (Family.STRING, Family.BYTES) and _is_number(tree):
        text = _number_text(text)
    try:
        mode = values.Mode(modes.zero_dates, modes.any_day, zero_parts=modes.zero_parts)
        value = values.from_text(text, info.type, mode)
        if info.type.Tp == TypeCode.TIMESTAMP:  # refuses a time that the zone's clocks skip
            values.from_text(text, info.type, mode._replace(zone=modes.zone))
        stored = values.to_text(value, info.type)
    except Refused:
        raise ErrInvalidDefault(info.name.O) from None
    if info.type.family == Family.BYTES and isinstance(value, bytes):
        return evolve(info, default_bit=value.hex())
    return evolve(info, default=stored if isinstance(stored, str) else stored.decode())


def _default_element(info: ColumnInfo, tree: Tree, text: str) -> str:
    """The stored DEFAULT of an ENUM or SET. Raises 1067.

    Text names elements: unlike in a value, it is never read as a number. A whole number is an index
    or bits, but not 0."""
    kind = info.type
    invalid = ErrInvalidDefault(info.name.O)
    elements = kind.Elems or ()
    is_set = kind.Tp == TypeCode.SET
    if isinstance(tree, exp.Boolean | exp.Neg) or (
        isinstance(tree, exp.Literal) and not tree.is_string
    ):
        most = (1 << len(elements)) - 1 if is_set else len(elements)
        if not text.isdecimal() or not 1 <= whole(text) <= most:
            raise invalid
        return str(values.to_text(whole(text), kind))
    if not is_set:
        text = text.rstrip(" ")
    try:
        stored = values.to_text(values.from_text(text, kind), kind)
    except Refused:
        raise invalid from None
    assert isinstance(stored, str)
    key = collation(kind.Collate).sort_key

    def names(listed: str) -> set[bytes]:
        return {key(element) for element in (listed.split(",") if is_set and listed else (listed,))}

    if names(stored) != names(text):
        raise invalid
    return stored


def _is_named(kind: FieldType) -> bool:
    """Whether values are text or names of elements."""
    return kind.family == Family.STRING or kind.Tp in (TypeCode.ENUM, TypeCode.SET)


def _decoded(raw: bytes, charset: str) -> str | None:
    try:
        return raw.decode(CODECS.get(charset, "utf-8"))
    except UnicodeDecodeError:
        return None


def _is_text(tree: Tree) -> bool:
    return isinstance(tree, exp.Literal) and tree.is_string


def _is_number(tree: Tree) -> bool:
    inner = walks.find(tree, exp.Literal)
    return inner is not None and not inner.is_string


def _number_text(text: str) -> str:
    """The value of a numeric literal as text: 7 for 007, 1000 for 1e3."""
    if "e" in text.lower():
        return str(values.to_text(float(text), types.DOUBLE))
    value = Decimal(text)
    return f"{value:f}" if value or "." in text else "0"


def _bit_value(raw: bytes, kind: FieldType) -> bytes:
    return raw.lstrip(b"\0") if kind.Tp == TypeCode.BIT else raw


def literal_text(tree: Tree) -> str | bytes | None:
    """Text of a literal (bytes for hexadecimal and bit literals), None for anything else."""
    if isinstance(tree, exp.Paren):
        return literal_text(tree.this)
    if isinstance(tree, exp.Neg):
        inner = literal_text(tree.this)
        return f"-{inner}" if isinstance(inner, str) else None
    if isinstance(tree, exp.Boolean):
        return "1" if tree.this else "0"
    if isinstance(tree, exp.HexString):
        digits = tree.name if len(tree.name) % 2 == 0 else "0" + tree.name
        return bytes.fromhex(digits)
    if isinstance(tree, exp.BitString):
        return int(tree.name or "0", 2).to_bytes((len(tree.name) + 7) // 8 or 1, "big")
    return tree.name if isinstance(tree, exp.Literal) else None


_ZERO_TEXT = {
    Family.INT: "0",
    Family.UINT: "0",
    Family.DECIMAL: "0",
    Family.FLOAT: "0",
    Family.STRING: "",
    Family.DATE: "0000-00-00",
    Family.DATETIME: "0000-00-00 00:00:00",
    Family.TIME: "00:00:00",
    Family.JSON: "null",
}


def with_origin_default(
    info: ColumnInfo, now: int, zone: tzinfo | None, any_call: bool = False
) -> ColumnInfo:
    """The column with its value in existing rows. `now`: packed DATETIME in UTC. `zone`: the
    session's. `any_call`: as `Modes.default_calls`.

    Raises 1674 for a DEFAULT (expression) that differs from row to row."""
    if info.is_generated:
        return info
    if info.default_is_expr:
        tree = parse_expression(str(info.default))
        check_for_old_rows(tree, any_call)
        expr = bind(tree, Scope.empty())
        env: Any = PlainEnv(now=shift_zone(now, None, zone), strict=True)
        env.utc_now, env.zone = now, zone
        computed = compile_expression(expr)((), env)
        try:
            value = values.convert(
                computed, expr.type, info.type, values.STRICT._replace(zone=zone)
            )
        except Refused as error:
            text = values.named(error, "%s", 0).message.replace("at row 0", "at row %d")
            if error.code in (ErrTruncatedWrongValue.code, ErrTruncatedWrongValueForField.code):
                text = text.partition(" for column '%s'")[0]
            raise Refused(error.code, error.state, text) from None
        if isinstance(value, bytes):
            return evolve(info, origin_default_bit=value.hex())
        stored = None if value is None else values.to_text(value, info.type)
        if isinstance(stored, bytes):
            stored = stored.decode()
        return evolve(info, origin_default=stored)
    if info.default_bit is not None:
        value = values.default_of(info)
        bits = value.hex() if isinstance(value, bytes) else info.default_bit
        return evolve(info, origin_default_bit=bits)
    default = info.default
    if default is None and info.not_null:
        kind = info.type
        if kind.Tp in (TypeCode.ENUM, TypeCode.SET):
            first = kind.Elems[0] if kind.Elems and kind.Tp == TypeCode.ENUM else ""
            return evolve(info, origin_default=first)
        if kind.family == Family.BYTES:
            fixed = kind.Flen if kind.Tp == TypeCode.STRING else 0
            return evolve(info, origin_default_bit="00" * fixed)
        if kind.Tp == TypeCode.BIT:
            return evolve(info, origin_default_bit="")
        if kind.Tp == TypeCode.YEAR:
            return evolve(info, origin_default="0000")
        return evolve(info, origin_default=_ZERO_TEXT[kind.family])
    is_moment = info.type.Tp in _NOW_TYPES  # in a text column the word is plain text
    if is_moment and isinstance(default, str) and default.startswith("CURRENT_TIMESTAMP"):
        moment = FieldType(Tp=info.type.Tp, Flen=info.type.Flen, Decimal=info.type.Decimal)
        here = now if info.type.Tp == TypeCode.TIMESTAMP else shift_zone(now, None, zone)
        return evolve(info, origin_default=values.to_text(_cut(here, info.type.Decimal), moment))
    return evolve(info, origin_default=default)


def _cut(now: int, digits: int) -> int:
    step = 10 ** (6 - max(digits, 0))
    micro = now & 0xFFFFF
    return now - micro % int(step)


# -- DEFAULT (expression) --------------------------------------------------------------------------
#
# Functions that TiDB accepts:
#
#     date_format(now(), f)    f one of four formats     replace(upper(uuid()), a, b)
#     upper(substring_index(user(), '@', 1))             str_to_date('text', 'format')
#     rand uuid uuid_to_bin json_object json_array json_quote current_date nextval
#
# Another function, or other arguments, is 3770. Other expressions are accepted as in MySQL. Mode
# `mysql` accepts all functions without effects. ADD COLUMN needs one value for all existing rows:
# 1674 for a function with a value for each row.

_FORMATS = ("%Y-%m", "%Y-%m-%d", "%Y-%m-%d %H.%i.%s", "%Y-%m-%d %H:%i:%s")
_NOW = frozenset(("now", "current_timestamp", "localtime", "localtimestamp"))
TODAY = frozenset(("current_date", "curdate"))
_JSON = frozenset(("json_object", "json_array", "json_quote"))
_PLAIN_CALLS = _NOW | TODAY | _JSON | {"rand", "uuid", "uuid_to_bin", "nextval"}
_ONE_VALUE = _NOW | TODAY | {"date_format", "str_to_date"}
_MANY_VALUES = frozenset(("rand", "uuid", "uuid_to_bin", "replace", "upper"))
_WITH_EFFECTS = frozenset(
    ("benchmark", "found_rows", "get_lock", "is_free_lock", "is_used_lock", "last_insert_id")
) | {"lastval", "load_file", "release_all_locks", "release_lock", "row_count", "setval", "sleep"}
_OF_SESSIONS = frozenset(session_functions.FUNCTIONS)
_WRONG = " with disallowed args"
_DAYS = (exp.CurrentDate,)


def name_of(tree: exp.Expression) -> str:
    """The name of the called function, "" for any other expression."""
    if isinstance(tree, exp.Anonymous):
        return str(tree.this).lower()
    return "current_date" if isinstance(tree, _DAYS) else ""


def check_default(column: str, tree: exp.Expression) -> None:
    """Raises 3770 for a function that TiDB refuses in a default, 1054 for a column."""
    name = name_of(tree)
    if not name or name in _PLAIN_CALLS:
        return
    judge = _JUDGES.get(name)
    function = str(tree.this) if isinstance(tree, exp.Anonymous) else name
    if judge is None:
        raise ErrDefValGeneratedNamedFunctionIsNotAllowed(column, function)
    reason = judge(list(tree.expressions))
    if reason:
        raise ErrDefValGeneratedNamedFunctionIsNotAllowed(
            column, function + reason if reason == _WRONG else reason
        )


def check_calls(column: str, tree: exp.Expression) -> None:
    """Raises 3770 for a function with effects, and the errors of the expression, as in MySQL."""
    for call in walks.find_all(tree, exp.Anonymous):
        if call.name.lower() in _WITH_EFFECTS:
            raise ErrDefValGeneratedNamedFunctionIsNotAllowed(column, call.name)
    bind(tree, Scope.empty())


def default_text(tree: exp.Expression) -> str:
    """The stored text of the expression."""
    return "CURRENT_DATE" if name_of(tree) in TODAY else restored(tree)


def check_one_value(tree: exp.Expression) -> None:
    """Raises 1674 for a default of ADD COLUMN that is known to differ from row to row.

    This is the first check."""
    if name_of(tree) in _MANY_VALUES:
        raise ErrBinlogUnsafeSystemFunction()


def check_for_old_rows(tree: exp.Expression, any_call: bool) -> None:
    """Raises 1674 for a default of ADD COLUMN without one common value for all existing rows.

    `any_call`: as `Modes.default_calls`."""
    name = name_of(tree)
    if any_call:
        names = [call.name.lower() for call in walks.find_all(tree, exp.Anonymous)]
        varies = any(name in _OF_SESSIONS or _is_volatile(name) for name in names)
    else:
        varies = bool(name) and name not in _ONE_VALUE
    if varies:
        raise ErrBinlogUnsafeSystemFunction()


def _is_volatile(name: str) -> bool:
    function = FUNCTIONS.get(name)
    return function is not None and function.volatile


def _text_of_call(tree: Tree) -> str | None:
    if isinstance(tree, exp.Introducer):
        tree = tree.expression
    return tree.name if isinstance(tree, exp.Literal) and tree.is_string else None


def _is_call(tree: Tree, name: str) -> bool:
    return name_of(tree) == name


def _date_format(arguments: list[Tree]) -> str:
    if len(arguments) != 2 or name_of(arguments[0]) not in _NOW:
        return _WRONG
    text = _text_of_call(arguments[1])
    return "" if text in _FORMATS else f"KindString {text}"


def _replace(arguments: list[Tree]) -> str:
    inner = arguments[0] if arguments else None
    if isinstance(inner, exp.Cast):
        inner = inner.this
    if inner is None or len(arguments) != 3 or not _is_call(inner, "upper"):
        return _WRONG
    return "" if any(_is_call(expression, "uuid") for expression in inner.expressions) else _WRONG


def _upper(arguments: list[Tree]) -> str:
    inner = arguments[0] if len(arguments) == 1 else None
    if inner is None or not _is_call(inner, "substring_index") or len(inner.expressions) != 3:
        return _WRONG
    who, between, _ = inner.expressions
    if not _is_call(who, "user"):
        return _WRONG
    return "" if _text_of_call(between) == "@" else f"KindString {_text_of_call(between)}"


def _str_to_date(arguments: list[Tree]) -> str:
    plain = len(arguments) == 2 and all(
        _text_of_call(argument) is not None for argument in arguments
    )
    return "" if plain else _WRONG


_JUDGES: dict[str, Callable[[list[Tree]], str]] = {
    "date_format": _date_format,
    "replace": _replace,
    "upper": _upper,
    "str_to_date": _str_to_date,
}


# -- DEFAULT NEXTVAL(s), DEFAULT NEXT VALUE FOR s --------------------------------------------------
#
# Stored as in TiDB: an expression, nextval(`db`.`s`).

_NUMBERED = frozenset({*INTEGER_BITS, TypeCode.FLOAT, TypeCode.DOUBLE, TypeCode.NEWDECIMAL})
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
    """The column with that default. Raises 8228 for a non-numeric type."""
    if info.type.Tp not in _NUMBERED:
        raise ErrColumnTypeUnsupportedNextValue(info.name.O)
    return evolve(info, default=_nextval_text(named.table, named.name), default_is_expr=True)


def in_database(info: ColumnInfo, database: str) -> ColumnInfo:
    """The column with its sequence's database spelled out."""
    if not info.default_is_expr or not str(info.default).startswith(HEAD):
        return info
    named = sequence_named(parse_expression(str(info.default)))
    if named is None or named.table:
        return info
    return evolve(info, default=_nextval_text(database, named.name))


def _nextval_text(database: str, sequence: str) -> str:
    parts = [part for part in (database, sequence) if part]
    return f"{HEAD}{'.'.join(map(identifier, parts))})"
