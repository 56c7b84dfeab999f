"""The reorg of an exchange: every row of the table is read once, and nothing is written.

spans of the table's rows -> "check fits" tasks (moved.py) -> Done, or Failed with 1737
"""

from msgspec.structs import replace

from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.pipeline.plans import FitRows
from exuvia.pipeline.progress import Done
from exuvia.pipeline.reorg import Life, Reorg
from exuvia.pipeline.spans import cut
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Task


class FitReorg(Reorg):
    """See the module. `table` is the partitioned one."""

    def __init__(
        self,
        store: Store,
        job_id: int,
        epoch: int,
        table: Table,
        plan: FitRows,
        spark: Spark | None = None,
    ) -> None:
        self._fit = plan
        super().__init__(store, job_id, epoch, table, [1], spark)
        self.order = replace(
            self.order,
            physical_id=plan.source,
            router=plan.router,
            sources=(plan.partition,),
        )

    def _live(self) -> Life:
        span = self._table.part(self._fit.source).row_span()
        total = self._store.count(span)
        self._crew.choose(total <= self._dial.read().inline_rows)
        spans = cut(self._store, [span], self._span_rows(), total, self._crew.at_once)
        tasks = [
            Task(kind="check fits", order=self.order, span=each, ordinal=n)
            for n, each in enumerate(spans)
        ]
        outcomes = yield from self._run(tasks, "check", 0)
        yield Done(sum(outcome.rows for outcome in outcomes), len(outcomes))
