"""Reading a physical table for its statistics: in this process, or as tasks on Spark.

    at most exuvia_pipeline_inline_rows rows, or no Java     this process, chunk by chunk
    more                                                     spans of SPAN_ROWS in waves

Two waves are on their way at any time, so no core waits for the end of one. Summaries are merged
in the order of the rows. Stopped is raised at the next chunk, or within a tenth of a second while
Spark reads.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import Broken, Deposed, Refused, Unavailable
from exuvia.base.types import FieldType
from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.pipeline import task
from exuvia.pipeline.kernels import Attempt
from exuvia.pipeline.sampling import ROWS, limit_of
from exuvia.pipeline.settings import Fixed, Variables
from exuvia.pipeline.spans import cut
from exuvia.pipeline.spark import Spark, Wave
from exuvia.pipeline.summary import Summary, types_of
from exuvia.pipeline.task import DONE, FAILED, Outcome, Task
from exuvia.pipeline.throttle import Batch
from exuvia.stats.analysis import Subject
from exuvia.stats.orders import Stopped

SPAN_ROWS = 500_000
TASKS_EACH = 2  # of a wave, for each that runs at once
WAVES = 2
_LOOK_S = 0.1

Stop = Callable[[], bool]
Tell = Callable[[int], None]
Fields = Sequence[FieldType]  # of the columns that are looked at


class Reading:
    """How tables are read."""

    def __init__(self, store: Store, spark: Spark | None, clock: Clock) -> None:
        self._store = store
        self._spark = spark
        self._clock = clock

    def read(
        self, table: Table, subject: Subject, samples: int, stopped: Stop, tell: Tell
    ) -> Summary:
        """The summary of a physical table; `tell` hears how many rows are read. Raises Stopped."""
        dial = Variables(self._store, self._clock.monotonic)
        inline_rows = dial.read().inline_rows
        span = table.row_span()
        total = self._store.count(span)
        order = _order(table, subject)
        most = samples or ROWS
        limit = limit_of(most, total)
        fields = types_of(table, subject.parts)
        found = Summary(len(subject.looked_at), most, span, limit)
        if total <= inline_rows or self._spark is None or self._spark.obstacle() is not None:
            asked = _task(order, subject, most, limit, span, 0)
            self._here(asked, found, fields, stopped, tell)
            return found
        spans = cut(self._store, [span], SPAN_ROWS, total, self._spark.at_once)
        tasks = [_task(order, subject, most, limit, each, n) for n, each in enumerate(spans)]
        self._there(self._spark, tasks, found, fields, stopped, tell)
        return found

    def _here(self, asked: Task, found: Summary, fields: Fields, stopped: Stop, tell: Tell) -> None:
        attempt = Attempt(self._store, asked, Fixed(), self._clock.monotonic)
        rows = 0
        try:
            while isinstance(reached := attempt.advance(), Batch):
                rows += reached.rows
                tell(rows)
                if stopped():
                    raise Stopped
        finally:
            attempt.close()
        _merge(found, fields, [asked], [reached])

    def _there(
        self,
        spark: Spark,
        tasks: list[Task],
        found: Summary,
        fields: Fields,
        stopped: Stop,
        tell: Tell,
    ) -> None:
        each = spark.at_once * TASKS_EACH
        pieces = [tasks[first : first + each] for first in range(0, len(tasks), each)]
        waves: deque[tuple[list[Task], Wave]] = deque()
        try:
            while pieces or waves:
                while pieces and len(waves) < WAVES:
                    waves.append(_started(spark, pieces.pop(0)))
                few, wave = waves[0]
                while not wave.wait(_LOOK_S):
                    if stopped():
                        raise Stopped
                if wave.error is not None:
                    raise Unavailable(wave.error)
                waves.popleft()
                _merge(found, fields, few, wave.outcomes)
                tell(found.rows)
        finally:
            for _, wave in waves:
                wave.cancel()


def _started(spark: Spark, tasks: Sequence[Task]) -> tuple[list[Task], Wave]:
    few = [msgspec.structs.replace(asked, ordinal=n) for n, asked in enumerate(tasks)]
    tag = f"exuvia-analyze-{few[0].order.table_id}"
    return few, spark.start(tag, [task.encode(asked) for asked in few])


def _order(table: Table, subject: Subject) -> task.Order:
    return task.Order(
        job_id=0,
        epoch=0,
        info=table.info,
        revision=table.revision,
        database=table.database,
        database_revision=table.database_revision,
        index_ids=tuple(index.id for index in subject.indexes),
        physical_id=0 if table.physical_id == table.info.id else table.physical_id,
        evaluator=table.evaluator,
    )


def _task(
    order: task.Order, subject: Subject, samples: int, limit: float, span: Span, number: int
) -> Task:
    return Task(
        kind="summarize",
        order=order,
        span=span,
        ordinal=number,
        positions=subject.positions,
        samples=samples,
        limit=limit,
    )


def _merge(
    found: Summary, fields: Fields, tasks: Sequence[Task], outcomes: Sequence[Outcome]
) -> None:
    """Take the outcomes in. Raises what stopped a task."""
    for outcome in sorted(outcomes, key=lambda each: each.ordinal):
        if outcome.kind == FAILED:
            raise Refused(outcome.code, outcome.state, outcome.text)
        if outcome.kind == task.DEPOSED:
            raise Deposed("a task of an analysis was deposed")
        if outcome.kind != DONE:
            raise Unavailable(outcome.text)
        asked = tasks[outcome.ordinal]
        if not isinstance(outcome.result, bytes):
            raise Broken("a summary that is none")
        found.merge(Summary.decode(outcome.result, asked.samples, asked.span, fields))
