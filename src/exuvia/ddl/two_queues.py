"""The discipline of seeds 001 and 002: two queues, and of each only the first job runs.

    general   12 -> 15 -> 17         15 may not run while 12 is unfinished, whatever their tables
    reorg     13 -> 16               16 likewise behind 13; 15 waits besides, if 13 has its table

A job depends on the newest older job of the other queue that has its table, or its whole schema.
It is what `tidb_enable_concurrent_ddl` = OFF selects, with the interface of `ReadySet`: seed 000 is
the report of what it costs, and bench/concurrent_ddl.py shows it.
"""

from exuvia.ddl import queue
from exuvia.ddl.actions import kind_of
from exuvia.ddl.job import Job


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
        reorg = queue.is_reorg(job)
        others = reversed(self._queues[not reorg].values())
        self._depends[job.id] = next((each.id for each in others if _related(each, job)), 0)
        self._queues[reorg][job.id] = job

    def remove(self, job_id: int) -> None:
        """A job ended."""
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
        return bool({*queue.schema_ids(one)} & {*queue.schema_ids(other)})
    return bool({*queue.table_ids(one)} & {*queue.table_ids(other)})
