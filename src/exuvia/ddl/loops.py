"""The other loops that drive an owner's workers; the first is `JobManager`, woken by "job".

AckLoop    "ack"     a front has answered: whoever waits for fronts looks again
FillLoop   "reorg"   a reorg worker has something to fill: a thread of its own, since it lasts
"""

from exuvia.ddl.manager import JobManager
from exuvia.ddl.reorg_runner import ReorgRunner
from exuvia.ddl.worker import IDLE_S, JobWorker


class AckLoop:
    """Steps workers when a front has answered."""

    channel = JobWorker.channel

    def __init__(self, manager: JobManager) -> None:
        self._manager = manager

    def step(self, now: float) -> float:
        """One step of one worker; seconds until the next."""
        return self._manager.step_workers(now)


class FillLoop:
    """Runs what one reorg worker has to fill; the job's own steps stay under the manager's lock."""

    channel = "reorg"

    def __init__(self, manager: JobManager, worker: JobWorker) -> None:
        self._manager = manager
        self._worker = worker
        self._held: ReorgRunner | None = None

    def step(self, now: float) -> float:
        """A while of the reorg; the job's next step once it has ended."""
        reorg = self._worker.reorg
        if self._held is not None and self._held is not reorg:
            self._held.step(now)  # the job went on without it: it lets everything go
            self._held = None
            return 0.0
        self._held = reorg
        if reorg is None:
            return IDLE_S
        if reorg.ended:
            return self._manager.step_workers(now) if self._worker.due <= now else IDLE_S
        delay = reorg.step(now)
        if reorg.ended:
            self._worker.due = 0.0
        return delay
