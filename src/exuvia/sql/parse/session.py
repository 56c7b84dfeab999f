"""Parsers of statements about transactions, variables, prepared statements and the session."""

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from exuvia.sql.nodes import (
    Assignment,
    Begin,
    Commit,
    DeallocateStatement,
    Do,
    ExecuteStatement,
    Flush,
    Kill,
    LockTables,
    Node,
    PrepareStatement,
    ReleaseSavepoint,
    Rollback,
    SetSavepoint,
    SetStatement,
    TableMaintenance,
    TableName,
    Tree,
    UnlockTables,
    Use,
)
from exuvia.sql.parse.accounts import set_default_role, set_password, set_role
from exuvia.sql.parse.columns import word_or_string
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.placement import set_group

_LEVELS = (
    ("READ", "UNCOMMITTED"),
    ("READ", "COMMITTED"),
    ("REPEATABLE", "READ"),
    ("SERIALIZABLE",),
)
_VALUES = frozenset(
    (
        *("NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"),
        *("CURRENT_USER", "CURRENT_ROLE", "LOCALTIME", "LOCALTIMESTAMP"),
        *("UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"),
    )
)
"""Words that are expressions and not texts, as values of SET."""
_SCOPES = {"GLOBAL": "global", "SESSION": "session", "LOCAL": "session", "PERSIST": "global"}


def begin(cursor: TokenCursor) -> Node:
    """BEGIN [WORK | PESSIMISTIC | OPTIMISTIC]."""
    cursor.take()
    if cursor.accept("PESSIMISTIC"):
        return Begin(pessimistic=True)
    if cursor.accept("OPTIMISTIC"):
        return Begin(pessimistic=False)
    cursor.accept("WORK")
    return Begin()


def start(cursor: TokenCursor) -> Node:
    """START TRANSACTION [characteristics]."""
    cursor.expect("START", "TRANSACTION")
    read_only: bool | None = None
    snapshot = False
    as_of: Tree | None = None
    while not cursor.done:
        if cursor.accept("READ", "ONLY"):
            read_only = True
            if cursor.accept("AS", "OF", "TIMESTAMP"):
                as_of = cursor.expression()
        elif cursor.accept("WITH", "CONSISTENT", "SNAPSHOT"):
            snapshot = True
        else:
            cursor.expect("READ", "WRITE")
            read_only = False
        if not cursor.accept(","):
            break
    return Begin(read_only, snapshot, as_of=as_of)


def commit(cursor: TokenCursor) -> Node:
    """COMMIT [WORK] [AND [NO] CHAIN] [[NO] RELEASE]."""
    cursor.take()
    cursor.accept("WORK")
    return Commit(*_completion(cursor))


def _completion(cursor: TokenCursor) -> tuple[bool | None, bool | None]:
    """[AND [NO] CHAIN] [[NO] RELEASE]: (chain, release), each None if it is not given."""
    chain = release = None
    if cursor.accept("AND"):
        chain = not cursor.accept("NO")
        cursor.expect("CHAIN")
    if not chain and cursor.accept("RELEASE"):
        release = True
    elif cursor.accept("NO"):
        cursor.expect("RELEASE")
        release = False
    return chain, release


def rollback(cursor: TokenCursor) -> Node:
    """ROLLBACK [WORK] [TO [SAVEPOINT] name | AND [NO] CHAIN, [NO] RELEASE]."""
    cursor.take()
    cursor.accept("WORK")
    if cursor.accept("TO"):
        cursor.accept("SAVEPOINT")
        return Rollback(cursor.name())
    return Rollback(None, *_completion(cursor))


def savepoint(cursor: TokenCursor) -> Node:
    """SAVEPOINT name."""
    cursor.take()
    return SetSavepoint(cursor.name())


def release(cursor: TokenCursor) -> Node:
    """RELEASE SAVEPOINT name."""
    cursor.expect("RELEASE", "SAVEPOINT")
    return ReleaseSavepoint(cursor.name())


def use(cursor: TokenCursor) -> Node:
    """USE database."""
    cursor.take()
    return Use(cursor.name())


def kill(cursor: TokenCursor) -> Node:
    """KILL [TIDB] [CONNECTION | QUERY] id."""
    cursor.take()
    cursor.accept("TIDB")
    word = cursor.accept_any("CONNECTION", "QUERY")
    return Kill(cursor.expression(), word == "QUERY")


