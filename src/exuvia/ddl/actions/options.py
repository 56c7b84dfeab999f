"""Changes of table options: one step, one version, no row touched.

    absent -> public

    CONVERT TO CHARACTER SET, with a CHECK that reads a text column (catalog/rules.py)
    absent -> write only -> (barrier) write reorganization =rows read=> public

A column's collation is changed here only if no index depends on it. Other changes of it are refused
in sql/schema, because indexes would have to be built again.

EXUVIA_SCHEMA_LOCKED = ON makes the table refuse every other change of its schema until it is OFF.
This includes its use as the parent of a foreign key or the other side of an exchange. Followers of
the table may rely on its columns (CockroachDB's schema_locked). The lock is checked in the first
step of a job (ddl/state_machine.py), so jobs submitted earlier are not refused. DROP DATABASE is
no change of a table: it drops locked ones too. The lock is stored in TiDB's field for table locks.
"""

from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrTableDefChanged, ErrUnsupportedDDLOperation
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.rules import CHECK, all_links, coming_checks, rules_touched
from exuvia.catalog.table import with_layout
from exuvia.ddl.action import Action, Edit, JobGuard, Step, load
from exuvia.ddl.actions.shared import involved_tables, table_is_missing
from exuvia.ddl.decision import StepWait
from exuvia.ddl.elements import TABLE_IN_PLACE, the_table
from exuvia.ddl.facts import GreatestValue
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.pipeline import reorg

SCHEMA_LOCK = {"exuvia_schema_locked": True}
CACHED = 2  # TiDB's number for a cached table
ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, WRITE_REORG = SchemaState.WRITE_ONLY, SchemaState.WRITE_REORG


class TableCharsetArgs(NamedTuple):
    """Arguments of CONVERT TO CHARACTER SET (`columns_too`) and DEFAULT CHARSET.

    `reads_rows`: a CHECK may have another result for existing rows, so they are read.
    """

    charset: str
    collate: str
    columns_too: bool
    reads_rows: bool = False


class RebaseAutoIdArgs(NamedTuple):
    """Arguments of AUTO_INCREMENT = n; `forced`: also below allocated ids."""

    following: int
    forced: bool


class TableCommentArgs(NamedTuple):
    """Arguments of COMMENT = ''."""

    comment: str


class SchemaLockArgs(NamedTuple):
    """Arguments of EXUVIA_SCHEMA_LOCKED = ON | OFF."""

    locked: bool


class FullTextArgs(NamedTuple):
    """Names of FULLTEXT indexes to add and to drop; such indexes are not built."""

    added: tuple[str, ...]
    dropped: tuple[str, ...] = ()


class Number(NamedTuple):
    """Argument of AUTO_ID_CACHE (ids a block) and SHARD_ROW_ID_BITS."""

    value: int


def change_option(
    code: ActionCode,
    database: DatabaseInfo,
    table: TableInfo,
    *args: object,
    query: str = "",
) -> Job:
    """Change a table option; arguments as in its tuple above, none for CACHE and NOCACHE."""
    return job_for(code, database, table, args, query)


