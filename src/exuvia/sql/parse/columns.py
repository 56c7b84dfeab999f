"""Parsers of column types, columns and indexes.

MySQL manual, "CREATE TABLE Statement", "Data Types", "CREATE INDEX Statement".
"""

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnsupportedDDLOperation
from exuvia.sql.nodes import (
    CheckConstraint,
    ColumnDefinition,
    DataType,
    ForeignKey,
    IndexDefinition,
    IndexPart,
    Reference,
    Tree,
)
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.tokens import read_expression

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


def data_type(cursor: TokenCursor) -> DataType:
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


def _element(cursor: TokenCursor) -> str | bytes:
    """A member of ENUM or SET, also written as bytes."""
    kind = None if cursor.token is None else cursor.token.token_type
    if kind is TokenType.HEX_STRING:
        digits = cursor.take().text
        return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))
    if kind is TokenType.BIT_STRING:
        number = int(cursor.take().text, 2)
        return number.to_bytes((number.bit_length() + 7) // 8)
    return cursor.string()


def _attributes(
    cursor: TokenCursor,
    name: str,
    length: int | None,
    scale: int | None,
    elems: tuple[str | bytes, ...] | None,
) -> DataType:
    unsigned = zerofill = binary = False
    charset: str | None = None
    collates: list[str] = []
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
            collates.append(word_or_string(cursor))
        else:
            collate = collates.pop() if collates else None
            return DataType(
                name,
                length,
                scale,
                unsigned,
                zerofill,
                elems,
                charset,
                collate,
                binary,
                tuple(collates),
            )


def charset_name(cursor: TokenCursor) -> str:
    """CHARACTER SET [=] name, CHARSET [=] name."""
    if not cursor.accept("CHARSET"):
        cursor.expect("CHARACTER", "SET")
    cursor.accept("=")
    return word_or_string(cursor)


def word_or_string(cursor: TokenCursor) -> str:
    """A name written as word or string, in lower case."""
    return as_written(cursor).lower()


def as_written(cursor: TokenCursor) -> str:
    """A name written as word or string."""
    token = cursor.token
    if token is not None and token.token_type is TokenType.STRING:
        return cursor.string()
    if cursor.peek() in ("BINARY", "DEFAULT"):
        return cursor.take().text
    return cursor.name()


# -- columns ---------------------------------------------------------------------------------------


def column(cursor: TokenCursor, name: str | None = None) -> ColumnDefinition:
    """`[[db.]table.]name type attributes...`; pass the name if it was read already."""
    if name is None:
        name = cursor.checked_name()
    place: tuple[str, ...] = ()
    while cursor.accept("."):
        place, name = (*place, name), cursor.checked_name()
    serial = cursor.at("SERIAL")
    kind = data_type(cursor)
    facts: dict[str, object] = {"name": name, "type": kind, "place": place}
    if serial:
        facts |= _SERIAL
    checks: list[CheckConstraint] = []
    while _column_attribute(cursor, facts, checks):
        pass
    return ColumnDefinition(**facts, checks=tuple(checks))  # type: ignore[arg-type]


_SERIAL = {"not_null": True, "auto_increment": True, "unique": True}


def _column_attribute(
    cursor: TokenCursor, facts: dict[str, object], checks: list[CheckConstraint]
) -> bool:
    """Reads one attribute into `facts`; returns False if no attribute follows."""
    if cursor.accept("NOT", "NULL"):
        facts["not_null"] = True
    elif cursor.accept("NULL"):
        facts["not_null"] = False
    elif cursor.accept("DEFAULT"):
        facts["default"], facts["default_text"], facts["default_is_expr"] = default(cursor)
    elif cursor.accept("ON", "UPDATE"):
        facts["on_update"] = _simple_value(cursor)[0]
    elif cursor.accept("AUTO_INCREMENT"):
        facts["auto_increment"] = True
    elif cursor.accept("SERIAL", "DEFAULT", "VALUE"):
        facts |= _SERIAL
    elif cursor.accept("AUTO_RANDOM"):
        shard, bits = 5, 64
        if cursor.accept("("):
            shard = cursor.integer()
            if cursor.accept(","):
                bits = cursor.integer()
            cursor.expect(")")
        facts["auto_random"] = shard, bits
    elif cursor.accept("PRIMARY", "KEY") or cursor.accept("KEY"):
        facts["primary"] = True
        if cursor.at_any(("CLUSTERED", "NONCLUSTERED")):
            facts["clustered"] = cursor.take().text.upper() == "CLUSTERED"
        facts["primary_is_global"] = _is_global(cursor)
    elif cursor.accept("UNIQUE"):
        cursor.accept("KEY")
        facts["unique"] = True
        facts["unique_is_global"] = _is_global(cursor)
    elif cursor.accept("COMMENT"):
        facts["comment"] = cursor.string()
    elif cursor.accept("COLLATE"):
        kind = facts["type"]
        assert isinstance(kind, DataType)
        fields = {name: getattr(kind, name) for name in kind.__struct_fields__}
        if kind.collate is not None:
            fields["earlier_collates"] = (*kind.earlier_collates, kind.collate)
        facts["type"] = DataType(**{**fields, "collate": word_or_string(cursor)})
    elif cursor.at("GENERATED") or cursor.at("AS"):
        if cursor.accept("GENERATED"):
            cursor.expect("ALWAYS")
        cursor.expect("AS")
        facts["generated"], facts["generated_text"] = cursor.parenthesised()
        where = cursor.accept_any("STORED", "VIRTUAL", "PERSISTENT")
        facts["stored"] = where not in ("", "VIRTUAL")
    elif cursor.at("CHECK") or cursor.at("CONSTRAINT"):
        checks.append(named_check(cursor))
    elif cursor.at("REFERENCES"):
        facts["references"] = reference(cursor)
    elif cursor.accept("COLUMN_FORMAT") or cursor.accept("STORAGE"):
        cursor.take()
    elif cursor.accept("INVISIBLE"):
        raise invisible_column()
    elif not cursor.accept("VISIBLE"):
        return False
    return True


def invisible_column() -> Refused:
    """The error 8200 for an INVISIBLE column: SELECT * contains every column."""
    return ErrUnsupportedDDLOperation(
        "INVISIBLE column: only indexes can be invisible; omit it and name columns in SELECT"
    )


def _is_global(cursor: TokenCursor) -> bool:
    """[GLOBAL | LOCAL] after a key in a column definition."""
    return cursor.accept_any("GLOBAL", "LOCAL") == "GLOBAL"


def default(cursor: TokenCursor) -> tuple[Tree, str, bool]:
    """The value after DEFAULT: (tree, text, whether it is an expression in parentheses)."""
    if cursor.at("("):
        tree, text = cursor.parenthesised()
        while isinstance(tree, exp.Paren):  # ((f())) is checked and stored as (f())
            tree = tree.this
        return tree, text, True
    tree, text = _simple_value(cursor)
    return tree, text, False


def _simple_value(cursor: TokenCursor) -> tuple[Tree, str]:
    start = cursor.position
    if cursor.accept("NEXT", "VALUE", "FOR"):
        cursor.table()
        tokens = cursor.tokens[start : cursor.position]
        return read_expression(cursor.text, tokens), "nextval"
    cursor.accept_any("+", "-")
    first = cursor.take()
    if first.token_type in (TokenType.INTRODUCER, TokenType.DOT):
        cursor.take()
    if first.token_type not in (TokenType.NUMBER, TokenType.STRING) and cursor.at("("):
        cursor.skip_parentheses()
    tokens = cursor.tokens[start : cursor.position]
    text = cursor.text[tokens[0].start : tokens[-1].end + 1]
    return read_expression(cursor.text, tokens), text


def named_check(cursor: TokenCursor) -> CheckConstraint:
    """[CONSTRAINT [name]] CHECK (condition) [[NOT] ENFORCED]."""
    name = None
    if cursor.accept("CONSTRAINT") and not cursor.at("CHECK"):
        name = cursor.checked_name()
    cursor.expect("CHECK")
    tree, text = cursor.parenthesised()
    enforced = not cursor.accept("NOT", "ENFORCED")
    cursor.accept("ENFORCED")
    return CheckConstraint(text, tree, name, enforced)


def reference(cursor: TokenCursor) -> Reference:
    """REFERENCES table (columns) [ON DELETE ..] [ON UPDATE ..]."""
    cursor.expect("REFERENCES")
    table = cursor.table()
    columns = cursor.names() if cursor.at("(") else ()
    actions: dict[str, str] = {}
    while cursor.at("ON") or cursor.at("MATCH"):
        if cursor.accept("MATCH"):
            cursor.take()
            continue
        cursor.expect("ON")
        event = cursor.accept_any("DELETE", "UPDATE")
        if not event:
            raise cursor.error()
        for action in _REFERENCE_ACTIONS:
            if cursor.accept(*action):
                actions[event] = " ".join(action)
                break
        else:
            raise cursor.error()
    return Reference(table, columns, actions.get("DELETE"), actions.get("UPDATE"))


_REFERENCE_ACTIONS = (
    ("SET", "NULL"),
    ("SET", "DEFAULT"),
    ("NO", "ACTION"),
    ("CASCADE",),
    ("RESTRICT",),
)


def foreign_key(cursor: TokenCursor, name: str | None) -> ForeignKey:
    """FOREIGN KEY [name] (columns) REFERENCES ..., after its CONSTRAINT name."""
    cursor.expect("FOREIGN", "KEY")
    if not cursor.at("("):
        own_name = cursor.checked_name()
        name = name or own_name
    return ForeignKey(name, cursor.names(), reference(cursor))


# -- indexes ---------------------------------------------------------------------------------------

INDEX_HEADS = frozenset(("INDEX", "KEY", "UNIQUE", "PRIMARY", "PRIMARY KEY", "FULLTEXT", "SPATIAL"))
_OPTIONS = (
    "USING",
    "COMMENT",
    "VISIBLE",
    "INVISIBLE",
    "IGNORED",
    "CLUSTERED",
    "NONCLUSTERED",
    "KEY_BLOCK_SIZE",
    "WITH",
    "GLOBAL",
    "LOCAL",
    "ALGORITHM",
    "LOCK",
    "WHERE",
)
"""Words that end an index's WHERE. A comma and the closing parenthesis also end it."""
_VISIBILITY = ("VISIBLE", "INVISIBLE", "IGNORED", "NOT")


def index(cursor: TokenCursor, constraint: str | None = None) -> IndexDefinition:
    """[UNIQUE | PRIMARY | ...] KEY [name] [USING ..] (parts) options."""
    if cursor.at("PRIMARY"):
        raise cursor.error()
    head = cursor.accept_any(*INDEX_HEADS).removesuffix(" KEY")
    kind = head.lower() if head in ("UNIQUE", "PRIMARY", "FULLTEXT", "SPATIAL") else "index"
    if kind not in ("index", "primary"):
        cursor.accept_any("KEY", "INDEX")
    cursor.accept("IF", "NOT", "EXISTS")
    name = None
    if not cursor.at("(") and not cursor.at("USING"):
        name = cursor.checked_name()
    return index_tail(cursor, kind, "PRIMARY" if kind == "primary" else name or constraint)


def index_tail(cursor: TokenCursor, kind: str, name: str | None) -> IndexDefinition:
    """[USING ..] (parts) options."""
    facts: dict[str, object] = {"using": _using(cursor)}
    cursor.expect("(")
    parts = cursor.listed(lambda: index_part(cursor))
    cursor.expect(")")
    while True:
        if cursor.at("USING"):
            facts["using"] = _using(cursor)
        elif cursor.accept("COMMENT"):
            facts["comment"] = cursor.string()
        elif cursor.at_any(_VISIBILITY) and not cursor.at("NOT", "NULL"):
            visible = cursor.accept("NOT", "IGNORED") or cursor.accept("VISIBLE")
            if not visible:
                cursor.take()
            facts["invisible"] = not visible
        elif cursor.at_any(("CLUSTERED", "NONCLUSTERED")):
            facts["clustered"] = cursor.take().text.upper() == "CLUSTERED"
        elif cursor.accept("KEY_BLOCK_SIZE"):
            cursor.accept("=")
            cursor.integer()
        elif cursor.accept("WITH", "PARSER"):
            cursor.name()
        elif cursor.accept("WHERE"):
            facts["where"] = cursor.expression(",", *_OPTIONS)
        elif cursor.accept("GLOBAL"):
            facts["is_global"] = True
        elif not cursor.accept("LOCAL"):
            break
    return IndexDefinition(kind=kind, parts=parts, name=name, **facts)  # type: ignore[arg-type]


def _using(cursor: TokenCursor) -> str | None:
    if cursor.accept("USING") or cursor.accept("TYPE"):
        return cursor.name().upper()
    return None


def index_part(cursor: TokenCursor) -> IndexPart:
    """column [(length)] [ASC | DESC], or (expression)."""
    if cursor.at("("):
        tree, text = cursor.parenthesised()
        return IndexPart(None, -1, cursor.accept_any("ASC", "DESC") == "DESC", tree, text)
    column_name = cursor.name()
    length = -1
    if cursor.accept("("):
        length = cursor.integer()
        cursor.expect(")")
    return IndexPart(column_name, length, cursor.accept_any("ASC", "DESC") == "DESC")
