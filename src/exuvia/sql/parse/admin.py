"""Parsers of TiDB's own statements ADMIN, RECOVER, FLASHBACK, ANALYZE TABLE and LOCK | UNLOCK |
DROP STATS; also of SHOW and DESCRIBE.
"""

from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql.nodes import (
    AdminAlterJob,
    AdminBdrRole,
    AdminBindings,
    AdminCancelInspect,
    AdminCheckIndex,
    AdminChecksum,
    AdminCheckTable,
    AdminCleanupLocks,
    AdminEndUndo,
    AdminGroup,
    AdminInspect,
    AdminJobs,
    AdminRepairIndex,
    AdminRepairTable,
    AdminResignOwner,
    AdminShowDdl,
    AdminShowDdlJobQueries,
    AdminShowDdlJobs,
    AdminShowDdlNodes,
    AdminShowDdlNotifier,
    AdminShowNextRowId,
    AdminShowSlow,
    AdminSkipEvent,
    AdminUndo,
    AdminWaitJobs,
    AnalyzeTable,
    Describe,
    DropStats,
    FlashbackDatabase,
    LockStats,
    Node,
    RecoverTable,
    RefreshStats,
    Show,
    ShowImportJobs,
    ShowTableHistory,
    TableName,
    Tree,
    Unsupported,
)
from exuvia.sql.parse import session
from exuvia.sql.parse.accounts import show_create_user, show_grants
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.tokens import read_expression, word_of


def admin(cursor: TokenCursor) -> Node:
    """ADMIN ..."""
    cursor.expect("ADMIN")
    if cursor.at_any(("SHOW", "SET", "UNSET")) and cursor.peek(1) == "BDR":
        kind = cursor.take().text.lower()
        cursor.expect("BDR", "ROLE")
        role = cursor.accept_any("PRIMARY", "SECONDARY") if kind == "set" else ""
        if kind == "set" and not role:
            raise cursor.error()
        return AdminBdrRole(kind, role.lower())
    if cursor.accept("SHOW", "SLOW"):
        kind = cursor.accept_any("RECENT", "TOP").lower()
        if not kind:
            raise cursor.error()
        if kind == "top":
            kind = (cursor.accept_any("INTERNAL", "ALL") or kind).lower()
        return AdminShowSlow(kind, cursor.integer())
    if cursor.accept("SHOW"):
        if not cursor.accept("DDL"):
            table = cursor.table()
            cursor.expect("NEXT_ROW_ID")
            return AdminShowNextRowId(table)
        if cursor.accept("JOBS"):
            limit = cursor.integer() if not cursor.done and not cursor.at("WHERE") else None
            where = cursor.expression() if cursor.accept("WHERE") else None
            return AdminShowDdlJobs(limit, where)
        if cursor.accept("JOB", "QUERIES"):
            if cursor.accept("LIMIT"):
                return AdminShowDdlJobQueries((), _limit(cursor))
            return AdminShowDdlJobQueries(cursor.listed(cursor.integer))
        if cursor.accept("NODES"):
            return AdminShowDdlNodes(cursor.expression() if cursor.accept("WHERE") else None)
        return AdminShowDdlNotifier() if cursor.accept("NOTIFIER") else AdminShowDdl()
    if cursor.accept("RESIGN"):
        cursor.expect("DDL", "OWNER")
        return AdminResignOwner()
    if cursor.accept("INSPECT", "TABLE"):
        return AdminInspect(cursor.listed(cursor.table))
    if cursor.accept("CANCEL", "INSPECT", "JOBS"):
        return AdminCancelInspect(cursor.listed(cursor.integer))
    if cursor.accept("CHECK", "TABLE"):
        return AdminCheckTable(cursor.listed(cursor.table), cursor.accept("EXTENDED"))
    if cursor.accept("CHECK", "INDEX"):
        table, name = cursor.table(), cursor.name()
        ranges = cursor.listed(lambda: _range(cursor)) if cursor.at("(") else ()
        return AdminCheckIndex(table, name, ranges)
    if cursor.accept("CHECKSUM", "TABLE"):
        return AdminChecksum(cursor.listed(cursor.table))
    if cursor.at_any(("RECOVER", "CLEANUP")) and cursor.peek(1) == "INDEX":
        kind = cursor.take().text.lower()
        cursor.expect("INDEX")
        return AdminRepairIndex(kind, cursor.table(), cursor.name())
    if cursor.accept("CLEANUP", "TABLE", "LOCK"):
        return AdminCleanupLocks(cursor.listed(cursor.table))
    if cursor.accept("REPAIR", "TABLE"):
        table = cursor.table()
        cursor.expect("CREATE", "TABLE")
        cursor.rest()
        return AdminRepairTable(table)
    of_bindings = ("FLUSH", "RELOAD", "CAPTURE", "EVOLVE")
    if cursor.at_any(of_bindings) and cursor.peek(1) == "BINDINGS":
        kind = cursor.take().text.lower()
        cursor.expect("BINDINGS")
        return AdminBindings(kind)
    grouping = ("CREATE", "COMPLETE", "CANCEL")
    if cursor.at_any(grouping) and (cursor.peek(1), cursor.peek(2)) == ("DDL", "GROUP"):
        kind = cursor.take().text.lower()
        cursor.expect("DDL", "GROUP")
        return AdminGroup(kind, cursor.name())
    if cursor.at_any(("CANCEL", "PAUSE", "RESUME", "HOLD", "COMPLETE")):
        kind = cursor.take().text.lower()
        cursor.expect("DDL", "JOBS")
        if kind == "complete" and cursor.accept("ALL"):
            return AdminJobs(kind, ())
        return AdminJobs(kind, cursor.listed(cursor.integer))
    if cursor.accept("WAIT", "DDL", "JOBS"):
        jobs = cursor.listed(cursor.integer)
        return AdminWaitJobs(jobs, cursor.integer() if cursor.accept("TIMEOUT") else None)
    if cursor.accept("UNDO", "DDL", "JOB"):
        job = cursor.integer()
        return AdminUndo(job, cursor.name() if cursor.accept("AS") else None)
    if cursor.accept("END", "UNDO", "DDL", "JOB"):
        return AdminEndUndo(cursor.integer())
    if cursor.accept("SKIP", "DDL", "EVENT"):
        job = cursor.integer()
        part = cursor.integer() if cursor.accept("PART") else None
        cursor.expect("FOR", "HANDLER")
        return AdminSkipEvent(job, part, cursor.integer())
    if cursor.accept("ALTER", "DDL", "JOBS"):
        job = cursor.integer()
        pairs = cursor.listed(lambda: _option(cursor))
        return AdminAlterJob(job, dict(pairs))
    if cursor.at_any(("RELOAD", "FLUSH", "PLUGINS", "SET", "UNSET")):
        statement = "ADMIN " + cursor.peek()
        cursor.rest()
        return Unsupported(statement)
    raise cursor.error()


