"""Parsers of CREATE, DROP, TRUNCATE and RENAME (MySQL manual, "Data Definition Statements"), and of
CREATE VIEW, CREATE SEQUENCE and ALTER SEQUENCE (TiDB's manual).
"""

from sqlglot import exp

from exuvia.base.mysql_errors import ErrSequenceUnsupportedTableOption
from exuvia.sql.charsets import COLLATIONS, charset_named, collation_named, one_charset
from exuvia.sql.nodes import (
    AlterDatabase,
    AlterSequence,
    CreateDatabase,
    CreateIndex,
    CreateSequence,
    CreateView,
    DeallocateStatement,
    DropDatabase,
    DropIndexStatement,
    DropTable,
    IndexDefinition,
    Node,
    RenameTables,
    TableName,
    TruncateTable,
    Unsupported,
)
from exuvia.sql.parse.accounts import (
    account,
    create_role,
    create_user,
    drop_role,
    drop_user,
    rename_user,
)
from exuvia.sql.parse.admin import drop_stats
from exuvia.sql.parse.columns import INDEX_HEADS, charset_name, index_tail, word_or_string
from exuvia.sql.parse.create_table import (
    checked,
    create_table,
    if_not_exists,
    policy_name,
    query_rest,
    table_options,
)
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.placement import create_group, create_policy, drop_group, drop_policy
from exuvia.sql.parse.tokens import word_of

VIEW_HEADS = frozenset(("ALGORITHM", "DEFINER", "SQL", "VIEW"))
Options = tuple[tuple[str, int | None], ...]


def create_view(cursor: TokenCursor, replace: bool) -> CreateView:
    """[ALGORITHM =] [DEFINER =] [SQL SECURITY] VIEW ..., after CREATE [OR REPLACE]."""
    algorithm, definer, security = "UNDEFINED", None, "DEFINER"
    if cursor.accept("ALGORITHM"):
        cursor.expect("=")
        algorithm = _one_of(cursor, "UNDEFINED", "MERGE", "TEMPTABLE")
    if cursor.accept("DEFINER"):
        cursor.expect("=")
        definer = account(cursor)
    if cursor.accept("SQL"):
        cursor.expect("SECURITY")
        security = _one_of(cursor, "DEFINER", "INVOKER")
    cursor.expect("VIEW")
    view = checked(cursor.table())
    columns = cursor.names() if cursor.at("(") else ()
    cursor.expect("AS")
    check = _check_option(cursor)
    token = cursor.token
    text = cursor.text[token.start : cursor.tokens[-1].end + 1] if token else ""
    query = query_rest(cursor)
    assert isinstance(query, exp.Expression)
    return CreateView(view, columns, query, text, replace, algorithm, definer, security, check)


def _one_of(cursor: TokenCursor, *words: str) -> str:
    word = cursor.accept_any(*words)
    if not word:
        raise cursor.error()
    return word


def _check_option(cursor: TokenCursor) -> str:
    """The kind of a trailing WITH [CASCADED | LOCAL] CHECK OPTION, which is cut off the query."""
    words = [word_of(token) for token in cursor.tokens[-4:]]
    for tail, kind in (
        (["WITH", "CASCADED", "CHECK", "OPTION"], "CASCADED"),
        (["WITH", "LOCAL", "CHECK", "OPTION"], "LOCAL"),
        (["WITH", "CHECK", "OPTION"], "CASCADED"),
    ):
        if words[-len(tail) :] == tail:
            cursor.tokens = cursor.tokens[: -len(tail)]
            return kind
    return "CASCADED"


def create_sequence(cursor: TokenCursor) -> CreateSequence:
    """CREATE SEQUENCE, after these words."""
    absent = if_not_exists(cursor)
    sequence = checked(cursor.table())
    options, comment = _options(cursor)
    if any(word == "restart" for word, _ in options):
        raise cursor.error()
    return CreateSequence(sequence, options, absent, comment)


def alter_sequence(cursor: TokenCursor) -> AlterSequence:
    """ALTER SEQUENCE, after these words."""
    present = cursor.accept("IF", "EXISTS")
    sequence = cursor.table()
    options, comment = _options(cursor)
    if not options and comment is None:
        raise cursor.error()
    return AlterSequence(sequence, options, present, comment)


_NUMBERED = {
    "INCREMENT": ("increment", "BY"),
    "START": ("start", "WITH"),
    "MINVALUE": ("minvalue", ""),
    "MAXVALUE": ("maxvalue", ""),
    "CACHE": ("cache", ""),
}
_BARE = ("NOMINVALUE", "NOMAXVALUE", "NOCACHE", "NOCYCLE", "CYCLE")


