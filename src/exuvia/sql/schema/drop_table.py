"""DROP TABLE, TRUNCATE TABLE, DROP INDEX.

RECOVER TABLE, FLASHBACK TABLE, FLASHBACK DATABASE: the drop is searched in the history of jobs.

    RECOVER TABLE t [n]            the latest drop of t among the n latest jobs, or among all
    RECOVER TABLE BY JOB id        that drop or truncate
    FLASHBACK TABLE t [TO u]       as RECOVER TABLE; TO: another name, if t was truncated
    FLASHBACK DATABASE d [TO e]    the latest drop of d

The job checks whether the rows still exist (ddl/actions/recover.py).
"""

from collections.abc import Iterator, Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadTable,
    ErrDBCreateExists,
    ErrDDLJobNotFound,
    ErrDropTableOnTemporaryTable,
    ErrForbiddenDDL,
    ErrNoDB,
    ErrNoSuchTable,
    ErrTableExists,
    ErrUnknown,
    ErrUnsupportedDDLOperation,
    ErrWrongDBName,
    ErrWrongTableName,
)
from exuvia.catalog import meta
from exuvia.catalog.codec.row_codec import whole_layouts
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.model import name as as_name
from exuvia.catalog.system_tables import is_system
from exuvia.ddl import queue, requests
from exuvia.ddl.actions import kind_of
from exuvia.ddl.actions.undo import why_no_rows
from exuvia.ddl.job import Job, JobState
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import (
    DropIndex,
    DropIndexStatement,
    DropTable,
    FlashbackDatabase,
    RecoverTable,
    TableName,
    TruncateTable,
)
from exuvia.sql.schema.alter_table import alter
from exuvia.sql.schema.change import (
    Absent,
    AlterContext,
    Change,
    DropTemporary,
    Existence,
    JobRequest,
    SchemaReader,
    TruncateTemporary,
    note_of,
    of_job,
    refuse_cached,
)
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.foreign_key import (
    check_adopted,
    check_drop_tables,
    check_truncate,
    keys_are_checked,
)
from exuvia.sql.schema.sequence import drop_sequence
from exuvia.sql.schema.undo_window import kept_for_undo
from exuvia.sql.schema.view import drop_view

_ABSENT = frozenset((ErrBadDB.code, ErrBadTable.code, ErrNoSuchTable.code))


def drop_table(reader: SchemaReader, node: DropTable, text: str) -> Change:
    """DROP TABLE | VIEW | SEQUENCE [IF EXISTS] a, b: a job for each, in the order named.

    Raises 1051 naming all missing, 8007."""
    if node.kind == "view":
        return drop_view(reader, node, text)
    if node.kind == "sequence":
        return drop_sequence(reader, node, text)
    if node.global_temporary:
        for name in node.tables:
            existing = reader.find(name.db or reader.database, name.name)
            if existing is not None and not existing[1].is_global_temporary:
                raise ErrDropTableOnTemporaryTable()
    temporaries = [reader.temporary(name) for name in node.tables]
    tables = [name for name, table in zip(node.tables, temporaries, strict=True) if table is None]
    going = tuple(table for table in temporaries if table is not None)
    existence = Existence(_ABSENT, node.if_exists, ErrBadTable)
    refusal: Refused | None = None
    jobs: list[JobRequest | Absent] = []
    if node.temporary:
        jobs = [Absent(reader.full_name(name)) for name in tables]
    elif tables:
        jobs, refusal = _jobs(reader, tables, text)
    fails = refusal is not None or any(isinstance(job, Absent) for job in jobs)
    local = (DropTemporary(going),) if going and (node.if_exists or not fails) else ()
    return Change(tuple(jobs), local=local, existence=existence, refusal=refusal)


