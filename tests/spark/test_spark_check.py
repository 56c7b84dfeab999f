"""Spark's Python workers test rows with a CHECK; violations are counted and listed."""

from exuvia.catalog.model import ConstraintInfo, SchemaState, evolve, name
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.node.assemble import JUDGE
from exuvia.pipeline import bulk
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Failed, Progress, check_rows
from support.spark import SparkStore, ended
from support.tables import begin_reorg, publish, table_info

ROWS = 2000
LINES = ("id int not null", "k int", "u varchar(20)")


def make(world: SparkStore, table_id: int, condition: str) -> Table:
    info = table_info(*LINES, table_id=table_id, primary="id")
    rows = [[n, n if n % 7 else None, f"u{n}"] for n in range(ROWS)]
    bulk.load(world.store, publish(world.store, info, 1), [rows])
    begin_reorg(world.store, 1, table_id)
    check = ConstraintInfo(
        id=1, constraint_name=name("c"), expr_string=condition, state=SchemaState.WRITE_REORG
    )
    return publish(world.store, evolve(info, constraint_info=(check,)), 2)


def checked(world: SparkStore, table: Table) -> Progress:
    txn = world.store.begin()
    variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
    txn.commit()
    plan = check_rows("check", 1)
    reorg = PhaseRunner(world.store, table.info.id, 1, table, plan, world.spark, JUDGE)
    return ended(reorg)


def test_the_executors_judge_by_columns(spark_store: SparkStore) -> None:
    tracker = spark_store.spark.session().sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    done = checked(spark_store, make(spark_store, 701, "`k` >= 0 and `u` like 'u%'"))
    assert isinstance(done, Done), done
    assert done.rows == ROWS
    jobs = set(tracker.getJobIdsForGroup(None)) - before
    stages = [stage for job in jobs for stage in tracker.getJobInfo(job).stageIds]
    assert sum(tracker.getStageInfo(stage).numCompletedTasks for stage in stages) > 0
    failed = checked(spark_store, make(spark_store, 702, "`k` < 1990"))
    assert isinstance(failed, Failed)
    assert failed.error.code == 3819
    assert "9 rows do not obey" in failed.error.listing
