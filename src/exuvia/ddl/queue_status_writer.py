"""Jobs that wait for their turn say for what, in their row (law 10).

    waiting: job 12 (add index d.t)           an older unfinished job of its table or schema
    waiting: reorg worker (2 of 2 busy)       it may run, but nobody is free

Only who waits for long is written down, a few in a transaction and a transaction now and then:
quick jobs cost nothing, and a hundred thousand that wait hold up none that could step. The more
there are, the later each is looked at again.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from exuvia.base.errors import Conflict
from exuvia.catalog.model import evolve
from exuvia.cluster.owner import Campaign
from exuvia.ddl import queue
from exuvia.ddl.actions import is_reorg
from exuvia.ddl.ready import Policy
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

AFTER_S = 1.0
AGAIN_S = 5.0
AGAIN_EACH_S = 0.001  # more for each job that waits
NOTES_A_STEP = 50
PACE_S = 0.05


class QueueStatusWriter:
    """When to look at which waiting job. `busy(reorg)`: (busy workers, workers) of a pool."""

    def __init__(
        self,
        store: Store,
        campaign: Campaign,
        ready: Policy,
        busy: Callable[[bool], tuple[int, int]],
    ) -> None:
        self._store = store
        self._campaign = campaign
        self._ready = ready
        self._busy = busy
        self._due: list[tuple[float, int]] = []
        self._next = float("-inf")

    def add(self, job_id: int, now: float) -> None:
        """A job joined the queue."""
        heappush(self._due, (now + AFTER_S, job_id))

    def step(self, now: float) -> bool:
        """Write the reasons that are due; whether there were any. Raises Deposed."""
        if now < self._next:
            return False
        self._next = now + PACE_S
        again = now + AGAIN_S + AGAIN_EACH_S * len(self._due)
        due: list[int] = []
        while self._due and self._due[0][0] <= now and len(due) < NOTES_A_STEP:
            _, job_id = heappop(self._due)
            if job_id in self._ready and not self._ready.is_running(job_id):
                due.append(job_id)
                heappush(self._due, (again, job_id))
        if due:
            self._write(due)
        return bool(due)

    def _write(self, due: list[int]) -> None:
        txn = self._store.begin()
        try:
            self._campaign.guard(txn)
            for job_id in due:
                self._note(txn, job_id)
            txn.commit()
        except Conflict:
            return  # a session changed one of them: they are due again soon
        finally:
            txn.rollback()

    def _note(self, txn: Transaction, job_id: int) -> None:
        job = queue.get(txn, job_id)
        noted = self._reason(job_id)
        if job is not None and noted != (job.exuvia_wait, job.dependency_id):
            reason, blocker = noted
            queue.update(txn, evolve(job, exuvia_wait=reason, dependency_id=blocker))

    def _reason(self, job_id: int) -> tuple[str, int]:
        """(what for, the older job or 0)."""
        blocker = self._ready.blocker(job_id)
        if blocker:
            older = self._ready.job(blocker)
            place = f"{older.schema_name}.{older.table_name}".rstrip(".")
            return f"waiting: job {blocker} ({older.action_text} {place})", blocker
        reorg = is_reorg(self._ready.job(job_id))
        busy, workers = self._busy(reorg)
        noun = "reorg worker" if reorg else "general worker"
        return f"waiting: {noun} ({busy} of {workers} busy)", 0
