"""The same kernels in Spark's Python workers: the same entries, proven to have run there;
controlled and cancelled."""

import time
from typing import NamedTuple

import pytest

from exuvia.base.errors import Deposed
from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog.codec.key_encoder import encoder_of
from exuvia.catalog.model import (
    ColumnInfo,
    IndexColumn,
    IndexInfo,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    PredicateTerm,
    SchemaState,
    evolve,
)
from exuvia.catalog.model import name as named
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table, with_layout
from exuvia.kv import keys as k
from exuvia.kv.store import Store
from exuvia.pipeline import bulk, checkpoint
from exuvia.pipeline.kernels import exchange
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import (
    Done,
    Duplicates,
    Running,
    Waiting,
    clean_indexes,
    fill_indexes,
)
from exuvia.pipeline.settings import Fixed, PipelineSettings, Variables
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import Task, TaskOrder, decode_task, encode
from exuvia.pipeline.verify.compare import check_index
from support.node_processes import until
from support.spark import SparkStore, has_ended, step_until
from support.tables import DATABASE, EVALUATOR, begin_reorg, publish, table_info, with_states

LINES = ("id int not null", "k int", "u varchar(20)")
BOUND_S = 60.0


def make(store: Store, table_id: int, rows: list[list[object]]) -> Table:
    """A loaded table with a plain and a unique index to fill. Its job has an id of its own."""
    info = table_info(
        *LINES, table_id=table_id, primary="id", plain={"ik": "k"}, unique={"iu": "u"}
    )
    absent = with_states(info, ik=SchemaState.ABSENT, iu=SchemaState.ABSENT)
    bulk.load(store, publish(store, absent, 1), [rows])
    begin_reorg(store, 1, table_id)
    return publish(
        store, with_states(info, ik=SchemaState.WRITE_REORG, iu=SchemaState.WRITE_REORG), 2
    )


def rows_of(count: int) -> list[list[object]]:
    return [
        [n, n * 7919 % 1000 if n % 11 else None, f"u{n}" if n % 5 else None] for n in range(count)
    ]


def index_ids(table: Table, *names: str) -> list[int]:
    return [i.id for i in table.info.indexes if i.idx_name.L in names]


def settle(store: Store, **values: int) -> None:
    txn = store.begin()
    for name, value in values.items():
        variables.set_global(txn, name, str(value))
    txn.commit()


def on_spark(world: SparkStore, table: Table, ids: list[int], span_rows: int) -> PhaseRunner:
    settle(world.store, exuvia_pipeline_inline_rows=0)
    dial = Variables(world.store, time.monotonic, span_rows)
    return PhaseRunner(
        world.store, table.info.id, 1, table, fill_indexes(tuple(ids)), world.spark, dial=dial
    )


def entries(store: Store, table: Table) -> list[tuple[bytes, bytes]]:
    """Returns all entries without their table's prefix and without commit sequences."""
    prefix = b"t" + k.u64(table.info.id) + b"i"
    txn = store.begin()
    try:
        return [(key[len(prefix) :], value) for key, value in txn.scan(k.span_of(prefix))]
    finally:
        txn.rollback()


def test_spark_writes_what_this_process_writes_and_its_executors_did_it(
    spark_store: SparkStore,
) -> None:
    store, rows = spark_store.store, rows_of(3000)
    here, there = make(store, 201, rows), make(store, 202, rows)
    ids = index_ids(here, "ik", "iu")
    inline = PhaseRunner(
        store, 201, 1, here, fill_indexes(tuple(ids)), dial=Fixed(PipelineSettings(span_rows=500))
    )
    assert isinstance(step_until(inline, has_ended)[-1], Done)
    tracker = spark_store.spark.session().sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    ended = step_until(on_spark(spark_store, there, ids, 500), has_ended)[-1]
    assert isinstance(ended, Done)
    assert (ended.rows, ended.spans_done) == (3000, 6)
    assert entries(store, there) == entries(store, here)
    assert len(entries(store, here)) == 6000
    completed = 0
    for job in set(tracker.getJobIdsForGroup(None)) - before:
        for stage in tracker.getJobInfo(job).stageIds:
            completed += tracker.getStageInfo(stage).numCompletedTasks
    assert completed >= ended.spans_done + 3, "a fill task a span, and verification's tasks"
    for name in ("ik", "iu"):
        index = there.info.index(name)
        assert index and check_index(store, there, index, "slow").faults == []


