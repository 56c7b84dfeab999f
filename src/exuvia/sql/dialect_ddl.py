"""CREATE, DROP, TRUNCATE and RENAME (manual, "Data Definition Statements")."""

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.mysql import refuse
from exuvia.sql.dialect import read
from exuvia.sql.dialect_columns import (
    INDEX_HEADS,
    charset_name,
    column,
    foreign_key,
    index,
    index_tail,
    named_check,
    word_or_string,
)
from exuvia.sql.dialect_cursor import Cursor
from exuvia.sql.nodes import (
    AlterDatabase,
    Check,
    ColumnDefinition,
    CreateDatabase,
    CreateIndex,
    CreateTable,
    CreateView,
    DropDatabase,
    DropIndexStatement,
    DropTable,
    ForeignKey,
    IndexDefinition,
    Node,
    Partitioning,
    RenameTables,
    TableName,
    TruncateTable,
)
from exuvia.sql.nodes_session import Unsupported

_DATABASE = ("DATABASE", "SCHEMA")
_KNOWN_ELSEWHERE = frozenset(
    ("USER", "ROLE", "FUNCTION", "PROCEDURE", "TRIGGER", "EVENT", "SERVER", "TABLESPACE", "BINDING")
) | {"PLACEMENT", "RESOURCE", "SEQUENCE", "AGGREGATE", "DEFINER", "LOGFILE", "STATISTICS"}


def create(cursor: Cursor) -> Node:
    """CREATE ..."""
    cursor.expect("CREATE")
    if cursor.accept_any(*_DATABASE):
        return _create_database(cursor)
    replace = cursor.accept("OR", "REPLACE")
    if cursor.at("VIEW") or cursor.at_any(("ALGORITHM", "SQL")):
        return _create_view(cursor, replace)
    temporary = cursor.accept("TEMPORARY") or cursor.accept("GLOBAL", "TEMPORARY")
    if cursor.accept("TABLE"):
        return _create_table(cursor, temporary)
    if cursor.at_any(INDEX_HEADS):
        return _create_index(cursor)
    if cursor.at_any(_KNOWN_ELSEWHERE):
        return _elsewhere(cursor, "CREATE ")
    raise cursor.error()


def _elsewhere(cursor: Cursor, verb: str) -> Unsupported:
    what = verb + cursor.peek()
    cursor.rest()
    return Unsupported(what)


def _if_not_exists(cursor: Cursor) -> bool:
    return cursor.accept("IF", "NOT", "EXISTS")


def _if_exists(cursor: Cursor) -> bool:
    return cursor.accept("IF", "EXISTS")


# -- databases -------------------------------------------------------------------------------------


def _create_database(cursor: Cursor) -> CreateDatabase:
    absent = _if_not_exists(cursor)
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


def _create_table(cursor: Cursor, temporary: bool) -> CreateTable:
    absent = _if_not_exists(cursor)
    table = cursor.table()
    facts: dict[str, object] = {
        "table": _checked(table),
        "if_not_exists": absent,
        "temporary": temporary,
    }
    if cursor.accept("LIKE"):
        return CreateTable(**facts, like=cursor.table())  # type: ignore[arg-type]
    if cursor.at("(", "LIKE"):
        cursor.expect("(", "LIKE")
        facts["like"] = cursor.table()
        cursor.expect(")")
        return CreateTable(**facts)  # type: ignore[arg-type]
    if cursor.at("(") and cursor.peek(1) not in ("SELECT", "WITH", "TABLE", "VALUES"):
        facts |= _definitions(cursor)
    facts["options"] = table_options(cursor)
    if cursor.at("PARTITION", "BY"):
        facts["partitioning"] = partitioning(cursor)
    facts["replace"] = cursor.accept("REPLACE")
    facts["ignore"] = cursor.accept("IGNORE")
    as_query = cursor.accept("AS")
    if as_query or not cursor.done:
        facts["query"] = query_rest(cursor)
    return CreateTable(**facts)  # type: ignore[arg-type]


def _checked(table: TableName) -> TableName:
    if len(table.name) > IDENTIFIER_CHARS:
        raise refuse(1059, table.name)
    return table


def query_rest(cursor: Cursor) -> exp.Query:
    """The remaining tokens as a query."""
    tokens = cursor.tokens[cursor.position :]
    if not tokens or cursor.peek() not in ("SELECT", "WITH", "(", "TABLE", "VALUES"):
        raise cursor.error()
    cursor.position = len(cursor.tokens)
    tree = read(cursor.text, tokens)
    if not isinstance(tree, exp.Query):
        raise cursor.error()
    return tree


def _definitions(cursor: Cursor) -> dict[str, object]:
    columns: list[ColumnDefinition] = []
    indexes: list[IndexDefinition] = []
    keys: list[ForeignKey] = []
    checks: list[Check] = []
    cursor.expect("(")
    while True:
        found = definition(cursor)
        if isinstance(found, ColumnDefinition):
            columns.append(found)
        elif isinstance(found, IndexDefinition):
            indexes.append(found)
        elif isinstance(found, ForeignKey):
            keys.append(found)
        else:
            checks.append(found)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return {
        "columns": tuple(columns),
        "indexes": tuple(indexes),
        "foreign_keys": tuple(keys),
        "checks": tuple(checks),
    }