def _options(cursor: TokenCursor) -> tuple[Options, str | None]:
    options: list[tuple[str, int | None]] = []
    comment = None
    while not cursor.done:
        word = cursor.peek()
        if word in _NUMBERED:
            cursor.take()
            name, joint = _NUMBERED[word]
            if not (joint and cursor.accept(joint)):
                cursor.accept("=")
            options.append((name, _signed(cursor)))
        elif word == "RESTART":
            cursor.take()
            follows = cursor.accept("WITH") or cursor.accept("=")
            has_value = follows or cursor.at("-") or cursor.peek()[:1].isdigit()
            options.append(("restart", _signed(cursor) if has_value else None))
        elif word in _BARE:
            cursor.take()
            options.append((word.lower(), None))
        elif word == "NO" and cursor.peek(1) in ("MINVALUE", "MAXVALUE", "CACHE", "CYCLE"):
            cursor.take()
            options.append((f"no{cursor.take().text.lower()}", None))
        else:
            others = table_options(cursor)
            if not others:
                raise cursor.error()
            for option, value in others.items():
                if option not in ("comment", "engine"):
                    raise ErrSequenceUnsupportedTableOption(value)
            comment = others.get("comment", comment)
    return tuple(options), comment


def _signed(cursor: TokenCursor) -> int:
    if cursor.accept("-"):
        return -cursor.integer()
    cursor.accept("+")
    return cursor.integer()


# -- ddl -------------------------------------------------------------------------------------------

_DATABASE = ("DATABASE", "SCHEMA")
_KNOWN_ELSEWHERE = frozenset(("FUNCTION", "PROCEDURE", "AGGREGATE", "STATISTICS"))
"""Objects that TiDB's parser accepts; triggers, events, servers and tablespaces are 1064 there."""


def create(cursor: TokenCursor) -> Node:
    """CREATE ..."""
    cursor.expect("CREATE")
    if cursor.accept_any(*_DATABASE):
        absent = if_not_exists(cursor)
        name = cursor.checked_name()
        return CreateDatabase(name, absent, *_database_options(cursor))
    replace = cursor.accept("OR", "REPLACE")
    if cursor.accept("PLACEMENT", "POLICY"):
        return create_policy(cursor, replace)
    if cursor.at_any(VIEW_HEADS):
        return create_view(cursor, replace)
    if cursor.accept("SEQUENCE"):
        return create_sequence(cursor)
    if cursor.accept("GLOBAL", "TEMPORARY"):
        cursor.expect("TABLE")
        return create_table(cursor, "GLOBAL TEMPORARY")
    temporary = "TEMPORARY" if cursor.accept("TEMPORARY") else ""
    if cursor.accept("TABLE"):
        return create_table(cursor, temporary)
    if cursor.at_any(INDEX_HEADS):
        head = cursor.accept_any("UNIQUE", "FULLTEXT", "SPATIAL")
        cursor.expect("INDEX")
        absent = if_not_exists(cursor)
        name = cursor.checked_name()
        using = cursor.name().upper() if cursor.accept("USING") or cursor.accept("TYPE") else None
        cursor.expect("ON")
        table = cursor.table()
        index = index_tail(cursor, head.lower() or "index", name)
        while cursor.accept_any("ALGORITHM", "LOCK"):
            cursor.accept("=")
            cursor.take()
        if using and not index.using:
            fields = {key: getattr(index, key) for key in index.__struct_fields__}
            index = IndexDefinition(**{**fields, "using": using})
        return CreateIndex(table, index, absent)
    if cursor.accept("USER"):
        return create_user(cursor)
    if cursor.accept("ROLE"):
        return create_role(cursor)
    if cursor.accept("RESOURCE", "GROUP"):
        return create_group(cursor)
    if cursor.at_any(_KNOWN_ELSEWHERE):
        return _elsewhere(cursor, "CREATE ")
    raise cursor.error()


def _elsewhere(cursor: TokenCursor, verb: str) -> Unsupported:
    statement = verb + cursor.peek()
    cursor.rest()
    return Unsupported(statement)


def _if_exists(cursor: TokenCursor) -> bool:
    return cursor.accept("IF", "EXISTS")


# -- databases -------------------------------------------------------------------------------------


