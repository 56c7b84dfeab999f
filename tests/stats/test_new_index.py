"""Statistics of a new index, written by its backfill (tidb_stats_update_during_ddl)."""

from collections.abc import Iterator
from typing import Any

import pytest

from exuvia.catalog.model import DatabaseInfo, name
from exuvia.catalog.system_tables import table as static_table
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.pipeline.kernels.summary import Gathered, Summary
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.stats import meta
from support.node_processes import until
from support.world import World, rows

ROWS = 3000


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as opened:
        yield opened


def filled(world: World, table: str, more: str = "") -> Any:
    s = world.session()
    rows(s, "SET GLOBAL tidb_enable_auto_analyze = OFF")
    rows(s, f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, w VARCHAR(9)){more}")
    for start in range(0, ROWS, 1000):
        values = (f"({n}, {n % 70}, 'w{n % 900}')" for n in range(start, start + 1000))
        rows(s, f"INSERT INTO {table} VALUES {','.join(values)}")
    world.deltas.flush()
    return s


def heads(s: Any, table: str) -> list[list[Any]]:
    """(partition, name, distinct values, NULLs) of a table's indexes."""
    histograms = rows(s, f"SHOW STATS_HISTOGRAMS WHERE table_name = '{table}' AND is_index = 1")
    return [[row[2], row[3], row[6], row[7]] for row in histograms]


def meta_of(world: World, table: str) -> meta.Meta:
    txn = world.store.begin()
    try:
        row = meta.get(txn, world.services.schemas.table(txn, "test", table).info.id)
        assert row is not None
        return row
    finally:
        txn.rollback()


def marks(world: World) -> list[bytes]:
    txn = world.store.begin()
    try:
        return [key for key, _ in txn.scan(keys.span_of(keys.meta("indexstats")))]
    finally:
        txn.rollback()


def test_a_backfill_writes_statistics_of_its_indexes(world: World) -> None:
    s = filled(world, "t")
    rows(s, "SET GLOBAL tidb_stats_update_during_ddl = ON")
    rows(s, "ALTER TABLE t ADD INDEX kv (v), ADD UNIQUE INDEX ui (v, id)")
    assert heads(s, "t") == [["", "kv", 70, 0], ["", "ui", ROWS, 0]]
    assert len(meta_of(world, "t").index_ids) == 2
    top = rows(s, "SHOW STATS_TOPN WHERE table_name = 't' AND column_name = 'kv'")
    assert len(top) == 70 and sum(row[6] for row in top) == ROWS
    until(lambda: not marks(world))  # the event was delivered, so the marks are not needed


def test_estimates_need_an_analysis_of_the_table_too(world: World) -> None:
    s = filled(world, "e")
    rows(s, "SET GLOBAL tidb_stats_update_during_ddl = ON")
    rows(s, "ANALYZE TABLE e")
    rows(s, "ALTER TABLE e ADD INDEX kw (w)")
    plan = rows(s, "EXPLAIN SELECT * FROM e WHERE w = 'w7'")
    assert [float(line[1]) for line in plan if "Range" in line[0]] == [pytest.approx(3.3, abs=1)]


def test_partitions_and_the_whole(world: World) -> None:
    s = filled(world, "p", " PARTITION BY HASH (id) PARTITIONS 2")
    rows(s, "SET GLOBAL tidb_stats_update_during_ddl = ON")
    rows(s, "ALTER TABLE p ADD INDEX kv (v)")
    expected = [["global", "kv", 70, 0], ["p0", "kv", 35, 0], ["p1", "kv", 35, 0]]
    assert heads(s, "p") == expected


def test_no_statistics_when_disabled_or_locked(world: World) -> None:
    s = filled(world, "n")
    rows(s, "SET GLOBAL tidb_stats_update_during_ddl = OFF")
    rows(s, "ALTER TABLE n ADD INDEX kv (v)")
    assert heads(s, "n") == []
    rows(s, "SET GLOBAL tidb_stats_update_during_ddl = ON")
    rows(s, "LOCK STATS n")
    rows(s, "ALTER TABLE n ADD INDEX kw (w)")
    assert heads(s, "n") == []
    assert marks(world) == []


def test_a_backfill_continued_by_another_driver_writes_no_statistics() -> None:
    info = static_table(100, "t", "id int not null", "v int", primary="id", plain={"i": "v"})
    order = TaskOrder(
        job_id=1,
        epoch=1,
        info=info,
        revision=1,
        database=DatabaseInfo(id=1, db_name=name("test")),
        database_revision=1,
        index_ids=(info.indexes[-1].id,),
    )
    spans = [Span(b"a", b"f"), Span(b"f", b"m"), Span(b"m", b"z")]
    gathered = Gathered(order, 100)
    tasks = gathered.asking(
        [Task(kind="fill", order=order, span=span, ordinal=n) for n, span in enumerate(spans)]
    )
    summary = Summary(1, tasks[0].samples, spans[0])
    outcomes = [Outcome(ordinal=n, result=summary.encode()) for n in range(2)]
    gathered.take(tasks, [*outcomes, Outcome(ordinal=2)])  # it was finished before
    assert gathered.whole(Span(b"a", b"z")) is None
    assert gathered.whole(Span(b"a", b"m")) is not None
