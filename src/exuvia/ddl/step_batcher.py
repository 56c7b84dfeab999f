"""Steps of independent jobs that are due at one moment are committed together.

    worker 1: prepare -> a decision  \
    worker 2: prepare -> a decision   > applied in turn to one transaction -> one commit
    worker 3: prepare -> waits       /  it is stepped by itself, as ever

Each step keeps what a step is: its own decision on a snapshot that holds the steps before it, its
own version, its own row; all or nothing of it. Jobs that run at one moment touch different tables,
so their order is free. What cannot be foreseen (a conflict with a session, an error of one job)
undoes the whole transaction, and then each is stepped by itself: so a fault is met by its own job
only.
"""

from collections.abc import Sequence

from exuvia.base.errors import Deposed
from exuvia.ddl.apply import apply
from exuvia.ddl.decision import Decision
from exuvia.ddl.worker import JobWorker, WorkerContext
from exuvia.kv.transaction import Transaction


class StepBatcher:
    """See the module; the manager's lock is held."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._singly = 0

    def step(self, workers: Sequence[JobWorker], now: float) -> bool:
        """One transaction for those that can step now; whether there was one. Raises Deposed."""
        if len(workers) < 2 or self._singly:
            self._singly = max(self._singly - 1, 0)
            return False
        txn = self._context.store.begin()
        try:
            prepared = self._prepare(txn, workers, now)
            if prepared:
                self._context.campaign.guard(txn)
                txn.commit()
        except Deposed:
            raise
        except Exception:  # whose it is shows when each is stepped by itself
            self._singly = len(workers)
            return False
        finally:
            txn.rollback()
        for worker, decision in prepared:
            worker.committed(decision)
        return bool(prepared)

    def _prepare(
        self, txn: Transaction, workers: Sequence[JobWorker], now: float
    ) -> list[tuple[JobWorker, Decision]]:
        """Who steps, and how; the steps are in the transaction."""
        prepared: list[tuple[JobWorker, Decision]] = []
        for worker in workers:
            ended = sum(decision.archive for _, decision in prepared)
            decision = worker.prepare(txn, now, ended)
            if decision is not None:
                apply(txn, decision, self._context.owner)
                prepared.append((worker, decision))
        return prepared
