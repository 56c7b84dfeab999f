"""The jobs that may run, in memory: O(log n) per change with 100,000 jobs waiting.

A job may run if (seed 000, with running jobs and both pools counted as unfinished)

    1  it does not run already
    2  it has the smallest id among the unfinished jobs of every table it involves
    3  no older unfinished job drops its schema
    4  and, if it drops a schema, no older unfinished job touches that schema

A name that is acquired or released is involved like a table. So a table is created only after the
job that releases its name has ended, and the order of history is a possible order.

Every job that may not run waits for one older job, its *blocker*. It is the predecessor at a table
(2) or at its schema (4), or the last drop before it (3). When the blocker ends, only the jobs that
waited for it are checked again. Lines are linked lists: ids join in ascending order and leave from
anywhere. A job of a group that takes in another change (ddl/groups.py) may involve more tables.
Then it joins their lines by its id: no other job was there at that time.

    table 7:   12 <- 15 <- 19        15 waits for 12, 19 for 15

The tables are authoritative: a new owner builds this again from `queue.unfinished`.
"""

from collections import defaultdict
from heapq import heappop, heappush
from typing import Protocol

from exuvia.ddl.actions import is_reorg, kind_of
from exuvia.ddl.job import Job, schema_ids, table_ids

Place = tuple[str, int]


class Policy(Protocol):
    """The manager's interface to a discipline: `ReadySet`, or the `TwoQueues` of seeds 001, 002."""

    most_workers: int

    def __contains__(self, job_id: object) -> bool:
        """Whether the job is unfinished."""

    def add(self, job: Job) -> None:
        """A job joined the queue; ids ascend."""

    def change(self, job: Job) -> None:
        """The job's record has changed: it involves more, or belongs to the other pool."""

    def remove(self, job_id: int) -> None: ...

    def take(self, reorg: bool) -> Job | None:
        """The next job of that pool, now running; None if none may run."""

    def give_back(self, job_id: int) -> None: ...

    def is_running(self, job_id: int) -> bool:
        """Whether a worker took it."""

    def blocker(self, job_id: int) -> int:
        """The older job it waits for, or 0."""

    def job(self, job_id: int) -> Job:
        """The record as it was added. Raises KeyError."""


