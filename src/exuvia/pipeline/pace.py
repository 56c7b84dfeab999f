"""How many rows one transaction of a task holds, and how long the task rests after it.

    bound      tidb_ddl_reorg_batch_size, read again at every batch
    size       grows by half after a success, halves after a conflict or a slow commit
    speed      tidb_ddl_reorg_max_write_speed: the rest grows until the bytes fit
    rest       none while nobody else commits; longer than the batch took while clients do

A store with one writer (LMDB) serves commits one after another: a client's commit that arrives
while a batch is being written waits for it. So while clients commit, a batch is kept under
`_SHARED_S`, and most of the time is theirs. A batch that shrank for ever after one early conflict
would make a fill crawl (fdb-record-layer issue 444): it grows again.
"""

from typing import NamedTuple

from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.pipeline.settings import Settings

_LEAST = REORG_BATCH_ROWS[0]
_ALONE_S = 0.25
_SHARED_S = 0.004
_REST_FACTOR = 1.5


class Batch(NamedTuple):
    """One finished transaction of a task.

    `rest_s`: how long the task should rest before the next."""

    rows: int
    seconds: float
    rest_s: float = 0.0


def held_back(batch: Batch, size: int, settings: Settings, at_once: int) -> Batch:
    """The batch with as much rest as keeps all tasks below the write speed. `size`: bytes."""
    if not settings.write_speed:
        return batch
    share_s = size * min(settings.workers, at_once) / settings.write_speed
    return batch._replace(rest_s=max(batch.rest_s, share_s - batch.seconds))


class Pace:
    """The batch size of one task: the bound at first, or `rows`."""

    def __init__(self, bound: int, rows: int | None = None) -> None:
        self.bound = bound
        self._rows = float(bound if rows is None else rows)

    @property
    def rows(self) -> int:
        """Rows for the next transaction."""
        return max(1, min(int(self._rows), self.bound))

    def bounded(self, bound: int) -> None:
        """The bound was read again.

        A task that used all of the old bound uses all of the new one."""
        if self._rows >= self.bound:
            self._rows = max(self._rows, float(bound))
        self.bound = bound

    def succeeded(self, rows: int, seconds: float, busy: bool) -> Batch:
        """A transaction of `rows` took `seconds`; `busy`: clients commit too."""
        allowed = _SHARED_S if busy else _ALONE_S
        factor = min(1.5, max(0.5, allowed / max(seconds, 1e-6)))
        if factor < 1:
            self._rows = max(_LEAST, self._rows * factor)
        elif rows >= self.rows:
            self._rows = min(self._rows * factor, float(self.bound))
        return Batch(rows, seconds, seconds * _REST_FACTOR if busy else 0.0)

    def read(self, seconds: float) -> Batch:
        """Some rows were read while clients commit: they want the processor, too."""
        return Batch(0, seconds, seconds * _REST_FACTOR)

    def refused(self) -> None:
        """A transaction met a conflict and will be tried again."""
        self._rows = max(1.0, min(self._rows, float(self.bound)) / 2)
