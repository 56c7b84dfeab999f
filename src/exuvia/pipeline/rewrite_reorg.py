"""The reorg of MODIFY COLUMN: rows first, then the indexes that follow from the new values.

a hidden column    rewrite tasks until no span is missing -> every row compared (law 9)
no hidden column   every row read: those that do not fit are counted, the first are listed
then               FillIndexes' life: fill, verify
"""

import time
from collections.abc import Callable, Generator
from typing import Any

from msgspec.structs import replace

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrDataInconsistent
from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.pipeline.kernels.rewrite import offending
from exuvia.pipeline.plans import ChangeColumn
from exuvia.pipeline.progress import Done, Failed, Progress
from exuvia.pipeline.reorg import Life, Reorg
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.spans import cut
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Outcome, Task


class ColumnReorg(Reorg):
    """See the module."""

    def __init__(
        self,
        store: Store,
        job_id: int,
        epoch: int,
        table: Table,
        plan: ChangeColumn,
        spark: Spark | None = None,
        dial: Dial | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._change = plan
        ids = list(plan.indexes)
        super().__init__(store, job_id, epoch, table, ids, spark, dial, monotonic)
        self._indexes = self.order
        self._own = replace(self.order, **self._meant())

    def _meant(self) -> dict[str, Any]:
        """What the tasks on rows are about, and with them the reorg as a whole."""
        changing = self._change.changing or self._change.column
        return {"index_ids": (changing,), "element": "_col_", "changing": changing}

    def _live(self) -> Life:
        self._check_epoch()
        self.order = indexes = self._indexes
        self._total = self._store.count(self._table.row_span())
        self._choose(self._dial.read())
        self.order = replace(indexes, **self._meant())
        if self._change.changing:
            error = yield from self._rewritten()
        else:
            error = yield from self._looked_at("check column")
        if error is not None:
            yield Failed(error)
            return
        self._kernel, self._known, self._finished = "fill", False, 0
        self.order = indexes
        if self._change.indexes:
            yield from super()._live()
        else:
            yield Done(self._rows, self.spans_done, self.spans_skipped)

    def _rewritten(self) -> Generator[Progress, None, Refused | None]:
        """Every row written anew and compared; what is wrong with them, all of them counted."""
        self._kernel = "rewrite"
        try:
            yield from self._fill()
        except Refused as first:
            return (yield from self._looked_at("check column")) or first
        return (yield from self._looked_at("verify column"))

    def _looked_at(self, kernel: str) -> Generator[Progress, None, Refused | None]:
        """Every row read by that kernel; what is wrong with them."""
        if kernel == "verify column" and self._dial.read().verify == "off":
            return None
        span = self._table.row_span()
        spans = cut(self._store, [span], self._span_rows(), self._total, self._crew.at_once)
        tasks = [
            Task(kind=kernel, order=self.order, span=each, ordinal=n)
            for n, each in enumerate(spans)
        ]
        outcomes = yield from self._run(tasks, "verify", self._rows)
        self._rows = max(self._rows, sum(outcome.rows for outcome in outcomes))
        return self._error_of(kernel, outcomes)

    def _error_of(self, kernel: str, outcomes: list[Outcome]) -> Refused | None:
        number = sum(outcome.result[0] for outcome in outcomes)
        if not number:
            return None
        first = [each for outcome in outcomes for each in outcome.result[1]]
        if kernel == "verify column":
            name = self._table.info.name.O
            return ErrDataInconsistent(name, "the column that changes", first[0][0], "", "")
        code, state, text = next(o.result[2] for o in outcomes if o.result[2])
        return offending(Refused(code, state, text), number, first)
