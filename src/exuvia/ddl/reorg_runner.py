"""The reorg of one job as its worker sees it: run by one thread, looked at by another.

Running      rows and a note to show         Waiting, Unavailable   likewise, and what for
Done         filled and verified             Conflict      again
Duplicates   1062, all of them, capped       Deposed       its epoch moved on: the step knows why
Failed       the error that ends the job      any other     loudly; the error that ends the job
"""

from collections.abc import Callable
from typing import Protocol

from exuvia.base.errors import Conflict, Deposed, Refused, Unavailable
from exuvia.base.mysql_errors import ErrDupEntry, ErrUnknown
from exuvia.catalog.table import Table
from exuvia.pipeline.reorg import Done, Duplicates, Failed, Progress, Reorg, Running, Waiting

AGAIN_S = 1.0


def raise_it(job_id: int, error: Exception) -> None:
    """What to do with an error nobody foresaw, where no node is: tests must see it."""
    raise error


class RunningReorg(Protocol):
    """The pipeline's part of a job."""

    def step(self, now: float) -> Progress:
        """Go on for a while. Raises Deposed."""

    def stop(self) -> None:
        """Let everything go, tasks too."""


class ReorgFactory(Protocol):
    """How a worker gets one: wired by node/, or by a test."""

    def __call__(self, job_id: int, epoch: int, table: Table, work: Reorg) -> RunningReorg:
        """The reorg of a job at that epoch of it."""


class ReorgRunner:
    """See the module. Written by one thread only."""

    def __init__(self, reorg: RunningReorg, unforeseen: Callable[[Exception], None]) -> None:
        self._reorg = reorg
        self._unforeseen = unforeseen
        self._left = False
        self.rows = 0
        self.note = ""
        self.filled = False
        self.failure: Refused | None = None
        self.lost = False

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to run."""
        return self.filled or self.lost or self.failure is not None

    def leave(self) -> None:
        """The job went on without it: the thread that runs it lets everything go."""
        self._left = True

    def step(self, now: float) -> float:
        """Run the reorg for a while; seconds until it wants to go on."""
        if self._left:
            self._reorg.stop()
            self.lost = True
            return 0.0
        try:
            return self._hear(self._reorg.step(now))
        except Conflict:
            return 0.0
        except Unavailable as error:
            self.note = f"waiting: {error}"
            return AGAIN_S
        except Deposed:
            self.lost = True
            return 0.0
        except Exception as error:  # a fault in one job's reorg must not stop all others
            self._unforeseen(error)
            text = f"the reorganisation broke: {type(error).__name__}: {error}"
            self.failure = ErrUnknown(text)
            return 0.0

    def _hear(self, progress: Progress) -> float:
        match progress:
            case Running():
                self.rows, self.note = progress.rows_done, _running_note(progress)
                return progress.wake_s
            case Waiting():
                self.rows, self.note = progress.rows_done, f"waiting: {progress.reason}"
                return progress.wake_s
            case Done():
                self.rows, self.note, self.filled = progress.rows, "", True
            case Duplicates():
                self.failure = duplicates_error(progress)
            case Failed():
                self.failure = progress.error
        return 0.0


def _running_note(progress: Running) -> str:
    rate = f"{progress.rows_per_s:.0f} rows/s" if progress.rows_per_s else ""
    eta = "" if progress.eta_s is None else f"{progress.eta_s:.0f} s left"
    return ", ".join(part for part in (progress.phase, rate, eta, progress.note) if part)


def duplicates_error(progress: Duplicates) -> Refused:
    """1062 with MySQL's text for the first, and every other that was found as its listing."""
    others = [text for text in progress.texts if text != progress.texts[0]]
    return ErrDupEntry.with_text(progress.error.message, "\n".join(others))
