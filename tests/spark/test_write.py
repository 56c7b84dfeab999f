"""DataFrames into tables: once, completely or not at all, with INSERT's rules."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from exuvia.sql.session.session import Session
from support.spark import SparkStore
from support.world import World, rows, run
from support.writers import left


@pytest.fixture(scope="module")
def world(spark_store: SparkStore) -> Iterator[World]:
    # Writing looks up Python's sources in the thread's active session, which this line sets; in a
    # program the session that it has built is active
    spark_store.spark.session().createDataFrame([(1,)], "a INT")
    with World(spark_store.store) as made:
        yield made


@pytest.fixture(scope="module")
def session(world: World) -> Session:
    opened = world.session("test")
    run(opened, "CREATE DATABASE IF NOT EXISTS goal")
    run(opened, "USE goal")
    return opened


def save(store: SparkStore, frame: DataFrame, table: str, mode: str = "append", **options) -> None:
    writer = frame.write.format("exuvia").option("url", store.url).mode(mode)
    writer.option("dbtable", f"goal.{table}").options(**options).save()


def test_rows_are_appended_by_column_name_and_other_columns_get_defaults(spark_store, session):
    run(
        session,
        "CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(9) DEFAULT 'd', "
        "c INT AS (a + 1) VIRTUAL, KEY (a))",
    )
    spark = spark_store.spark.session()
    save(spark_store, spark.range(3000).selectExpr("CAST(id AS INT) A").repartition(4), "plain")
    assert rows(session, "SELECT COUNT(*), SUM(a), MIN(b), MAX(c) FROM plain")[0] == [
        3000, 3000 * 2999 // 2, "d", 3000,
    ]  # fmt: skip
    run(session, "ADMIN CHECK TABLE plain")
    assert not left(spark_store)


def test_every_type_survives_a_write(spark_store, session):
    columns = (
        "id INT PRIMARY KEY, u BIGINT UNSIGNED, d DECIMAL(10,2), f DOUBLE, s VARCHAR(20), "
        "b VARBINARY(4), day DATE, at DATETIME(3), ts TIMESTAMP(6) NULL, t TIME, e ENUM('x','y'), "
        "j JSON, y YEAR, o BOOL, bits BIT(12), r FLOAT, big DECIMAL(50,2)"
    )
    run(session, f"CREATE TABLE every ({columns})")
    run(session, f"CREATE TABLE copied ({columns})")
    run(
        session,
        "INSERT INTO every VALUES (1, 18446744073709551615, 12.50, 1.5, 'grün', 'ab', "
        "'2024-02-29', '2024-02-29 01:02:03.004', '2024-01-01 00:00:00.5', '-10:00:01', 'y', "
        "'{\"a\": 1}', 2024, true, 0xABC, 1.1, 12.5)",
    )
    run(session, "INSERT INTO every (id) VALUES (2)")
    reader = spark_store.spark.session().read.format("exuvia").option("url", spark_store.url)
    save(spark_store, reader.option("dbtable", "goal.every").load(), "copied")
    wanted = rows(session, "SELECT * FROM every ORDER BY id")
    assert rows(session, "SELECT * FROM copied ORDER BY id") == wanted


def test_a_duplicate_key_is_1062_and_nothing_is_written(spark_store, session):
    run(session, "CREATE TABLE taken (id INT PRIMARY KEY, a INT UNIQUE)")
    run(session, "INSERT INTO taken VALUES (77, 77)")
    frame = spark_store.spark.session().range(200).selectExpr("id + 100 id", "id a")
    with pytest.raises(Exception, match=r"Duplicate entry '77' for key 'taken\.a'"):
        save(spark_store, frame.repartition(3), "taken")
    assert rows(session, "SELECT COUNT(*) FROM taken") == [[1]]
    assert not left(spark_store)


def test_an_upsert_from_many_tasks(spark_store, session):
    """Rows of many tasks are updated or inserted, and an error's first line has MySQL's code."""
    run(session, "CREATE TABLE up (id INT PRIMARY KEY, a INT UNIQUE, b VARCHAR(9) DEFAULT 'd')")
    run(session, "INSERT INTO up VALUES (77, 500, 'old'), (1000, 1000, 'other')")
    frame = spark_store.spark.session().range(200).selectExpr("id", "id + 1 a").repartition(3)
    for how, first in (("ignore", 500), ("update", 78)):
        save(spark_store, frame, "up", onDuplicate=how)
        assert rows(session, "SELECT COUNT(*), SUM(id) FROM up") == [[201, 199 * 100 + 1000]]
        assert rows(session, "SELECT a, b FROM up WHERE id = 77") == [[first, "old"]]
    for columns, error in (
        (["id + 50 id", "id a"], "1062 (23000): Duplicate entry"),
        (["id % 150 id"], "1062 (23000): Duplicate entry"),
        (["id nope"], "1054 (42S22): Unknown column 'nope' in 'field list'"),
    ):
        with pytest.raises(Exception, match=r"1062|1054") as failed:
            save(spark_store, frame.selectExpr(*columns), "up", onDuplicate="update")
        assert error in str(failed.value).splitlines()[0]
    assert rows(session, "SELECT COUNT(*) FROM up") == [[201]]
    run(session, "ADMIN CHECK TABLE up")
    assert not left(spark_store)


def test_the_schema_of_a_frame_is_merged_before_the_write(spark_store, session):
    run(session, "CREATE TABLE merged (id INT PRIMARY KEY, a SMALLINT NOT NULL, KEY (a))")
    run(session, "INSERT INTO merged VALUES (1, 1)")
    frame = (
        spark_store.spark.session()
        .range(2, 400)
        .selectExpr(
            "CAST(id AS INT) id", "CAST(id * 100 AS INT) a", "CAST(id AS DECIMAL(9,1)) d", "'x' t"
        )
    )
    with pytest.raises(Exception, match=r"1054 \(42S22\): Unknown column 'd'"):
        save(spark_store, frame, "merged")
    save(spark_store, frame, "merged", mergeSchema="true")
    found = rows(session, "SELECT COUNT(*), COUNT(d), MAX(a), MAX(d) FROM merged WHERE t = 'x'")
    assert found == [[398, 398, 39_900, Decimal("399.0")]]
    assert rows(session, "SELECT * FROM merged WHERE id = 1") == [[1, 1, None, None]]
    with pytest.raises(Exception, match=r"8200 \(HY000\): Unsupported mergeSchema: column 'a'"):
        save(spark_store, frame.selectExpr("id + 1000 id", "'y' a"), "merged", mergeSchema="true")
    run(session, "ADMIN CHECK TABLE merged")
    assert not left(spark_store)


def test_columns_that_cannot_be_written_are_refused_before_any_task(spark_store, session):
    run(session, "CREATE TABLE strict (id INT PRIMARY KEY)")
    spark = spark_store.spark.session()
    for frame, options, said in (
        (spark.sql("SELECT 1 id, 2 other"), {}, "Unknown column 'other'"),
        (spark.sql("SELECT array(1) id"), {}, "column 'id': array<int> is no type"),
        (spark.sql("SELECT 1 id"), {"writeId": "x" * 65}, "at most 64"),
        (spark.sql("SELECT 1 id"), {"mode": "ignore"}, "mode"),
        (spark.sql("SELECT 1 id"), {"mode": "errorifexists"}, "mode"),
    ):
        with pytest.raises(Exception, match=said):
            save(spark_store, frame, "strict", **options)
    assert rows(session, "SELECT COUNT(*) FROM strict") == [[0]]
    assert not left(spark_store)


def test_a_write_above_the_transaction_size_limit(spark_store, session):
    """An append is refused, or written in parts if requested; an overwrite fills a second table."""
    run(session, "CREATE TABLE large (id INT PRIMARY KEY, a VARCHAR(2000), KEY (a(9)))")
    frame = spark_store.spark.session().range(1200).selectExpr("id", "repeat('x', 2000) a")
    run(session, f"SET GLOBAL exuvia_txn_total_size_limit = {3 << 19}")
    try:
        with pytest.raises(Exception, match="Transaction is too large"):
            save(spark_store, frame, "large")
        assert rows(session, "SELECT COUNT(*) FROM large") == [[0]] and not left(spark_store)
        for _ in range(2):
            save(spark_store, frame, "large", atomic="false", writeId="large")
            assert rows(session, "SELECT COUNT(*), SUM(id) FROM large") == [[1200, 719_400]]
        save(spark_store, frame.where("id >= 200"), "large", "overwrite")
    finally:
        run(session, "SET GLOBAL exuvia_txn_total_size_limit = DEFAULT")
    assert rows(session, "SELECT COUNT(*), MIN(id) FROM large") == [[1000, 200]]
    run(session, "ADMIN CHECK TABLE large")
    assert not left(spark_store)


def test_overwrite_is_one_transaction(spark_store, session):
    run(session, "CREATE TABLE whole (id INT PRIMARY KEY, a INT, CHECK (a < 10))")
    run(session, "INSERT INTO whole VALUES (1, 1), (2, 2)")
    spark = spark_store.spark.session()
    with pytest.raises(Exception, match="whole_chk_1"):
        save(spark_store, spark.sql("SELECT 5 id, 10 a"), "whole", "overwrite")
    assert rows(session, "SELECT COUNT(*) FROM whole") == [[2]]
    save(spark_store, spark.sql("SELECT 2 id, 7 a UNION ALL SELECT 3, 8"), "whole", "overwrite")
    assert rows(session, "SELECT * FROM whole ORDER BY id") == [[2, 7], [3, 8]]


def test_a_task_that_fails_after_staging_is_repeated(spark_store, session, tmp_path, monkeypatch):
    run(session, "CREATE TABLE again (a INT)")
    mark = str(tmp_path / "failed")

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Its last batch comes only in the second attempt, after the others were staged."""
        import os

        yield from batches
        if not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("the task is lost")

    spark = spark_store.spark.session()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        frame = spark.range(0, 1000, 1, 1).selectExpr("id a").mapInArrow(fails_once, "a long")
        save(spark_store, frame, "again")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert Path(mark).exists()
    assert rows(session, "SELECT COUNT(*), COUNT(DISTINCT a) FROM again") == [[1000, 1000]]
    assert not left(spark_store)