@pytest.mark.long
def test_workers_fill_and_clean_global_indexes(spark_store: SparkStore) -> None:
    info = table_info(*LINES, table_id=217, primary="id", plain={"ik": "k"}, unique={"iu": "u"})
    spread = tuple(evolve(each, is_global=not each.is_primary) for each in info.indexes)
    parts = tuple(PartitionDefinition(id=n, name=named(f"p{n}")) for n in (218, 219))
    cut = PartitionInfo(type=PartitionType.HASH, expr="`id`", definitions=parts, num=2)
    info = evolve(info, index_info=spread, partition=evolve(cut, exuvia_home=220))
    store, rows = spark_store.store, rows_of(3000)
    absent = with_states(info, ik=SchemaState.ABSENT, iu=SchemaState.ABSENT)
    table = publish(store, absent, 1)
    for n, each in enumerate(parts):
        bulk.load(store, table.part(each.id), [rows[n::2]])
    begin_reorg(store, 1, 217)
    reorg = SchemaState.WRITE_REORG
    table = publish(store, with_states(info, ik=reorg, iu=reorg), 2)
    ids = tuple(index_ids(table, "ik", "iu"))
    settle(store, exuvia_pipeline_inline_rows=0)
    dial = Variables(store, time.monotonic, 500)
    for plan, left in ((fill_indexes(ids, ids), 6000), (clean_indexes(ids, (218,)), 3000)):
        run = PhaseRunner(store, 217, 1, table, plan, spark_store.spark, dial=dial)
        assert isinstance(step_until(run, has_ended)[-1], Done)
        assert store.count(k.table_span(220)) == left
        if left == 6000:
            for index in table.info.global_indexes:
                assert check_index(store, table, index, "slow").faults == []


@pytest.mark.long
def test_workers_fill_partial_indexes_with_their_rows(spark_store: SparkStore) -> None:
    info = table_info(*LINES, table_id=213, primary="id", plain={"ik": "k"}, unique={"iu": "u"})
    number, text = info.cols[1], info.cols[2]
    terms = {
        "ik": term(text, ">", "u2"),
        "iu": term(number, "in", 7, 500, 501, 502, 503),
    }
    partial = tuple(evolve(i, exuvia_predicate=terms.get(i.idx_name.L, ())) for i in info.indexes)
    info = evolve(info, index_info=partial)
    store, rows = spark_store.store, rows_of(3000)
    absent = with_states(info, ik=SchemaState.ABSENT, iu=SchemaState.ABSENT)
    bulk.load(store, publish(store, absent, 1), [rows])
    begin_reorg(store, 1, 213)
    table = publish(
        store, with_states(info, ik=SchemaState.WRITE_REORG, iu=SchemaState.WRITE_REORG), 2
    )
    ids = index_ids(table, "ik", "iu")
    assert isinstance(step_until(on_spark(spark_store, table, ids, 500), has_ended)[-1], Done)
    held = sum(u is not None and "u2" < u for _, _, u in rows)
    assert len(entries(store, table)) == held + sum(
        k in (7, 500, 501, 502, 503) for _, k, _ in rows
    )
    for name in ("ik", "iu"):
        index = table.info.index(name)
        assert index and check_index(store, table, index, "slow").faults == []


