"""The discipline of seeds 001 and 002: two queues, and only the first job of each runs.

    general   12 -> 15 -> 17         15 may not run while 12 is unfinished, whatever their tables
    reorg     13 -> 16               16 waits for 13; 15 waits for 13 too, if 13 has its table

A job depends on the newest older job of the other queue that has its table, or its whole schema.
`tidb_enable_concurrent_ddl` = OFF selects this discipline, with the interface of `ReadySet`. Seed
000 reports its cost, and bench/concurrent_ddl.py measures it.

The layout (seeds 001, 002) has JSON jobs in lists under `m`:

    m/DDLJobList/{job}         DefaultJobListKey     general jobs, in order of submission
    m/DDLJobAddIdxList/{job}   AddIndexJobListKey    jobs that reorganise data, in the same order
    m/DDLJobReorg/{job}        finished spans of a job's reorganisation: a JSON list
    m/DDLJobHistory/{job}      finished jobs

It is used while `tidb_enable_concurrent_ddl` is OFF, and in stores of format 1. A list is a range
of keys, ordered by id. Running tasks still write the rows of mysql.tidb_ddl_reorg. The list of
spans is their copy at the job's last update, and a migration reads it.
"""

from collections.abc import Iterator

import msgspec

from exuvia.base.decoding import json_decoder
from exuvia.ddl.actions import is_reorg, kind_of
from exuvia.ddl.job import Job, decode, encode, schema_ids, table_ids
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint


class TwoQueues:
    """Not thread-safe: one manager owns it."""

    most_workers = 1  # limit of each pool

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
        self._depends[job.id] = next((older.id for older in others if _related(older, job)), 0)
        self._queues[reorg][job.id] = job

    def change(self, job: Job) -> None:
        """Never called: no job of a group takes in a change in this layout."""

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
        """A job stopped unfinished: it and its followers keep their places."""
        self._running.discard(job_id)

    def is_running(self, job_id: int) -> bool:
        """Whether a worker took it."""
        return job_id in self._running

    def blocker(self, job_id: int) -> int:
        """The job it depends on, else the first of its queue; 0 for the first itself."""
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

_spans = json_decoder(list[checkpoint.SpanRow])


def in_use(txn: Transaction) -> bool:
    """Whether jobs are stored in this layout, in the transaction's snapshot."""
    return txn.get(_SWITCH) == b"OFF" or txn.get(keys.FORMAT) == _LISTS_ONLY


def put(txn: Transaction, job: Job, reorg: bool) -> None:
    """Add a job at the end of its list, or replace it."""
    txn.put(keys.meta(LISTS[reorg], job.id), encode(job))
    spans = checkpoint.rows_of(txn, job.id) if reorg and job.begun else []
    if spans:
        txn.put(keys.meta(REORG_KEY, job.id), msgspec.json.encode(spans))


def get(txn: Transaction, job_id: int) -> Job | None:
    """The unfinished job of that id, or None."""
    payloads = (txn.get(keys.meta(name, job_id)) for name in LISTS)
    return next((decode(payload) for payload in payloads if payload is not None), None)


def remove(txn: Transaction, job_id: int) -> None:
    """Remove the job and its finished spans."""
    for name in (*LISTS, REORG_KEY):
        if txn.get(keys.meta(name, job_id)) is not None:
            txn.delete(keys.meta(name, job_id))


def unfinished(txn: Transaction, after: int = 0) -> list[Job]:
    """Every job of both lists with an id above `after`, oldest first."""
    jobs = [
        decode(payload)
        for name in LISTS
        for _, payload in txn.scan(Span(keys.meta(name, after + 1), keys.after(keys.meta(name))))
    ]
    return sorted(jobs, key=lambda job: job.id)


def spans(txn: Transaction, job_id: int) -> list[checkpoint.SpanRow]:
    """The finished spans of the job's reorganisation."""
    payload = txn.get(keys.meta(REORG_KEY, job_id))
    return [] if payload is None else _spans.decode(payload)


def archive(txn: Transaction, job: Job) -> None:
    """Add the job to the history list."""
    txn.insert(keys.meta(HISTORY_KEY, job.id), encode(job))


def finished(txn: Transaction, job_id: int) -> Job | None:
    """The job of that id, if it is in the history list."""
    payload = txn.get(keys.meta(HISTORY_KEY, job_id))
    return None if payload is None else decode(payload)


def newest(txn: Transaction) -> Iterator[Job]:
    """The history list, newest first."""
    entries = txn.scan(keys.span_of(keys.meta(HISTORY_KEY)), reverse=True)
    return (decode(payload) for _, payload in entries)


def migrate(txn: Transaction) -> list[Job]:
    """Move every job out of the lists, and its finished spans into their table.

    Returns the jobs, oldest first, for the caller to insert. A concurrent submitter conflicts by
    the ids it allocates.
    """
    jobs = unfinished(txn)
    for job in jobs:
        for span in spans(txn, job.id):
            checkpoint.restore(txn, job.id, span)
        remove(txn, job.id)
    txn.put(keys.LAST_ID, txn.get(keys.LAST_ID) or keys.number(0))
    return jobs
