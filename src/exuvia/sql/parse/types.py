"""Column types as MySQL writes them (manual, "Data Types")."""

from sqlglot.tokenizer_core import TokenType

from exuvia.sql.nodes import (
    DataType,
)
from exuvia.sql.parse.cursor import Cursor

_TYPE_NAMES = {
    **{word: word.lower() for word in ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")},
    **{word: word.lower() for word in ("DECIMAL", "FLOAT", "DOUBLE", "BIT", "CHAR", "VARCHAR")},
    **{word: word.lower() for word in ("BINARY", "VARBINARY", "TINYTEXT", "TEXT", "MEDIUMTEXT")},
    **{word: word.lower() for word in ("LONGTEXT", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")},
    **{word: word.lower() for word in ("DATE", "TIME", "DATETIME", "TIMESTAMP", "YEAR", "JSON")},
    **{word: word.lower() for word in ("ENUM", "SET")},
    "INTEGER": "int",
    "INT1": "tinyint",
    "INT2": "smallint",
    "INT3": "mediumint",
    "INT4": "int",
    "INT8": "bigint",
    "MIDDLEINT": "mediumint",
    "DEC": "decimal",
    "NUMERIC": "decimal",
    "FIXED": "decimal",
    "REAL": "double",
    "FLOAT4": "float",
    "FLOAT8": "double",
    "CHARACTER": "char",
    "NCHAR": "char",
    "NVARCHAR": "varchar",
    "VARCHARACTER": "varchar",
    "BOOL": "bool",
    "BOOLEAN": "bool",
    "DOUBLE PRECISION": "double",
    "CHAR VARYING": "varchar",
    "CHARACTER VARYING": "varchar",
}


def data_type(cursor: Cursor) -> DataType:
    """A column type with its attributes."""
    word = cursor.peek()
    name = _TYPE_NAMES.get(word)
    if word == "SERIAL":
        cursor.take()
        return DataType("bigint", unsigned=True)
    if word == "NATIONAL":
        cursor.take()
        name = _TYPE_NAMES.get(cursor.peek())
    if word == "LONG":
        cursor.take()
        name = "mediumblob" if cursor.accept("VARBINARY") else "mediumtext"
        cursor.accept("VARCHAR")
        return _attributes(cursor, name, None, None, None)
    if name is None:
        raise cursor.error()
    cursor.take()
    if name == "double":
        cursor.accept("PRECISION")
    if name == "char" and cursor.accept("VARYING"):
        name = "varchar"
    if name == "bool":
        return _attributes(cursor, "tinyint", 1, None, None)
    if name in ("enum", "set"):
        cursor.expect("(")
        elems = cursor.listed(lambda: _element(cursor))
        cursor.expect(")")
        return _attributes(cursor, name, None, None, elems)
    length = scale = None
    if name in ("varchar", "varbinary") and not cursor.at("("):
        raise cursor.error()
    if cursor.accept("("):
        length = cursor.integer()
        scale = cursor.integer() if cursor.accept(",") else None
        cursor.expect(")")
    return _attributes(cursor, name, length, scale, None)


def _element(cursor: Cursor) -> str:
    """A member of ENUM or SET, also written as bytes."""
    kind = None if cursor.token is None else cursor.token.token_type
    if kind is TokenType.HEX_STRING:
        digits = cursor.take().text
        return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)).decode(errors="replace")
    if kind is TokenType.BIT_STRING:
        number = int(cursor.take().text, 2)
        return number.to_bytes((number.bit_length() + 7) // 8).decode(errors="replace")
    return cursor.string()


def _attributes(
    cursor: Cursor, name: str, length: int | None, scale: int | None, elems: tuple[str, ...] | None
) -> DataType:
    unsigned = zerofill = binary = False
    charset: str | None = None
    collate: str | None = None
    while True:
        if cursor.accept("UNSIGNED"):
            unsigned = True
        elif cursor.accept("SIGNED"):
            unsigned = False
        elif cursor.accept("ZEROFILL"):
            zerofill = unsigned = True
        elif cursor.accept("BINARY"):
            binary = True
        elif cursor.at("CHARACTER", "SET") or cursor.at("CHARSET"):
            charset = charset_name(cursor)
        elif cursor.accept("ASCII"):
            charset = "latin1"
        elif cursor.accept("COLLATE"):
            collate = word_or_string(cursor)
        else:
            return DataType(
                name, length, scale, unsigned, zerofill, elems, charset, collate, binary
            )


def charset_name(cursor: Cursor) -> str:
    """CHARACTER SET [=] name, CHARSET [=] name."""
    if not cursor.accept("CHARSET"):
        cursor.expect("CHARACTER", "SET")
    cursor.accept("=")
    return word_or_string(cursor)


def word_or_string(cursor: Cursor) -> str:
    """A name written as word or string, in lower case."""
    return as_written(cursor).lower()


def as_written(cursor: Cursor) -> str:
    """A name written as word or string."""
    token = cursor.token
    if token is not None and token.token_type is TokenType.STRING:
        return cursor.string()
    if cursor.peek() in ("BINARY", "DEFAULT"):
        return cursor.take().text
    return cursor.name()
