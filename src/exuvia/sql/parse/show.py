"""SHOW, DESCRIBE, EXPLAIN and the session's own statements."""

from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql.nodes import Node, TableName
from exuvia.sql.nodes.session import AdminShowNextRowId, Describe, Show
from exuvia.sql.parse.accounts import show_create_user, show_grants
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.tokens import read_expression

_WITH_TABLE = {"COLUMNS": "columns", "FIELDS": "columns"}
_INDEX_WORDS = ("INDEX", "INDEXES", "KEYS")
_OBJECTS = ("PROCEDURE", "FUNCTION", "TRIGGER", "EVENT")
_SINGLE = {
    "VARIABLES": "variables",
    "STATUS": "status",
    "WARNINGS": "warnings",
    "ERRORS": "errors",
    "DATABASES": "databases",
    "SCHEMAS": "databases",
    "ENGINES": "engines",
    "COLLATION": "collation",
    "CHARSET": "character set",
    "CHARACTER SET": "character set",
    "PROCESSLIST": "processlist",
    "TRIGGERS": "triggers",
    "EVENTS": "events",
    "PLUGINS": "plugins",
    "PRIVILEGES": "privileges",
    "PROFILES": "profiles",
    "PROFILE": "profile",
    "REPLICAS": "replicas",
    "BINDINGS": "bindings",
    "TABLES": "tables",
    "HISTOGRAMS_IN_FLIGHT": "histograms_in_flight",
}


def show(cursor: TokenCursor) -> Node:
    """SHOW ..."""
    cursor.expect("SHOW")
    if cursor.accept("COUNT", "("):
        cursor.expect("*", ")")
        return Show(kind=_one_of(cursor, "WARNINGS", "ERRORS"), count=True)
    if cursor.accept("CREATE"):
        return _show_create(cursor)
    if cursor.accept("GRANTS"):
        return show_grants(cursor)
    facts: dict[str, object] = {}
    cursor.accept("EXTENDED")
    facts["full"] = cursor.accept("FULL")
    facts["scope"] = cursor.accept_any("GLOBAL", "SESSION", "LOCAL").lower() or None
    if facts["scope"] == "local":
        facts["scope"] = "session"
    if cursor.at("TABLE") and cursor.peek(1) != "STATUS":
        cursor.expect("TABLE")
        table = cursor.table()
        cursor.expect("NEXT_ROW_ID")
        return AdminShowNextRowId(table)
    facts["kind"] = _kind(cursor)
    _qualifiers(cursor, facts)
    return Show(**facts)  # type: ignore[arg-type]


def _one_of(cursor: TokenCursor, *words: str) -> str:
    word = cursor.accept_any(*words)
    if not word:
        raise cursor.error()
    return word.lower()


def _show_create(cursor: TokenCursor) -> Node:
    kind = _one_of(cursor, "TABLE", "VIEW", "DATABASE", "SCHEMA", "SEQUENCE", "USER", *_OBJECTS)
    if kind in ("database", "schema"):
        unless = bool(cursor.accept("IF", "NOT", "EXISTS"))
        return Show(kind="create database", if_not_exists=unless, database=cursor.name())
    if kind == "user":
        return show_create_user(cursor)
    return Show(kind="create " + kind, table=cursor.table())


def _kind(cursor: TokenCursor) -> str:
    word = cursor.peek()
    if cursor.accept("BINARY", "LOG", "STATUS"):
        return "binary log status"
    for first, second in (
        ("TABLE", "STATUS"),
        ("OPEN", "TABLES"),
        ("MASTER", "STATUS"),
        ("BINARY", "LOGS"),
        ("PROCEDURE", "STATUS"),
        ("FUNCTION", "STATUS"),
        ("CHARACTER", "SET"),
        ("ENGINE", "INNODB"),
        ("ANALYZE", "STATUS"),
        ("STORAGE", "ENGINES"),
        ("BINARY", "LOG"),
        ("REPLICA", "STATUS"),
        ("SLAVE", "STATUS"),
        ("MASTER", "LOGS"),
        ("BINLOG", "EVENTS"),
        ("RELAYLOG", "EVENTS"),
        ("SLAVE", "HOSTS"),
    ):
        if cursor.accept(first, second):
            if first == "ENGINE":
                cursor.accept_any("STATUS", "MUTEX")
            return "engines" if first == "STORAGE" else f"{first} {second}".lower()
    if word in _SINGLE or word in _WITH_TABLE or word in _INDEX_WORDS or word.startswith("STATS_"):
        cursor.take()
        if word in _INDEX_WORDS:
            return "index"
        return _SINGLE.get(word) or _WITH_TABLE.get(word) or word.lower()
    raise cursor.error()


def _qualifiers(cursor: TokenCursor, facts: dict[str, object]) -> None:
    kind = facts["kind"]
    if cursor.at_any(("FROM", "IN")):
        cursor.take()
        if kind in ("columns", "index"):
            facts["table"] = cursor.table()
            if cursor.accept_any("FROM", "IN"):
                table = facts["table"]
                assert isinstance(table, TableName)
                facts["table"] = TableName(table.name, cursor.name())
        else:
            facts["database"] = cursor.name()
    elif kind in ("columns", "index"):
        raise cursor.error()
    if cursor.accept("LIKE"):
        facts["like"] = cursor.string()
    elif cursor.accept("WHERE"):
        facts["where"] = read_expression(cursor.text, _where(cursor))
    if cursor.accept("LIMIT"):
        first = cursor.integer()
        if cursor.accept(","):
            facts["limit"] = (first, cursor.integer())
        elif cursor.accept("OFFSET"):
            facts["limit"] = (cursor.integer(), first)
        else:
            facts["limit"] = (0, first)


def _where(cursor: TokenCursor) -> list[Token]:
    """The condition's tokens; Charset is a column of some lists, and a word of sqlglot's."""
    return [
        Token(TokenType.IDENTIFIER, each.text, each.line, each.col, each.start, each.end)
        if each.text.upper() == "CHARSET"
        else each
        for each in cursor.until("LIMIT")
    ]


def describe_table(cursor: TokenCursor) -> Node:
    """table [column | 'pattern'], after DESCRIBE."""
    table = cursor.table()
    pattern = None
    if not cursor.done:
        token = cursor.token
        quoted = token is not None and token.token_type is TokenType.STRING
        pattern = cursor.string() if quoted else cursor.name()
    return Describe(table, pattern)


def show_where(cursor: TokenCursor) -> object:
    """A trailing [WHERE condition]."""
    if not cursor.accept("WHERE"):
        return None
    return read_expression(cursor.text, cursor.until())
