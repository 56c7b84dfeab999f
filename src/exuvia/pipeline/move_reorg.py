"""The reorg that moves rows into other partitions: copied, compared row by row, indexes verified.

each old partition   missing spans -> waves of move tasks      checkpoint rows, as for a fill
both sets            every row looked up in the other          8223
each new partition   its indexes compared with its rows        law 9, as for a fill
"""

from collections.abc import Generator

from msgspec.structs import replace

from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.pipeline.move import fault
from exuvia.pipeline.plans import MoveRows
from exuvia.pipeline.progress import Done, Failed, Progress
from exuvia.pipeline.reorg import Life, Reorg
from exuvia.pipeline.spans import cut
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Task

ELEMENT = "_par_"


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
    ) -> None:
        self._move = plan
        self._logical = table
        super().__init__(store, job_id, epoch, table, [1], spark)
        self.order = replace(self.order, element=ELEMENT, router=plan.router, sources=plan.sources)

    def _live(self) -> Life:
        self._kernel = "move"
        parts = [self._logical.part(each) for each in self._move.sources]
        total = sum(self._store.count(part.row_span()) for part in parts)
        settings = self._dial.read()
        self._crew.choose(total <= settings.inline_rows)
        moved = 0
        order = replace(self.order, index_ids=(1,), element=ELEMENT)
        for part in parts:
            self._begin(part, replace(order, physical_id=part.physical_id))
            yield from self._fill()
            moved += self._rows
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

    def _begin(self, part: Table, order: object) -> None:
        self._table, self.order = part, order  # type: ignore[assignment]
        self._total = self._store.count(part.row_span())
        self._known, self._finished = False, 0

    def _compare(self) -> Generator[Progress, None, list[str]]:
        tasks: list[Task] = []
        for physical in (*self._move.sources, *self._move.targets):
            span = self._logical.part(physical).row_span()
            order = replace(self.order, physical_id=physical)
            for each in cut(self._store, [span], self._span_rows(), None, self._crew.at_once):
                tasks.append(Task(kind="check moved", order=order, span=each, ordinal=len(tasks)))
        outcomes = yield from self._run(tasks, "verify", self._rows)
        return [handle for outcome in outcomes for handle in outcome.result[1]]

    def _verify_indexes(self, mode: str) -> Generator[Progress, None, Failed | None]:
        ids = tuple(
            index.id
            for index in self._logical.info.indexes
            if index.state == SchemaState.PUBLIC and not index.exuvia_clustered
        )
        if not ids:
            return None
        for physical in self._move.targets:
            part = self._logical.part(physical)
            self._begin(part, replace(self.order, index_ids=ids, physical_id=physical))
            faults = yield from self._verify(mode)
            if faults:
                return Failed(faults[0].refusal(self._logical.info.name.O))
        return None
