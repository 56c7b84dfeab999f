"""A job as a trace: one span for it, and one child span for each of its stages.

    add index                    from the statement to history
      queueing                   until its first step
      delete only                from the commit that began the stage to the one that ended it
      write only
      write reorganization       backfill and verification
      held
      public                     until every node has it

The job's record has all of it, whichever owner walked it. So a trace is sent once, when the job has
ended. Ids are derived from the job: a trace that is sent twice is one trace.
"""

from hashlib import blake2b
from typing import NamedTuple

from exuvia.ddl.job import Job


class JobSpan(NamedTuple):
    """One span. Moments are wall time. Unit: ns.

    `parent` is 0 for the job's own span. `error`: the text of the error that ended it.
    """

    trace: int
    id: int
    parent: int
    name: str
    began_ns: int
    ended_ns: int
    attributes: dict[str, str | int]
    error: str = ""


def untraced(job: Job) -> None:
    """The sink without a trace exporter."""


def spans_of(job: Job) -> list[JobSpan]:
    """The trace of an ended job, its own span first."""
    trace = _number(16, job.id, job.start_ts)
    whole = JobSpan(
        trace=trace,
        id=_number(8, trace),
        parent=0,
        name=job.action_text,
        began_ns=_wall_ns(job.start_ts),
        ended_ns=_wall_ns(job.binlog.FinishedTS),
        attributes={
            "db.system.name": "exuvia",
            "db.namespace": job.schema_name,
            "db.collection.name": job.table_name,
            "db.query.text": job.query,
            "enduser.id": job.exuvia_by,
            "exuvia.job.id": job.id,
            "exuvia.job.state": job.state_text,
            "exuvia.job.rows": job.row_count,
        },
        error="" if job.err is None or job.error() is None else job.err.message,
    )
    stays = [
        JobSpan(trace, _number(8, trace, n), whole.id, name, _wall_ns(since), _wall_ns(until), {})
        for n, (name, since, until) in enumerate(job.stays())
    ]
    return [whole, *stays]


def _number(size: int, *parts: object) -> int:
    """An id that is never 0."""
    parts_text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(blake2b(parts_text, digest_size=size).digest()) or 1


def _wall_ns(stamp: int) -> int:
    return (stamp >> 18) * 1_000_000
