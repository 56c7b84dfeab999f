"""The job tables as rows: they are the truth, whatever anybody holds in memory.

    mysql.tidb_ddl_job       unfinished jobs, by id       mysql.tidb_ddl_history   finished ones
    mysql.tidb_mdl_info      the version each unfinished job announced last
    mysql.gc_delete_range    keys nobody reads any more; once emptied: gc_delete_range_done
    mysql.ddl_notifier       events of finished changes (events/notifier.py)
    mysql.tidb_ddl_reorg     finished spans of running reorganisations (written by pipeline/)

Ordinary rows in the ordinary encoding, written through catalog/writer.py in the caller's
transaction, which gives them the same checks as any row: two who change one job conflict.
While tidb_enable_concurrent_ddl is OFF the lists of ddl/two_queues.py stand in for the first two
tables.
"""

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from heapq import merge
from itertools import count, islice

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog import meta, reader, writer
from exuvia.catalog.convert.values import default_of
from exuvia.catalog.model import evolve
from exuvia.catalog.system_tables import DATABASES, MYSQL_ID, SYSTEM
from exuvia.catalog.table import Table
from exuvia.ddl import two_queues
from exuvia.ddl.action import GetsId
from exuvia.ddl.actions import is_reorg, kind_of
from exuvia.ddl.job import Job, decode, encode, packed_time, schema_ids, table_ids
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

Row = list[object]


def system_table(txn: Transaction, name: str) -> Table:
    """A system table as the snapshot has it: a newer program may have added columns to it."""
    stored, *revisions = map(txn.get, _places(name))
    return _planned(name, stored, *map(keys.read_number, revisions))


@cache
def _places(name: str) -> tuple[bytes, bytes, bytes]:
    """Keys of a system table, of its revision and of its database's."""
    table_id = SYSTEM[name].id
    return keys.meta("table", table_id), keys.revision(table_id), keys.database_revision(MYSQL_ID)


@lru_cache(maxsize=64)
def _planned(name: str, stored: bytes | None, revision: int, database_revision: int) -> Table:
    info = SYSTEM[name] if stored is None else meta.table_at_rest(stored)
    return Table(info, revision, DATABASES[-1], database_revision)


def _fitted(table: Table, row: Row, old: Row | None = None) -> Row:
    """A row of the columns this program knows, as the table has them now: what a newer program
    added keeps its value or has its default, and what this one would add is not there yet."""
    names = [c.name.L for c in SYSTEM[table.info.name.L].cols]
    known = dict(zip(names, row, strict=False))
    kept = old or []
    return [
        known[c.name.L] if c.name.L in known else kept[n] if n < len(kept) else default_of(c)
        for n, c in enumerate(table.info.cols)
    ]


# -- unfinished jobs -------------------------------------------------------------------------------


def numbered(txn: Transaction, jobs: list[Job], now: int) -> list[Job]:
    """Ids for the jobs and for what they create: first the new element's, then the job's.

    `now` is a job's timestamp."""
    gets = [kind_of(job).gets_id for job in jobs]
    needed = sum(
        1 + (got != GetsId.NOTHING) + len(job.exuvia_ids)
        for got, job in zip(gets, jobs, strict=True)
    )
    following = count(meta.next_ids(txn, needed))
    found = []
    for got, job in zip(gets, jobs, strict=True):
        if got == GetsId.DATABASE:
            job = evolve(job, schema_id=next(following))
        elif got == GetsId.TABLE:
            job = evolve(job, table_id=next(following))
        ids = tuple(given or next(following) for given in job.exuvia_ids)
        found.append(evolve(job, id=next(following), exuvia_ids=ids, start_ts=now))
    return found


def insert(txn: Transaction, job: Job) -> None:
    """A job joins the queue."""
    if two_queues.in_use(txn):
        two_queues.put(txn, job, is_reorg(job))
        return
    table = system_table(txn, "tidb_ddl_job")
    writer.insert(txn, table, _fitted(table, _job_row(job, processing=0)))


def update(txn: Transaction, job: Job) -> None:
    """A job's new record; who took it is noted as processing."""
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
    """The job leaves the queue."""
    if two_queues.in_use(txn):
        two_queues.remove(txn, job.id)
        return
    _delete(txn, system_table(txn, "tidb_ddl_job"), keys.i64(job.id))


def get(txn: Transaction, job_id: int) -> Job | None:
    """The unfinished job of that id."""
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
    """For settings that must not change under a job. Refused 1105 while one is unfinished.

    Whoever submits one meanwhile takes ids too, and so conflicts with this transaction."""
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
    """The job joins history."""
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
    """The same, read as far as they are looked at; those with ids below that one only."""
    rows = reader.scan(txn, *_finished_below(txn, below), reverse=True)
    kept = (decode(row[_HISTORY_META]) for _, row in rows)
    listed = (job for job in two_queues.newest(txn) if below is None or job.id < below)
    found = merge(kept, listed, key=lambda job: -job.id)
    return islice(found, limit)


def about(txn: Transaction, table_id: int, most: int) -> Iterator[Job]:
    """Of the newest `most` finished jobs those that involve the table, newest first; only they are
    decoded."""
    wanted = str(table_id)
    rows = reader.scan(txn, *_finished_below(txn, None), reverse=True)
    for _, row in islice(rows, most):
        if wanted in str(row[_HISTORY_TABLES]).split(","):
            yield decode(row[_HISTORY_META])


def concerning(
    txn: Transaction, ids: Collection[int], names: AbstractSet[tuple[str, str]]
) -> Iterator[Job]:
    """Finished jobs that involve one of the tables, or were asked for by one of the names (of
    database and table, lower case), newest first; only they are decoded. Both are looked at again
    for each, so that who reads may add what a table was before."""
    rows = reader.scan(txn, *_finished_below(txn, None), reverse=True)
    kept = (
        decode(row[_HISTORY_META])
        for _, row in rows
        if not names.isdisjoint(_named(str(row[_HISTORY_DATABASE]), str(row[_HISTORY_TABLE])))
        or any(str(each) in str(row[_HISTORY_TABLES]).split(",") for each in ids)
    )
    listed = (
        job
        for job in two_queues.newest(txn)
        if not names.isdisjoint(_named(job.schema_name, job.table_name))
        or not set(ids).isdisjoint(table_ids(job))
    )
    return merge(kept, listed, key=lambda job: -job.id)


def _named(database: str, table: str) -> Iterator[tuple[str, str]]:
    """The places a job was asked for; one that makes several tables lists their names."""
    for each in {table, *table.split(",")}:
        yield database.lower(), each.lower()


def _finished_below(txn: Transaction, below: int | None) -> tuple[Table, Span]:
    table = system_table(txn, "tidb_ddl_history")
    span = table.row_span()
    if below is not None:
        span = Span(span.start, keys.row_prefix(table.info.id) + keys.i64(max(0, below)))
    return table, span


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


def _delete(txn: Transaction, table: Table, handle: bytes) -> None:
    row = reader.get(txn, table, handle)
    if row is not None:
        writer.delete(txn, table, handle, row)


def _listed(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))
