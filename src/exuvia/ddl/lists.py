"""The layout of the two-queue discipline (seeds 001, 002): JSON jobs in lists under `m`.

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

from exuvia.ddl.job import Job, decode, encode
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint

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