@pytest.mark.long
def test_workers_fill_an_entry_for_each_element(spark_store: SparkStore) -> None:
    info = table_info("id bigint not null", "k bigint", "j longtext", table_id=107, primary="id")
    document = evolve(info.cols[2], type=FieldType(Tp=TypeCode.JSON))
    hidden = evolve(
        document,
        id=4,
        offset=3,
        name=named("_V$_im_0"),
        hidden=True,
        generated_expr_string="cast(`j` as signed array)",
    )
    array = IndexColumn(
        name=hidden.name,
        offset=3,
        exuvia_column=4,
        exuvia_array=FieldType(Tp=TypeCode.LONGLONG),
    )
    of_id = IndexColumn(name=info.cols[0].name, offset=0, exuvia_column=1)
    made = (
        IndexInfo(id=7, idx_name=named("im"), idx_cols=(array,)),
        IndexInfo(id=8, idx_name=named("iu"), idx_cols=(of_id, array), is_unique=True),
    )
    info = with_layout(
        evolve(info, cols=(*info.cols[:2], document, hidden), index_info=(*info.indexes, *made))
    )
    store = spark_store.store
    arrays = [[n % 50, *range(n % 4)] for n in range(2000)]
    rows = [[n, n, None if n % 9 == 8 else str(array)] for n, array in enumerate(arrays)]
    before = evolve(info, cols=info.cols[:3], index_info=info.indexes[:-2] or None)
    bulk.load(store, publish(store, before, 1), [rows])
    begin_reorg(store, 1, 107)
    states = {"im": SchemaState.WRITE_REORG, "iu": SchemaState.WRITE_REORG}
    publish(store, with_states(info, **states), 2)
    table = Table(with_states(info, **states), 2, DATABASE, 1, EVALUATOR)
    ended = step_until(on_spark(spark_store, table, [7, 8], 300), has_ended)[-1]
    assert isinstance(ended, Done)
    expected = sum(
        1 if j is None else len(set(a)) for (_, _, j), a in zip(rows, arrays, strict=True)
    )
    assert len(entries(store, table)) == 2 * expected
    for each in made:
        index = table.info.index(each.idx_name.O)
        assert check_index(store, table, index, "slow").faults == []


def term(column: ColumnInfo, operator: str, *constants: object) -> tuple[PredicateTerm, ...]:
    keys = tuple(encoder_of(column.type)(each).hex() for each in constants)
    return (PredicateTerm(name=column.name, operator=operator, keys=keys, exuvia_column=column.id),)


def test_all_duplicates_are_collected_from_the_tasks(spark_store: SparkStore) -> None:
    rows = [[n, n, f"u{n % 290}"] for n in range(300)]
    table = make(spark_store.store, 203, rows)
    reorg = on_spark(spark_store, table, index_ids(table, "iu"), 50)
    ended = step_until(reorg, has_ended)[-1]
    assert isinstance(ended, Duplicates)
    assert sorted(ended.texts) == sorted(
        f"Duplicate entry 'u{n}' for key 't.iu'" for n in range(10)
    )


