"""Runs a reorg's tasks: in this process or on Spark (engine.py), and on other nodes if allowed
(shared.py). It also reports why no task is making progress.

In this process, kernels run one transaction a step: for small tables, tests and the simulator.
Tasks and outcomes are those of Spark (pipeline/spark.py), run one after another without threads or
sleeps. A worker process (worker_process.py) takes every other task if the table is large enough and
no client is active.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from exuvia.base.errors import Deposed, Refused, Unavailable
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.base.waits import OWNER_BUSY, SPARK_IDLE, SPARK_STARTS, TASKS_FAILED, TASKS_READ
from exuvia.cluster.member import MemberInfo
from exuvia.kv.store import Store
from exuvia.pipeline import task
from exuvia.pipeline.engine import SHARED_ROWS, Workload, chooses_spark, forces_spark
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.measures import LOCAL, WaveReport, cost_of
from exuvia.pipeline.settings import ALONE_S, Dial, PipelineSettings
from exuvia.pipeline.spark import Spark, SparkTasks
from exuvia.pipeline.spark_status import SparkLook
from exuvia.pipeline.task import Outcome, Task, TaskCost, WaveShare
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
        self._total = len(tasks)
        self._repeated: dict[int, int] = {}  # earlier attempts by the task's ordinal
        self.outcomes: list[Outcome] = []
        self.error: str | None = None

    def report(self) -> WaveReport:
        """Returns the state of the wave."""
        running = (self._own is not None) + (self._worker_task is not None)
        waiting = sum(task.ordinal in self._repeated for task in self._waiting)
        report = WaveReport(
            LOCAL,
            1 + (self._worker is not None),
            self._total,
            len(self.outcomes),
            running,
            waiting,
            waiting,
        )
        return report.after(cost_of(self.outcomes))

    def _add(self, outcome: Outcome) -> None:
        earlier = TaskCost(attempt=self._repeated.get(outcome.ordinal, 0))
        self.outcomes.append(replace(outcome, cost=outcome.cost.plus(earlier)))

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
        self._add(reached)
        return 0.0

    def _share(self, worker: WorkerProcess) -> None:
        """Polls the worker's task, or gives it one. Waits for it if no other task is left."""
        try:
            if self._worker_task is not None:
                outcome = worker.outcome(_WAIT_S if self._own is None else 0.0)
                if outcome is None:
                    return
                self._add(outcome)
                self._worker_task = None
            if self._waiting:
                self._worker_task = self._waiting.pop()
                worker.give(self._worker_task)
        except WorkerEnded as error:
            _log.warning("a worker process ended", extra={"reason": str(error)})
            if self._worker_task is not None:
                ordinal = self._worker_task.ordinal
                self._repeated[ordinal] = self._repeated.get(ordinal, 0) + 1
                self._waiting.append(self._worker_task)
            self._worker = self._worker_task = None
            worker.release()

    def take_waiting(self) -> list[Task]:
        """Gives up the tasks that have not begun, and returns them."""
        tasks = self._waiting[::-1]
        self._waiting.clear()
        self._total -= len(tasks)
        return tasks

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


class StartingTasks:
    """A wave that this process begins while Spark starts, a TaskBatch. Tasks that have not begun by
    then go to Spark. `obstacle`: why Spark did not start; then this process runs all tasks."""

    def __init__(self, own: InlineTasks, spark: Spark, tag: str, about: str) -> None:
        self._own = own
        self._spark = spark
        self._tag = tag
        self._about = about
        self._start: SparkTasks | None = spark.warm()
        self._there: SparkTasks | None = None
        self.obstacle = ""

    def _look(self) -> None:
        """Gives the waiting tasks to Spark, once it has started."""
        start = self._start
        if start is None or not start.done():
            return
        self._start = None
        if start.error is not None:
            self.obstacle = start.error
            return
        tasks = self._own.take_waiting()
        if tasks:
            encoded = [task.encode(one) for one in tasks]
            self._there = self._spark.start(self._tag, encoded, self._about)

    def step(self) -> float:
        """Runs one transaction here, or waits a moment for Spark. Returns the pause before the next
        call. Unit: s."""
        self._look()
        if not self._own.done():
            return self._own.step()
        return 0.0 if self._there is None else self._there.step()

    def done(self) -> bool:
        """Whether all tasks have ended."""
        return self._own.done() and (self._there is None or self._there.done())

    @property
    def outcomes(self) -> list[Outcome]:
        """Outcomes of the tasks that have ended."""
        return [*self._own.outcomes, *([] if self._there is None else self._there.outcomes)]

    @property
    def error(self) -> str | None:
        """The error that left tasks without an outcome."""
        return None if self._there is None else self._there.error

    @property
    def is_waiting(self) -> bool:
        """Whether `error` is a reason to wait."""
        return self._there is not None and self._there.is_waiting

    @property
    def last_look(self) -> SparkLook:
        """The last look at the tasks on Spark."""
        return SparkLook() if self._there is None else self._there.last_look

    def report(self) -> WaveReport:
        """Returns the state of both parts."""
        own = self._own.report()
        return own if self._there is None else own.beside(self._there.report())

    def cancel(self) -> None:
        """Drops unfinished tasks. A start of Spark goes on: the next wave may need it."""
        self._own.cancel()
        if self._there is not None:
            self._there.cancel()


def _is_available(spark: Spark) -> bool:
    return spark.obstacle() is None


# -- one wave at a time ----------------------------------------------------------------------------

_MAX_FAILED_WAVES = 5
_HERE = frozenset({"renumber"})
"""Kernels that nodes of 0.4 and 0.5 do not know. Like imports, whose files other nodes may lack,
and like tasks with spilled runs, they run on the driver's node."""


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

    def report(self) -> WaveReport:
        """Returns the state of the wave."""


