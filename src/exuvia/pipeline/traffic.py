"""Whether clients are committing while a task fills: it then makes its batches short and rests
between them.

    commits of all      the store's sequence grows with each
    commits of ours     every task of the reorg writes how many it made into its progress
    commits of others   the difference, per second, looked at every `_EVERY_S`

Any engine can tell this, and no client has to announce itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from exuvia.kv.store import Store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.task import Order

_EVERY_S = 0.1
_BUSY_PER_S = 20.0  # heartbeats, statistics and the owner's own steps stay below it


class Others(ABC):
    """Whether others commit often. `_count` says (commits of all, commits of ours)."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen = (monotonic(), *self._count())
        self._busy = False

    @abstractmethod
    def _count(self) -> tuple[int, int]: ...

    def busy(self) -> bool:
        """Whether others commit often."""
        now = self._monotonic()
        elapsed_s = now - self._seen[0]
        if elapsed_s >= _EVERY_S:
            sequence, ours = self._count()
            others = (sequence - self._seen[1]) - (ours - self._seen[2])
            self._busy = others / elapsed_s > _BUSY_PER_S
            self._seen = (now, sequence, ours)
        return self._busy


class Traffic(Others):
    """What one task of a reorg knows of the others' commits."""

    def __init__(self, store: Store, order: Order, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._order = order
        super().__init__(monotonic)

    def _count(self) -> tuple[int, int]:
        txn = self._store.begin()
        try:
            ours = sum(p.batches for p in checkpoint.read_progress(txn, self._order))
            return txn.sequence, ours
        finally:
            txn.rollback()


class Besides(Others):
    """What one writer that counts its own commits knows of the others'."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self.ours = 0
        super().__init__(monotonic)

    def _count(self) -> tuple[int, int]:
        txn = self._store.begin()
        try:
            return txn.sequence, self.ours
        finally:
            txn.rollback()
