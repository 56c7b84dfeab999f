"""Spark's Python workers rewrite a column: rows equal those of a rewrite in this process, and a
stopped rewrite continues."""

import time

from exuvia.base.errors import Refused
from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog import reader
from exuvia.catalog.convert.type_change import KEPT_OF, ChangeKind
from exuvia.catalog.model import (
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.ddl.actions import modify_column
from exuvia.ddl.actions.modify_column import Modification
from exuvia.kv.store import Store
from exuvia.pipeline import bulk
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import ARRAY_ROWS, Done, Failed, Reorg, change_column
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.verify.compare import check_index
from support.spark import SparkStore, ended
from support.tables import begin_reorg, publish, table_info

LINES = ("id int not null", "k int", "u varchar(20)")
TEXT = FieldType(Tp=TypeCode.VARCHAR, Flen=4, Decimal=0, Charset="utf8mb4", Collate="utf8mb4_bin")
ROWS = 3000
PARTS = 2


def make(store: Store, table_id: int, most: int) -> tuple[Table, Reorg]:
    """A loaded table whose column k, in two indexes, becomes a text of four characters."""
    info = table_info(
        *LINES, table_id=table_id, primary="id", plain={"ik": "k"}, unique={"iu": "u"}
    )
    rows = [[n, n % most if n % 7 else None, f"u{n}"] for n in range(ROWS)]
    bulk.load(store, publish(store, info, 1), [rows])
    return changing(store, info)


def changing(store: Store, info: TableInfo, former: int = 0) -> tuple[Table, Reorg]:
    """Column k becomes a text, in the state in which rows are written."""
    old = info.column("k")
    assert old is not None
    asked = Modification(
        column=evolve(old, type=TEXT),
        old_column_name="k",
        old_type=old.type,
        kind=ChangeKind.ROWS,
        kept_column=former,
    )
    placed, asked = modify_column.with_hidden_elements(info, asked)
    begin_reorg(store, 1, info.id)
    table = publish(store, modify_column.hidden_in_state(placed, asked, SchemaState.WRITE_REORG), 2)
    hidden = tuple(index for _, index in asked.changing_idxs)
    return table, change_column(old.id, asked.changing_column_id, hidden)


def cut_in_two(store: Store, table_id: int) -> tuple[Table, Reorg]:
    """The same, in two partitions by HASH (id)."""
    info = table_info(*LINES, table_id=table_id, primary="id", plain={"ik": "k"})
    parts = tuple(
        PartitionDefinition(id=table_id + n, name=name(f"p{n}")) for n in range(1, PARTS + 1)
    )
    cut = PartitionInfo(type=PartitionType.HASH, expr="`id`", definitions=parts, num=PARTS)
    table = publish(store, evolve(info, partition=cut), 1)
    for n, each in enumerate(parts):
        rows = [[i, i if i % 7 else None, f"u{i}"] for i in range(n, ROWS, PARTS)]
        bulk.load(store, table.part(each.id), [rows])
    return changing(store, table.info)


def reorg_of(world: SparkStore, table: Table, plan: Reorg, inline: bool) -> PhaseRunner:
    rows = ROWS * 2 if inline else 0
    dial = Fixed(PipelineSettings(span_rows=500, inline_rows=rows, batch_rows=100))
    return PhaseRunner(world.store, table.info.id, 1, table, plan, world.spark, dial=dial)


def rows_of(store: Store, table: Table) -> list[list[object]]:
    txn = store.begin()
    try:
        return [row for _, row in reader.scan(txn, table)]
    finally:
        txn.rollback()


def test_spark_writes_what_this_process_writes(spark_store: SparkStore) -> None:
    store = spark_store.store
    (here, plan), (there, _) = make(store, 301, 9000), make(store, 302, 9000)
    assert isinstance(ended(reorg_of(spark_store, here, plan, inline=True)), Done)
    done = ended(reorg_of(spark_store, there, plan, inline=False))
    assert isinstance(done, Done), done
    assert (done.rows, done.spans_done) == (ROWS, 6)  # of rows and index at once
    rows = rows_of(store, there)
    assert rows == rows_of(store, here)
    assert all(row[3] == (None if row[1] is None else str(row[1])) for row in rows)
    for index in there.info.indexes:
        if index.id in plan.phases[-1].index_ids:
            assert check_index(store, there, index, "slow").faults == []


def test_a_value_that_does_not_fit_ends_the_rewrite(spark_store: SparkStore) -> None:
    table, plan = make(spark_store.store, 303, 90000)
    assert isinstance(ended(reorg_of(spark_store, table, plan, inline=False)), Done)
    table, plan = make(spark_store.store, 304, 90000)
    wide = evolve(TEXT, Flen=2)
    cols = tuple(
        evolve(each, type=wide) if each.id == plan.phases[0].changing else each
        for each in table.info.cols
    )
    table = publish(spark_store.store, evolve(table.info, cols=cols), 3)
    failed = ended(reorg_of(spark_store, table, plan, inline=False))
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, Refused)
    assert failed.error.message.startswith("Data truncated for column 'k', value is '")