def _jobs(
    reader: SchemaReader, names: Sequence[TableName], text: str
) -> tuple[list[JobRequest | Absent], Refused | None]:
    """The jobs of all tables before the first refused one, and its error.

    Raises 3730 if a remaining table refers to a dropped one: then no table is dropped."""
    located = [reader.find(name.db or reader.database, name.name) for name in names]
    tables = [pair[1] for pair in located if pair is not None]
    check_drop_tables(reader, tables)
    # None: not checked (foreign_key_checks=OFF)
    going = [table.id for table in tables] if keys_are_checked(reader) else None
    jobs: list[JobRequest | Absent] = []
    for name in names:
        try:
            check_name(name.name, ErrWrongTableName)
            database = reader.database_named(name.db)
            info = reader.table(database, name.name)
            if is_system(info):
                raise ErrForbiddenDDL(f"Drop tidb system table '{database.db_name.O}.{name.name}'")
            if not info.is_stored:
                raise ErrNoSuchTable(database.db_name.O, name.name)
            refuse_cached(info, "Drop Table")
            job = requests.drop_table(database, info, going, query=text)
            jobs.append(JobRequest(job, reader.full_name(name)))
        except Refused as error:
            if error.code not in _ABSENT:
                return jobs, error
            jobs.append(Absent(reader.full_name(name)))
    return jobs, None


def truncate_table(reader: SchemaReader, node: TruncateTable, text: str) -> Change:
    """TRUNCATE TABLE. Raises 1146, also for a view or a sequence."""
    temporary = reader.temporary(node.table)
    if temporary is not None:
        return Change(local=(TruncateTemporary(temporary),))
    database, table = reader.table_named(node.table)
    if not table.is_stored:
        raise ErrNoSuchTable(database.db_name.O, table.name.O)
    refuse_cached(table, "Truncate Table")
    check_truncate(reader, table)
    checks = keys_are_checked(reader)
    job = requests.truncate_table(database, table, checks=checks, query=text)
    at = AlterContext(reader, database, table, text)
    why = why_no_rows(meta.with_children(reader.txn, table))
    job = kept_for_undo(at, job, f"the content of table '{table.name.O}'", why)
    if job.exuvia_undo is not None and any(column.auto_increment for column in table.cols):
        at.note("AUTO_INCREMENT continues, so that UNDO can combine former and later rows")
    return of_job(job, at.notes)


def drop_index(reader: SchemaReader, node: DropIndexStatement, text: str) -> Change:
    """DROP INDEX: as ALTER TABLE DROP INDEX."""
    specs = (DropIndex(node.name, node.if_exists),)
    return alter(reader, node.table, specs, text, "Drop Index")


# -- recover ---------------------------------------------------------------------------------------

Found = tuple[Job, DatabaseInfo, TableInfo]


def recover_table(reader: SchemaReader, node: RecoverTable, text: str) -> Change:
    """RECOVER TABLE and FLASHBACK TABLE. Raises 1105, 8224, 1050, 8055."""
    txn = reader.txn
    if node.table is None:
        dropped, database, table = _dropped_by(txn, node.job or 0)
    else:
        dropped, database, table = _newest_drop(reader, node.table, node.jobs)
    if table.is_global_temporary:
        reason = "Recover/flashback table is not supported on temporary tables"
        raise ErrUnsupportedDDLOperation.with_text(reason)
    name = check_name(node.new_name or table.name.O, ErrWrongTableName)
    standing = meta.get_table(txn, table.id)
    if standing is not None:
        verb = "flashback" if node.is_flashback else "recover"
        reason = f"'{table.name.O}' already been {verb} to '{standing.name.O}'"
        raise ErrTableExists.with_text(f"Table {reason}, can't be {verb} repeatedly")
    if meta.find_table(txn, database.id, name) is not None:
        raise ErrTableExists(name)
    check_adopted(reader, database, evolve(table, name=as_name(name)))
    parents = _judged_keys(reader, table)
    job = requests.recover_table(database, table, name, dropped.id, parents=parents, query=text)
    return of_job(job, [note_of(error) for error in _keys_not_recovered(txn, table)])


def _judged_keys(reader: SchemaReader, table: TableInfo) -> dict[int, int]:
    """link -> id of the referenced table, for the foreign keys of a recovered table.

    Excludes keys that stay with the table which TRUNCATE created in its place."""
    if not keys_are_checked(reader):
        return {}
    theirs = meta.keys_of_successor(reader.txn, table)
    own = (key.exuvia_link for key in table.foreign_keys if key.version)
    return {link: meta.parent_of(reader.txn, link) for link in own if link not in theirs}


