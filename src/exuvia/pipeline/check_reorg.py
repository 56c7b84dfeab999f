"""The reorg of a rule: every row is read once, in tasks like those of a fill; nothing is written.

spans -> check tasks -> outcomes added up -> Done, or Failed with the rule's error, all rows
that offend counted and the first of them shown
"""

import time
from collections.abc import Callable, Generator

from msgspec.structs import replace

from exuvia.base.errors import Broken, Refused
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.pipeline.plans import CheckRows
from exuvia.pipeline.progress import Done, Failed, Progress
from exuvia.pipeline.reorg import Life, Reorg
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.spans import cut
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Task, TaskOrder
from exuvia.pipeline.verify.rules import judge_named, refusal

_SPAN_ROWS = 100_000


class CheckReorg(Reorg):
    """A reorg that only reads. See the module."""

    def __init__(
        self,
        store: Store,
        job_id: int,
        epoch: int,
        table: Table,
        plan: CheckRows | None,
        judge: str,
        spark: Spark | None = None,
        dial: Dial | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(store, job_id, epoch, table, [], spark, dial, monotonic)
        self.order = replace(self.order, check=plan, judge=judge)

    def _live(self) -> Life:
        self._rows = self.spans_done = 0
        physical = [keys.span_of(keys.row_prefix(n)) for n in self._table.info.physical_ids]
        self._total = sum(self._store.count(span) for span in physical)
        self._crew.choose(self._total <= self._dial.read().inline_rows)
        error = yield from self._judged(self.order, physical)
        yield Failed(error) if error else Done(self._rows, self.spans_done)

    def _judged(
        self, order: TaskOrder, physical: list[Span]
    ) -> Generator[Progress, None, Refused | None]:
        """Rows of these spans held to the order's rule; what is wrong with them, all counted."""
        spans = cut(self._store, physical, _SPAN_ROWS, None, self._crew.at_once)
        tasks = [
            Task(kind="check rows", order=order, span=span, ordinal=n)
            for n, span in enumerate(spans)
        ]
        outcomes = yield from self._run(tasks, "check", 0)
        self._rows += sum(outcome.rows for outcome in outcomes)
        self.spans_done += len(outcomes)
        number = sum(outcome.result[0] for outcome in outcomes)
        first = [each for outcome in outcomes for each in outcome.result[1]]
        return self._refusal_of(order, number, first) if number else None

    def _refusal_of(self, order: TaskOrder, number: int, first: list[list[str]]) -> Refused:
        if order.check is None:
            raise Broken("a check without a rule")
        txn = self._store.begin()
        try:
            rule = judge_named(order.judge)(txn, self._table, order.check)
            return refusal(rule, number, first)
        finally:
            txn.rollback()