def change_comment(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    return job, _with(
        snapshot, evolve(the_table(snapshot), comment=arguments(job, TableCommentArgs).comment)
    )


def change_charset(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Another default for future columns and, with `columns_too`, for every text column."""
    args = arguments(job, TableCharsetArgs)
    table = evolve(the_table(snapshot), charset=args.charset, collate=args.collate)
    if args.columns_too:
        cols = (_with_announced(column, None) for column in table.cols)
        columns = tuple(_converted(column, args.charset, args.collate) for column in cols)
        table = with_layout(evolve(table, cols=columns))
    return job, _with(snapshot, table)


def announce_charset(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Writers also check CHECKs with the converted columns from now on."""
    args, table = arguments(job, TableCharsetArgs), the_table(snapshot)
    cols = tuple(
        _with_announced(column, _converted(column, args.charset, args.collate))
        for column in table.cols
    )
    return job, _with(snapshot, evolve(table, cols=cols))


def withdraw_charset(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Writers check CHECKs with the present columns only."""
    table = the_table(snapshot)
    cols = tuple(_with_announced(column, None) for column in table.cols)
    return job, _with(snapshot, evolve(table, cols=cols))


def _with_announced(column: ColumnInfo, coming: ColumnInfo | None) -> ColumnInfo:
    """The column with its announced type, if it is public and that type is another one."""
    if column.state != PUBLIC:
        return column
    changes = coming is not None and coming.type != column.type
    return evolve(column, exuvia_changing_type=coming.type if coming and changes else None)


def rows_obey_checks(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """3819 with the violating rows."""
    checks = coming_checks(the_table(snapshot))
    if snapshot.table_is_empty or snapshot.reorg.filled or not checks:
        return None
    return StepWait("", reorg.Reorg(reorg.check_coming([check.id for check in checks])))


def a_check_came_meanwhile(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1412: a CHECK added since the statement would have another result for existing rows."""
    changed = change_charset(job, snapshot)[1].table
    checks = [rule for rule in rules_touched(snapshot.table, changed) if rule.kind == CHECK]
    is_read = arguments(job, TableCharsetArgs).reads_rows
    return ErrTableDefChanged() if checks and not is_read else None


def _converted(column: ColumnInfo, charset: str, collate: str) -> ColumnInfo:
    if column.type.Charset in ("", "binary"):
        return column
    return evolve(column, type=evolve(column.type, Charset=charset, Collate=collate))


def rebase_ids(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Ids continue at another number; blocks cached by nodes are void."""
    following, forced = arguments(job, RebaseAutoIdArgs)
    if not forced:  # a MODIFY of the same statement may have greater values
        following = max([following, 1, *(value + 1 for value in snapshot.answers(GreatestValue))])
    table = the_table(snapshot)
    return job, _with(
        snapshot, _anew(evolve(table, auto_inc_id=following, exuvia_ids_forced=forced))
    )


def change_id_cache(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nodes allocate this number of ids at once from now on."""
    size = arguments(job, Number).value
    table = evolve(the_table(snapshot), auto_id_cache=size, exuvia_ids_forced=False)
    return job, _with(snapshot, _anew(table))


def change_shard_bits(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Stored and shown; hidden row ids are allocated as before."""
    table, bits = the_table(snapshot), arguments(job, Number).value
    most = max(bits, table.max_shard_row_id_bits)
    return job, _with(snapshot, evolve(table, ShardRowIDBits=bits, max_shard_row_id_bits=most))


def change_cached(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Stored and shown, and some changes refuse cached tables; rows are read as before."""
    status = CACHED if job.type == ActionCode.CACHE_TABLE else 0
    return job, _with(snapshot, evolve(the_table(snapshot), cache_table_status=status))


def change_schema_lock(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table refuses changes from now on, or accepts them again."""
    lock = SCHEMA_LOCK if arguments(job, SchemaLockArgs).locked else None
    return job, _with(snapshot, evolve(the_table(snapshot), Lock=lock))


def change_fulltext(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Store the names of FULLTEXT keys, so that programs can drop keys that they added."""
    args, table = arguments(job, FullTextArgs), the_table(snapshot)
    removed = {name.lower() for name in (*args.added, *args.dropped)}
    remaining = (name for name in table.exuvia_fulltext if name.lower() not in removed)
    return job, _with(snapshot, evolve(table, exuvia_fulltext=(*remaining, *args.added)))


def _anew(table: TableInfo) -> TableInfo:
    return evolve(table, exuvia_ids_epoch=table.exuvia_ids_epoch + 1)


def _with(snapshot: CatalogSnapshot, table: TableInfo) -> CatalogSnapshot:
    return evolve(snapshot, table=table)


def _in_one_step(code: ActionCode, edit: Edit, mixes: bool = False) -> Action:
    steps = (Step(ABSENT, PUBLIC, edit=edit),)
    return load(
        Action(
            code,
            TABLE_IN_PLACE,
            steps,
            refuses=(table_is_missing,),
            mixes=mixes,
            spares_hidden=True,
        )
    )


TABLE_COMMENT = _in_one_step(ActionCode.TABLE_COMMENT, change_comment, mixes=True)
_CHARSET = Action(
    ActionCode.TABLE_CHARSET,
    TABLE_IN_PLACE,
    (Step(ABSENT, PUBLIC, edit=change_charset),),
    refuses=(table_is_missing, a_check_came_meanwhile),
    mixes=True,
    changes_columns=True,
    judges=lambda job, table: all_links(table),  # the statement has validated both definitions
)
READ_CHARSET = load(
    _CHARSET._replace(
        path=(
            Step(ABSENT, WRITE_ONLY, edit=announce_charset),
            Step(WRITE_ONLY, WRITE_REORG, barrier=True),
            Step(WRITE_REORG, PUBLIC, edit=change_charset, after=rows_obey_checks),
        ),
        undo=load(_CHARSET._replace(path=(Step(WRITE_REORG, ABSENT, edit=withdraw_charset),))),
    )
)


def _charset_path(job: Job) -> Action:
    return READ_CHARSET if arguments(job, TableCharsetArgs).reads_rows else _CHARSET


TABLE_CHARSET = load(_CHARSET._replace(choose=_charset_path))
REBASE_AUTO_ID = _in_one_step(ActionCode.REBASE_AUTO_ID, rebase_ids, mixes=True)
AUTO_ID_CACHE = _in_one_step(ActionCode.AUTO_ID_CACHE, change_id_cache)
SHARD_ROW_ID = _in_one_step(ActionCode.SHARD_ROW_ID, change_shard_bits)
CACHE_TABLE = _in_one_step(ActionCode.CACHE_TABLE, change_cached)
NO_CACHE_TABLE = _in_one_step(ActionCode.NO_CACHE_TABLE, change_cached)
SCHEMA_LOCKED = _in_one_step(ActionCode.EXUVIA_SCHEMA_LOCKED, change_schema_lock)._replace(
    ignores_lock=True
)
FULLTEXT = _in_one_step(ActionCode.EXUVIA_FULLTEXT, change_fulltext, mixes=True)


def schema_is_locked(action: Action, job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200 for a change of a locked table, or of another one that the job involves."""
    if action.ignores_lock:
        return None
    for table in involved_tables(job, snapshot):
        if table.Lock == SCHEMA_LOCK:
            return ErrUnsupportedDDLOperation.with_text(
                f"schema changes are disallowed on table '{table.name.O}' because it is locked; "
                f"ALTER TABLE {table.name.O} EXUVIA_SCHEMA_LOCKED = OFF unlocks it"
            )
    return None


GUARDS = (JobGuard(schema_is_locked, rank=0),)
ACTIONS = (
    TABLE_COMMENT,
    TABLE_CHARSET,
    REBASE_AUTO_ID,
    AUTO_ID_CACHE,
    SHARD_ROW_ID,
    CACHE_TABLE,
    NO_CACHE_TABLE,
    SCHEMA_LOCKED,
    FULLTEXT,
)
