"""Who does a reorg's tasks: this process for small tables, Spark for others, other nodes with it
where they may (shared.py); and why nothing moves, in words.

In this process kernels run one transaction a step: small tables, tests, the simulator. The same
tasks and outcomes as on Spark (pipeline/spark.py), one task after another. No thread, no sleep. A
worker process (worker_process.py) takes every other task where the table is large for that and no
client is beside it.
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
    """Tasks being done one after another; stands in for spark.SparkTasks. `worker`: taken for this
    wave, does some of them meanwhile."""

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
        self._given: Task | None = None
        self.outcomes: list[Outcome] = []
        self.error: str | None = None

    def step(self) -> float:
        """Do one transaction. Returns how long to rest before the next. Unit: s."""
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
        """Hear of the worker's task, or give it one. Waits for it where nothing else is left."""
        try:
            if self._given is not None:
                outcome = worker.outcome(_WAIT_S if self._own is None else 0.0)
                if outcome is None:
                    return
                self.outcomes.append(outcome)
                self._given = None
            if self._waiting:
                self._given = self._waiting.pop()
                worker.give(self._given)
        except WorkerEnded as error:
            _log.warning("a worker process ended", extra={"reason": str(error)})
            if self._given is not None:
                self._waiting.append(self._given)
            self._worker = self._given = None
            worker.release()

    def done(self) -> bool:
        """Whether nothing more will come."""
        if self._waiting or self._own is not None or self._given is not None:
            return False
        if self._worker is not None:
            self._worker.release()
            self._worker = None
        return True

    def cancel(self) -> None:
        """Drop what is not done."""
        self._waiting.clear()
        if self._own is not None:
            self._own.close()
            self._own = None
        if self._worker is not None:
            if self._given is not None:
                self._worker.stop()
            self._worker.release()
            self._worker = self._given = None

    def run(self) -> list[Outcome]:
        """All steps at once, resting never; for callers that have a thread of their own."""
        while not self.done():
            self.step()
        return self.outcomes


# -- one wave at a time ----------------------------------------------------------------------------

_FRUITLESS_WAVES = 5
SHARED_ROWS = 200_000
"""From where a second process is worth its start."""


class TaskBatch(Protocol):
    """Tasks on their way: InlineTasks, SparkTasks of spark.py, SharedTasks of shared.py."""

    @property
    def outcomes(self) -> list[Outcome]:
        """Of the tasks that have ended."""

    @property
    def error(self) -> str | None:
        """Why others have none."""

    def step(self) -> float:
        """Go on; returns when to look again. Unit: s."""

    def done(self) -> bool:
        """Whether it has ended."""

    def cancel(self) -> None: ...


class Crew(NamedTuple):
    """Which nodes do a reorg's tasks. `own`: the driver's too."""

    own: bool
    others: list[MemberInfo]


ALONE = Crew(True, [])


class Others(Protocol):
    """Other nodes that a driver gives tasks to: shared.py."""

    def crew(self, settings: PipelineSettings, is_small: bool) -> Crew:
        """Who is to do a small or a large table now."""

    def start(self, crew: Crew, own: TaskBatch | None, given: Sequence[WaveShare]) -> TaskBatch:
        """Have the others begin, each with its share; `own` has begun."""


class Executor:
    """Runs one wave at a time. `others` None: on this node alone."""

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
        self._fruitless = 0

    def choose(self, rows: int, most: int, most_cold: int) -> None:
        """Decide who does so many rows. Without a Spark it is always this process; while Spark is
        not started, also what this process has done before the JVM would have begun."""
        spark = self._spark
        cold = spark is not None and not spark.is_started
        self._inline = spark is None or rows <= (max(most, most_cold) if cold else most)
        self._size = rows, most, most_cold
        self.shares = self._inline and self._worker is not None and rows >= SHARED_ROWS
        self._muster()

    def _muster(self) -> None:
        """Who is there may change from wave to wave."""
        if self._others is not None:
            settings = self._dial.read()
            self._crew = self._others.crew(settings, self._size[0] <= settings.inline_rows)

    @property
    def at_once(self) -> int:
        """How many tasks run side by side."""
        here = 1 + self.shares if self._inline or self._spark is None else self._spark.at_once
        return here * (self._crew.own + len(self._crew.others))

    def start(self, tag: str, tasks: Sequence[Task]) -> None:
        """Begin a wave. Raises Unavailable, in words, when Spark cannot start."""
        self._muster()
        crew = self._crew
        # others may not have the files; those of 0.4.0 do not know "renumber"
        alone = any(one.order.source is not None or one.kind == "renumber" for one in tasks)
        if self._others is None or not crew.others or alone:
            self._wave = self._start_here(tag, tasks)
            return
        nodes = len(crew.others) + crew.own
        dealt = [tasks[n::nodes] for n in range(nodes)]
        own = self._start_here(tag, dealt.pop()) if crew.own else None
        given = [WaveShare(tag, *self._size, list(map(task.encode, some))) for some in dealt]
        self._wave = self._others.start(crew, own, given)

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
        """Whether nobody else needs the other processors, and two tasks may write at once."""
        settings = self._dial.read()
        return settings.batch_s >= ALONE_S and settings.workers > 1

    def step(self) -> float:
        """Go on; returns when to look again. Unit: s."""
        return 0.0 if self._wave is None else self._wave.step()

    def done(self) -> bool:
        """Whether the wave has ended."""
        return self._wave is None or self._wave.done()

    def outcomes(self) -> list[Outcome]:
        """The ended wave's outcomes in the tasks' order.

        Raises Deposed, Refused, Unavailable: what stopped a task."""
        found = self.results()
        for outcome in found:
            if outcome.kind == task.DEPOSED:
                raise Deposed("a task found that the reorg was left")
            if outcome.kind == task.UNAVAILABLE:
                raise Unavailable(outcome.text)
            if outcome.kind == task.FAILED:
                raise Refused(outcome.code, outcome.state, outcome.text)
        return found

    def results(self) -> list[Outcome]:
        """The same, also of tasks that were stopped. Raises Refused, Unavailable: what stopped the
        wave."""
        wave, self._wave = self._wave, None
        if wave is None:
            return []
        if wave.error is not None and getattr(wave, "is_waiting", False):
            raise Unavailable(wave.error)
        if wave.error is not None:
            self._fruitless += 1
            if self._fruitless >= _FRUITLESS_WAVES:
                raise ErrUnknown(f"the pipeline failed {self._fruitless} times: {wave.error}")
            raise Unavailable(TASKS_FAILED(wave.error))
        self._fruitless = 0
        return sorted(wave.outcomes, key=lambda outcome: outcome.ordinal)

    def moved(self) -> None:
        """Spans were finished: waves that failed before did not fail for nothing."""
        self._fruitless = 0

    def cancel(self) -> None:
        """End the wave, if there is one."""
        if self._wave is not None:
            self._wave.cancel()
        self._wave = None

    @property
    def is_started(self) -> bool:
        """Whether tasks can be running yet."""
        return self._inline or bool(getattr(self._wave, "is_started", True))

    def excuse(self, settings: PipelineSettings) -> str:
        """Why nothing may be moving."""
        if self._inline:
            return OWNER_BUSY()
        if not self.is_started:
            return SPARK_STARTS()
        if self._spark is not None and self._spark.runs_nothing():
            return SPARK_IDLE(self._spark.master)
        return TASKS_READ(settings.workers)
