"""A job as a trace: one span for it, and below it one for each state that it was in.

    add index                    from the statement to history
      queueing                   until its first step
      delete only                from the commit that brought it there to the one that took it on
      write only
      write reorganization       fill, verification, a hold
      public                     until every node has it

Who owns schema changes tells of each step it has committed. Several steps of one commit are one:
nobody was in the states between. Ids follow from the job, so what two owners tell of one job is one
trace; the state in which it changed hands begins with the later owner.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from exuvia.base.clock import Clock
from exuvia.catalog.model import STATE_TEXT
from exuvia.ddl.job import JOB_STATE_TEXT, Job, JobState

MOST_KNOWN = 100_000
"""Jobs in memory: of those that another owner goes on with nothing is heard any more."""
_ROOT = "job"
_WALKS = frozenset((JobState.RUNNING, JobState.DONE, JobState.SYNCED))


class JobSpan(NamedTuple):
    """Moments are wall time. Unit: ns. `parent` 0: it is the job's own. `error`: what it ended
    with."""

    trace: int
    id: int
    parent: int
    name: str
    began_ns: int
    ended_ns: int
    attributes: dict[str, str | int]
    error: str = ""


def _number(size: int, *parts: object) -> int:
    """An id that is never 0."""
    told = "\0".join(map(str, parts)).encode()
    return int.from_bytes(blake2b(told, digest_size=size).digest()) or 1


class JobTraces:
    """One per owner. Several threads; each job's steps come one after another."""

    def __init__(self, clock: Clock, emit: Callable[[JobSpan], None]) -> None:
        self._clock = clock
        self._emit = emit
        self._known: dict[int, tuple[str, int]] = {}  # job -> (its state, since when)

    def stepped(self, job: Job) -> None:
        """A step was committed; this is the job after it."""
        now = self._clock.wall_ns()
        name, since = self._known.get(job.id, ("", 0))
        if not since:
            asked, began = _wall_ns(job.start_ts), _wall_ns(job.real_start_ts)
            self._emit(self._span(job, "queueing", asked, max(asked, began)))
            name, since = _state(job), now
        elif name != _state(job) or job.in_history:
            self._emit(self._span(job, name, since, now))
            name, since = _state(job), now
        if job.in_history:
            self._known.pop(job.id, None)
            self._emit(self._whole(job, now))
            return
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[job.id] = name, since

    def _span(self, job: Job, name: str, began_ns: int, ended_ns: int) -> JobSpan:
        trace, root = _ids(job)
        about: dict[str, str | int] = {"exuvia.job.rows": job.row_count}
        number = _number(8, trace, name, began_ns)
        return JobSpan(trace, number, root, name, began_ns, ended_ns, about)

    def _whole(self, job: Job, ended_ns: int) -> JobSpan:
        trace, root = _ids(job)
        about: dict[str, str | int] = {
            "db.system.name": "exuvia",
            "db.namespace": job.schema_name,
            "db.collection.name": job.table_name,
            "db.query.text": job.query,
            "enduser.id": job.exuvia_by,
            "exuvia.job.id": job.id,
            "exuvia.job.state": JOB_STATE_TEXT[job.state],
            "exuvia.job.rows": job.row_count,
        }
        error = "" if job.state == JobState.SYNCED or job.err is None else job.err.message
        began = _wall_ns(job.start_ts)
        return JobSpan(trace, root, 0, job.action_text, began, ended_ns, about, error)


def _ids(job: Job) -> tuple[int, int]:
    """The trace and the job's own span."""
    trace = _number(16, job.id, job.start_ts)
    return trace, _number(8, trace, _ROOT)


def _wall_ns(stamp: int) -> int:
    return (stamp >> 18) * 1_000_000


def _state(job: Job) -> str:
    if job.exuvia_held:
        return "held"
    if job.state in _WALKS:
        return STATE_TEXT[job.schema_state]
    return JOB_STATE_TEXT[job.state]