def alter_database(cursor: TokenCursor) -> AlterDatabase:
    """ALTER DATABASE [name] options, after DATABASE."""
    name = None
    heads = ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "CHARACTER SET", "SET")
    if not cursor.at_any(heads) and not cursor.at("PLACEMENT", "POLICY"):
        name = cursor.name()
    if cursor.accept("SET"):
        return AlterDatabase(name, None, None, tiflash_replicas(cursor))
    charset, collate, placement = _database_options(cursor, of_one_charset=True)
    if charset is None and collate is None and placement is None:
        raise cursor.error()
    return AlterDatabase(name, charset, collate, placement=placement)


def tiflash_replicas(cursor: TokenCursor) -> int:
    """TIFLASH REPLICA n [LOCATION LABELS 'a', ...], after SET."""
    cursor.expect("TIFLASH", "REPLICA")
    count = cursor.integer()
    if cursor.accept("LOCATION", "LABELS"):
        cursor.listed(cursor.string)
    return count


def _database_options(
    cursor: TokenCursor, *, of_one_charset: bool = False
) -> tuple[str | None, str | None, str | None]:
    """Charset, collation and placement policy, each None if omitted. The last duplicate counts.

    `of_one_charset`: raises 1302 for two charsets, as only ALTER DATABASE does."""
    charset = collate = placement = explicit = None
    while not cursor.done:
        cursor.accept("DEFAULT")
        if cursor.accept("PLACEMENT", "POLICY"):
            placement = policy_name(cursor)
        elif cursor.accept("COLLATE"):
            cursor.accept("=")
            collate = word_or_string(cursor)
            if of_one_charset:
                explicit = one_charset(explicit, COLLATIONS[collation_named(collate)][0])
        elif cursor.accept("ENCRYPTION"):
            cursor.accept("=")
            cursor.string()
        else:
            charset = charset_name(cursor)
            if of_one_charset:
                explicit = one_charset(explicit, charset_named(charset))
    return charset, collate, placement


# -- indexes, views, the rest ----------------------------------------------------------------------


def drop(cursor: TokenCursor) -> Node:
    """DROP ..."""
    cursor.expect("DROP")
    if cursor.accept_any(*_DATABASE):
        present = _if_exists(cursor)
        return DropDatabase(cursor.name(), present)
    if cursor.accept("PREPARE"):
        return DeallocateStatement(cursor.name())
    if cursor.accept("INDEX"):
        present = _if_exists(cursor)
        name = "PRIMARY" if cursor.accept("PRIMARY") else cursor.name()
        cursor.expect("ON")
        table = cursor.table()
        while cursor.accept_any("ALGORITHM", "LOCK"):
            cursor.accept("=")
            cursor.take()
        return DropIndexStatement(table, name, present)
    in_all = cursor.accept("GLOBAL", "TEMPORARY")
    temporary = cursor.accept("TEMPORARY")
    if in_all and not cursor.at_any(("TABLE", "TABLES")):
        raise cursor.error()
    kind = cursor.accept_any("TABLE", "TABLES", "VIEW", "SEQUENCE").lower()
    if kind:
        present = _if_exists(cursor)
        tables = cursor.listed(cursor.table)
        cursor.accept_any("RESTRICT", "CASCADE")
        return DropTable(tables, present, kind.removesuffix("s"), temporary, in_all)
    if cursor.accept("STATS"):
        return drop_stats(cursor)
    if cursor.accept("USER"):
        return drop_user(cursor)
    if cursor.accept("ROLE"):
        return drop_role(cursor)
    if cursor.accept("PLACEMENT", "POLICY"):
        return drop_policy(cursor)
    if cursor.accept("RESOURCE", "GROUP"):
        return drop_group(cursor)
    if cursor.at_any(_KNOWN_ELSEWHERE | {"PREPARE"}):
        return _elsewhere(cursor, "DROP ")
    raise cursor.error()


def truncate(cursor: TokenCursor) -> Node:
    """TRUNCATE [TABLE] t."""
    cursor.expect("TRUNCATE")
    cursor.accept("TABLE")
    return TruncateTable(cursor.table())


def rename(cursor: TokenCursor) -> Node:
    """RENAME TABLE a TO b, ..."""
    cursor.expect("RENAME")
    if cursor.accept("USER"):
        return rename_user(cursor)
    cursor.expect("TABLE")
    return RenameTables(cursor.listed(lambda: _pair(cursor)))


def _pair(cursor: TokenCursor) -> tuple[TableName, TableName]:
    old = cursor.table()
    cursor.expect("TO")
    return old, checked(cursor.table())