def _limit(cursor: TokenCursor) -> tuple[int, int]:
    first = cursor.integer()
    if cursor.accept("OFFSET"):
        return cursor.integer(), first
    if cursor.accept(","):
        return first, cursor.integer()
    return 0, first


def _range(cursor: TokenCursor) -> tuple[int, int]:
    cursor.expect("(")
    least = cursor.integer()
    cursor.expect(",")
    most = cursor.integer()
    cursor.expect(")")
    return least, most


def _option(cursor: TokenCursor) -> tuple[str, Tree]:
    name = cursor.name().lower()
    cursor.expect("=")
    return name, cursor.expression(",")


def recover(cursor: TokenCursor) -> Node:
    """RECOVER TABLE t | BY JOB id."""
    cursor.expect("RECOVER", "TABLE")
    if cursor.accept("BY", "JOB"):
        return RecoverTable(None, cursor.integer())
    table = cursor.table()
    jobs = None if cursor.done else cursor.integer()
    return RecoverTable(table, jobs=jobs)


def flashback(cursor: TokenCursor) -> Node:
    """FLASHBACK TABLE t [TO new], FLASHBACK DATABASE d [TO new]."""
    cursor.expect("FLASHBACK")
    if cursor.accept_any("DATABASE", "SCHEMA"):
        name = cursor.name()
        return FlashbackDatabase(name, cursor.name() if cursor.accept("TO") else None)
    if not cursor.accept("TABLE"):
        cursor.rest()
        return Unsupported("FLASHBACK")
    table = cursor.table()
    new_name = cursor.name() if cursor.accept("TO") else None
    return RecoverTable(table, new_name=new_name, is_flashback=True)


# -- statistics ------------------------------------------------------------------------------------

