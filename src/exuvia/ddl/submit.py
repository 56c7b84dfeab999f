"""A session's side of a schema change: submit, then wait for history.

A job does not depend on the session that submitted it.

    many sessions --tickets--> one of them leads: ids and rows of all, one transaction, notify "job"
    each waits for its job     one of them leads: reads history when "history" moves, or at times

With tidb_enable_fast_create_table, plain CREATE TABLEs of one database that are submitted together
become one job for up to MERGED of them. It creates all or none. If it creates none, each is
submitted again alone, so that no statement gets the error of another one.

Job ids come from the counter of all ids, in the transaction that inserts the jobs. So ids are in
commit order: a reader of the queue up to an id has seen every job below it (seed 001).

As in TiDB, CREATE TABLEs become one job, with one step and one version for all, by these rules:

    same database, no foreign key, no partition, no other table read        up to MERGED a job
    a name twice among them                                                 none of that database
    anything else                                                           a job of its own
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from exuvia.base.clock import Clock, SystemClock
from exuvia.base.errors import Unavailable
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import evolve
from exuvia.catalog.sysvar import variables
from exuvia.cluster import assent
from exuvia.cluster.member import Member
from exuvia.cluster.service_scope import scope_of
from exuvia.cluster.versions import MetadataLocks
from exuvia.ddl import groups, queue
from exuvia.ddl.actions import bdr, is_reorg
from exuvia.ddl.actions.table import create_tables, is_batch, may_be_batched
from exuvia.ddl.job import Job, timestamp
from exuvia.kv.store import Store
from exuvia.kv.transaction import UNBOUNDED, Transaction
from exuvia.pipeline.settings import Own, write_own

MERGED = 8


class Share(NamedTuple):
    """A job to insert, and the positions in the batch of the statements it serves."""

    job: Job
    members: tuple[int, ...]


def shares(batch: Sequence[tuple[Job, bool]]) -> list[Share]:
    """Jobs of the batch, ordered by their first statement. `True`: the job may be merged."""
    groups: dict[int, list[int]] = {}
    for at, (job, may_merge) in enumerate(batch):
        if may_merge and may_be_batched(job):
            groups.setdefault(job.schema_id, []).append(at)
    merged_shares: list[Share] = []
    merged: set[int] = set()
    for members in groups.values():
        names = {batch[at][0].table_name.lower() for at in members}
        if len(members) == 1 or len(names) < len(members):
            continue
        for first in range(0, len(members), MERGED):
            some = tuple(members[first : first + MERGED])
            merged.update(some)
            jobs = [batch[at][0] for at in some]
            merged_shares.append(Share(jobs[0] if len(jobs) == 1 else create_tables(jobs), some))
    alone = [Share(job, (at,)) for at, (job, _) in enumerate(batch) if at not in merged]
    return sorted([*merged_shares, *alone], key=lambda share: share.members[0])


# -- submit ----------------------------------------------------------------------------------------

BATCH_JOBS = 100
POLL_S = 0.5


def failed_with_others(submitted: Job, ended: Job) -> bool:
    """Whether the job failed in a batch: the error may belong to another statement."""
    return is_batch(ended) and not is_batch(submitted) and ended.error() is not None


def _scoped(txn: Transaction, job: Job, scope: str) -> Job:
    """The job with that service scope: only nodes of it run its tasks."""
    write_own(txn, job.id, Own(scope=scope))
    return evolve(job, reorg_meta={**(job.reorg_meta or {}), "scope": scope})


Admit = Callable[[Transaction], None]
"""Called in the transaction that inserts a job. Raises the error that refuses the statement, or
makes the commit require the condition that admits it (a read-only mode is off)."""


def _admitted(txn: Transaction) -> None:
    """The system's own jobs are always admitted."""


class _Ticket:
    """One job before it is in the queue."""

    def __init__(self, job: Job, alone: bool, admit: Admit) -> None:
        self.job = job
        self.alone = alone
        self.admit = admit
        self.error: Exception | None = None
        self.settled = False


class _Wait:
    """One session that waits for its job. `to_end`: also while an overdue job is rolled back."""

    def __init__(self, job_id: int, to_end: bool) -> None:
        self.job_id = job_id
        self.to_end = to_end
        self.job: Job | None = None
        self.wake = threading.Event()


