"""The discipline of seeds 001 and 002: two queues, and of each only the first job runs.

    general   12 -> 15 -> 17         15 may not run while 12 is unfinished, whatever their tables
    reorg     13 -> 16               16 likewise behind 13; 15 waits besides, if 13 has its table

A job depends on the newest older job of the other queue that has its table, or its whole schema.
It is what `tidb_enable_concurrent_ddl` = OFF selects, with the interface of `ReadySet`: seed 000 is
the report of what it costs, and bench/concurrent_ddl.py shows it.

The layout of the two-queue discipline (seeds 001, 002): JSON jobs in lists under `m`.

    m/DDLJobList/{job}         DefaultJobListKey     general jobs, in the order they came
    m/DDLJobAddIdxList/{job}   AddIndexJobListKey    jobs that reorganise data, likewise
    m/DDLJobReorg/{job}        what of a job's reorganisation is finished: a JSON list of spans
    m/DDLJobHistory/{job}      finished jobs

In use while `tidb_enable_concurrent_ddl` is OFF, and found in stores of format 1. A list is a run
of keys: its order is the order of ids. The rows of mysql.tidb_ddl_reorg stay what running tasks
write; the list of spans is their copy at the job's last note, and what a migration goes by.
"""

from collections.abc import Iterator

import msgspec

from exuvia.ddl.actions import is_reorg, kind_of
from exuvia.ddl.job import Job, decode, encode, schema_ids, table_ids
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint


class TwoQueues:
    """Not thread-safe: one manager owns it."""

    most_workers = 1  # of each pool

    def __init__(self) -> None:
        self._queues: dict[bool, dict[int, Job]] = {False: {}, True: {}}
        self._depends: dict[int, int] = {}
        self._running: set[int] = set()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __contains__(self, job_id: object) -> bool:
        return any(job_id in jobs for jobs in self._queues.values())

    def add(self, job: Job) -> None:
        """An unfinished job; ids must ascend."""
        reorg = is_reorg(job)
        others = reversed(self._queues[not reorg].values())
        self._depends[job.id] = next((each.id for each in others if _related(each, job)), 0)
        self._queues[reorg][job.id] = job

    def change(self, job: Job) -> None:
        """Nobody asks: no job of a group takes in a change in this layout."""

    def remove(self, job_id: int) -> None:
        self._running.discard(job_id)
        self._depends.pop(job_id, None)
        for jobs in self._queues.values():
            jobs.pop(job_id, None)

    def take(self, reorg: bool) -> Job | None:
        """The first job of that queue, if it neither runs nor depends on another; now running."""
        first = next(iter(self._queues[reorg].values()), None)
        if first is None or first.id in self._running or self.blocker(first.id):
            return None
        self._running.add(first.id)
        return first

    def give_back(self, job_id: int) -> None:
        """A job stopped unfinished: it keeps its place, and all behind it theirs."""
        self._running.discard(job_id)

    def is_running(self, job_id: int) -> bool:
        """Whether a worker took it."""
        return job_id in self._running

    def blocker(self, job_id: int) -> int:
        """The job it depends on, else the first of its queue, 0 if it is that itself."""
        depends = self._depends.get(job_id, 0)
        if depends in self:
            return depends
        for jobs in self._queues.values():
            if job_id in jobs:
                first = next(iter(jobs))
                return 0 if first == job_id else first
        return 0

    def job(self, job_id: int) -> Job:
        """The record as it was when the job was added. Raises KeyError."""
        for jobs in self._queues.values():
            if job_id in jobs:
                return jobs[job_id]
        raise KeyError(job_id)


def _related(one: Job, other: Job) -> bool:
    if kind_of(one).whole_database or kind_of(other).whole_database:
        return bool({*schema_ids(one)} & {*schema_ids(other)})
    return bool({*table_ids(one)} & {*table_ids(other)})


# -- lists -----------------------------------------------------------------------------------------

DEFAULT_JOB_LIST_KEY = "DDLJobList"
ADD_INDEX_JOB_LIST_KEY = "DDLJobAddIdxList"
REORG_KEY = "DDLJobReorg"
HISTORY_KEY = "DDLJobHistory"
LISTS = (DEFAULT_JOB_LIST_KEY, ADD_INDEX_JOB_LIST_KEY)
_LISTS_ONLY = keys.number(1)  # the store's format before the job tables
_SWITCH = keys.meta("var", "tidb_enable_concurrent_ddl")

_spans = msgspec.json.Decoder(list[checkpoint.SpanRow])


def in_use(txn: Transaction) -> bool:
    """Whether jobs are kept in this layout, in the transaction's snapshot."""
    return txn.get(_SWITCH) == b"OFF" or txn.get(keys.FORMAT) == _LISTS_ONLY


def put(txn: Transaction, job: Job, reorg: bool) -> None:
    """A job joins the end of its list, or is replaced where it stands."""
    txn.put(keys.meta(LISTS[reorg], job.id), encode(job))
    spans = checkpoint.rows_of(txn, job.id) if reorg and job.begun else []
    if spans:
        txn.put(keys.meta(REORG_KEY, job.id), msgspec.json.encode(spans))


def get(txn: Transaction, job_id: int) -> Job | None:
    """The unfinished job of that id."""
    found = (txn.get(keys.meta(name, job_id)) for name in LISTS)
    return next((decode(payload) for payload in found if payload is not None), None)


def remove(txn: Transaction, job_id: int) -> None:
    """The job leaves its list, and what was finished of it is forgotten."""
    for name in (*LISTS, REORG_KEY):
        if txn.get(keys.meta(name, job_id)) is not None:
            txn.delete(keys.meta(name, job_id))


def unfinished(txn: Transaction, after: int = 0) -> list[Job]:
    """Every job of both lists with an id above `after`, oldest first."""
    found = [
        decode(payload)
        for name in LISTS
        for _, payload in txn.scan(Span(keys.meta(name, after + 1), keys.after(keys.meta(name))))
    ]
    return sorted(found, key=lambda job: job.id)


def spans(txn: Transaction, job_id: int) -> list[checkpoint.SpanRow]:
    """What of the job's reorganisation is finished."""
    payload = txn.get(keys.meta(REORG_KEY, job_id))
    return [] if payload is None else _spans.decode(payload)


def archive(txn: Transaction, job: Job) -> None:
    """The job joins the history list."""
    txn.insert(keys.meta(HISTORY_KEY, job.id), encode(job))


def finished(txn: Transaction, job_id: int) -> Job | None:
    """The job of that id, if it is in the history list."""
    payload = txn.get(keys.meta(HISTORY_KEY, job_id))
    return None if payload is None else decode(payload)


def newest(txn: Transaction) -> Iterator[Job]:
    """The history list, newest first."""
    found = txn.scan(keys.span_of(keys.meta(HISTORY_KEY)), reverse=True)
    return (decode(payload) for _, payload in found)


def migrate(txn: Transaction) -> list[Job]:
    """Take every job out of the lists, and its finished spans into their table; the jobs, oldest
    first, for the caller to insert. Whoever submits one meanwhile conflicts by the ids it takes."""
    jobs = unfinished(txn)
    for job in jobs:
        for span in spans(txn, job.id):
            checkpoint.restore(txn, job.id, span)
        remove(txn, job.id)
    txn.put(keys.LAST_ID, txn.get(keys.LAST_ID) or keys.number(0))
    return jobs
