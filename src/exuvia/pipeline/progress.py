"""What a reorg answers when it is stepped; the job's worker matches all of it.

    Running      goes on; what to show, and when to step again
    Waiting      cannot go on now, and why (law 10); stepping again tries again
    Done         filled and verified: the index may become public
    Duplicates   the unique index cannot be: what is there twice
    Failed       cannot be done, or verification found faults (law 9)

Deposed is raised: the epoch was lost, the reorg belongs to somebody else or to nobody.
"""

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