def description_of(tasks: Sequence[Task], phase: str = "") -> str:
    """Returns the description of a wave for Spark's page."""
    if not tasks:
        return phase
    first = tasks[0]
    order = first.order
    job = f"DDL job {order.job_id}" if order.job_id else "no DDL job"
    table = f"{order.database.db_name.O}.{order.info.name.O}"
    return f"{job}: {table}, phase {phase or first.kind}, stage {first.kind}"


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
        self._work = Workload(0, 0, 0, 0)
        self._inline = True
        self._forces = False  # the work waits if Spark is not available
        self._gave_up = False  # Spark failed, and the setting allows this process instead
        self.shares = False
        self._wave: TaskBatch | None = None
        self._failed_waves = 0

    def choose(self, work: Workload) -> None:
        """Chooses between this process and Spark. Without Spark it is this process."""
        settings, spark = self._dial.read(), self._spark
        self._work = work
        self.shares = self._worker is not None and work.rows >= SHARED_ROWS
        self._forces = forces_spark(settings.engine, work)
        self._inline = spark is None or (self._gave_up and not self._forces)
        if spark is not None and not self._inline:
            here = 1 + (self.shares and self._is_alone())
            available = partial(_is_available, spark)
            self._inline = not chooses_spark(
                settings.engine, work, spark, available, here, settings.workers
            )
        self.shares = self.shares and self._inline
        self._refresh_crew()

    def _refresh_crew(self) -> None:
        """Updates the crew: nodes may join or leave between waves."""
        if self._others is not None:
            settings = self._dial.read()
            self._crew = self._others.crew(settings, self._work.rows <= settings.inline_rows)

    @property
    def at_once(self) -> int:
        """Number of tasks that run concurrently."""
        return self.at_once_here * (self._crew.own + len(self._crew.others))

    @property
    def at_once_here(self) -> int:
        """Number of tasks that run concurrently on this node."""
        if self._inline or self._spark is None:
            return 1 + self.shares
        return self._spark.expected_at_once

    @property
    def runs_here(self) -> bool:
        """Whether this node is in the job's scope."""
        return self._crew.own

    def start(self, tag: str, tasks: Sequence[Task], phase: str = "") -> None:
        """Starts a wave. Raises Unavailable with the reason if Spark cannot start. `phase`: the
        phase's name for users."""
        self._refresh_crew()
        crew = self._crew
        alone = any(one.order.source or one.folder or one.kind in _HERE for one in tasks)
        if self._others is None or not crew.others or alone:
            self._wave = self._start_here(tag, tasks, phase)
            return
        nodes = len(crew.others) + crew.own
        dealt = [tasks[n::nodes] for n in range(nodes)]
        own = self._start_here(tag, dealt.pop(), phase) if crew.own else None
        work = self._work
        sizes, more = (work.rows, work.limit, work.cold_limit), (work.size, work.is_light)
        shares = [WaveShare(tag, *sizes, list(map(task.encode, few)), *more) for few in dealt]
        self._wave = self._others.start(crew, own, shares)

    def _start_here(self, tag: str, tasks: Sequence[Task], phase: str) -> TaskBatch:
        spark = self._spark
        if self._inline or spark is None:
            return self._begin_here(tasks)
        obstacle = spark.obstacle()
        if obstacle is not None:
            raise Unavailable(obstacle)
        about = description_of(tasks, phase)
        if self._forces or spark.is_started:
            return spark.start(tag, [task.encode(one) for one in tasks], about)
        return StartingTasks(self._begin_here(tasks), spark, tag, about)

    def _begin_here(self, tasks: Sequence[Task]) -> InlineTasks:
        worker = self._worker if self.shares and len(tasks) > 1 else None
        if worker is not None and not (self._is_alone() and worker.take()):
            worker = None
        return InlineTasks(self._store, tasks, self._dial, self._monotonic, worker)

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
        if isinstance(wave, StartingTasks) and wave.obstacle:
            self._give_up(wave.obstacle)
        elif isinstance(wave, SparkTasks | StartingTasks) and wave.error is not None:
            self._give_up(wave.error)
        if wave.error is not None and getattr(wave, "is_waiting", False):
            raise Unavailable(wave.error)
        if wave.error is not None:
            self._failed_waves += 1
            if self._failed_waves >= _MAX_FAILED_WAVES:
                raise ErrUnknown(f"the pipeline failed {self._failed_waves} times: {wave.error}")
            raise Unavailable(TASKS_FAILED(wave.error))
        self._failed_waves = 0
        return sorted(wave.outcomes, key=lambda outcome: outcome.ordinal)

    def _give_up(self, reason: str) -> None:
        """Leaves the rest of the reorg to this process, unless the setting forces Spark."""
        if not self._forces and not self._gave_up:
            _log.warning("a reorg goes on without Spark", extra={"reason": reason})
            self._gave_up = self._inline = True

    def moved(self) -> None:
        """Resets the count of failed waves, after spans were finished."""
        self._failed_waves = 0

    def report(self) -> WaveReport | None:
        """Returns the state of the running wave, or None without one."""
        return None if self._wave is None else self._wave.report()

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
        wave = self._wave
        current = wave.last_look if isinstance(wave, SparkTasks | StartingTasks) else SparkLook()
        if current.obstacle:
            return current.obstacle
        if not self.is_started:
            return SPARK_STARTS()
        if self._spark is not None and current.total > current.done and not current.running:
            return SPARK_IDLE(self._spark.master)
        return TASKS_READ(settings.workers)
