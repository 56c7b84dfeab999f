"""Statements about the session, display, administration and statistics."""

from sqlglot import exp

from exuvia.sql.nodes import AlterTable, Node, TableName, Tree


class Begin(Node, frozen=True):
    """BEGIN, START TRANSACTION."""

    read_only: bool = False
    consistent_snapshot: bool = False
    pessimistic: bool | None = None  # BEGIN PESSIMISTIC | OPTIMISTIC; None: as tidb_txn_mode says


class Commit(Node, frozen=True):
    """COMMIT."""


class Rollback(Node, frozen=True):
    """ROLLBACK [TO savepoint]."""

    savepoint: str | None = None


class SetSavepoint(Node, frozen=True):
    """SAVEPOINT."""

    name: str


class ReleaseSavepoint(Node, frozen=True):
    """RELEASE SAVEPOINT."""

    name: str


class Use(Node, frozen=True):
    """USE."""

    database: str


class Kill(Node, frozen=True):
    """KILL [CONNECTION | QUERY] id."""

    connection: Tree
    query_only: bool = False


class Assignment(Node, frozen=True):
    """One item of SET. scope: 'global', 'session', 'user' (@x), 'names', 'charset' or
    'transaction'.

    `value` None means DEFAULT. For 'names': `name` is the charset (None in value position:
    DEFAULT), `extra` the collation. For 'transaction': `name` is the text after TRANSACTION in
    upper case, `extra` its scope or None."""

    scope: str
    name: str
    value: Tree | None = None
    extra: str | None = None


class SetStatement(Node, frozen=True):
    """SET."""

    assignments: tuple[Assignment, ...]


class Show(Node, frozen=True, kw_only=True):
    """SHOW. `kind` is the words that name it, in lower case with single spaces, synonyms folded:

    'tables' 'columns' 'index' 'create table' 'create database' 'create view' 'variables' 'status'
    'warnings' 'errors' 'databases' 'engines' 'collation' 'character set' 'processlist' 'grants'
    'table status' 'triggers' 'events' 'procedure status' 'function status' 'plugins' 'privileges'
    'open tables' 'master status' 'stats_meta' ..."""

    kind: str
    full: bool = False
    if_not_exists: bool = False  # SHOW CREATE DATABASE IF NOT EXISTS puts the words in its answer
    scope: str | None = None
    table: TableName | None = None
    database: str | None = None
    like: str | None = None
    where: Tree | None = None
    limit: tuple[int, int] | None = None  # offset, count
    count: bool = False


class Describe(Node, frozen=True):
    """DESCRIBE table [column or pattern]."""

    table: TableName
    pattern: str | None = None


class Explain(Node, frozen=True):
    """EXPLAIN [ANALYZE] [FORMAT = f] statement."""

    statement: "Node | exp.Expression"
    analyze: bool = False
    format: str = "row"


class ExplainChange(Node, frozen=True):
    """EXPLAIN [ANALYZE] [FORMAT = f] of a schema change."""

    statement: Node
    analyze: bool = False
    format: str = "row"


class PrepareStatement(Node, frozen=True):
    """PREPARE name FROM 'text' | @variable."""

    name: str
    source: Tree


class ExecuteStatement(Node, frozen=True):
    """EXECUTE name [USING @a, ...]."""

    name: str
    variables: tuple[str, ...] = ()


class DeallocateStatement(Node, frozen=True):
    """DEALLOCATE PREPARE name."""

    name: str


class Do(Node, frozen=True):
    """DO expression, ..."""

    expressions: tuple[Tree, ...]


class TableMaintenance(Node, frozen=True):
    """CHECK | CHECKSUM | OPTIMIZE | REPAIR | SPLIT TABLE (`kind` in lower case)."""

    kind: str
    tables: tuple[TableName, ...]


class LockTables(Node, frozen=True):
    """LOCK TABLES; pairs of table and 'read' or 'write'."""

    locks: tuple[tuple[TableName, str], ...]


class UnlockTables(Node, frozen=True):
    """UNLOCK TABLES."""


class Flush(Node, frozen=True):
    """FLUSH ..."""

    text: str


