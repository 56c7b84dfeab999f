"""CREATE, DROP, TRUNCATE and RENAME (manual, "Data Definition Statements")."""

from exuvia.sql.nodes import (
    AlterDatabase,
    CreateDatabase,
    CreateIndex,
    DropDatabase,
    DropIndexStatement,
    DropTable,
    IndexDefinition,
    Node,
    RenameTables,
    TableName,
    TruncateTable,
)
from exuvia.sql.nodes.session import Unsupported
from exuvia.sql.parse.accounts import create_role, create_user, drop_role, drop_user, rename_user
from exuvia.sql.parse.create_table import checked, create_table, if_not_exists
from exuvia.sql.parse.cursor import Cursor
from exuvia.sql.parse.indexes import INDEX_HEADS, index_tail
from exuvia.sql.parse.objects import VIEW_HEADS, create_sequence, create_view
from exuvia.sql.parse.statistics import drop_stats
from exuvia.sql.parse.types import charset_name, word_or_string

_DATABASE = ("DATABASE", "SCHEMA")
_KNOWN_ELSEWHERE = frozenset(
    ("USER", "ROLE", "FUNCTION", "PROCEDURE", "TRIGGER", "EVENT", "SERVER", "TABLESPACE", "BINDING")
) | {"PLACEMENT", "RESOURCE", "AGGREGATE", "LOGFILE", "STATISTICS"}


def create(cursor: Cursor) -> Node:
    """CREATE ..."""
    cursor.expect("CREATE")
    if cursor.accept_any(*_DATABASE):
        return _create_database(cursor)
    replace = cursor.accept("OR", "REPLACE")
    if cursor.at_any(VIEW_HEADS):
        return create_view(cursor, replace)
    if cursor.accept("SEQUENCE"):
        return create_sequence(cursor)
    if cursor.at("GLOBAL", "TEMPORARY"):
        return _elsewhere(cursor, "CREATE ")
    temporary = cursor.accept("TEMPORARY")
    if cursor.accept("TABLE"):
        return create_table(cursor, temporary)
    if cursor.at_any(INDEX_HEADS):
        return _create_index(cursor)
    if cursor.accept("USER"):
        return create_user(cursor)
    if cursor.accept("ROLE"):
        return create_role(cursor)
    if cursor.at_any(_KNOWN_ELSEWHERE):
        return _elsewhere(cursor, "CREATE ")
    raise cursor.error()


def _elsewhere(cursor: Cursor, verb: str) -> Unsupported:
    what = verb + cursor.peek()
    cursor.rest()
    return Unsupported(what)


def _if_exists(cursor: Cursor) -> bool:
    return cursor.accept("IF", "EXISTS")


# -- databases -------------------------------------------------------------------------------------


def _create_database(cursor: Cursor) -> CreateDatabase:
    absent = if_not_exists(cursor)
    name = cursor.checked_name()
    charset, collate = _database_options(cursor)
    return CreateDatabase(name, absent, charset, collate)


def alter_database(cursor: Cursor) -> AlterDatabase:
    """ALTER DATABASE [name] options; the cursor stands after DATABASE."""
    name = None
    if not cursor.at_any(("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "CHARACTER SET")):
        name = cursor.name()
    charset, collate = _database_options(cursor)
    if charset is None and collate is None:
        raise cursor.error()
    return AlterDatabase(name, charset, collate)


def _database_options(cursor: Cursor) -> tuple[str | None, str | None]:
    charset = collate = None
    while not cursor.done:
        cursor.accept("DEFAULT")
        if cursor.accept("COLLATE"):
            cursor.accept("=")
            collate = word_or_string(cursor)
        elif cursor.accept("ENCRYPTION"):
            cursor.accept("=")
            cursor.string()
        else:
            charset = charset_name(cursor)
    return charset, collate


# -- tables ----------------------------------------------------------------------------------------


# -- indexes, views, the rest ----------------------------------------------------------------------


def _create_index(cursor: Cursor) -> CreateIndex:
    head = cursor.accept_any("UNIQUE", "FULLTEXT", "SPATIAL")
    cursor.expect("INDEX")
    absent = if_not_exists(cursor)
    name = cursor.checked_name()
    using = cursor.name().upper() if cursor.accept("USING") or cursor.accept("TYPE") else None
    cursor.expect("ON")
    table = cursor.table()
    found = index_tail(cursor, head.lower() or "index", name)
    while cursor.accept_any("ALGORITHM", "LOCK"):
        cursor.accept("=")
        cursor.take()
    if using and not found.using:
        fields = {key: getattr(found, key) for key in found.__struct_fields__}
        found = IndexDefinition(**{**fields, "using": using})
    return CreateIndex(table, found, absent)


def drop(cursor: Cursor) -> Node:
    """DROP ..."""
    cursor.expect("DROP")
    if cursor.accept_any(*_DATABASE):
        present = _if_exists(cursor)
        return DropDatabase(cursor.name(), present)
    if cursor.accept("INDEX"):
        return _drop_index(cursor)
    temporary = cursor.accept("TEMPORARY")
    kind = cursor.accept_any("TABLE", "TABLES", "VIEW", "SEQUENCE").lower()
    if kind:
        present = _if_exists(cursor)
        tables = cursor.listed(cursor.table)
        cursor.accept_any("RESTRICT", "CASCADE")
        return DropTable(tables, present, kind.removesuffix("s"), temporary)
    if cursor.accept("STATS"):
        return drop_stats(cursor)
    if cursor.accept("USER"):
        return drop_user(cursor)
    if cursor.accept("ROLE"):
        return drop_role(cursor)
    if cursor.at_any(_KNOWN_ELSEWHERE | {"PREPARE"}):
        return _elsewhere(cursor, "DROP ")
    raise cursor.error()


def _drop_index(cursor: Cursor) -> DropIndexStatement:
    present = _if_exists(cursor)
    name = "PRIMARY" if cursor.accept("PRIMARY") else cursor.name()
    cursor.expect("ON")
    table = cursor.table()
    while cursor.accept_any("ALGORITHM", "LOCK"):
        cursor.accept("=")
        cursor.take()
    return DropIndexStatement(table, name, present)


def truncate(cursor: Cursor) -> Node:
    """TRUNCATE [TABLE] t."""
    cursor.expect("TRUNCATE")
    cursor.accept("TABLE")
    return TruncateTable(cursor.table())


def rename(cursor: Cursor) -> Node:
    """RENAME TABLE a TO b, ..."""
    cursor.expect("RENAME")
    if cursor.accept("USER"):
        return rename_user(cursor)
    cursor.expect("TABLE")
    return RenameTables(cursor.listed(lambda: _pair(cursor)))


def _pair(cursor: Cursor) -> tuple[TableName, TableName]:
    old = cursor.table()
    cursor.expect("TO")
    return old, checked(cursor.table())
