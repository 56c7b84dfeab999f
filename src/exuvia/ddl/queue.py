"""The job tables as rows: they are the truth, whatever anybody holds in memory.

    mysql.tidb_ddl_job       unfinished jobs, by id       mysql.tidb_ddl_history   finished ones
    mysql.tidb_mdl_info      the version each unfinished job announced last
    mysql.gc_delete_range    keys nobody reads any more; once emptied: gc_delete_range_done
    mysql.ddl_notifier       events of finished changes
    mysql.tidb_ddl_reorg     finished spans of running reorganisations (written by pipeline/)

Ordinary rows in the ordinary encoding, written through catalog/writer.py in the caller's
transaction, which gives them the same checks as any row: two who change one job conflict.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from exuvia.catalog import meta, reader, writer
from exuvia.catalog.system_tables import DATABASES, MYSQL_ID, SYSTEM
from exuvia.catalog.table import Table
from exuvia.ddl.codes import REORG_ACTIONS, ActionCode
from exuvia.ddl.job import Job, decode, encode, packed_time
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

Row = list[object]


def system_table(txn: Transaction, name: str) -> Table:
    """A system table as the transaction's snapshot has it."""
    info = SYSTEM[name]
    return _planned(name, meta.revision(txn, info.id), meta.database_revision(txn, MYSQL_ID))


@lru_cache(maxsize=64)
def _planned(name: str, revision: int, database_revision: int) -> Table:
    return Table(SYSTEM[name], revision, DATABASES[-1], database_revision)


# -- unfinished jobs -------------------------------------------------------------------------------


def schema_ids(job: Job) -> tuple[int, ...]:
    """Databases a job involves."""
    return (job.schema_id,)


def table_ids(job: Job) -> tuple[int, ...]:
    """Tables a job involves; none for a change of a whole database."""
    return (job.table_id,) if job.table_id else ()


def is_reorg(job: Job) -> bool:
    """Whether the job reads or writes many rows, and so takes a reorg worker."""
    return job.type in REORG_ACTIONS


def insert(txn: Transaction, job: Job) -> None:
    """A job joins the queue."""
    writer.insert(txn, system_table(txn, "tidb_ddl_job"), _job_row(job, processing=0))


def update(txn: Transaction, job: Job) -> None:
    """A job's new record; who took it is noted as processing."""
    table = system_table(txn, "tidb_ddl_job")
    handle = keys.i64(job.id)
    old = reader.get(txn, table, handle)
    if old is not None:
        writer.update(txn, table, handle, old, _job_row(job, processing=int(job.begun)))


def remove(txn: Transaction, job: Job) -> None:
    """The job leaves the queue."""
    _delete(txn, system_table(txn, "tidb_ddl_job"), keys.i64(job.id))


def get(txn: Transaction, job_id: int) -> Job | None:
    """The unfinished job of that id."""
    row = reader.get(txn, system_table(txn, "tidb_ddl_job"), keys.i64(job_id))
    return None if row is None else decode(row[_JOB_META])


def unfinished(txn: Transaction, after: int = 0) -> list[Job]:
    """Every unfinished job with an id above `after`, oldest first."""
    table = system_table(txn, "tidb_ddl_job")
    span = Span(keys.row_prefix(table.info.id) + keys.i64(after + 1), table.row_span().end)
    return [decode(row[_JOB_META]) for _, row in reader.scan(txn, table, span)]


def _job_row(job: Job, processing: int) -> Row:
    return [
        job.id,
        int(is_reorg(job)),
        job.schema_id,
        job.table_id,
        encode(job),
        int(job.type == ActionCode.DROP_SCHEMA),
        _listed(schema_ids(job)),
        _listed(table_ids(job)),
        int(job.type),
        processing,
    ]


_JOB_META = 4
_HISTORY_META = 1


# -- finished jobs ---------------------------------------------------------------------------------


def archive(txn: Transaction, job: Job) -> None:
    """The job joins history."""
    row = [
        job.id,
        encode(job),
        job.schema_name,
        job.table_name,
        _listed(schema_ids(job)),
        _listed(table_ids(job)),
        packed_time(job.start_ts),
    ]
    writer.insert(txn, system_table(txn, "tidb_ddl_history"), row)


def finished(txn: Transaction, job_id: int) -> Job | None:
    """The job of that id, if it is in history."""
    row = reader.get(txn, system_table(txn, "tidb_ddl_history"), keys.i64(job_id))
    return None if row is None else decode(row[_HISTORY_META])


def history(txn: Transaction, limit: int | None = 10) -> list[Job]:
    """The newest finished jobs, newest first; all of them for None."""
    rows = reader.scan(txn, system_table(txn, "tidb_ddl_history"), None, reverse=True)
    return [decode(row[_HISTORY_META]) for _, row in islice(rows, limit)]


# -- what goes with a job --------------------------------------------------------------------------


def announce(txn: Transaction, job: Job, tables: Iterable[int], owner: str) -> None:
    """The version the job announced last, for a new owner and for people."""
    table = system_table(txn, "tidb_mdl_info")
    row: Row = [job.id, job.last_schema_version, _listed(tuple(tables)), owner]
    handle = keys.i64(job.id)
    old = reader.get(txn, table, handle)
    if old is None:
        writer.insert(txn, table, row)
    else:
        writer.update(txn, table, handle, old, row)


def forget(txn: Transaction, job: Job) -> None:
    """The announced version of a job that ended."""
    _delete(txn, system_table(txn, "tidb_mdl_info"), keys.i64(job.id))


def tell(txn: Transaction, job: Job, event: str) -> None:
    """An event for the notifier: JSON, processed by nobody yet (law 7)."""
    writer.insert(txn, system_table(txn, "ddl_notifier"), [job.id, -1, event, 0])


def _delete(txn: Transaction, table: Table, handle: bytes) -> None:
    row = reader.get(txn, table, handle)
    if row is not None:
        writer.delete(txn, table, handle, row)


def _listed(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))