def prepare(cursor: TokenCursor) -> Node:
    """PREPARE name FROM text."""
    cursor.take()
    name = cursor.name()
    cursor.expect("FROM")
    return PrepareStatement(name, cursor.expression())


def execute(cursor: TokenCursor) -> Node:
    """EXECUTE name [USING @a, ...]."""
    cursor.take()
    name = cursor.name()
    variables = cursor.listed(lambda: _user_variable(cursor)) if cursor.accept("USING") else ()
    return ExecuteStatement(name, variables)


def _user_variable(cursor: TokenCursor) -> str:
    cursor.expect("@")
    token = cursor.take()
    return token.text


def deallocate(cursor: TokenCursor) -> Node:
    """DEALLOCATE PREPARE name."""
    cursor.take()
    cursor.expect("PREPARE")
    return DeallocateStatement(cursor.name())


def do(cursor: TokenCursor) -> Node:
    cursor.take()
    return Do(cursor.listed(lambda: cursor.expression(",")))


def maintenance(cursor: TokenCursor) -> Node:
    """CHECK | OPTIMIZE | REPAIR TABLE t, ..."""
    kind = cursor.take().text.lower()
    cursor.accept_any("LOCAL", "NO_WRITE_TO_BINLOG")
    if not cursor.accept_any("TABLE", "TABLES"):
        raise cursor.error()
    tables = cursor.listed(cursor.table)
    extended = cursor.accept("EXTENDED")
    cursor.rest()
    return TableMaintenance(kind, tables, extended)


def split(cursor: TokenCursor) -> Node:
    """SPLIT [REGION FOR] [PARTITION] TABLE t [PARTITION (..)] [INDEX i] BETWEEN .. | BY .."""
    cursor.take()
    if cursor.accept("REGION"):
        cursor.expect("FOR")
    cursor.accept("PARTITION")
    cursor.expect("TABLE")
    table = cursor.table()
    if cursor.accept("PARTITION"):
        cursor.skip_parentheses()
    if cursor.accept("INDEX"):
        cursor.name()
    if not cursor.at_any(("BETWEEN", "BY")):
        raise cursor.error()
    cursor.rest()
    return TableMaintenance("split", (table,))


def lock(cursor: TokenCursor) -> Node:
    """LOCK TABLES t READ | WRITE, ..."""
    cursor.take()
    if not cursor.accept_any("TABLES", "TABLE"):
        raise cursor.error()
    return LockTables(cursor.listed(lambda: _lock(cursor)))


def _lock(cursor: TokenCursor) -> tuple[TableName, str]:
    table = cursor.table()
    if cursor.accept("AS") or not cursor.at_any(("READ", "WRITE", "LOW_PRIORITY")):
        cursor.name()
    cursor.accept("LOW_PRIORITY")
    mode = cursor.accept_any("READ", "WRITE").lower()
    if not mode:
        raise cursor.error()
    cursor.accept("LOCAL")
    return table, mode


def unlock(cursor: TokenCursor) -> Node:
    """UNLOCK TABLES."""
    cursor.take()
    if not cursor.accept_any("TABLES", "TABLE"):
        raise cursor.error()
    return UnlockTables()


_LOGS = ("BINARY", "ENGINE", "ERROR", "GENERAL", "RELAY", "SLOW")
_FLUSHED = (
    *("PRIVILEGES", "STATUS", "HOSTS", "LOGS", "OPTIMIZER_COSTS", "USER_RESOURCES"),
    *("STATS_DELTA", "CLIENT_ERRORS_SUMMARY"),
)


def flush(cursor: TokenCursor) -> Node:
    """FLUSH option, ..., those of MySQL and TiDB; FLUSH TABLES t, ... [WITH READ LOCK]."""
    cursor.take()
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if not cursor.accept_any("TABLES", "TABLE"):
        return Flush(cursor.listed(lambda: _flush_option(cursor)))
    if not (cursor.done or cursor.at("WITH", "READ") or cursor.at("FOR", "EXPORT")):
        cursor.listed(cursor.table)
    if cursor.accept("WITH", "READ", "LOCK"):
        return Flush(("TABLES",), "WITH READ LOCK")
    return Flush(("TABLES",), "FOR EXPORT" if cursor.accept("FOR", "EXPORT") else "")