def _keys_not_recovered(txn: Transaction, table: TableInfo) -> Iterator[Refused]:
    """A note for each foreign key that stays with the table which TRUNCATE created in its place."""
    links = meta.keys_of_successor(txn, table)
    for key in table.foreign_keys:
        if key.exuvia_link in links:
            successor = links[key.exuvia_link].name.O
            yield ErrUnknown(f"foreign key '{key.fk_name.O}' stays with table '{successor}'")


def _dropped_by(txn: Transaction, job_id: int) -> Found:
    job = queue.finished(txn, job_id)
    if job is None:
        raise ErrDDLJobNotFound(job_id)
    if _dropped(job) is None:
        text = f"Job {job.id} type is {job.action_text}, not dropped/truncated table"
        raise ErrUnknown(text)
    drop = _as_drop(txn, job)
    if drop is None:
        raise ErrBadDB(f"(Schema ID {job.schema_id})")
    return drop


def _newest_drop(reader: SchemaReader, name: TableName, jobs: int | None) -> Found:
    expected = (name.db or reader.database).lower(), name.name.lower()
    if not expected[0]:
        raise ErrNoDB()
    for job in queue.newest(reader.txn, jobs):
        if kind_of(job).dropped_table and job.state == JobState.SYNCED:
            drop = _as_drop(reader.txn, job)
            if drop is not None and (drop[1].db_name.L, drop[2].name.L) == expected:
                return drop
    text = f"Can't find localTemporary/dropped/truncated table: {name.name} in DDL history jobs"
    raise ErrUnknown(text)


def _as_drop(txn: Transaction, job: Job) -> Found | None:
    """The job, the current database and the dropped table; None if the database is gone."""
    database, table = meta.get_database(txn, job.schema_id), _dropped(job)
    if database is None or table is None or database.state != SchemaState.PUBLIC:
        return None
    return job, database, table


def _dropped(job: Job) -> TableInfo | None:
    dropped_table = kind_of(job).dropped_table
    info = dropped_table(job) if dropped_table else None
    return None if info is None else whole_layouts(info)


def flashback_database(reader: SchemaReader, node: FlashbackDatabase, text: str) -> Change:
    """FLASHBACK DATABASE. Raises 1105, 1007, 8055."""
    txn = reader.txn
    dropped = _dropped_database(txn, node.name)
    info = dropped.binlog.DBInfo
    if info is None:
        raise _no_such_drop(node.name)
    name = check_name(node.new_name or info.db_name.O, ErrWrongDBName)
    standing = meta.get_database(txn, info.id)
    if standing is not None:
        reason = f"'{info.db_name.O}' already been recover to '{standing.db_name.O}'"
        raise ErrDBCreateExists.with_text(f"Schema {reason}, can't be recover repeatedly")
    if meta.find_database(txn, name) is not None:
        raise ErrDBCreateExists(name)
    expiring = (meta.get_table(txn, table_id) for table_id in meta.ttl_tables(txn))
    own = tuple(table.id for table in expiring if table is not None and table.exuvia_db == info.id)
    if keys_are_checked(reader):
        _check_children(reader, info)
    job = requests.flashback_database(info, name, dropped.id, with_ttl=own, query=text)
    return of_job(job)


def _check_children(reader: SchemaReader, database: DatabaseInfo) -> None:
    """Raises 1452 for rows of the dropped database whose parents in other databases are missing."""
    from exuvia.sql.schema import preflight  # imports Arrow, which not every frontend needs

    txn = reader.txn
    for _, table_id in meta.table_names(txn, database.id):
        info = meta.get_table(txn, table_id)
        for key in info.foreign_keys if info is not None else ():
            parent = meta.get_table(txn, meta.parent_of(txn, key.exuvia_link))
            is_abroad = parent is None or parent.exuvia_db != database.id
            if info is not None and key.version and is_abroad:
                preflight.check_children(reader, database, info, key.exuvia_link)


def _dropped_database(txn: Transaction, name: str) -> Job:
    for job in queue.newest(txn, None):
        is_drop = kind_of(job).drops_database and job.state == JobState.SYNCED
        if is_drop and job.binlog.DBInfo and job.binlog.DBInfo.db_name.L == name.lower():
            return job
    raise _no_such_drop(name)


def _no_such_drop(name: str) -> Refused:
    return ErrUnknown(f"Can't find dropped database: {name} in DDL history jobs")
