"""What a reorg answers when it is stepped; the job's worker matches all of it.

    Running      goes on; what to show, and when to step again
    Waiting      cannot go on now, and why (law 10); stepping again tries again
    Done         filled and verified: the index may become public
    Duplicates   the unique index cannot be: what is there twice
    Failed       cannot be done, or verification found faults (law 9)

Deposed is raised: the epoch was lost, the reorg belongs to somebody else or to nobody.
`Rate` is rows per second, the time that is left, and silence.
"""

from collections import deque
from typing import NamedTuple

from exuvia.base.errors import Refused


class Running(NamedTuple):
    """`rows_done` counts table rows; `phase` is fill or verify; `wake_s`: step again after so
    long."""

    rows_done: int
    rows_per_s: float
    eta_s: float | None
    phase: str
    note: str
    wake_s: float = 0.0


class Waiting(NamedTuple):
    """A reason in words, for the job's row."""

    reason: str
    rows_done: int = 0
    wake_s: float = 1.0


class Done(NamedTuple):
    """`spans_skipped` were finished by an earlier run."""

    rows: int
    spans_done: int = 0
    spans_skipped: int = 0


class Duplicates(NamedTuple):
    """Texts of all that were found (capped), and the 1062 to end the job with: the first of them,
    and how many there are."""

    texts: list[str]
    error: Refused


class Failed(NamedTuple):
    """What ends the job."""

    error: Refused


Progress = Running | Waiting | Done | Duplicates | Failed


_WINDOW_S = 5.0
_SILENCE_S = 10.0


class Rate:
    """A sliding window over (time, rows done)."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._moved_at: float | None = None

    def seen(self, now: float, rows: int) -> None:
        """So many rows are done at this time. Unit: s."""
        if self._moved_at is None or (self._seen and rows != self._seen[-1][1]):
            self._moved_at = now
        self._seen.append((now, rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW_S:
            self._seen.popleft()

    def rows_per_s(self) -> float:
        """Over the window; 0 until two moments are known."""
        if len(self._seen) < 2:
            return 0.0
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end - start) if end > start else 0.0

    def eta_s(self, missing: int) -> float | None:
        """Seconds for the missing rows at this rate; None while nothing moves."""
        rate = self.rows_per_s()
        return missing / rate if rate > 0 else None

    def silence_s(self, now: float) -> float:
        """For how long nothing has moved, 0 while that is not worth a word."""
        silent = now - self._moved_at if self._moved_at is not None else 0.0
        return silent if silent >= _SILENCE_S else 0.0
