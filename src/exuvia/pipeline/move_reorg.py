"""The reorg that moves rows into other partitions: put there, compared row by row, indexes
verified.

each old partition   missing spans -> one wave of move tasks   checkpoint rows, as for a fill
both sets            every row looked up in the other          8223
each new partition   its indexes compared with its rows        law 9, as for a fill
"""

import time
from collections.abc import Callable, Generator

from msgspec.structs import replace

from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.kernels.move import fault, indexes_of
from exuvia.pipeline.plans import MoveRows
from exuvia.pipeline.progress import Done, Failed, Progress
from exuvia.pipeline.reorg import Life, Reorg
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.spans import cut
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Task, TaskOrder

ELEMENT = "_par_"
_WAVE_TASKS = 64


class MoveReorg(Reorg):
    """See the module. `table` is the logical one."""

    def __init__(
        self,
        store: Store,
        job_id: int,
        epoch: int,
        table: Table,
        plan: MoveRows,
        spark: Spark | None = None,
        dial: Dial | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._move = plan
        self._logical = table
        super().__init__(store, job_id, epoch, table, [1], spark, dial, monotonic)
        self.order = replace(self.order, element=ELEMENT, router=plan.router, sources=plan.sources)
        self._whole = self.order

    def _live(self) -> Life:
        self._check_epoch()
        self._kernel, self.order, self._table = "move", self._whole, self._logical
        parts = [self._logical.part(each) for each in self._move.sources]
        self._total = sum(self._store.count(part.row_span()) for part in parts)
        settings = self._dial.read()
        self._crew.choose(self._total <= settings.inline_rows)
        yield from self._fill()
        moved = self._rows
        if settings.verify != "off":
            faults = yield from self._compare()
            if faults:
                yield Failed(fault(self._logical, faults))
                return
            error = yield from self._verify_indexes(settings.verify)
            if error is not None:
                yield error
                return
        self._rows = moved
        yield Done(moved, self.spans_done, self.spans_skipped)

    def _plan(self) -> tuple[int, list[Task]]:
        """As of one table, of the missing spans of all old partitions."""
        at_once = self._crew.at_once
        txn = self._store.begin()
        try:
            known = checkpoint.rows_of(txn, self.order.job_id)
            self.order = replace(self.order, run=txn.sequence, at_once=at_once)
        finally:
            txn.rollback()
        rows, number = 0, 0
        tasks: list[Task] = []
        for physical in self._move.sources:
            order = replace(self.order, physical_id=physical)
            done = checkpoint.finished_among(known, order, self._store.count)
            rows, number = rows + done.rows, number + done.number
            if len(tasks) < _WAVE_TASKS:
                missing = done.spans.missing(order.table.row_span())
                spans = cut(self._store, missing, self._span_rows(), None, at_once)
                tasks += self._tasks(order, spans, len(tasks))
        self._has_finished(number)
        return rows, tasks[:_WAVE_TASKS]

    def _tasks(self, order: TaskOrder, spans: list[Span], first: int) -> list[Task]:
        return [
            Task(kind=self._kernel, order=order, span=span, ordinal=first + n)
            for n, span in enumerate(spans)
        ]

    def _has_finished(self, number: int) -> None:
        if not self._known:
            self._known, self.spans_skipped = True, number
        if number > self._finished:
            self._finished = number
            self._crew.moved()

    def _span_rows(self) -> int:
        """Rows of one run, less where rows have many entries: a task keeps those of its span."""
        return max(1, self._dial.read().span_rows // max(1, len(indexes_of(self._logical))))

    def _compare(self) -> Generator[Progress, None, list[str]]:
        tasks: list[Task] = []
        for physical in (*self._move.sources, *self._move.targets):
            order = replace(self.order, physical_id=physical)
            span = order.table.row_span()
            for each in cut(self._store, [span], self._span_rows(), None, self._crew.at_once):
                tasks.append(Task(kind="check moved", order=order, span=each, ordinal=len(tasks)))
        outcomes = yield from self._run(tasks, "verify", self._rows)
        return [handle for outcome in outcomes for handle in outcome.result[1]]

    def _verify_indexes(self, mode: str) -> Generator[Progress, None, Failed | None]:
        ids = tuple(each.id for each in indexes_of(self._logical))
        if not ids:
            return None
        for physical in self._move.targets:
            part = self._logical.part(physical)
            self._table, self.order = (
                part,
                replace(self.order, index_ids=ids, physical_id=physical, element="_idx_"),
            )
            self._total = self._store.count(part.row_span())
            faults = yield from self._verify(mode)
            if faults:
                return Failed(faults[0].refusal(self._logical.info.name.O))
        return None
