"""Index definitions: kind, name, parts and options (manual, "CREATE INDEX Statement")."""

from exuvia.sql.nodes import (
    IndexDefinition,
    IndexPart,
)
from exuvia.sql.parse.cursor import Cursor

INDEX_HEADS = frozenset(("INDEX", "KEY", "UNIQUE", "PRIMARY", "PRIMARY KEY", "FULLTEXT", "SPATIAL"))


def index(cursor: Cursor, constraint: str | None = None) -> IndexDefinition:
    """[UNIQUE | PRIMARY | ...] KEY [name] [USING ..] (parts) options;

    the cursor is at its first word."""
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


def index_tail(cursor: Cursor, kind: str, name: str | None) -> IndexDefinition:
    """[USING ..] (parts) options."""
    facts: dict[str, object] = {"using": _using(cursor)}
    cursor.expect("(")
    parts = cursor.listed(lambda: index_part(cursor))
    cursor.expect(")")
    while _index_option(cursor, facts):
        pass
    return IndexDefinition(kind=kind, parts=parts, name=name, **facts)  # type: ignore[arg-type]


def _using(cursor: Cursor) -> str | None:
    if cursor.accept("USING") or cursor.accept("TYPE"):
        return cursor.name().upper()
    return None


def _index_option(cursor: Cursor, facts: dict[str, object]) -> bool:
    if cursor.at("USING"):
        facts["using"] = _using(cursor)
    elif cursor.accept("COMMENT"):
        facts["comment"] = cursor.string()
    elif cursor.at_any(("VISIBLE", "INVISIBLE", "IGNORED", "NOT")) and not cursor.at("NOT", "NULL"):
        shown = cursor.accept("NOT", "IGNORED") or cursor.accept("VISIBLE")
        if not shown:
            cursor.take()
        facts["invisible"] = not shown
    elif cursor.at_any(("CLUSTERED", "NONCLUSTERED")):
        facts["clustered"] = cursor.take().text.upper() == "CLUSTERED"
    elif cursor.accept("KEY_BLOCK_SIZE"):
        cursor.accept("=")
        cursor.integer()
    elif cursor.accept("WITH", "PARSER"):
        cursor.name()
    elif cursor.accept("GLOBAL"):
        facts["is_global"] = True
    elif not cursor.accept("LOCAL"):
        return False
    return True


def index_part(cursor: Cursor) -> IndexPart:
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
