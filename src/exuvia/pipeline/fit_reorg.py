"""The reorg of an exchange: rows of both sides are read once, and nothing is written.

the table's rows -> "check fits" tasks (verify/rules.py): each belongs to the partition
with CHECKs: the table's rows, then the partition's -> "check rows" tasks (verify/rules.py): each
obeys those of the other side
-> Done, or Failed with 1737
"""

from msgspec.structs import replace

from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.pipeline.check_reorg import CheckReorg
from exuvia.pipeline.plans import CheckRows, FitRows
from exuvia.pipeline.progress import Done, Failed
from exuvia.pipeline.reorg import Life
from exuvia.pipeline.spans import cut
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Task


class FitReorg(CheckReorg):
    """See the module. `table` is the partitioned one."""

    def __init__(
        self,
        store: Store,
        job_id: int,
        epoch: int,
        table: Table,
        plan: FitRows,
        judge: str,
        spark: Spark | None = None,
    ) -> None:
        self._fit = plan
        super().__init__(store, job_id, epoch, table, None, judge, spark)
        self.order = replace(
            self.order,
            index_ids=(1,),
            physical_id=plan.source,
            router=plan.router,
            sources=(plan.partition,),
        )

    def _live(self) -> Life:
        sides = (self._fit.source, self._fit.partition)[: 1 + self._fit.checks]
        self._total = sum(self._store.count(self._table.part(n).row_span()) for n in sides)
        self._crew.choose(self._total <= self._dial.read().inline_rows)
        span = self._table.part(self._fit.source).row_span()
        spans = cut(self._store, [span], self._span_rows(), None, self._crew.at_once)
        tasks = [
            Task(kind="check fits", order=self.order, span=each, ordinal=n)
            for n, each in enumerate(spans)
        ]
        outcomes = yield from self._run(tasks, "check", 0)
        self._rows = sum(outcome.rows for outcome in outcomes)
        self.spans_done = len(outcomes)
        for side, physical_id in enumerate(sides if self._fit.checks else ()):
            rule = CheckRows("exchange", side)
            order = replace(self.order, physical_id=physical_id, check=rule)
            error = yield from self._judged(order, [self._table.part(physical_id).row_span()])
            if error is not None:
                yield Failed(error)
                return
        yield Done(self._rows, self.spans_done)
