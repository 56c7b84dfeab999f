"""SHOW TABLE t HISTORY: the definition of a table after each schema change in history.

    VERSION  JOB_ID  JOB_TYPE  FINISHED_AT  USER  CREATE_TABLE              newest first

A finished job stores the tables as its last step left them (ddl/follow.py). So no more data is
needed, and the history is as long as mysql.tidb_ddl_history. A table that was truncated,
repartitioned or recovered is followed under its former ids. CREATE_TABLE is NULL for the job that
dropped the table. For a dropped table, the last one of that name is shown. Failed changes are not
listed.
"""

from collections.abc import Iterator

from exuvia.base.mysql_errors import ErrNoDB, ErrNoSuchTable
from exuvia.catalog import meta
from exuvia.catalog.model import TableInfo
from exuvia.ddl import queue
from exuvia.ddl.job import Job, JobState, packed_time
from exuvia.kv.transaction import Transaction
from exuvia.sql.bind.scope import table_in
from exuvia.sql.nodes import ShowTableHistory
from exuvia.sql.result import Result, Row
from exuvia.sql.show.explain_apply import created
from exuvia.sql.show.listing import columns_of
from exuvia.sql.statement.context import Context

_COLUMNS = "VERSION# JOB_ID# JOB_TYPE FINISHED_AT@ USER:320 CREATE_TABLE:65535"


def table_history(context: Context, node: ShowTableHistory) -> Result:
    """The result of SHOW TABLE HISTORY. Raises 1046; 1146 if no table had that name."""
    database = node.table.db or context.session.database
    if not database:
        raise ErrNoDB()
    table_id = _id_of(context.txn, database, node.table.name)
    if table_id is None:
        raise ErrNoSuchTable(database, node.table.name)
    rows: list[Row] = []
    for job, info in _past(context, table_id, (database.lower(), node.table.name.lower())):
        version, finished = job.binlog.SchemaVersion, packed_time(job.binlog.FinishedTS)
        row: Row = [version, job.id, job.action_text, finished, job.exuvia_by, None]
        rows.append(row)
        if info is None:
            continue
        home = job.binlog.DBInfo.db_name.O if job.binlog.DBInfo else job.schema_name
        row[-1] = created(table_in(info, None, context.zone), home)
    return Result(columns_of(_COLUMNS), rows)


def _id_of(txn: Transaction, database: str, table: str) -> int | None:
    database_id = meta.find_database(txn, database.lower())
    table_id = None if database_id is None else meta.find_table(txn, database_id, table.lower())
    if table_id is not None:
        return table_id
    place = database.lower(), table.lower()
    for job in queue.newest(txn, None):
        if (job.schema_name.lower(), job.table_name.lower()) == place and job.table_id:
            return job.table_id
    return None


def _past(
    context: Context, table_id: int, place: tuple[str, str]
) -> Iterator[tuple[Job, TableInfo | None]]:
    ids, names = {table_id}, {place}
    for job in queue.concerning(context.txn, ids, names):
        context.session.check_interrupt()
        history_data = job.binlog
        tables = (
            *((history_data.TableInfo,) if history_data.TableInfo else ()),
            *(history_data.MultipleTableInfos or ()),
        )
        removed_ids = history_data.exuvia_gone or ()
        info = next(
            (table for table in tables if table.id in ids and table.id not in removed_ids), None
        )
        if job.state != JobState.SYNCED:
            continue
        if info is None and job.table_id in ids and job.table_id in removed_ids:
            yield job, None
        if info is not None and info.is_stored:
            ids.update(removed_ids)  # the ids that it replaced
            names.add((job.schema_name.lower(), job.table_name.lower()))
            yield job, info
