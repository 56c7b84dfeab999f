"""SHOW TABLE t HISTORY: what a table was, after each schema change that is in history.

    VERSION  JOB_ID  JOB_TYPE  FINISHED_AT  USER  CREATE_TABLE              newest first

A finished job keeps the tables as its last step left them (ddl/follow.py), so nothing else is kept
for this, and history goes back as far as mysql.tidb_ddl_history does. A table that was truncated,
cut otherwise or recovered is followed under the ids it had before. CREATE_TABLE is NULL where it
went; of a table that has gone, it is the last one of that name. A change that failed left the
table as it was and is not listed.
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
    """See the module. Raises 1046, 1146 where nothing is known of a table of that name."""
    database = node.table.db or context.session.database
    if not database:
        raise ErrNoDB()
    table_id = _id_of(context.txn, database, node.table.name)
    if table_id is None:
        raise ErrNoSuchTable(database, node.table.name)
    found: list[Row] = []
    for job, info in _past(context, table_id, (database.lower(), node.table.name.lower())):
        version, finished = job.binlog.SchemaVersion, packed_time(job.binlog.FinishedTS)
        row: Row = [version, job.id, job.action_text, finished, job.exuvia_by, None]
        found.append(row)
        if info is None:
            continue
        home = job.binlog.DBInfo.db_name.O if job.binlog.DBInfo else job.schema_name
        row[-1] = created(table_in(info, None, context.zone), home)
    return Result(columns_of(_COLUMNS), found)


def _id_of(txn: Transaction, database: str, table: str) -> int | None:
    held = meta.find_database(txn, database.lower())
    found = None if held is None else meta.find_table(txn, held, table.lower())
    if found is not None:
        return found
    wanted = database.lower(), table.lower()
    for job in queue.newest(txn, None):
        if (job.schema_name.lower(), job.table_name.lower()) == wanted and job.table_id:
            return job.table_id
    return None


def _past(
    context: Context, table_id: int, place: tuple[str, str]
) -> Iterator[tuple[Job, TableInfo | None]]:
    ids, names = {table_id}, {place}
    for job in queue.concerning(context.txn, ids, names):
        context.session.check_interrupt()
        left = job.binlog
        tables = (*((left.TableInfo,) if left.TableInfo else ()), *(left.MultipleTableInfos or ()))
        gone = left.exuvia_gone or ()
        info = next((each for each in tables if each.id in ids and each.id not in gone), None)
        if job.state != JobState.SYNCED:
            continue
        if info is None and job.table_id in ids and job.table_id in gone:
            yield job, None
        if info is not None and info.is_stored:
            ids.update(gone)  # what stood in its place
            names.add((job.schema_name.lower(), job.table_name.lower()))
            yield job, info
