"""The reorg that a plan asks for: one kind of plan, one kind of reorg."""

from functools import cache

from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.pipeline.check_reorg import CheckReorg
from exuvia.pipeline.each_part import EachPart
from exuvia.pipeline.fit_reorg import FitReorg
from exuvia.pipeline.kernels.summary import Keep
from exuvia.pipeline.move_reorg import MoveReorg
from exuvia.pipeline.plans import ChangeColumn, CheckRows, FillIndexes, FitRows, MoveRows, Plan
from exuvia.pipeline.reorg import Reorg
from exuvia.pipeline.rewrite_reorg import ColumnReorg
from exuvia.pipeline.spark import Spark


def open_reorg(
    store: Store,
    job_id: int,
    epoch: int,
    table: Table,
    plan: Plan,
    spark: Spark | None,
    judge: str = "",
    keep: Keep | None = None,
) -> Reorg | EachPart:
    """A reorg of a job at that epoch of it. `spark` None: always in this process; `judge`: who
    makes rules, see verify/rules.py; `keep`: who is given new indexes' statistics."""
    if isinstance(plan, CheckRows):
        return CheckReorg(store, job_id, epoch, table, plan, judge, spark)
    if isinstance(plan, FitRows):
        return FitReorg(store, job_id, epoch, table, plan, judge, spark)
    if isinstance(plan, MoveRows):
        return MoveReorg(store, job_id, epoch, table, plan, spark)
    return _over_rows(store, job_id, epoch, table, plan, spark, keep)


def _over_rows(
    store: Store,
    job_id: int,
    epoch: int,
    table: Table,
    work: ChangeColumn | FillIndexes,
    spark: Spark | None,
    keep: Keep | None,
) -> Reorg | EachPart:
    def of_part(part: Table) -> Reorg:
        if isinstance(work, ChangeColumn):
            return ColumnReorg(store, job_id, epoch, part, work, spark)
        made = Reorg(store, job_id, epoch, part, list(work.indexes), spark)
        made.keep = keep
        return made

    @cache
    def all_rows() -> int:
        return sum(store.count(part.row_span()) for part in table.parts)

    def of_one_among(part: Table) -> Reorg:
        made = of_part(part)
        made.whole_rows = all_rows()
        return made

    return EachPart(table.parts, of_one_among, keep) if table.is_partitioned else of_part(table)