class Unsupported(Node, frozen=True):
    """A statement of MySQL or TiDB that is known and not done here:

    the session refuses it with 1235 and this name."""

    what: str


# -- ADMIN and the recycle bin ---------------------------------------------------------------------


class Admin(Node, frozen=True):
    """Root of the ADMIN statements."""


class AdminShowDdl(Admin, frozen=True):
    """ADMIN SHOW DDL."""


class AdminShowDdlNotifier(Admin, frozen=True):
    """ADMIN SHOW DDL NOTIFIER."""


class AdminSkipEvent(Admin, frozen=True):
    """ADMIN SKIP DDL EVENT job [PART n] FOR HANDLER id."""

    job: int
    part: int | None
    handler: int


class AdminShowDdlJobs(Admin, frozen=True):
    """ADMIN SHOW DDL JOBS [n] [WHERE condition]."""

    limit: int | None = None
    where: Tree | None = None


class AdminShowDdlJobQueries(Admin, frozen=True):
    """ADMIN SHOW DDL JOB QUERIES ids | LIMIT m OFFSET n."""

    ids: tuple[int, ...] = ()
    limit: tuple[int, int] | None = None  # offset, count


class AdminJobs(Admin, frozen=True):
    """ADMIN CANCEL | PAUSE | RESUME DDL JOBS ids (`kind` in lower case)."""

    kind: str
    ids: tuple[int, ...]


class AdminAlterJob(Admin, frozen=True):
    """ADMIN ALTER DDL JOBS id THREAD = n, BATCH_SIZE = n, MAX_WRITE_SPEED = n (keys in lower
    case)."""

    id: int
    options: dict[str, Tree]


class AdminCheckTable(Admin, frozen=True):
    """ADMIN CHECK TABLE a, b."""

    tables: tuple[TableName, ...]


class AdminCheckIndex(Admin, frozen=True):
    """ADMIN CHECK INDEX t i [(a,b), ...]."""

    table: TableName
    index: str
    ranges: tuple[tuple[int, int], ...] = ()


class AdminRepairIndex(Admin, frozen=True):
    """ADMIN RECOVER | CLEANUP INDEX t i (`kind` in lower case)."""

    kind: str
    table: TableName
    index: str


class AdminChecksum(Admin, frozen=True):
    """ADMIN CHECKSUM TABLE a, b."""

    tables: tuple[TableName, ...]


class AdminShowNextRowId(Admin, frozen=True):
    """ADMIN SHOW t NEXT_ROW_ID, SHOW TABLE t NEXT_ROW_ID."""

    table: TableName


class RecoverTable(Node, frozen=True):
    """RECOVER TABLE t [n] | BY JOB id, FLASHBACK TABLE t [TO new]. `jobs`: how many of the newest
    are looked at."""

    table: TableName | None
    job: int | None = None
    new_name: str | None = None
    jobs: int | None = None
    is_flashback: bool = False


class FlashbackDatabase(Node, frozen=True):
    """FLASHBACK DATABASE d [TO new]."""

    name: str
    new_name: str | None = None


Statement = Node | exp.Expression

__all__ = ["AlterTable", "Statement"]


# -- statistics ------------------------------------------------------------------------------------


class AnalyzeTable(Node, frozen=True, kw_only=True):
    """ANALYZE TABLE. `indexes` None: no INDEX clause, (): all; `columns` those of COLUMNS c, ...

    `options` in the order written: ("buckets", 16.0), ("samplerate", 0.5)."""

    tables: tuple[TableName, ...]
    partitions: tuple[str, ...] = ()
    indexes: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    options: tuple[tuple[str, float], ...] = ()


class LockStats(Node, frozen=True):
    """LOCK STATS t [PARTITION p, ...], ... | UNLOCK STATS, where `unlocks`."""

    tables: tuple[tuple[TableName, tuple[str, ...]], ...]
    unlocks: bool = False


class DropStats(Node, frozen=True):
    """DROP STATS t, ... [GLOBAL] | t PARTITION p, ..."""

    tables: tuple[TableName, ...]
    partitions: tuple[str, ...] = ()
    whole: bool = False
