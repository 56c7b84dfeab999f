"""The job tables as rows. They are authoritative; memory only caches them.

    mysql.tidb_ddl_job       unfinished jobs, by id       mysql.tidb_ddl_history   finished ones
    mysql.tidb_mdl_info      the version each unfinished job announced last
    mysql.gc_delete_range    unused key ranges; once emptied: gc_delete_range_done
    mysql.ddl_notifier       events of finished changes (events/notifier.py)
    mysql.tidb_ddl_reorg     finished spans of running reorganisations (written by pipeline/)

They are ordinary rows in the ordinary encoding, written through catalog/writer.py in the caller's
transaction. So two transactions that change one job conflict, as with any row. While
tidb_enable_concurrent_ddl is OFF, the lists of ddl/two_queues.py replace the first two tables.
"""

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from heapq import merge
from itertools import count, islice

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog import meta, reader, writer
from exuvia.catalog.convert.values import default_of
from exuvia.catalog.model import evolve
from exuvia.catalog.system_tables import SYSTEM, system_table
from exuvia.catalog.table import Table
from exuvia.ddl import two_queues
from exuvia.ddl.action import GetsId
from exuvia.ddl.actions import is_reorg, kind_of
from exuvia.ddl.job import Job, decode, encode, packed_time, schema_ids, table_ids
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

Row = list[object]


def _fitted(table: Table, row: Row, old: Row | None = None) -> Row:
    """A row of this program's columns, in the columns that the table has now.

    A column of a newer program keeps its value or has its default. A column that the table does not
    have yet is left out.
    """
    names = [c.name.L for c in SYSTEM[table.info.name.L].cols]
    values = dict(zip(names, row, strict=False))
    old_values = old or []
    return [
        values[c.name.L]
        if c.name.L in values
        else old_values[n]
        if n < len(old_values)
        else default_of(c)
        for n, c in enumerate(table.info.cols)
    ]


# -- unfinished jobs -------------------------------------------------------------------------------


def numbered(txn: Transaction, jobs: list[Job], now: int) -> list[Job]:
    """The jobs with ids, also for their new elements: first the new element's id, then the job's.

    `now` is a job's timestamp.
    """
    gets = [kind_of(job).gets_id for job in jobs]
    needed = sum(
        1 + (got != GetsId.NOTHING) + len(job.exuvia_ids)
        for got, job in zip(gets, jobs, strict=True)
    )
    following = count(meta.next_ids(txn, needed))
    numbered_jobs = []
    for got, job in zip(gets, jobs, strict=True):
        if got == GetsId.DATABASE:
            job = evolve(job, schema_id=next(following))
        elif got == GetsId.TABLE:
            job = evolve(job, table_id=next(following))
        ids = tuple(known_id or next(following) for known_id in job.exuvia_ids)
        numbered_jobs.append(evolve(job, id=next(following), exuvia_ids=ids, start_ts=now))
    return numbered_jobs


def insert(txn: Transaction, job: Job) -> None:
    """Add a job to the queue."""
    if two_queues.in_use(txn):
        two_queues.put(txn, job, is_reorg(job))
        return
    table = system_table(txn, "tidb_ddl_job")
    writer.insert(txn, table, _fitted(table, _job_row(job, processing=0)))


def update(txn: Transaction, job: Job) -> None:
    """Write a job's new record; a begun job is marked as processing."""
    if two_queues.in_use(txn):
        two_queues.put(txn, job, is_reorg(job))
        return
    table = system_table(txn, "tidb_ddl_job")
    handle = keys.i64(job.id)
    old = reader.get(txn, table, handle)
    if old is not None:
        row = _fitted(table, _job_row(job, processing=int(job.begun)), old)
        writer.update(txn, table, handle, old, row)


def remove(txn: Transaction, job: Job) -> None:
    """Remove the job from the queue."""
    if two_queues.in_use(txn):
        two_queues.remove(txn, job.id)
        return
    _delete(txn, system_table(txn, "tidb_ddl_job"), keys.i64(job.id))


def get(txn: Transaction, job_id: int) -> Job | None:
    """The unfinished job of that id, or None."""
    if two_queues.in_use(txn):
        return two_queues.get(txn, job_id)
    row = reader.get(txn, system_table(txn, "tidb_ddl_job"), keys.i64(job_id))
    return None if row is None else decode(row[_JOB_META])


def unfinished(txn: Transaction, after: int = 0) -> list[Job]:
    """Every unfinished job with an id above `after`, oldest first."""
    if two_queues.in_use(txn):
        return two_queues.unfinished(txn, after)
    return _rows(txn, after)


def is_empty(txn: Transaction) -> bool:
    """Whether no job is unfinished. Ignores the two queues of an older format."""
    span = system_table(txn, "tidb_ddl_job").row_span()
    return next(iter(txn.scan(span, limit=1)), None) is None


def _rows(txn: Transaction, after: int) -> list[Job]:
    table = system_table(txn, "tidb_ddl_job")
    span = Span(keys.row_prefix(table.info.id) + keys.i64(after + 1), table.row_span().end)
    return [decode(row[_JOB_META]) for _, row in reader.scan(txn, table, span)]


