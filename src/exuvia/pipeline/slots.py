"""How many tasks of a reorg may write at once: `tidb_ddl_reorg_worker_cnt` slots, each the
presence of one process.

    slot 0   held by the task of process 71    worker count 2: a task takes any free slot below 2
    slot 1   held by the task of process 72    set to 1: the holder of slot 1 lets it go at its
    slot 2   not given                         next batch and waits, looking at the epoch

A presence ends with its process (Store.hold), so a killed task blocks nobody and nothing has to be
cleaned up. Only tasks in processes of their own need slots: in this process tasks run one after
another.
"""

from exuvia.base.errors import Deposed, Unavailable
from exuvia.kv.packet import SEQUENCE_BYTES
from exuvia.kv.store import Presence, Store
from exuvia.pipeline.task import Order


class Slot:
    """One task's place among those that may write."""

    def __init__(self, store: Store, order: Order, ordinal: int, name: str = "") -> None:
        self._store = store
        self._order = order
        self._first = ordinal
        self._name = name or f"reorg/{order.job_id}"
        self._number = -1
        self._presence: Presence | None = None

    def taken(self, workers: int) -> bool:
        """Whether this task may go on, with so many workers allowed.

        Raises Deposed when the reorg was left."""
        if self._presence is not None and self._number < workers:
            return True
        self.release()
        for n in range(workers):
            if self._take((self._first + n) % workers):
                return True
        self._still_ours()
        return False

    def _take(self, number: int) -> bool:
        try:
            self._presence = self._store.hold(f"{self._name}/{number}")
        except Unavailable:
            return False
        self._number = number
        return True

    def _still_ours(self) -> None:
        snapshot = self._store.snapshot()
        try:
            for fence in self._order.fences:
                raw = snapshot.get(fence.key)
                if raw is None or raw[SEQUENCE_BYTES:] != fence.payload:
                    raise Deposed("the reorg was left while a task waited for a worker slot")
        finally:
            snapshot.close()

    def release(self) -> None:
        """Let others have it. Twice is harmless."""
        presence, self._presence, self._number = self._presence, None, -1
        if presence is not None:
            presence.release()