class Submitter:
    """Submits jobs and waits for them. Thread-safe; one per front.

    `notice` notifies an owner in this process. `locks` are the front's; without them it gives no
    assent.
    """

    def __init__(
        self,
        store: Store,
        schemas: Schemas,
        member: Member,
        clock: Clock | None = None,
        notice: Callable[[], None] = lambda: None,
        poll_s: float = POLL_S,
        locks: MetadataLocks | None = None,
    ) -> None:
        self._store = store
        self._schemas = schemas
        self._member = member
        self._clock = clock or SystemClock()
        self._notice = notice
        self._poll_s = poll_s
        self._locks = locks
        self._lock = threading.Lock()
        self.leading = threading.Lock()
        self._tickets: deque[_Ticket] = deque()
        self._watching = threading.Lock()
        self._waits: list[_Wait] = []

    def submit(
        self, job: Job, timeout_s: float | None = None, look: Callable[[], None] = lambda: None
    ) -> Job:
        """The finished job; its result is `Job.error`. Raises Unavailable when time is up."""
        ended = self.wait(self.submit_nowait(job), timeout_s, look)
        if failed_with_others(job, ended):
            return self.wait(self.submit_alone(job), timeout_s, look)
        return ended

    @property
    def queued(self) -> int:
        """Number of jobs that wait for the leader (the holder of `leading`) to insert them."""
        return len(self._tickets)

    @property
    def waiting(self) -> int:
        """Number of sessions that wait for the end of a job."""
        return len(self._waits)

    # -- into the queue ----------------------------------------------------------------------------

    def submit_nowait(self, job: Job, admit: Admit = _admitted) -> int:
        """The job's id, once its row is committed.

        Raises Deposed if this member was fenced, and the errors of `admit`.
        """
        return self._submit(job, False, admit)

    def submit_alone(self, job: Job, admit: Admit = _admitted) -> int:
        """Like `submit_nowait`, for a job that must not be merged with others."""
        return self._submit(job, True, admit)

    def submit_to_group(self, job: Job, group: str, admit: Admit = _admitted) -> Job:
        """The member of the group that does the job's change, once its row is committed.

        It is the job itself, or the member of its table that has taken it in. Raises 1105, 8200.
        """

        def put(txn: Transaction) -> Job:
            self._member.guard(txn)
            admit(txn)
            bdr.check(txn, job)
            now = timestamp(self._clock.wall_ns())
            member = groups.join(txn, group, job, now)
            numbered = member if member.id else queue.numbered(txn, [member], now)[0]
            scope = (
                "" if (numbered.reorg_meta or {}).get("scope") else scope_of(txn, self._member.info)
            )
            numbered = _scoped(txn, numbered, scope) if scope and is_reorg(numbered) else numbered
            if member.id:
                queue.update(txn, numbered)
            else:
                queue.insert(txn, numbered)
            groups.joined(txn, numbered)
            txn.notify("job")
            return numbered

        submitted = self._store.transact(put, UNBOUNDED)
        self._notice()
        return submitted

    def _submit(self, job: Job, alone: bool, admit: Admit) -> int:
        ticket = _Ticket(job, alone, admit)
        with self._lock:
            self._tickets.append(ticket)
        while not ticket.settled:
            with self.leading:
                if not ticket.settled:
                    self._insert_batch()
        if ticket.error is not None:
            raise ticket.error
        return ticket.job.id

    def _insert_batch(self) -> None:
        """The caller leads: it inserts its own job and all jobs submitted in the meantime."""
        with self._lock:
            batch = [self._tickets.popleft() for _ in range(min(BATCH_JOBS, len(self._tickets)))]
        self._insert_or_fail(batch)
        for ticket in batch:
            ticket.settled = True
        self._notice()

    def _insert_or_fail(self, batch: list[_Ticket]) -> None:
        """Insert all, or each alone after an error, so that each gets its own error."""
        try:
            self._insert(batch)
        except Exception as error:  # errors of any kind: no session may wait for ever
            if len(batch) == 1:
                batch[0].error = error
                return
            for ticket in batch:
                self._insert_or_fail([ticket])

    def _insert(self, batch: list[_Ticket]) -> None:
        def insert(txn: Transaction) -> list[tuple[Share, Job]]:
            self._member.guard(txn)
            for ticket in batch:
                ticket.admit(txn)
            shares = self._shares(txn, batch)
            for share in shares:
                bdr.check(txn, share.job)
            now = timestamp(self._clock.wall_ns())
            assented = [self._assented(txn, share.job) for share in shares]
            jobs = queue.numbered(txn, assented, now)
            scope = scope_of(txn, self._member.info)
            for job in jobs:
                queue.insert(txn, _scoped(txn, job, scope) if scope and is_reorg(job) else job)
            txn.notify("job")
            return list(zip(shares, jobs, strict=True))

        # unbounded: ids allocated by other fronts at the same time are no reason to refuse a
        # statement
        for share, job in self._store.transact(insert, UNBOUNDED):
            for at in share.members:
                batch[at].job = job

    def _assented(self, txn: Transaction, job: Job) -> Job:
        """The job with this front's acknowledgement in advance, if it can give one."""
        locks = self._locks
        if locks is None:
            return job
        table_id = job.table_id  # 0: it creates a table, which has no writers
        assented = assent.give(
            txn, self._member, lambda: locks.reserve(table_id) if table_id else 1
        )
        return job if assented is None else evolve(job, exuvia_assent=assented)

    def _shares(self, txn: Transaction, batch: list[_Ticket]) -> list[Share]:
        """The jobs to insert, with their statements."""
        merges = len(batch) > 1 and variables.read_flag(txn, "tidb_enable_fast_create_table")
        return shares([(ticket.job, merges and not ticket.alone) for ticket in batch])

    # -- out of history ----------------------------------------------------------------------------

    def wait(
        self,
        job_id: int,
        timeout_s: float | None = None,
        look: Callable[[], None] = lambda: None,
        to_end: bool = True,
    ) -> Job:
        """The job once it is in history. Raises Unavailable when time is up.

        The job itself continues then. `look` is called now and then; its error ends the wait, not
        the job. Without `to_end` an overdue job is returned as soon as its rollback is decided.
        """
        deadline = None if timeout_s is None else self._clock.monotonic() + timeout_s
        mine = _Wait(job_id, to_end)
        with self._lock:
            self._waits.append(mine)
        try:
            while mine.job is None:
                look()
                self._watch_or_wait(mine)
                late = deadline is not None and self._clock.monotonic() >= deadline
                if mine.job is None and late:
                    raise Unavailable(f"job {job_id} continues; the session waited {timeout_s} s")
        finally:
            self._hand_over(mine)
        return mine.job

    def _watch_or_wait(self, mine: _Wait) -> None:
        if not self._watching.acquire(blocking=False):
            mine.wake.wait(self._poll_s)
            mine.wake.clear()
            return
        try:
            counter = self._store.counter("history")
            self._look()
            if mine.job is None:
                self._store.wait("history", counter, self._poll_s)
                self._look()
        finally:
            self._watching.release()

    def _look(self) -> None:
        """Read the jobs waited for from history, in one snapshot."""
        with self._lock:
            waits = [wait for wait in self._waits if wait.job is None]
        ended: dict[int, Job | None] = {}  # many may wait for one job that creates all their tables
        with self._store.read() as txn:
            for wait in waits:
                if wait.job_id not in ended:
                    ended[wait.job_id] = queue.finished(txn, wait.job_id)
                job = ended[wait.job_id]
                if job is None and not wait.to_end:
                    unfinished = queue.get(txn, wait.job_id)
                    job = unfinished if unfinished and unfinished.exuvia_overdue else None
                if job is not None:
                    self._schemas.refresh(txn, job.table_id)
                    self._unreserve(job)
                    wait.job = job
                    wait.wake.set()

    def _unreserve(self, job: Job) -> None:
        granted = job.exuvia_assent
        if self._locks is not None and granted is not None and granted.member == self._member.id:
            self._locks.unreserve(job.table_id, granted.serial)

    def _hand_over(self, mine: _Wait) -> None:
        """Leave; another waiting session takes over the watch."""
        with self._lock:
            self._waits.remove(mine)
            for wait in self._waits:
                if wait.job is None:
                    wait.wake.set()
                    return