def _flush_option(cursor: TokenCursor) -> str:
    if cursor.accept("TIDB", "PLUGINS"):
        cursor.listed(cursor.name)
        return "TIDB PLUGINS"
    if cursor.accept_any(*_LOGS):
        cursor.expect("LOGS")
        return "LOGS"
    option = cursor.accept_any(*_FLUSHED).upper()
    if not option:
        raise cursor.error()
    return option


# -- SET -------------------------------------------------------------------------------------------


def set_statement(cursor: TokenCursor) -> Node:
    """SET item, ..."""
    cursor.take()
    if cursor.accept("PASSWORD"):
        return set_password(cursor)
    if cursor.accept("RESOURCE", "GROUP"):
        return set_group(cursor)
    if cursor.at("ROLE") and cursor.peek(1) != "=":
        cursor.take()
        return set_role(cursor)
    if cursor.accept("DEFAULT", "ROLE"):
        return set_default_role(cursor)
    scope = cursor.peek()
    ahead = 1 if scope in _SCOPES else 0
    if cursor.peek(ahead) == "TRANSACTION":
        scope_name = _SCOPES[cursor.take().text.upper()] if ahead else None
        cursor.take()
        parts = ",".join(cursor.listed(lambda: _characteristic(cursor)))
        return SetStatement((Assignment("transaction", parts, None, scope_name),))
    return SetStatement(cursor.listed(lambda: _set_item(cursor)))


def _characteristic(cursor: TokenCursor) -> str:
    """ISOLATION LEVEL level | READ ONLY | READ WRITE, as `SET TRANSACTION` has them."""
    if cursor.accept("ISOLATION", "LEVEL"):
        for words in _LEVELS:
            if cursor.accept(*words):
                return f"ISOLATION LEVEL {' '.join(words)}"
        raise cursor.error()
    if cursor.accept("READ", "ONLY"):
        return "READ ONLY"
    cursor.expect("READ", "WRITE")
    return "READ WRITE"


def _set_item(cursor: TokenCursor) -> Assignment:
    if cursor.at("NAMES") and cursor.peek(1) != "=":
        cursor.take()
        if cursor.accept("DEFAULT"):
            return Assignment("names", "default")
        charset = word_or_string(cursor)
        return Assignment(
            "names", charset, None, word_or_string(cursor) if cursor.accept("COLLATE") else None
        )
    if cursor.accept("CHARSET") or cursor.accept("CHARACTER", "SET"):
        return Assignment("charset", word_or_string(cursor))
    if cursor.accept("@"):
        name = cursor.take().text
        _equals(cursor)
        if cursor.at("DEFAULT") and cursor.peek(1) != "(":
            raise cursor.error()
        return Assignment("user", name.lower(), cursor.expression(","))
    scope = "session"
    if cursor.accept("@@"):
        if cursor.peek(1) == "." and cursor.peek() in _SCOPES:
            scope = _SCOPES[cursor.take().text.upper()]
            cursor.expect(".")
    elif cursor.peek() in _SCOPES and cursor.peek(1) not in ("=", ":="):
        scope = _SCOPES[cursor.take().text.upper()]
        if cursor.accept("@@"):
            raise cursor.error()
    name = cursor.name()
    while cursor.accept("."):
        name = f"{name}.{cursor.name()}"
    _equals(cursor)
    return Assignment(scope, name.lower(), _value(cursor))


def _equals(cursor: TokenCursor) -> None:
    if not (cursor.accept("=") or cursor.accept(":=")):
        raise cursor.error()


def _value(cursor: TokenCursor) -> Tree | None:
    """The value of a system variable: an expression, or None for DEFAULT. A bare word that is no
    function (ON, utf8mb4) becomes a string."""
    following = cursor.peek(1)
    token = cursor.token
    if token is not None and following in ("", ",") and token.token_type is not TokenType.STRING:
        after = cursor.position + 1
        if after >= len(cursor.tokens) or cursor.tokens[after].token_type is TokenType.COMMA:
            word = cursor.peek()
            if word == "DEFAULT":
                cursor.take()
                return None
            is_word = word.replace("_", "a").isalnum() and not word[0].isdigit()
            if is_word and word not in _VALUES:
                cursor.take()
                return exp.Literal.string(token.text)
    return cursor.expression(",")
