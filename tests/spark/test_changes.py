"""Row changes of a table as Spark data: each in one batch, in order, over restarts."""

from pathlib import Path
from typing import Any

import pytest

from exuvia.kv import keys
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.spark import SparkStore
from support.world import World, run


@pytest.fixture(scope="module")
def world(spark_store: SparkStore):
    with World(spark_store.store) as made:
        yield made


@pytest.fixture(scope="module")
def session(world: World) -> Session:
    opened = world.session("test")
    run(opened, "CREATE DATABASE log")
    run(opened, "USE log")
    return opened


def drained(
    spark_store: SparkStore,
    folder: Path,
    table: str,
    sizes: list[int] | None = None,
    **options: str,
) -> list[Any]:
    """Returns all rows of a query that continues from its checkpoint."""

    def take(frame: Any, number: int) -> None:
        found.extend(batch := frame.collect())
        if sizes is not None:
            sizes.append(len(batch))

    spark = spark_store.spark.session()
    found: list[Any] = []
    stream = (
        spark.readStream.format("exuvia")
        .option("url", spark_store.url)
        .option("feed", "rows")
        .option("dbtable", table)
        .options(**options)
        .load()
    )
    query = (
        stream.writeStream.option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .foreachBatch(take)
        .start()
    )
    query.awaitTermination(60)
    return found


def test_a_stream_continues_where_it_was_stopped(
    spark_store: SparkStore, session: Session, tmp_path: Path
) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(10, 2), s VARCHAR(20), KEY (v))")
    run(session, "INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two')")
    run(session, "ALTER TABLE t EXUVIA_CHANGE_LOG = ON")
    assert drained(spark_store, tmp_path, "log.t") == []
    run(session, "INSERT INTO t VALUES (3, 3.5, NULL)")
    run(session, "UPDATE t SET s = 'zwei' WHERE id = 2")
    run(session, "DELETE FROM t WHERE id = 1")
    first = drained(spark_store, tmp_path, "log.t")
    assert [(row.id, row.s, row["_change_type"]) for row in first] == [
        (3, None, "insert"),
        (2, "two", "update_preimage"),
        (2, "zwei", "update_postimage"),
        (1, "one", "delete"),
    ]
    assert str(first[0].v) == "3.50"
    run(session, "ALTER TABLE t ADD COLUMN later INT DEFAULT 7")
    run(session, "UPDATE t SET id = 30, later = 8 WHERE id = 3")
    second = drained(spark_store, tmp_path, "log.t")
    assert [(row.id, row.later, row["_change_type"]) for row in second] == [
        (3, 7, "delete"),
        (30, 8, "insert"),
    ]
    assert drained(spark_store, tmp_path, "log.t") == []


@pytest.mark.long
def test_a_lagging_query_reads_up_to_its_limit(
    spark_store: SparkStore, session: Session, tmp_path: Path
) -> None:
    """Moments of the log limit how small a batch can be."""

    def moments() -> int:
        with spark_store.store.read() as txn:
            return sum(1 for _ in txn.scan(keys.span_of(keys.meta("moment"))))

    run(session, "CREATE TABLE many (id INT PRIMARY KEY)")
    run(session, "ALTER TABLE many EXUVIA_CHANGE_LOG = ON")
    sizes: list[int] = []
    limit = {"maxRowsPerBatch": "600"}
    assert drained(spark_store, tmp_path, "log.many", sizes, **limit) == []
    for begin in range(0, 2_000, 500):
        run(session, f"INSERT INTO many VALUES {', '.join(f'({begin + n})' for n in range(500))}")
        known = moments()
        until(lambda known=known: moments() > known)
    found = drained(spark_store, tmp_path, "log.many", sizes, **limit)
    assert [row.id for row in found] == list(range(2_000))
    assert max(sizes) <= 1_000 and len([size for size in sizes if size]) >= 2, sizes


def test_changes_since_a_position_once_of_all_partitions(
    spark_store: SparkStore, session: Session
) -> None:
    run(session, "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3")
    run(session, "ALTER TABLE p EXUVIA_CHANGE_LOG = ON")
    with spark_store.store.read() as txn:
        txn.open()
        position = txn.snapshot.view.position
    values = ", ".join(f"({n}, {n})" for n in range(12_000))
    run(session, f"INSERT INTO p VALUES {values}")
    run(session, "UPDATE p SET v = v + 1 WHERE id < 100")
    reader = spark_store.spark.session().read.format("exuvia").option("url", spark_store.url)
    frame = reader.options(feed="rows", dbtable="log.p", startingPosition=position).load()
    counts = {
        row["_change_type"]: row["count"] for row in frame.groupBy("_change_type").count().collect()
    }
    assert counts == {"insert": 12_000, "update_preimage": 100, "update_postimage": 100}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"feed": "rows", "dbtable": "log.none"}, "doesn't exist"),
        ({"feed": "rows", "dbtable": "log.unlogged"}, "log"),
        ({"feed": "other", "dbtable": "log.t"}, 'there is no feed "other"'),
        (
            {"feed": "rows", "dbtable": "log.logged", "startingPosition": "never"},
            "is not a position",
        ),
    ],
)
def test_missing_objects_are_named_in_errors(
    spark_store: SparkStore, session: Session, options: dict[str, str], said: str
) -> None:
    run(session, "CREATE TABLE IF NOT EXISTS unlogged (id INT PRIMARY KEY)")
    run(session, "CREATE TABLE IF NOT EXISTS logged (id INT PRIMARY KEY)")
    run(session, "ALTER TABLE logged EXUVIA_CHANGE_LOG = ON")
    reader = spark_store.spark.session().read.format("exuvia").option("url", spark_store.url)
    with pytest.raises(Exception, match=said):
        reader.options(**options).load().collect()
