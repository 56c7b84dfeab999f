"""Runs a reorg's tasks: in this process for small tables, on Spark for large ones, and on other
nodes if allowed (shared.py). It also reports why no task is making progress.

In this process, kernels run one transaction a step: for small tables, tests and the simulator.
Tasks and outcomes are those of Spark (pipeline/spark.py), run one after another without threads or
sleeps. A worker process (worker_process.py) takes every other task if the table is large enough and
no client is active.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from exuvia.base.errors import Deposed, Refused, Unavailable
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.base.waits import OWNER_BUSY, SPARK_IDLE, SPARK_STARTS, TASKS_FAILED, TASKS_READ
from exuvia.cluster.member import MemberInfo
from exuvia.kv.store import Store
from exuvia.pipeline import task
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.settings import ALONE_S, Dial, PipelineSettings
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Outcome, Task, WaveShare
from exuvia.pipeline.throttle import Batch
from exuvia.pipeline.worker_process import WorkerEnded, WorkerProcess

_log = logging.getLogger(__name__)


_WAIT_S = 0.02


class InlineTasks:
    """Tasks that run one after another, a TaskBatch. `worker`: acquired for this wave, runs some of
    the tasks concurrently."""

    def __init__(
        self,
        store: Store,
        tasks: Sequence[Task],
        dial: Dial,
        monotonic: Callable[[], float],
        worker: WorkerProcess | None = None,
    ) -> None:
        self._begin = partial(TaskAttempt, store, dial=dial, monotonic=monotonic)
        self._waiting = list(reversed(tasks))
        self._own: TaskAttempt | None = None
        self._worker = worker
        self._worker_task: Task | None = None
        self.outcomes: list[Outcome] = []
        self.error: str | None = None

    def step(self) -> float:
        """Runs one transaction. Returns the pause before the next. Unit: s."""
        if self._own is None and self._waiting:
            self._own = self._begin(self._waiting.pop())
        if self._worker is not None:
            self._share(self._worker)
        if self._own is None:
            return 0.0
        reached = self._own.advance()
        if isinstance(reached, Batch):
            return reached.rest_s
        self._own = None
        self.outcomes.append(reached)
        return 0.0

    def _share(self, worker: WorkerProcess) -> None:
        """Polls the worker's task, or gives it one. Waits for it if no other task is left."""
        try:
            if self._worker_task is not None:
                outcome = worker.outcome(_WAIT_S if self._own is None else 0.0)
                if outcome is None:
                    return
                self.outcomes.append(outcome)
                self._worker_task = None
            if self._waiting:
                self._worker_task = self._waiting.pop()
                worker.give(self._worker_task)
        except WorkerEnded as error:
            _log.warning("a worker process ended", extra={"reason": str(error)})
            if self._worker_task is not None:
                self._waiting.append(self._worker_task)
            self._worker = self._worker_task = None
            worker.release()

    def done(self) -> bool:
        """Whether all tasks have ended."""
        if self._waiting or self._own is not None or self._worker_task is not None:
            return False
        if self._worker is not None:
            self._worker.release()
            self._worker = None
        return True

    def cancel(self) -> None:
        """Drops unfinished tasks."""
        self._waiting.clear()
        if self._own is not None:
            self._own.close()
            self._own = None
        if self._worker is not None:
            if self._worker_task is not None:
                self._worker.stop()
            self._worker.release()
            self._worker = self._worker_task = None

    def run(self) -> list[Outcome]:
        """Runs all steps without pauses, for callers with a thread of their own."""
        while not self.done():
            self.step()
        return self.outcomes


# -- one wave at a time ----------------------------------------------------------------------------

_MAX_FAILED_WAVES = 5
_HERE = frozenset({"renumber"})
"""Kernels that nodes of 0.4 and 0.5 do not know. Like imports, whose files other nodes may lack,
and like tasks with spilled runs, they run on the driver's node."""
SHARED_ROWS = 200_000
"""From this number of rows on, a second process is worth its start."""


class TaskBatch(Protocol):
    """Running tasks: InlineTasks, SparkTasks of spark.py, or SharedTasks of shared.py."""

    @property
    def outcomes(self) -> list[Outcome]:
        """Outcomes of the tasks that have ended."""

    @property
    def error(self) -> str | None:
        """The error that left tasks without an outcome."""

    def step(self) -> float:
        """Makes progress. Returns the pause before the next call. Unit: s."""

    def done(self) -> bool:
        """Whether all tasks have ended."""

    def cancel(self) -> None: ...


class Crew(NamedTuple):
    """The nodes that run a reorg's tasks. `own`: whether the driver's node does."""

    own: bool
    others: list[MemberInfo]


ALONE = Crew(True, [])


class Others(Protocol):
    """Gives tasks to other nodes; implemented by shared.py."""

    def crew(self, settings: PipelineSettings, is_small: bool) -> Crew:
        """Returns the nodes for a small or a large table."""

    def start(self, crew: Crew, own: TaskBatch | None, shares: Sequence[WaveShare]) -> TaskBatch:
        """Starts the others, each with its share; `own` is already started."""


