"""Spark's Python workers move rows to other partitions: rows and entries equal those of a move in
this process. A stopped move continues, and a row without a partition ends it."""

import time

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog.model import (
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    SchemaState,
    evolve,
    name,
)
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.pipeline import bulk
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Failed, Reorg, Running, move_rows
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.verify.compare import check_index
from exuvia.sql.access.partitions import MOVER
from support.spark import SparkStore, ended
from support.tables import begin_reorg, publish, table_info

LINES = ("id int not null", "k int not null", "u varchar(20)")
ROWS = 3000
OLD, NEW = 2, 3


def definitions(first: int, count: int, *bounds: str) -> tuple[PartitionDefinition, ...]:
    found = (PartitionDefinition(id=first + n, name=name(f"p{first + n}")) for n in range(count))
    return tuple(
        evolve(each, less_than=(bounds[n],)) if bounds else each for n, each in enumerate(found)
    )


def make(store: Store, table_id: int, *bounds: str) -> tuple[Table, Reorg]:
    """A loaded table of two partitions by HASH (id) that is cut in three by `bounds` of k."""
    indexes = {"plain": {"ik": "k"}, "unique": {"iu": "u,id,k"}}
    info = table_info(*LINES, table_id=table_id, primary="id", **indexes)
    old, new = definitions(table_id + 1, OLD), definitions(table_id + 11, NEW, *bounds)
    cut = PartitionInfo(type=PartitionType.HASH, expr="`id`", definitions=old, num=OLD)
    table = publish(store, evolve(info, partition=cut), 1)
    for n, each in enumerate(old):
        rows = [[i, i * 7919 % 1000, f"u{i}" if i % 5 else None] for i in range(n, ROWS, OLD)]
        bulk.load(store, table.part(each.id), [rows])
    moving = evolve(
        cut,
        adding_definitions=new,
        dropping_definitions=old,
        ddl_type=PartitionType.RANGE,
        ddl_expr="`k`",
        ddl_state=SchemaState.WRITE_REORG,
        ddl_action=71,
    )
    begin_reorg(store, 1, table_id)
    table = publish(store, evolve(info, partition=moving), 2)
    plan = move_rows(MOVER, tuple(each.id for each in old), tuple(each.id for each in new))
    return table, plan


def reorg_of(world: SparkStore, table: Table, plan: Reorg, spark: bool) -> PhaseRunner:
    dial = Fixed(
        PipelineSettings(span_rows=600, inline_rows=0 if spark else ROWS * 2, batch_rows=100)
    )
    return PhaseRunner(world.store, table.info.id, 1, table, plan, world.spark, dial=dial)


def content(store: Store, table: Table, plan: Reorg) -> list[list[tuple[bytes, bytes]]]:
    """Returns rows and entries of each new partition, without its id and commit sequences."""
    txn = store.begin()
    try:
        spans = [keys.table_span(each) for each in plan.phases[0].targets]
        return [[(key[9:], value) for key, value in txn.scan(span)] for span in spans]
    finally:
        txn.rollback()


def tasks_completed(world: SparkStore, before: set[int]) -> int:
    tracker = world.spark.session().sparkContext.statusTracker()
    stages = [
        stage
        for job in set(tracker.getJobIdsForGroup(None)) - before
        for stage in tracker.getJobInfo(job).stageIds
    ]
    return sum(tracker.getStageInfo(stage).numCompletedTasks for stage in stages)


def test_spark_moves_what_this_process_moves_and_its_executors_did_it(
    spark_store: SparkStore,
) -> None:
    store, bounds = spark_store.store, ("300", "600", "MAXVALUE")
    (here, plan), (there, other) = make(store, 401, *bounds), make(store, 451, *bounds)
    inline = ended(reorg_of(spark_store, here, plan, spark=False))
    assert isinstance(inline, Done), inline
    tracker = spark_store.spark.session().sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    done = ended(reorg_of(spark_store, there, other, spark=True))
    assert isinstance(done, Done), done
    assert (done.rows, done.spans_done) == (ROWS, 12)
    moved = content(store, there, other)
    assert moved == content(store, here, plan)
    assert sum(map(len, moved)) == 3 * ROWS, "a row and two entries each"
    assert all(len(each) > ROWS // 2 for each in moved)
    assert tasks_completed(spark_store, before) >= 12 + 5 + 3, "spans moved, compared, verified"
    for physical in other.phases[0].targets:
        for index in there.info.indexes:
            if not index.is_primary:
                faults = check_index(store, there.part(physical), index, "slow").faults
                assert faults == []


def test_new_global_indexes_are_filled_from_the_new_partitions(spark_store: SparkStore) -> None:
    store = spark_store.store
    table, plan = make(store, 651, "300", "600", "MAXVALUE")
    cut = table.info.partition
    assert cut is not None
    hidden = tuple(
        evolve(each, id=each.id + 20, is_global=True, state=SchemaState.WRITE_REORG)
        for each in table.info.indexes
        if not each.is_primary
    )
    pairs = tuple((each.id + 20, each.id) for each in hidden)
    cut = evolve(cut, exuvia_index_pairs=pairs, exuvia_home=690)
    info = evolve(table.info, index_info=(*table.info.indexes, *hidden), partition=cut)
    table = publish(store, info, 3)
    sources, targets = plan.phases[0].sources, plan.phases[0].targets
    plan = move_rows(MOVER, sources, targets, spread=tuple(each.id for each in hidden))
    done = ended(reorg_of(spark_store, table, plan, spark=True))
    assert isinstance(done, Done), done
    after = publish(store, evolve(info, partition=cut.switched), 4)
    for index in hidden:
        assert check_index(store, after, index, "slow").faults == []
        assert store.count(after.index_span(index)) == ROWS
    local = sum(map(len, content(store, table, plan)))
    assert local == 3 * ROWS, "a row and two local entries each"


@pytest.mark.long
def test_finished_spans_are_not_repeated(spark_store: SparkStore) -> None:
    table, plan = make(spark_store.store, 501, "100", "200", "MAXVALUE")
    first = reorg_of(spark_store, table, plan, spark=False)
    while not first.spans_done:
        seen = first.step(time.monotonic())
        if isinstance(seen, Running) and seen.rows_done > ROWS // 2:
            break
    first.stop()
    second = reorg_of(spark_store, table, plan, spark=True)
    done = ended(second)
    assert isinstance(done, Done), done
    assert done.rows == ROWS
    assert 0 < done.spans_skipped < 12
    assert sum(map(len, content(spark_store.store, table, plan))) == 3 * ROWS


def test_a_row_without_a_partition_ends_the_move(spark_store: SparkStore) -> None:
    table, plan = make(spark_store.store, 551, "100", "200", "300")
    failed = ended(reorg_of(spark_store, table, plan, spark=True))
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, Refused)
    assert failed.error.code == 1526


def test_a_table_of_many_rows_moves_through_sql_by_the_nodes_variable(
    spark_store: SparkStore,
) -> None:
    """exuvia_pipeline_inline_rows = 0: a reorg without settings of its own goes to Spark."""
    store = spark_store.store
    txn = store.begin()
    variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
    txn.commit()
    table, plan = make(store, 601, "300", "600", "MAXVALUE")
    tracker = spark_store.spark.session().sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    done = ended(PhaseRunner(store, 601, 1, table, plan, spark_store.spark))
    assert isinstance(done, Done), done
    assert tasks_completed(spark_store, before) >= OLD + OLD + NEW
