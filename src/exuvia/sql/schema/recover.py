"""RECOVER TABLE, FLASHBACK TABLE, FLASHBACK DATABASE: which drop is meant, found in history.

    RECOVER TABLE t [n]            the newest drop of t among the n newest jobs of history, or all
    RECOVER TABLE BY JOB id        that drop or truncate
    FLASHBACK TABLE t [TO u]       as RECOVER TABLE, under another name: t was truncated
    FLASHBACK DATABASE d [TO e]    the newest drop of d

Whether its rows are still there is judged by the job (ddl/actions/recover.py).
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrDBCreateExists,
    ErrDDLJobNotFound,
    ErrNoDB,
    ErrTableExists,
    ErrUnknown,
    ErrWrongDBName,
    ErrWrongTableName,
)
from exuvia.catalog import meta
from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.ddl import queue, requests
from exuvia.ddl.actions import kind_of
from exuvia.ddl.job import Job, JobState
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import TableName
from exuvia.sql.nodes.session import FlashbackDatabase, RecoverTable
from exuvia.sql.schema.change import Change, SchemaReader, of_job
from exuvia.sql.schema.column_definition import check_name

Found = tuple[Job, DatabaseInfo, TableInfo]


def recover_table(reader: SchemaReader, node: RecoverTable, text: str) -> Change:
    """RECOVER TABLE and FLASHBACK TABLE. Raises 1105, 8224, 1050, 8055."""
    txn = reader.txn
    if node.table is None:
        dropped, database, table = _dropped_by(txn, node.job or 0)
    else:
        dropped, database, table = _newest_drop(reader, node.table, node.jobs)
    name = check_name(node.new_name or table.name.O, ErrWrongTableName)
    standing = meta.get_table(txn, table.id)
    if standing is not None:
        verb = "flashback" if node.is_flashback else "recover"
        said = f"'{table.name.O}' already been {verb} to '{standing.name.O}'"
        raise ErrTableExists.with_text(f"Table {said}, can't be {verb} repeatedly")
    if meta.find_table(txn, database.id, name) is not None:
        raise ErrTableExists(name)
    return of_job(requests.recover_table(database, table, name, dropped.id, query=text))


def _dropped_by(txn: Transaction, job_id: int) -> Found:
    job = queue.finished(txn, job_id)
    if job is None:
        raise ErrDDLJobNotFound(job_id)
    if _dropped(job) is None:
        said = f"Job {job.id} type is {job.action_text}, not dropped/truncated table"
        raise ErrUnknown(said)
    found = _found(txn, job)
    if found is None:
        raise ErrBadDB(f"(Schema ID {job.schema_id})")
    return found


def _newest_drop(reader: SchemaReader, name: TableName, jobs: int | None) -> Found:
    wanted = (name.db or reader.database).lower(), name.name.lower()
    if not wanted[0]:
        raise ErrNoDB()
    for job in queue.newest(reader.txn, jobs):
        if kind_of(job).dropped_table and job.state == JobState.SYNCED:
            found = _found(reader.txn, job)
            if found is not None and (found[1].db_name.L, found[2].name.L) == wanted:
                return found
    said = f"Can't find localTemporary/dropped/truncated table: {name.name} in DDL history jobs"
    raise ErrUnknown(said)


def _found(txn: Transaction, job: Job) -> Found | None:
    """The drop with its table, and the database as it is now."""
    database, table = meta.get_database(txn, job.schema_id), _dropped(job)
    if database is None or table is None or database.state != SchemaState.PUBLIC:
        return None
    return job, database, table


def _dropped(job: Job) -> TableInfo | None:
    dropped_table = kind_of(job).dropped_table
    return dropped_table(job) if dropped_table else None


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
        said = f"'{info.db_name.O}' already been recover to '{standing.db_name.O}'"
        raise ErrDBCreateExists.with_text(f"Schema {said}, can't be recover repeatedly")
    if meta.find_database(txn, name) is not None:
        raise ErrDBCreateExists(name)
    return of_job(requests.flashback_database(info, name, dropped.id, query=text))


def _dropped_database(txn: Transaction, name: str) -> Job:
    for job in queue.newest(txn, None):
        is_drop = kind_of(job).drops_database and job.state == JobState.SYNCED
        if is_drop and job.binlog.DBInfo and job.binlog.DBInfo.db_name.L == name.lower():
            return job
    raise _no_such_drop(name)


def _no_such_drop(name: str) -> Refused:
    return ErrUnknown(f"Can't find dropped database: {name} in DDL history jobs")