def require_none(txn: Transaction) -> None:
    """Raises 1105 while a job is unfinished, for settings that must not change under a job.

    A concurrent submitter also allocates ids, and so conflicts with this transaction.
    """
    if two_queues.unfinished(txn) or _rows(txn, 0):
        raise ErrUnknown("please wait for all jobs done")
    txn.put(keys.LAST_ID, txn.get(keys.LAST_ID) or keys.number(0))


def _job_row(job: Job, processing: int) -> Row:
    return [
        job.id,
        int(is_reorg(job)),
        job.schema_id,
        job.table_id,
        encode(job),
        int(kind_of(job).drops_database),
        _listed(schema_ids(job)),
        _listed(table_ids(job)),
        int(job.type),
        processing,
    ]


_JOB_META = 4
_HISTORY_META = 1
_HISTORY_DATABASE = 2
_HISTORY_TABLE = 3
_HISTORY_TABLES = 5


# -- finished jobs ---------------------------------------------------------------------------------


def archive(txn: Transaction, job: Job) -> None:
    """Add the job to history."""
    if two_queues.in_use(txn):
        two_queues.archive(txn, job)
        return
    row = [
        job.id,
        encode(job),
        job.schema_name,
        job.table_name,
        _listed(schema_ids(job)),
        _listed(table_ids(job)),
        packed_time(job.start_ts),
    ]
    table = system_table(txn, "tidb_ddl_history")
    writer.insert(txn, table, _fitted(table, row))


def finished(txn: Transaction, job_id: int) -> Job | None:
    """The job of that id, if it is in history."""
    row = reader.get(txn, system_table(txn, "tidb_ddl_history"), keys.i64(job_id))
    return two_queues.finished(txn, job_id) if row is None else decode(row[_HISTORY_META])


def history(txn: Transaction, limit: int | None = 10) -> list[Job]:
    """The newest finished jobs, newest first; all of them for None."""
    return list(newest(txn, limit))


def newest(txn: Transaction, limit: int | None, below: int | None = None) -> Iterator[Job]:
    """Like `history`, read lazily. `below`: only jobs with smaller ids."""
    rows = reader.scan(txn, *_finished_below(txn, below), reverse=True)
    archived = (decode(row[_HISTORY_META]) for _, row in rows)
    listed = (job for job in two_queues.newest(txn) if below is None or job.id < below)
    jobs = merge(archived, listed, key=lambda job: -job.id)
    return islice(jobs, limit)


def about(txn: Transaction, table_id: int, most: int) -> Iterator[Job]:
    """Those of the newest `most` finished jobs that involve the table, newest first.

    Only these are decoded.
    """
    id_text = str(table_id)
    rows = reader.scan(txn, *_finished_below(txn, None), reverse=True)
    for _, row in islice(rows, most):
        if id_text in str(row[_HISTORY_TABLES]).split(","):
            yield decode(row[_HISTORY_META])


def concerning(
    txn: Transaction, ids: Collection[int], names: AbstractSet[tuple[str, str]]
) -> Iterator[Job]:
    """Finished jobs about one of the tables, by id or by (database, table) in lower case.

    Newest first; only these are decoded. Both sets are read again for each job, so the caller may
    add former ids or names of a table while iterating.
    """
    rows = reader.scan(txn, *_finished_below(txn, None), reverse=True)
    archived = (
        decode(row[_HISTORY_META])
        for _, row in rows
        if not names.isdisjoint(_named(str(row[_HISTORY_DATABASE]), str(row[_HISTORY_TABLE])))
        or any(str(table_id) in str(row[_HISTORY_TABLES]).split(",") for table_id in ids)
    )
    listed = (
        job
        for job in two_queues.newest(txn)
        if not names.isdisjoint(_named(job.schema_name, job.table_name))
        or not set(ids).isdisjoint(table_ids(job))
    )
    return merge(archived, listed, key=lambda job: -job.id)


def _named(database: str, table: str) -> Iterator[tuple[str, str]]:
    """(database, table) of the job's statement; a job that creates several tables has all names."""
    for table_name in {table, *table.split(",")}:
        yield database.lower(), table_name.lower()


def _finished_below(txn: Transaction, below: int | None) -> tuple[Table, Span]:
    table = system_table(txn, "tidb_ddl_history")
    span = table.row_span()
    if below is not None:
        span = Span(span.start, keys.row_prefix(table.info.id) + keys.i64(max(0, below)))
    return table, span


# -- the announced version -------------------------------------------------------------------------


def announce(txn: Transaction, job: Job, tables: Iterable[int], owner: str) -> None:
    """Store the version that the job announced last, for a new owner and for users."""
    table = system_table(txn, "tidb_mdl_info")
    row: Row = [job.id, job.last_schema_version, _listed(tuple(tables)), owner]
    handle = keys.i64(job.id)
    old = reader.get(txn, table, handle)
    if old is None:
        writer.insert(txn, table, row)
    else:
        writer.update(txn, table, handle, old, row)


def forget(txn: Transaction, job: Job) -> None:
    """Remove the announced version of an ended job."""
    _delete(txn, system_table(txn, "tidb_mdl_info"), keys.i64(job.id))


def _delete(txn: Transaction, table: Table, handle: bytes) -> None:
    row = reader.get(txn, table, handle)
    if row is not None:
        writer.delete(txn, table, handle, row)


def _listed(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))