class _Line:
    """Ids in ascending order, removable anywhere; O(1) for ids that join in ascending order."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._behind: dict[int, int] = {}
        self.last = 0

    def join(self, job: int) -> int:
        """Insert the id. Returns the following id, 0 if it is the last one. O(ids above)."""
        before, behind = self.last, 0
        while before > job:
            before, behind = self._before[before], before
        self._before[job] = before
        if before:
            self._behind[before] = job
        if behind:
            self._before[behind], self._behind[job] = job, behind
        else:
            self.last = job
        return behind

    def leave(self, job: int) -> None:
        before, behind = self._before.pop(job), self._behind.pop(job, 0)
        if behind:
            self._before[behind] = before
        else:
            self.last = before
        if before and behind:
            self._behind[before] = behind
        elif before:
            del self._behind[before]

    def before(self, job: int) -> int:
        """The id in front of this one, 0 for the first."""
        return self._before[job]

    def newest_before(self, job: int) -> int:
        """The last id below this one, which need not be in the line; or 0. O(ids above)."""
        candidate = self.last
        while candidate >= job:
            candidate = self._before[candidate]
        return candidate


class ReadySet:
    """Not thread-safe: one manager owns it."""

    most_workers = 1 << 30  # limit of each pool: only the variables

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._lines: defaultdict[Place, _Line] = defaultdict(_Line)
        self._drop_before: dict[tuple[int, int], int] = {}  # (job, schema): its last drop by then
        self._blocker: dict[int, int] = {}
        self._waiting: defaultdict[int, list[int]] = defaultdict(list)
        self._ready: dict[bool, list[int]] = {True: [], False: []}  # by is_reorg
        self._running: set[int] = set()

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def add(self, job: Job) -> None:
        """An unfinished job; ids must ascend."""
        self._jobs[job.id] = job
        for schema in schema_ids(job):
            drops = self._lines["drops", schema]
            self._drop_before[job.id, schema] = drops.last
            if kind_of(job).drops_database:
                drops.join(job.id)
            self._lines["schema", schema].join(job.id)
        for place in elements(job):
            self._lines[place].join(job.id)
        self._judge(job)

    def change(self, job: Job) -> None:
        """Its places have become more: the job and its followers there are checked again.

        Running jobs are not checked.
        """
        old = self._jobs[job.id]
        self._jobs[job.id] = job
        for schema in schema_ids(job):
            if schema not in schema_ids(old):
                self._drop_before[job.id, schema] = self._lines["drops", schema].newest_before(
                    job.id
                )
        already = _places(old)
        behind = [self._lines[place].join(job.id) for place in _places(job) if place not in already]
        for job_id in dict.fromkeys((*behind, job.id)):
            if job_id and job_id not in self._running:
                self._judge(self._jobs[job_id])

    def remove(self, job_id: int) -> None:
        """Remove an ended job; jobs that waited for it are checked again."""
        job = self._jobs.pop(job_id)
        for place in _places(job):
            self._lines[place].leave(job_id)
            if not self._lines[place].last:
                del self._lines[place]
        self._blocker.pop(job_id, None)
        for schema in schema_ids(job):
            self._drop_before.pop((job_id, schema), None)
        self._running.discard(job_id)
        for waiter in self._waiting.pop(job_id, ()):
            if waiter in self._jobs:
                self._judge(self._jobs[waiter])

    def take(self, reorg: bool) -> Job | None:
        """The oldest job of that pool that may run, now running; or None."""
        heap = self._ready[reorg]
        while heap:
            job_id = heappop(heap)
            job = self._jobs.get(job_id)
            if job is None or job_id in self._running or job_id in self._blocker:
                continue
            if is_reorg(job) == reorg:
                self._running.add(job_id)
                return job
        return None

    def give_back(self, job_id: int) -> None:
        """A job stopped unfinished: it may be taken again."""
        if job_id in self._running:
            self._running.discard(job_id)
            self._judge(self._jobs[job_id])

    def is_running(self, job_id: int) -> bool:
        """Whether a worker took it."""
        return job_id in self._running

    def blocker(self, job_id: int) -> int:
        """The older job it waits for, or 0."""
        return self._blocker.get(job_id, 0)

    def job(self, job_id: int) -> Job:
        """The record as it was when the job was added. Raises KeyError."""
        return self._jobs[job_id]

    def _judge(self, job: Job) -> None:
        blocker = self._find_blocker(job)
        if blocker:
            self._blocker[job.id] = blocker
            self._waiting[blocker].append(job.id)
            return
        self._blocker.pop(job.id, None)
        heappush(self._ready[is_reorg(job)], job.id)

    def _find_blocker(self, job: Job) -> int:
        for place in elements(job):
            before = self._lines[place].before(job.id)
            if before:
                return before
        for schema in schema_ids(job):
            if kind_of(job).drops_database:
                before = self._lines["schema", schema].before(job.id)
            else:
                before = self._older_drop(job, schema)
            if before:
                return before
        return 0

    def _older_drop(self, job: Job, schema: int) -> int:
        """The newest unfinished drop of the schema that is older than the job."""
        drop = self._drop_before[job.id, schema]
        if drop and drop not in self._jobs:
            drops = self._lines.get(("drops", schema))
            older = drops.newest_before(job.id) if drops else 0
            self._drop_before[job.id, schema] = drop = older
        return drop


def _places(job: Job) -> list[Place]:
    places: list[Place] = [("schema", schema) for schema in schema_ids(job)]
    if kind_of(job).drops_database:
        places += [("drops", schema) for schema in schema_ids(job)]
    return places + elements(job)


def elements(job: Job) -> list[Place]:
    """Its tables, and the names that it acquires or releases."""
    places: list[Place] = [("table", table) for table in table_ids(job)]
    names = kind_of(job).names
    if names is not None:
        places += [("name " + name, schema_id) for schema_id, name in names(job)]
    return list(dict.fromkeys(places))
