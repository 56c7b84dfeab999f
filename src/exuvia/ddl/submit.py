"""A session's side of a schema change: submit, wait for history. Losing the session loses no job.

    many sessions --tickets--> one of them leads: ids and rows of all, one transaction, notify "job"
    each waits for its job     one of them leads: reads history when "history" moves, or at times

With tidb_enable_fast_create_table, plain CREATE TABLEs of one database that meet here become one
job for up to MERGED of them (see below), which creates all or none. If it creates
none, each is asked for again by itself: the error of one statement is not that of another.

Job ids come from the counter of all ids, in the transaction that inserts the jobs: so ids are in
commit order, and whoever reads the queue up to an id has seen every job below it (seed 001).

Which CREATE TABLEs become one job:

    same database, no foreign key, no partition, nothing else looked at     up to MERGED a job
    a name twice among them                                                 none of that database
    anything else                                                           a job of its own

As TiDB does it: one step and one version for all of them.
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
    """A job to insert, and the places in the batch of those who asked for it."""

    job: Job
    members: tuple[int, ...]


def shares(batch: Sequence[tuple[Job, bool]]) -> list[Share]:
    """Jobs of the batch, in order of the first of each; `True`: it may be merged."""
    groups: dict[int, list[int]] = {}
    for at, (job, may_merge) in enumerate(batch):
        if may_merge and may_be_batched(job):
            groups.setdefault(job.schema_id, []).append(at)
    found: list[Share] = []
    merged: set[int] = set()
    for members in groups.values():
        names = {batch[at][0].table_name.lower() for at in members}
        if len(members) == 1 or len(names) < len(members):
            continue
        for first in range(0, len(members), MERGED):
            some = tuple(members[first : first + MERGED])
            merged.update(some)
            jobs = [batch[at][0] for at in some]
            found.append(Share(jobs[0] if len(jobs) == 1 else create_tables(jobs), some))
    alone = [Share(job, (at,)) for at, (job, _) in enumerate(batch) if at not in merged]
    return sorted([*found, *alone], key=lambda share: share.members[0])


# -- submit ----------------------------------------------------------------------------------------

BATCH_JOBS = 100
POLL_S = 0.5


def failed_with_others(asked: Job, ended: Job) -> bool:
    """Whether the error is that of a batch, and may be another statement's: it is asked for again,
    alone."""
    return is_batch(ended) and not is_batch(asked) and ended.error() is not None


def _scoped(txn: Transaction, job: Job, scope: str) -> Job:
    """Its tasks are for the nodes of that service scope."""
    write_own(txn, job.id, Own(scope=scope))
    return evolve(job, reorg_meta={**(job.reorg_meta or {}), "scope": scope})


Admit = Callable[[Transaction], None]
"""Called in the transaction that inserts a job. Raises the error that refuses the statement, or
makes the commit require the condition that admits it (a read-only mode is off)."""


def _admitted(txn: Transaction) -> None:
    """Nothing refuses the system's own jobs."""


class _Ticket:
    """One job on its way into the queue."""

    def __init__(self, job: Job, alone: bool, admit: Admit) -> None:
        self.job = job
        self.alone = alone
        self.admit = admit
        self.error: Exception | None = None
        self.settled = False


class _Wait:
    """One session that waits for its job. `to_end`: also while one that is overdue turns back."""

    def __init__(self, job_id: int, to_end: bool) -> None:
        self.job_id = job_id
        self.to_end = to_end
        self.job: Job | None = None
        self.wake = threading.Event()


