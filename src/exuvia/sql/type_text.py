"""Types, defaults and flags as printed by SHOW and information_schema of TiDB 8.5."""

from exuvia.base.types import INTEGER_BITS, TEXT_BLOBS, Family, FieldType, Flag, TypeCode
from exuvia.catalog.model import ColumnInfo, IndexColumn, IndexInfo, TableInfo

_NUMBERS = {
    TypeCode.TINY: "tinyint",
    TypeCode.SHORT: "smallint",
    TypeCode.INT24: "mediumint",
    TypeCode.LONG: "int",
    TypeCode.LONGLONG: "bigint",
    TypeCode.NEWDECIMAL: "decimal",
    TypeCode.FLOAT: "float",
    TypeCode.DOUBLE: "double",
}
_TIMES = {
    TypeCode.DATETIME: "datetime",
    TypeCode.TIMESTAMP: "timestamp",
    TypeCode.TIME: "time",
}
_OTHERS = {
    TypeCode.DATE: "date",
    TypeCode.YEAR: "year",
    TypeCode.JSON: "json",
    TypeCode.BIT: "bit",
    TypeCode.ENUM: "enum",
    TypeCode.SET: "set",
    TypeCode.NULL: "null",
}
_SIZES = {
    TypeCode.TINY_BLOB: "tiny",
    TypeCode.BLOB: "",
    TypeCode.MEDIUM_BLOB: "medium",
    TypeCode.LONG_BLOB: "long",
}


def type_name(kind: FieldType) -> str:
    """DATA_TYPE: the type's name without its length."""
    code = TypeCode(kind.Tp)
    for names in (_NUMBERS, _TIMES, _OTHERS):
        if code in names:
            return names[code]
    is_bytes = kind.Charset == "binary"
    if code in TEXT_BLOBS:
        return _SIZES[code] + ("blob" if is_bytes else "text")
    if code == TypeCode.STRING:
        return "binary" if is_bytes else "char"
    return "varbinary" if is_bytes else "varchar"


def type_text(kind: FieldType) -> str:
    """COLUMN_TYPE, as in "int unsigned"."""
    name = type_name(kind)
    code = TypeCode(kind.Tp)
    if code in _NUMBERS:
        return name + _digits(kind) + _sign(kind)
    if code in _TIMES:
        return f"{name}({kind.Decimal})" if kind.Decimal > 0 else name
    if code in (TypeCode.ENUM, TypeCode.SET):
        return f"{name}({','.join(quoted(element) for element in kind.Elems or ())})"
    if code in TEXT_BLOBS or code in (TypeCode.DATE, TypeCode.JSON, TypeCode.NULL):
        return name
    return f"{name}({kind.Flen})"


def _digits(kind: FieldType) -> str:
    """(width) or (width, digits). Only ZEROFILL and TINYINT(1) (BOOL) integers have a width."""
    if kind.Tp in INTEGER_BITS:
        is_bool = kind.Tp == TypeCode.TINY and kind.Flen == 1
        return f"({kind.Flen})" if is_bool or kind.Flag & Flag.ZEROFILL else ""
    if kind.Tp == TypeCode.NEWDECIMAL or kind.Decimal >= 0:
        return f"({kind.Flen},{kind.Decimal})"
    return ""


def _sign(kind: FieldType) -> str:
    unsigned = " unsigned" if kind.unsigned else ""
    return unsigned + (" zerofill" if kind.Flag & Flag.ZEROFILL else "")


_ESCAPES = {0: "\\0", 10: "\\n", 13: "\\r"}


def quoted(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''").translate(_ESCAPES) + "'"


def identifier(text: str) -> str:
    """A quoted name."""
    return "`" + text.replace("`", "``") + "`"


def ansi_identifier(text: str) -> str:
    """A name quoted as under ANSI_QUOTES."""
    return '"' + text.replace('"', '""') + '"'


def is_text(kind: FieldType) -> bool:
    """Whether the type has a character set to print."""
    return kind.family == Family.STRING or kind.Tp in (TypeCode.ENUM, TypeCode.SET)


def default_text(column: ColumnInfo) -> str | None:
    """COLUMN_DEFAULT, or None without a default."""
    if column.default_bit is not None:
        raw = bytes.fromhex(column.default_bit or "")
        if column.type.Tp == TypeCode.BIT:
            return f"b'{int.from_bytes(raw, 'big'):b}'"
        return raw.decode("utf-8", "replace")
    return None if column.default is None else str(column.default)


def is_now_default(column: ColumnInfo) -> bool:
    """Whether the default is CURRENT_TIMESTAMP."""
    default = column.default
    is_time = column.type.Tp in (TypeCode.DATETIME, TypeCode.TIMESTAMP)
    return is_time and isinstance(default, str) and default.startswith("CURRENT_TIMESTAMP")


def extra_text(column: ColumnInfo) -> str:
    """EXTRA."""
    if column.auto_increment:
        return "auto_increment"
    if column.is_generated:
        return "STORED GENERATED" if column.generated_stored else "VIRTUAL GENERATED"
    words = []
    if column.default_is_expr:
        words.append("DEFAULT_GENERATED")
    if column.type.Flag & Flag.ON_UPDATE_NOW:
        if not words:
            words.append("DEFAULT_GENERATED")
        words.append(f"on update {now_text(column)}")
    return " ".join(words)


def expression_of(table: TableInfo, part: IndexColumn) -> str | None:
    """The expression of an index part, or None for a column."""
    column = table.column_by_id(part.exuvia_column)
    return column.generated_expr_string if column is not None and column.hidden else None


def predicate_text(index: IndexInfo) -> str | None:
    """The condition of a partial index as in SHOW CREATE TABLE; None for an index of all rows."""
    texts = [
        f"{identifier(term.name.O)} {term.operator}{' ' if term.written else ''}{term.written}"
        for term in index.exuvia_predicate
    ]
    return " and ".join(texts) or None


def now_text(column: ColumnInfo) -> str:
    """CURRENT_TIMESTAMP with the column's digits."""
    digits = column.type.Decimal
    return f"CURRENT_TIMESTAMP({digits})" if digits > 0 else "CURRENT_TIMESTAMP"


def key_text(column: ColumnInfo) -> str:
    """COLUMN_KEY: PRI, UNI, MUL or nothing."""
    flag = column.type.Flag
    if flag & Flag.PRI_KEY:
        return "PRI"
    if flag & Flag.UNIQUE_KEY:
        return "UNI"
    return "MUL" if flag & Flag.MULTIPLE_KEY else ""
