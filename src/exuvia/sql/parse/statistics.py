"""ANALYZE TABLE, LOCK | UNLOCK | DROP STATS."""

from exuvia.sql.nodes import Node, TableName
from exuvia.sql.nodes.session import AnalyzeTable, DropStats, LockStats
from exuvia.sql.parse import session
from exuvia.sql.parse.cursor import TokenCursor

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
        indexes = () if cursor.done or cursor.at("WITH") else cursor.listed(cursor.name)
    elif cursor.accept("COLUMNS"):
        columns = cursor.listed(cursor.name)
    elif cursor.accept_any("ALL", "PREDICATE"):
        cursor.expect("COLUMNS")
    options = cursor.listed(lambda: _option(cursor)) if cursor.accept("WITH") else ()
    cursor.end()
    return AnalyzeTable(
        tables=tables, partitions=partitions, indexes=indexes, columns=columns, options=options
    )


def _option(cursor: TokenCursor) -> tuple[str, float]:
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
