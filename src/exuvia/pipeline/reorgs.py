"""The reorg that a plan asks for: one kind of plan, one kind of reorg."""

from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.pipeline.check_reorg import CheckReorg
from exuvia.pipeline.each_part import EachPart
from exuvia.pipeline.fit_reorg import FitReorg
from exuvia.pipeline.move_reorg import MoveReorg
from exuvia.pipeline.plans import ChangeColumn, CheckRows, FitRows, MoveRows, Plan
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
) -> Reorg | EachPart:
    """A reorg of a job at that epoch of it. `spark` None: always in this process; `judge`: who
    makes rules, see checking.py."""
    if isinstance(plan, CheckRows):
        return CheckReorg(store, job_id, epoch, table, plan, judge, spark)
    if isinstance(plan, FitRows):
        return FitReorg(store, job_id, epoch, table, plan, spark)
    if isinstance(plan, MoveRows):
        return MoveReorg(store, job_id, epoch, table, plan, spark)
    work = plan

    def of_part(part: Table) -> Reorg:
        if isinstance(work, ChangeColumn):
            return ColumnReorg(store, job_id, epoch, part, work, spark)
        return Reorg(store, job_id, epoch, part, list(work.indexes), spark)

    return EachPart(table.parts, of_part) if table.is_partitioned else of_part(table)