class Submitter:
    """Thread-safe; one per front. `notice` tells an owner in this very process; `locks` are the
    front's, without which it gives no assent."""

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
        """The finished job; see `Job.error` for how it ended. Unavailable when time is up."""
        ended = self.wait(self.submit_nowait(job), timeout_s, look)
        if failed_with_others(job, ended):
            return self.wait(self.submit_alone(job), timeout_s, look)
        return ended

    @property
    def queued(self) -> int:
        """Jobs that wait for whoever leads (holds `leading`) to insert them."""
        return len(self._tickets)

    @property
    def waiting(self) -> int:
        """Sessions that wait for the end of a job."""
        return len(self._waits)

    # -- into the queue ----------------------------------------------------------------------------

    def submit_nowait(self, job: Job, admit: Admit = _admitted) -> int:
        """The job's id, once its row is committed. Deposed if this member was fenced; raises what
        `admit` raises."""
        return self._submit(job, False, admit)

    def submit_alone(self, job: Job, admit: Admit = _admitted) -> int:
        """The same for a job that is to share none with others."""
        return self._submit(job, True, admit)

    def submit_to_group(self, job: Job, group: str, admit: Admit = _admitted) -> Job:
        """The job once its row is committed, of one that is to be completed together with others:
        the job itself, or the one of its table that has taken it in. Raises 1105, 8200."""

        def put(txn: Transaction) -> Job:
            self._member.guard(txn)
            admit(txn)
            bdr.check(txn, job)
            now = timestamp(self._clock.wall_ns())
            member = groups.join(txn, group, job, now)
            made = member if member.id else queue.numbered(txn, [member], now)[0]
            scope = "" if (made.reorg_meta or {}).get("scope") else scope_of(txn, self._member.info)
            made = _scoped(txn, made, scope) if scope and is_reorg(made) else made
            if member.id:
                queue.update(txn, made)
            else:
                queue.insert(txn, made)
            groups.joined(txn, made)
            txn.notify("job")
            return made

        made = self._store.transact(put, UNBOUNDED)
        self._notice()
        return made

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
        """Whoever gets here leads: it inserts its own job and all that gathered meanwhile."""
        with self._lock:
            batch = [self._tickets.popleft() for _ in range(min(BATCH_JOBS, len(self._tickets)))]
        self._insert_or_tell(batch)
        for ticket in batch:
            ticket.settled = True
        self._notice()

    def _insert_or_tell(self, batch: list[_Ticket]) -> None:
        """All of them, or each by itself: the fault of one is not that of the others."""
        try:
            self._insert(batch)
        except Exception as error:  # whatever it is: nobody may wait for it for ever
            if len(batch) == 1:
                batch[0].error = error
                return
            for ticket in batch:
                self._insert_or_tell([ticket])

    def _insert(self, batch: list[_Ticket]) -> None:
        def insert(txn: Transaction) -> list[tuple[Share, Job]]:
            self._member.guard(txn)
            for ticket in batch:
                ticket.admit(txn)
            shares = self._shares(txn, batch)
            for share in shares:
                bdr.check(txn, share.job)
            now = timestamp(self._clock.wall_ns())
            asked = [self._assented(txn, share.job) for share in shares]
            jobs = queue.numbered(txn, asked, now)
            scope = scope_of(txn, self._member.info)
            for job in jobs:
                queue.insert(txn, _scoped(txn, job, scope) if scope and is_reorg(job) else job)
            txn.notify("job")
            return list(zip(shares, jobs, strict=True))

        # unbounded: that other fronts took the same ids is no reason to refuse a statement
        for share, job in self._store.transact(insert, UNBOUNDED):
            for at in share.members:
                batch[at].job = job

    def _assented(self, txn: Transaction, job: Job) -> Job:
        """With this front's acknowledgement in advance, if it can give one."""
        locks = self._locks
        if locks is None:
            return job
        table_id = job.table_id  # 0: it makes one, which nobody has written
        given = assent.give(txn, self._member, lambda: locks.reserve(table_id) if table_id else 1)
        return job if given is None else evolve(job, exuvia_assent=given)

    def _shares(self, txn: Transaction, batch: list[_Ticket]) -> list[Share]:
        """The jobs to insert, and whose each is."""
        merges = len(batch) > 1 and variables.read_flag(txn, "tidb_enable_fast_create_table")
        return shares([(each.job, merges and not each.alone) for each in batch])

    # -- out of history ----------------------------------------------------------------------------

    def wait(
        self,
        job_id: int,
        timeout_s: float | None = None,
        look: Callable[[], None] = lambda: None,
        to_end: bool = True,
    ) -> Job:
        """The job once it is in history. Unavailable when time is up: the job itself goes on.

        `look` is called now and then; what it raises ends the wait, and not the job. Without
        `to_end` a job whose own time is up is given back as soon as that is decided."""
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
                    raise Unavailable(f"job {job_id} goes on; it was waited for {timeout_s} s")
        finally:
            self._hand_over(mine)
        return mine.job

    def _watch_or_wait(self, mine: _Wait) -> None:
        if not self._watching.acquire(blocking=False):
            mine.wake.wait(self._poll_s)
            mine.wake.clear()
            return
        try:
            seen = self._store.counter("history")
            self._look()
            if mine.job is None:
                self._store.wait("history", seen, self._poll_s)
                self._look()
        finally:
            self._watching.release()

    def _look(self) -> None:
        """Read what history has of the jobs waited for, in one snapshot."""
        with self._lock:
            waits = [wait for wait in self._waits if wait.job is None]
        ended: dict[int, Job | None] = {}  # many may wait for one job that makes all their tables
        with self._store.read() as txn:
            for each in waits:
                if each.job_id not in ended:
                    ended[each.job_id] = queue.finished(txn, each.job_id)
                job = ended[each.job_id]
                if job is None and not each.to_end:
                    unfinished = queue.get(txn, each.job_id)
                    job = unfinished if unfinished and unfinished.exuvia_overdue else None
                if job is not None:
                    self._schemas.refresh(txn, job.table_id)
                    self._unreserve(job)
                    each.job = job
                    each.wake.set()

    def _unreserve(self, job: Job) -> None:
        given = job.exuvia_assent
        if self._locks is not None and given is not None and given.member == self._member.id:
            self._locks.unreserve(job.table_id, given.serial)

    def _hand_over(self, mine: _Wait) -> None:
        """Leave; another of those who still wait takes the watch."""
        with self._lock:
            self._waits.remove(mine)
            for each in self._waits:
                if each.job is None:
                    each.wake.set()
                    return