def test_worker_count_and_batch_size_apply_from_the_next_batch(
    spark_store: SparkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LEAST_ROWS", 1 << 30)  # an exchange writes one range at a time
    store = spark_store.store
    table = make(store, 204, rows_of(400_000))
    reorg = on_spark(spark_store, table, index_ids(table, "ik"), 40_000)
    settle(store, tidb_ddl_reorg_max_write_speed=2_000_000)  # so that fast is not over at once
    try:
        slow = watch(store, reorg, 1, 32)
        fast = watch(store, reorg, 4, 2048, looks_wanted=4)
        again = watch(store, reorg, 1, 32)
        for look in slow + again:
            assert look.batch_rows == 32
            assert look.tasks == 1, "one worker: one task at a time writes"
        assert max(look.batch_rows for look in fast) > 256, "it grew beyond what it was"
        assert max(look.tasks for look in fast) >= 2
        assert rate(fast) > rate(slow) and rate(fast) > rate(again)
    finally:
        settle(store, tidb_ddl_reorg_worker_cnt=4, tidb_ddl_reorg_batch_size=10240)
        settle(store, tidb_ddl_reorg_max_write_speed=0)
    assert isinstance(step_until(reorg, has_ended)[-1], Done)
    settle(store, tidb_ddl_reorg_batch_size=256)


class Look(NamedTuple):
    """Progress between two looks: the largest batch, tasks that wrote, rows done by then."""

    batch_rows: int
    tasks: int
    rows: int
    at_s: float


def rate(looks: list[Look]) -> float:
    return (looks[-1].rows - looks[0].rows) / (looks[-1].at_s - looks[0].at_s)


def watch(
    store: Store, reorg: PhaseRunner, workers: int, batch_rows: int, looks_wanted: int = 8
) -> list[Look]:
    """Sets the variables, waits for running batches, then looks at the progress some times."""
    settle(store, tidb_ddl_reorg_worker_cnt=workers, tidb_ddl_reorg_batch_size=batch_rows)
    looks: list[Look] = []
    known: dict[int, checkpoint.TaskProgress] = {}
    began = time.monotonic()
    while len(looks) < looks_wanted or (workers > 1 and max(k.tasks for k in looks) < 2):
        assert time.monotonic() < began + BOUND_S
        assert isinstance(reorg.step(time.monotonic()), Running)
        time.sleep(0.06)
        txn = store.begin()
        seen = dict(enumerate(checkpoint.read_progress(txn, reorg.order)))
        txn.rollback()
        moved = [p for n, p in seen.items() if n in known and known[n].batches != p.batches]
        known = seen
        writing = [p for p in moved if not p.finished] or (moved if workers > 1 else [])
        if writing and time.monotonic() > began + 0.3:
            rows = sum(p.rows for p in seen.values())
            largest = max(p.batch_rows for p in writing)
            looks.append(Look(largest, len(writing), rows, time.monotonic()))
    return looks


def test_an_abandoned_reorg_writes_nothing_more_and_its_tasks_end_soon(
    spark_store: SparkStore,
) -> None:
    store = spark_store.store
    table = make(store, 205, rows_of(40_000))
    settle(store, tidb_ddl_reorg_batch_size=32)
    reorg = on_spark(spark_store, table, index_ids(table, "ik"), 10_000)
    step_until(reorg, lambda p: isinstance(p, Running) and p.rows_done > 500)
    begin_reorg(store, 2, 205)
    written = len(entries(store, table))
    with pytest.raises(Deposed):
        step_until(reorg, has_ended)
    reorg.stop()
    tracker = spark_store.spark.session().sparkContext.statusTracker()
    until(lambda: not tracker.getActiveStageIds())
    assert len(entries(store, table)) == written
    settle(store, tidb_ddl_reorg_batch_size=256)


@pytest.mark.long
def test_a_stopped_reorg_continues_from_its_finished_spans(spark_store: SparkStore) -> None:
    store = spark_store.store
    table = make(store, 206, rows_of(40_000))
    settle(store, tidb_ddl_reorg_batch_size=64)
    first = on_spark(spark_store, table, index_ids(table, "ik"), 5000)
    step_until(first, lambda p: isinstance(p, Running) and p.rows_done > 12_000)
    first.stop()
    settle(store, tidb_ddl_reorg_batch_size=10240)
    second = on_spark(spark_store, table, index_ids(table, "ik"), 5000)
    ended = step_until(second, has_ended)[-1]
    assert isinstance(ended, Done)
    assert ended.rows == 40_000
    assert ended.spans_skipped >= 1
    assert ended.spans_done <= 9 - ended.spans_skipped, "the rest, in an even number of pieces"
    settle(store, tidb_ddl_reorg_batch_size=256)


def test_without_java_a_reorg_waits_and_names_what_to_install(
    spark_store: SparkStore, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    table = make(spark_store.store, 207, rows_of(10))
    settle(spark_store.store, exuvia_pipeline_inline_rows=0)
    cold = Spark(spark_store.url)
    reorg = PhaseRunner(
        spark_store.store, 207, 1, table, fill_indexes(tuple(index_ids(table, "ik"))), cold
    )
    waiting = reorg.step(0.0)
    assert isinstance(waiting, Waiting)
    assert "Java 17 or later is needed by Spark" in waiting.reason
    assert "openjdk-17-jre-headless" in waiting.reason
    monkeypatch.undo()
    assert cold.obstacle() is None


def test_a_master_on_other_hosts_cannot_use_a_local_store() -> None:
    obstacle = Spark("lmdb:///somewhere", "spark://host:7077").obstacle()
    assert obstacle is not None
    assert "spark://host:7077" in obstacle and "lmdb:///somewhere" in obstacle


def test_a_small_table_needs_no_spark(spark_store: SparkStore) -> None:
    table = make(spark_store.store, 208, rows_of(100))
    settle(spark_store.store, exuvia_pipeline_inline_rows=50_000)
    never = Spark(spark_store.url, "spark://nowhere:1")
    reorg = PhaseRunner(
        spark_store.store, 208, 1, table, fill_indexes(tuple(index_ids(table, "ik"))), never
    )
    assert isinstance(step_until(reorg, has_ended)[-1], Done)


def test_tasks_survive_their_encoding() -> None:
    info = table_info(*LINES, table_id=209, primary="id", plain={"ik": "k"})
    order = TaskOrder(
        job_id=1,
        epoch=2,
        info=evolve(info, comment="ä"),
        revision=3,
        database=DATABASE,
        database_revision=1,
        index_ids=(2,),
    )
    task = Task(kind="fill", order=order, span=k.span_of(b"a"), ordinal=4)
    assert decode_task(encode(task)) == task
