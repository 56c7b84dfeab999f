"""ADMIN statements, RECOVER and FLASHBACK: TiDB's own (FACTS of TiDB 8.5, "Statements")."""

from exuvia.sql.nodes import Node, Tree
from exuvia.sql.nodes.session import (
    AdminAlterJob,
    AdminCheckIndex,
    AdminChecksum,
    AdminCheckTable,
    AdminJobs,
    AdminRepairIndex,
    AdminShowDdl,
    AdminShowDdlJobQueries,
    AdminShowDdlJobs,
    AdminShowDdlNotifier,
    AdminShowNextRowId,
    AdminSkipEvent,
    FlashbackDatabase,
    RecoverTable,
    Unsupported,
)
from exuvia.sql.parse.cursor import TokenCursor


def admin(cursor: TokenCursor) -> Node:
    """ADMIN ..."""
    cursor.expect("ADMIN")
    if cursor.accept("SHOW"):
        return _show(cursor)
    if cursor.accept("CHECK", "TABLE"):
        return AdminCheckTable(cursor.listed(cursor.table))
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
    if cursor.at_any(("CANCEL", "PAUSE", "RESUME")):
        kind = cursor.take().text.lower()
        cursor.expect("DDL", "JOBS")
        return AdminJobs(kind, cursor.listed(cursor.integer))
    if cursor.accept("SKIP", "DDL", "EVENT"):
        return _skip(cursor)
    if cursor.accept("ALTER", "DDL", "JOBS"):
        job = cursor.integer()
        pairs = cursor.listed(lambda: _option(cursor))
        return AdminAlterJob(job, dict(pairs))
    if cursor.at_any(("RELOAD", "FLUSH", "CAPTURE", "EVOLVE", "REPAIR", "PLUGINS", "SET", "UNSET")):
        what = "ADMIN " + cursor.peek()
        cursor.rest()
        return Unsupported(what)
    raise cursor.error()


def _show(cursor: TokenCursor) -> Node:
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
    return AdminShowDdlNotifier() if cursor.accept("NOTIFIER") else AdminShowDdl()


def _skip(cursor: TokenCursor) -> Node:
    job = cursor.integer()
    part = cursor.integer() if cursor.accept("PART") else None
    cursor.expect("FOR", "HANDLER")
    return AdminSkipEvent(job, part, cursor.integer())


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
