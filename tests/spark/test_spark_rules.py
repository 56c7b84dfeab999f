"""Spark's Python workers check foreign keys and exchanges of large tables, submitted by SQL."""

from collections.abc import Callable, Iterator

import pytest

from exuvia.base.errors import Refused
from exuvia.pipeline.phase_runner import PhaseRunner
from support import world as worlds
from support.spark import SparkStore
from support.world import World, rows, run

ROWS = 600


@pytest.fixture
def world(spark_store: SparkStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A node whose reorgs all run on Spark."""

    def on_spark(*given: object) -> object:
        *order, _, judge, keep, came = given
        return PhaseRunner(*order, spark_store.spark, judge, keep, came)  # type: ignore[arg-type]

    monkeypatch.setattr(worlds, "PhaseRunner", on_spark)
    with World(spark_store.store) as found:
        run(found.session(), "SET GLOBAL exuvia_pipeline_inline_rows = 0")
        yield found


@pytest.fixture
def tasks(spark_store: SparkStore) -> Callable[[], int]:
    """Returns the number of tasks completed since."""
    tracker = spark_store.spark.session().sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))

    def completed() -> int:
        jobs = set(tracker.getJobIdsForGroup(None)) - before
        stages = [stage for job in jobs for stage in tracker.getJobInfo(job).stageIds]
        return sum(tracker.getStageInfo(stage).numCompletedTasks for stage in stages)

    return completed


def test_children_are_looked_up_in_their_parents(world: World, tasks: Callable[[], int]) -> None:
    session = world.session()
    run(session, "CREATE TABLE parent (id int PRIMARY KEY)")
    run(session, "CREATE TABLE child (id int PRIMARY KEY, p int, KEY (p))")
    run(session, f"INSERT INTO parent VALUES {', '.join(f'({n})' for n in range(50))}")
    values = ", ".join(f"({n}, {n % 50 if n % 7 else 'NULL'})" for n in range(ROWS))
    run(session, f"INSERT INTO child VALUES {values}, (1001, 50), (1002, 99)")
    key = "ALTER TABLE child ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES parent (id)"
    with pytest.raises(Refused, match=r"\(2 rows: id 1001, id 1002\)") as refused:
        session.execute(key)
    assert refused.value.code == 1452
    assert tasks() > 0
    run(session, "DELETE FROM child WHERE id > 1000")
    run(session, key)
    shown = rows(session, "ADMIN SHOW DDL JOBS 1")[0]
    assert (shown[3], shown[7], shown[11]) == ("add foreign key", ROWS, "synced")


def test_tables_of_an_exchange_satisfy_each_others_checks(
    world: World, tasks: Callable[[], int]
) -> None:
    session = world.session()
    run(session, "SET GLOBAL tidb_enable_check_constraint = ON")
    run(session, "CREATE TABLE n (a int PRIMARY KEY, b int, CHECK (b < 5))")
    parts = "PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN (9000)"
    run(session, f"CREATE TABLE p (a int PRIMARY KEY, b int) PARTITION BY RANGE (a) ({parts})")
    run(session, f"INSERT INTO n VALUES {', '.join(f'({1000 + n}, 1)' for n in range(ROWS))}")
    run(session, "INSERT INTO p VALUES (1, 9), (5000, 9), (5001, 4)")
    exchange = "ALTER TABLE p EXCHANGE PARTITION p1 WITH TABLE n"
    with pytest.raises(Refused, match="does not match the partition") as refused:
        session.execute(exchange)
    assert refused.value.code == 1737 and tasks() > 0
    run(session, "UPDATE p SET b = 3 WHERE a = 5000")
    run(session, exchange)
    assert rows(session, "SELECT COUNT(*) FROM n") == [[2]]