def definition(cursor: Cursor) -> ColumnDefinition | IndexDefinition | ForeignKey | Check:
    """One item between the parentheses of CREATE TABLE."""
    if cursor.at("CHECK") or cursor.at("CONSTRAINT", "CHECK"):
        return named_check(cursor)
    if cursor.at("CONSTRAINT") and cursor.peek(2) == "CHECK":
        return named_check(cursor)
    constraint = None
    if cursor.accept("CONSTRAINT") and not cursor.at_any(INDEX_HEADS | {"FOREIGN"}):
        constraint = cursor.checked_name()
    if cursor.at("FOREIGN"):
        return foreign_key(cursor, constraint)
    if cursor.at_any(INDEX_HEADS):
        return index(cursor, constraint)
    return column(cursor)


_OPTION_WORDS = {
    "ENGINE": "engine",
    "AUTO_INCREMENT": "auto_increment",
    "COMMENT": "comment",
    "ROW_FORMAT": "row_format",
    "AUTO_ID_CACHE": "auto_id_cache",
    "SHARD_ROW_ID_BITS": "shard_row_id_bits",
    "PRE_SPLIT_REGIONS": "pre_split_regions",
    "AVG_ROW_LENGTH": "avg_row_length",
    "CHECKSUM": "checksum",
    "COMPRESSION": "compression",
    "CONNECTION": "connection",
    "DELAY_KEY_WRITE": "delay_key_write",
    "ENCRYPTION": "encryption",
    "KEY_BLOCK_SIZE": "key_block_size",
    "MAX_ROWS": "max_rows",
    "MIN_ROWS": "min_rows",
    "PACK_KEYS": "pack_keys",
    "STATS_AUTO_RECALC": "stats_auto_recalc",
    "STATS_PERSISTENT": "stats_persistent",
    "STATS_SAMPLE_PAGES": "stats_sample_pages",
    "TABLESPACE": "tablespace",
    "TTL": "ttl",
}


def table_options(cursor: Cursor) -> dict[str, str]:
    """ENGINE=.. CHARSET=.. ..., in any order, with or without commas."""
    options: dict[str, str] = {}
    while True:
        mark = cursor.position
        if options:
            cursor.accept(",")
        if not _table_option(cursor, options):
            cursor.position = mark
            return options


def _table_option(cursor: Cursor, options: dict[str, str]) -> bool:
    defaulted = cursor.accept("DEFAULT")
    if cursor.at_any(("CHARACTER", "CHARSET", "CHARACTER SET")):
        options["charset"] = charset_name(cursor)
        return True
    if cursor.accept("COLLATE"):
        cursor.accept("=")
        options["collate"] = word_or_string(cursor)
        return True
    key = _OPTION_WORDS.get(cursor.peek())
    if key is None or defaulted:
        return False
    cursor.take()
    cursor.accept("=")
    token = cursor.take()
    if token.text == "(":
        cursor.position -= 1
        options[key] = cursor.skip_parentheses()
    elif token.token_type is TokenType.STRING or token.text.replace("_", "a").isalnum():
        options[key] = token.text
    else:
        cursor.position -= 1
        raise cursor.error()
    return True


def partitioning(cursor: Cursor) -> Partitioning:
    """PARTITION BY ...; kept as text."""
    cursor.expect("PARTITION", "BY")
    mark = cursor.position
    cursor.accept("LINEAR")
    kind = cursor.accept_any("RANGE", "LIST", "HASH", "KEY").lower()
    if not kind:
        raise cursor.error()
    cursor.position = mark
    return Partitioning(kind, cursor.rest())


# -- indexes, views, the rest ----------------------------------------------------------------------


def _create_index(cursor: Cursor) -> CreateIndex:
    head = cursor.accept_any("UNIQUE", "FULLTEXT", "SPATIAL")
    cursor.expect("INDEX")
    absent = _if_not_exists(cursor)
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


def _create_view(cursor: Cursor, replace: bool) -> CreateView:
    while not cursor.at("VIEW"):
        cursor.take()
    cursor.expect("VIEW")
    view = cursor.table()
    columns = cursor.names() if cursor.at("(") else ()
    cursor.expect("AS")
    token = cursor.token
    text = cursor.text[token.start : cursor.tokens[-1].end + 1] if token else ""
    return CreateView(view, columns, query_rest(cursor), text, replace)


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
    if cursor.at_any(_KNOWN_ELSEWHERE | {"STATS", "PREPARE"}):
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
        cursor.rest()
        return Unsupported("RENAME USER")
    cursor.expect("TABLE")
    return RenameTables(cursor.listed(lambda: _pair(cursor)))


def _pair(cursor: Cursor) -> tuple[TableName, TableName]:
    old = cursor.table()
    cursor.expect("TO")
    return old, _checked(cursor.table())