_OPTIONS = ("BUCKETS", "TOPN", "CMSKETCH", "SAMPLES", "SAMPLERATE")


def analyze(cursor: TokenCursor) -> Node:
    """ANALYZE [INCREMENTAL] TABLE t, ... [PARTITION ...] [INDEX ... | COLUMNS ...] [WITH ...]."""
    cursor.take()
    cursor.accept_any("LOCAL", "NO_WRITE_TO_BINLOG", "INCREMENTAL")
    if not cursor.accept_any("TABLE", "TABLES"):
        raise cursor.error()
    tables = cursor.listed(cursor.table)
    partitions = cursor.listed(cursor.name) if cursor.accept("PARTITION") else ()
    return analyze_rest(cursor, tables, partitions)


def analyze_rest(
    cursor: TokenCursor, tables: tuple[TableName, ...], partitions: tuple[str, ...]
) -> Node:
    """[INDEX ... | COLUMNS ...] [WITH ...]."""
    indexes: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    if cursor.accept("INDEX"):
        named = not cursor.done and not cursor.at("WITH")
        indexes = cursor.listed(lambda: _index_name(cursor)) if named else ()
    elif cursor.accept("COLUMNS"):
        columns = cursor.listed(cursor.name)
    elif cursor.accept_any("ALL", "PREDICATE"):
        cursor.expect("COLUMNS")
    options = cursor.listed(lambda: _analyze_option(cursor)) if cursor.accept("WITH") else ()
    cursor.end()
    return AnalyzeTable(
        tables=tables, partitions=partitions, indexes=indexes, columns=columns, options=options
    )


def _index_name(cursor: TokenCursor) -> str:
    return "PRIMARY" if cursor.accept("PRIMARY") else cursor.name()


def _analyze_option(cursor: TokenCursor) -> tuple[str, float]:
    try:
        number = float(cursor.take().text)
    except ValueError:
        raise cursor.error() from None
    word = cursor.accept_any(*_OPTIONS).lower()
    if not word:
        raise cursor.error()
    if word == "cmsketch":
        cursor.accept_any("WIDTH", "DEPTH")
    return word, number


def lock(cursor: TokenCursor) -> Node:
    """LOCK STATS t, ... | LOCK TABLES ..."""
    if cursor.peek(1) != "STATS":
        return session.lock(cursor)
    cursor.expect("LOCK", "STATS")
    return LockStats(cursor.listed(lambda: _table(cursor)))


def unlock(cursor: TokenCursor) -> Node:
    """UNLOCK STATS t, ... | UNLOCK TABLES."""
    if cursor.peek(1) != "STATS":
        return session.unlock(cursor)
    cursor.expect("UNLOCK", "STATS")
    return LockStats(cursor.listed(lambda: _table(cursor)), unlocks=True)


def refresh(cursor: TokenCursor) -> Node:
    """REFRESH STATS t, d.t, d.*, *.* [FULL | LITE] [CLUSTER]."""
    cursor.expect("REFRESH", "STATS")
    targets = cursor.listed(lambda: _refreshed(cursor))
    cursor.accept_any("FULL", "LITE")
    cursor.accept("CLUSTER")
    return RefreshStats(targets)


def _refreshed(cursor: TokenCursor) -> TableName:
    if cursor.accept("*"):
        cursor.expect(".", "*")
        return TableName("*", "*")
    first = cursor.name()
    if not cursor.accept("."):
        return TableName(first)
    return TableName("*" if cursor.accept("*") else cursor.name(), first)


def _table(cursor: TokenCursor) -> tuple[TableName, tuple[str, ...]]:
    table = cursor.table()
    if not cursor.accept("PARTITION"):
        return table, ()
    if cursor.accept("("):
        names = cursor.listed(cursor.name)
        cursor.expect(")")
        return table, names
    return table, cursor.listed(cursor.name)


def drop_stats(cursor: TokenCursor) -> Node:
    """t, ... [GLOBAL] | t PARTITION p, ..., after DROP STATS."""
    tables = cursor.listed(cursor.table)
    if cursor.accept("PARTITION"):
        return DropStats(tables, cursor.listed(cursor.name))
    return DropStats(tables, whole=bool(cursor.accept("GLOBAL")))


# -- show ------------------------------------------------------------------------------------------

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
    "PLACEMENT": "placement",
    "AFFINITY": "affinity",
}