def test_finished_spans_are_not_repeated(spark_store: SparkStore) -> None:
    table, plan = make(spark_store.store, 305, 9000)
    first = reorg_of(spark_store, table, plan, inline=True)
    while first.spans_done < 6:
        first.step(time.monotonic())
    first.stop()
    done = ended(reorg_of(spark_store, table, plan, inline=True))
    assert isinstance(done, Done)
    assert done.rows == ROWS
    assert (done.spans_done, done.spans_skipped) == (0, 12), "of rows, and of the index"


def test_every_partition_is_written_by_the_executors(spark_store: SparkStore) -> None:
    store = spark_store.store
    txn = store.begin()
    most = ROWS * 3 // 4 // ARRAY_ROWS  # less than the table has, more than a partition
    variables.set_global(txn, "exuvia_pipeline_inline_rows", str(most))
    txn.commit()
    table, plan = cut_in_two(store, 311)
    tracker = spark_store.spark.session().sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    done = ended(PhaseRunner(store, 311, 1, table, plan, spark_store.spark))
    assert isinstance(done, Done), done
    assert done.rows == ROWS
    rows = [row for part in table.parts for row in rows_of(store, part)]
    assert len(rows) == ROWS
    assert all(row[3] == (None if row[1] is None else str(row[1])) for row in rows)
    completed = 0
    for job in set(tracker.getJobIdsForGroup(None)) - before:
        for stage in tracker.getJobInfo(job).stageIds:
            completed += tracker.getStageInfo(stage).numCompletedTasks
    assert completed >= 2 * PARTS, "rows written with their entries, both compared"
    for index in table.info.indexes:
        if index.id in plan.phases[-1].index_ids:
            assert check_index(store, table, index, "slow").faults == []


def test_former_values_are_the_same_on_spark(spark_store: SparkStore) -> None:
    """UNDO: a row's former text if it has one, else its current number as a text."""
    store = spark_store.store
    (here, plan), (there, _) = with_former(store, 321), with_former(store, 322)
    assert isinstance(ended(reorg_of(spark_store, here, plan, inline=True)), Done)
    done = ended(reorg_of(spark_store, there, plan, inline=False))
    assert isinstance(done, Done), done
    rows = rows_of(store, there)
    assert rows == rows_of(store, here)
    wanted = [f"f{n % 100}" if n % 3 else str(n % 100) for n in range(ROWS)]
    assert [row[4] for row in rows] == wanted


def with_former(store: Store, table_id: int) -> tuple[Table, Reorg]:
    """A table whose column k was a text, which two of three rows still have."""
    info = table_info(*LINES, "f varchar(4)", table_id=table_id, primary="id", plain={"ik": "k"})
    old, former = info.column("k"), info.column("f")
    assert old is not None and former is not None
    hidden = evolve(former, state=SchemaState.WRITE_ONLY, change_state_info={KEPT_OF: old.id})
    info = evolve(info, cols=(*info.cols[:3], hidden))
    rows = [[n, n % 100, f"u{n}", f"f{n % 100}" if n % 3 else None] for n in range(ROWS)]
    bulk.load(store, publish(store, info, 1), [rows])
    return changing(store, info, former.id)