class Executor:
    """Runs one wave at a time. A single node has `others=None`."""

    def __init__(
        self,
        store: Store,
        spark: Spark | None,
        dial: Dial,
        monotonic: Callable[[], float],
        others: Others | None = None,
        worker: WorkerProcess | None = None,
    ) -> None:
        self._store = store
        self._spark = spark
        self._worker = worker
        self._dial = dial
        self._monotonic = monotonic
        self._others = others
        self._crew = ALONE
        self._size = 0, 0, 0
        self._inline = True
        self.shares = False
        self._wave: TaskBatch | None = None
        self._failed_waves = 0

    def choose(self, rows: int, most: int, most_cold: int) -> None:
        """Chooses between this process and Spark. Without Spark it is this process. While Spark is
        not started, the limit is `most_cold`: this process finishes before the JVM would start."""
        spark = self._spark
        cold = spark is not None and not spark.is_started
        self._inline = spark is None or rows <= (max(most, most_cold) if cold else most)
        self._size = rows, most, most_cold
        self.shares = self._inline and self._worker is not None and rows >= SHARED_ROWS
        self._refresh_crew()

    def _refresh_crew(self) -> None:
        """Updates the crew: nodes may join or leave between waves."""
        if self._others is not None:
            settings = self._dial.read()
            self._crew = self._others.crew(settings, self._size[0] <= settings.inline_rows)

    @property
    def at_once(self) -> int:
        """Number of tasks that run concurrently."""
        return self.at_once_here * (self._crew.own + len(self._crew.others))

    @property
    def at_once_here(self) -> int:
        """Number of tasks that run concurrently on this node."""
        return 1 + self.shares if self._inline or self._spark is None else self._spark.at_once

    @property
    def runs_here(self) -> bool:
        """Whether this node is in the job's scope."""
        return self._crew.own

    def start(self, tag: str, tasks: Sequence[Task]) -> None:
        """Starts a wave. Raises Unavailable with the reason if Spark cannot start."""
        self._refresh_crew()
        crew = self._crew
        alone = any(one.order.source or one.folder or one.kind in _HERE for one in tasks)
        if self._others is None or not crew.others or alone:
            self._wave = self._start_here(tag, tasks)
            return
        nodes = len(crew.others) + crew.own
        dealt = [tasks[n::nodes] for n in range(nodes)]
        own = self._start_here(tag, dealt.pop()) if crew.own else None
        shares = [WaveShare(tag, *self._size, list(map(task.encode, some))) for some in dealt]
        self._wave = self._others.start(crew, own, shares)

    def _start_here(self, tag: str, tasks: Sequence[Task]) -> TaskBatch:
        if self._inline or self._spark is None:
            worker = self._worker if self.shares and len(tasks) > 1 else None
            if worker is not None and not (self._is_alone() and worker.take()):
                worker = None
            return InlineTasks(self._store, tasks, self._dial, self._monotonic, worker)
        obstacle = self._spark.obstacle()
        if obstacle is not None:
            raise Unavailable(obstacle)
        return self._spark.start(tag, [task.encode(one) for one in tasks])

    def _is_alone(self) -> bool:
        """Whether no client needs the other processors, and two tasks may write concurrently."""
        settings = self._dial.read()
        return settings.batch_s >= ALONE_S and settings.workers > 1

    def step(self) -> float:
        """Makes progress. Returns the pause before the next call. Unit: s."""
        return 0.0 if self._wave is None else self._wave.step()

    def done(self) -> bool:
        """Whether the wave has ended."""
        return self._wave is None or self._wave.done()

    def outcomes(self) -> list[Outcome]:
        """Returns the ended wave's outcomes in the order of its tasks.

        Raises Deposed, Refused or Unavailable: the error that stopped a task."""
        return self.require_all(self.results())

    def require_all(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Returns the outcomes, or raises the error that stopped a task."""
        for outcome in outcomes:
            if outcome.kind == task.DEPOSED:
                raise Deposed("a task found that the reorg was left")
            if outcome.kind == task.UNAVAILABLE:
                raise Unavailable(outcome.text)
            if outcome.kind == task.FAILED:
                raise Refused(outcome.code, outcome.state, outcome.text)
        return outcomes

    def results(self) -> list[Outcome]:
        """Like `outcomes`, but includes stopped tasks. Raises Refused or Unavailable: the error
        that stopped the wave."""
        wave, self._wave = self._wave, None
        if wave is None:
            return []
        if wave.error is not None and getattr(wave, "is_waiting", False):
            raise Unavailable(wave.error)
        if wave.error is not None:
            self._failed_waves += 1
            if self._failed_waves >= _MAX_FAILED_WAVES:
                raise ErrUnknown(f"the pipeline failed {self._failed_waves} times: {wave.error}")
            raise Unavailable(TASKS_FAILED(wave.error))
        self._failed_waves = 0
        return sorted(wave.outcomes, key=lambda outcome: outcome.ordinal)

    def moved(self) -> None:
        """Resets the count of failed waves, after spans were finished."""
        self._failed_waves = 0

    def cancel(self) -> None:
        """Ends the wave, if one is running."""
        if self._wave is not None:
            self._wave.cancel()
        self._wave = None

    @property
    def is_started(self) -> bool:
        """Whether tasks may be running already."""
        return self._inline or bool(getattr(self._wave, "is_started", True))

    def excuse(self, settings: PipelineSettings) -> str:
        """Returns the reason for a lack of progress."""
        if self._inline:
            return OWNER_BUSY()
        if not self.is_started:
            return SPARK_STARTS()
        if self._spark is not None and self._spark.runs_nothing():
            return SPARK_IDLE(self._spark.master)
        return TASKS_READ(settings.workers)
