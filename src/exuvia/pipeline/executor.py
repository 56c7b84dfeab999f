"""Who does a reorg's tasks: this process for small tables, Spark for others; and why nothing
moves, in words.

In this process kernels run one transaction a step: small tables, tests, the simulator. The same
tasks and outcomes as on Spark (pipeline/spark.py), one task after another. No thread, no sleep.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from exuvia.base.errors import Deposed, Refused, Unavailable
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.kv.store import Store
from exuvia.pipeline import task
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.settings import Dial, PipelineSettings
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Outcome, Task
from exuvia.pipeline.throttle import Batch


class InlineTasks:
    """Tasks being done one after another; stands in for spark.SparkTasks."""

    def __init__(
        self, store: Store, tasks: Sequence[Task], dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        self._waiting = [TaskAttempt(store, task, dial, monotonic) for task in reversed(tasks)]
        self.outcomes: list[Outcome] = []
        self.error: str | None = None

    def step(self) -> float:
        """Do one transaction. Returns how long to rest before the next. Unit: s."""
        if not self._waiting:
            return 0.0
        reached = self._waiting[-1].advance()
        if isinstance(reached, Batch):
            return reached.rest_s
        self._waiting.pop()
        self.outcomes.append(reached)
        return 0.0

    def done(self) -> bool:
        """Whether nothing more will come."""
        return not self._waiting

    def cancel(self) -> None:
        """Drop what is not done."""
        while self._waiting:
            self._waiting.pop().close()

    def run(self) -> list[Outcome]:
        """All steps at once, resting never; for callers that have a thread of their own."""
        while not self.done():
            self.step()
        return self.outcomes


# -- one wave at a time ----------------------------------------------------------------------------

_FRUITLESS_WAVES = 5


class TaskBatch(Protocol):
    """Tasks on their way: InlineTasks, or SparkTasks of spark.py."""

    outcomes: list[Outcome]
    error: str | None

    def step(self) -> float:
        """Go on; returns when to look again. Unit: s."""

    def done(self) -> bool:
        """Whether it has ended."""

    def cancel(self) -> None: ...


class Executor:
    """Runs one wave at a time."""

    def __init__(
        self, store: Store, spark: Spark | None, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._spark = spark
        self._dial = dial
        self._monotonic = monotonic
        self._inline = True
        self._wave: TaskBatch | None = None
        self._fruitless = 0

    def choose(self, rows: int, most: int, most_cold: int) -> None:
        """Decide who does so many rows. Without a Spark it is always this process; while Spark is
        not started, also what this process has done before the JVM would have begun."""
        spark = self._spark
        cold = spark is not None and not spark.is_started
        self._inline = spark is None or rows <= (max(most, most_cold) if cold else most)

    @property
    def at_once(self) -> int:
        """How many tasks run side by side."""
        return 1 if self._inline or self._spark is None else self._spark.at_once

    def start(self, tag: str, tasks: Sequence[Task]) -> None:
        """Begin a wave. Raises Unavailable, in words, when Spark cannot start."""
        if self._inline or self._spark is None:
            self._wave = InlineTasks(self._store, tasks, self._dial, self._monotonic)
            return
        obstacle = self._spark.obstacle()
        if obstacle is not None:
            raise Unavailable(obstacle)
        self._wave = self._spark.start(tag, [task.encode(one) for one in tasks])

    def step(self) -> float:
        """Go on; returns when to look again. Unit: s."""
        return 0.0 if self._wave is None else self._wave.step()

    def done(self) -> bool:
        """Whether the wave has ended."""
        return self._wave is None or self._wave.done()

    def outcomes(self) -> list[Outcome]:
        """The ended wave's outcomes in the tasks' order.

        Raises Deposed, Refused, Unavailable: what stopped a task."""
        wave, self._wave = self._wave, None
        if wave is None:
            return []
        if wave.error is not None and getattr(wave, "is_waiting", False):
            raise Unavailable(wave.error)
        if wave.error is not None:
            self._fruitless += 1
            if self._fruitless >= _FRUITLESS_WAVES:
                raise ErrUnknown(f"the pipeline failed {self._fruitless} times: {wave.error}")
            raise Unavailable(f"a wave of tasks failed and is tried again: {wave.error}")
        self._fruitless = 0
        for outcome in wave.outcomes:
            if outcome.kind == task.DEPOSED:
                raise Deposed("a task found that the reorg was left")
            if outcome.kind == task.UNAVAILABLE:
                raise Unavailable(outcome.text)
            if outcome.kind == task.FAILED:
                raise Refused(outcome.code, outcome.state, outcome.text)
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
            return "the owner's process is busy"
        if not self.is_started:
            return "Spark is starting"
        if self._spark is not None and self._spark.runs_nothing():
            return f"no worker of Spark at {self._spark.master} does anything: is there one?"
        return (
            f"tasks read and sort before they write, at most {settings.workers} at once "
            f"(tidb_ddl_reorg_worker_cnt), or the store's writer is taken"
        )