def show(cursor: TokenCursor) -> Node:
    """SHOW ..."""
    cursor.expect("SHOW")
    if cursor.accept("COUNT", "("):
        cursor.expect("*", ")")
        return Show(kind=_one_of(cursor, "WARNINGS", "ERRORS"), count=True)
    if cursor.accept("CREATE"):
        if cursor.accept("PLACEMENT", "POLICY"):
            return Show(kind="create placement policy", database=cursor.name())
        if cursor.accept("RESOURCE", "GROUP"):
            name = "default" if cursor.accept("DEFAULT") else cursor.name()
            return Show(kind="create resource group", database=name)
        kind = _one_of(cursor, "TABLE", "VIEW", "DATABASE", "SCHEMA", "SEQUENCE", "USER", *_OBJECTS)
        if kind in ("database", "schema"):
            unless = bool(cursor.accept("IF", "NOT", "EXISTS"))
            return Show(kind="create database", if_not_exists=unless, database=cursor.name())
        if kind == "user":
            return show_create_user(cursor)
        return Show(kind="create " + kind, table=cursor.table())
    if cursor.accept("GRANTS"):
        return show_grants(cursor)
    if cursor.accept("IMPORT", "JOBS"):
        return ShowImportJobs(None, cursor.expression() if cursor.accept("WHERE") else None)
    if cursor.accept("IMPORT", "JOB"):
        return ShowImportJobs(cursor.integer())
    facts: dict[str, object] = {}
    cursor.accept("EXTENDED")
    facts["full"] = cursor.accept("FULL")
    facts["scope"] = cursor.accept_any("GLOBAL", "SESSION", "LOCAL").lower() or None
    if facts["scope"] == "local":
        facts["scope"] = "session"
    if cursor.at("TABLE") and cursor.peek(1) != "STATUS":
        cursor.expect("TABLE")
        table = cursor.table()
        if cursor.accept("HISTORY"):
            return ShowTableHistory(table)
        cursor.expect("NEXT_ROW_ID")
        return AdminShowNextRowId(table)
    kind = facts["kind"] = _kind(cursor)
    if kind == "placement" and cursor.accept("FOR"):
        return _placement_for(cursor)
    if cursor.at_any(("FROM", "IN")):
        cursor.take()
        if kind in ("columns", "index"):
            table = cursor.table()
            if cursor.accept_any("FROM", "IN"):
                table = TableName(table.name, cursor.name())
            facts["table"] = table
        else:
            facts["database"] = cursor.name()
    elif kind in ("columns", "index"):
        raise cursor.error()
    if cursor.accept("LIKE"):
        facts["like"] = cursor.string()
    elif cursor.accept("WHERE"):
        # Charset is a column of some results, and a keyword of sqlglot
        condition = [
            Token(TokenType.IDENTIFIER, token.text, token.line, token.col, token.start, token.end)
            if word_of(token) == "CHARSET"
            else token
            for token in cursor.until("LIMIT")
        ]
        facts["where"] = read_expression(cursor.text, condition)
    if cursor.accept("LIMIT"):
        first = cursor.integer()
        if cursor.accept(","):
            facts["limit"] = (first, cursor.integer())
        elif cursor.accept("OFFSET"):
            facts["limit"] = (cursor.integer(), first)
        else:
            facts["limit"] = (0, first)
    return Show(**facts)  # type: ignore[arg-type]


def _placement_for(cursor: TokenCursor) -> Node:
    """DATABASE d | TABLE t [PARTITION p]; the partition's name is in the field `like`."""
    if cursor.accept_any("DATABASE", "SCHEMA"):
        return Show(kind="placement", database=cursor.name())
    cursor.expect("TABLE")
    table = cursor.table()
    return Show(
        kind="placement", table=table, like=cursor.name() if cursor.accept("PARTITION") else None
    )


def _one_of(cursor: TokenCursor, *words: str) -> str:
    word = cursor.accept_any(*words)
    if not word:
        raise cursor.error()
    return word.lower()


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
        ("PLACEMENT", "LABELS"),
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


def describe_table(cursor: TokenCursor) -> Node:
    """table [column | 'pattern'], after DESCRIBE."""
    table = cursor.table()
    pattern = None
    if not cursor.done:
        token = cursor.token
        quoted = token is not None and token.token_type is TokenType.STRING
        pattern = cursor.string() if quoted else cursor.name()
    return Describe(table, pattern)
