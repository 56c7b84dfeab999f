"""Streams into tables: each batch once, despite killed processes, with INSERT's rules."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.spark import SparkStore, below
from support.torture import end_by_pid
from support.world import World, rows, run
from support.writers import left


@pytest.fixture(scope="module")
def world(spark_store: SparkStore) -> Iterator[World]:
    # makes it the thread's active session: see test_write.py
    spark_store.spark.session().createDataFrame([(1,)], "a INT")
    with World(spark_store.store) as made:
        yield made


@pytest.fixture(scope="module")
def session(world: World) -> Session:
    opened = world.session("test")
    run(opened, "CREATE DATABASE sink")
    run(opened, "USE sink")
    return opened


def arrive(folder: Path, number: int, *values: int) -> None:
    """A file of the source: ids, each with its number."""
    (folder / "in").mkdir(exist_ok=True)
    lines = "\n".join(json.dumps({"id": value, "file": number}) for value in values)
    ready = folder / f"{number}.json"
    ready.write_text(lines)
    ready.rename(folder / "in" / f"{number}.json")


def as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def drain(
    store: SparkStore,
    folder: Path,
    table: str,
    then: Callable[[DataFrame], DataFrame] = as_it_is,
    mode: str = "append",
    schema: str = "id LONG, file INT",
    **options: str,
) -> None:
    """Returns all rows written, a file a batch. Raises the error that ended the query."""
    source = store.spark.session().readStream.schema(schema).option("maxFilesPerTrigger", 1)
    writer = then(source.json(str(folder / "in"))).writeStream.format("exuvia")
    query = (
        writer.option("url", store.url)
        .option("dbtable", f"sink.{table}")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**options)
        .outputMode(mode)
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def test_a_committed_batch_is_not_written_again(spark_store, session, tmp_path):
    """The driver dies between the table's commit and the checkpoint's."""
    run(session, "CREATE TABLE once (id BIGINT, file INT, later INT DEFAULT 5)")
    arrive(tmp_path, 1, 1, 2)
    arrive(tmp_path, 2, 3)
    drain(spark_store, tmp_path, "once")
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink()
    arrive(tmp_path, 3, 4)
    drain(spark_store, tmp_path, "once")
    assert rows(session, "SELECT * FROM once ORDER BY id") == [
        [1, 1, 5], [2, 1, 5], [3, 2, 5], [4, 3, 5],
    ]  # fmt: skip
    assert not left(spark_store)


def test_schema_changes_between_batches(spark_store, session, tmp_path):
    run(session, "CREATE TABLE changed (id BIGINT PRIMARY KEY, file INT)")
    arrive(tmp_path, 1, 1)
    drain(spark_store, tmp_path, "changed")
    run(session, "ALTER TABLE changed ADD COLUMN b INT NOT NULL DEFAULT 4, MODIFY file BIGINT")
    arrive(tmp_path, 2, 2)
    drain(spark_store, tmp_path, "changed")
    assert rows(session, "SELECT * FROM changed ORDER BY id") == [[1, 1, 4], [2, 2, 4]]
    run(session, "ALTER TABLE changed DROP COLUMN file")
    arrive(tmp_path, 3, 3)
    with pytest.raises(Exception, match="Unknown column 'file' in 'field list'"):
        drain(spark_store, tmp_path, "changed")
    run(session, "ALTER TABLE changed ADD COLUMN file INT")
    drain(spark_store, tmp_path, "changed")
    assert rows(session, "SELECT id, file FROM changed ORDER BY id") == [
        [1, None], [2, None], [3, 3],
    ]  # fmt: skip


def test_a_batch_that_violates_a_rule_is_not_written(spark_store, session, tmp_path):
    run(session, "CREATE TABLE ruled (id BIGINT PRIMARY KEY, file INT)")
    run(session, "INSERT INTO ruled VALUES (7, 0)")
    arrive(tmp_path, 1, 6, 7)
    with pytest.raises(Exception, match="ruled") as failed:
        drain(spark_store, tmp_path, "ruled")
    first = str(failed.value).splitlines()[0]
    assert "1062 (23000): Duplicate entry '7' for key 'ruled.PRIMARY'" in first
    assert rows(session, "SELECT * FROM ruled") == [[7, 0]] and not left(spark_store)
    run(session, "DELETE FROM ruled")
    drain(spark_store, tmp_path, "ruled")
    assert rows(session, "SELECT * FROM ruled ORDER BY id") == [[6, 1], [7, 1]]
    arrive(tmp_path, 2, 7, 8)
    drain(spark_store, tmp_path, "ruled", onDuplicate="update")
    assert rows(session, "SELECT * FROM ruled ORDER BY id") == [[6, 1], [7, 2], [8, 2]]


def test_complete_mode_replaces_and_update_mode_is_refused(spark_store, session, tmp_path):
    run(session, "CREATE TABLE sums (file INT PRIMARY KEY, total BIGINT)")
    arrive(tmp_path, 1, 1, 2)
    arrive(tmp_path, 2, 3)

    def summed(frame: DataFrame) -> DataFrame:
        return frame.groupBy("file").agg({"id": "sum"}).withColumnRenamed("sum(id)", "total")

    spark_store.spark.session().conf.set("spark.sql.shuffle.partitions", "2")
    try:
        drain(spark_store, tmp_path, "sums", summed, "complete")
        assert rows(session, "SELECT * FROM sums ORDER BY file") == [[1, 3], [2, 3]]
        (other := tmp_path / "other").mkdir()
        arrive(other, 1, 1)
        with pytest.raises(Exception, match=r"(?i)update"):
            drain(spark_store, other, "sums", summed, "update")
    finally:
        spark_store.spark.session().conf.unset("spark.sql.shuffle.partitions")


# -- a driver, or a worker of it, that is killed ---------------------------------------------------

FILES, IN_EACH = 8, 400


def driver(url: str, folder: str) -> None:
    """Writes the folder's files to sink.killed; prints when its batches begin."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    session = spark.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    source = session.readStream.schema("id LONG, file INT").option("maxFilesPerTrigger", 1)
    query = (
        source.json(f"{folder}/in")
        .repartition(2)
        .writeStream.format("exuvia")
        .options(url=url, dbtable="sink.killed", checkpointLocation=f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    print("begun", flush=True)
    query.awaitTermination()


def begun(store: SparkStore, folder: Path) -> "subprocess.Popen[str]":
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        [sys.executable, __file__, store.url, str(folder)],
        env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE, stderr=(folder / "driver.log").open("a"), text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    return process


def staged(store: SparkStore) -> list[Any]:
    with store.store.read() as txn:
        return [key for key, _ in txn.scan(keys.span_of(keys.meta("staged")))]


def forget_what_is_left(store: SparkStore) -> None:
    """Chunks would be retained for a day (sink.py), and later tests check that none remain."""
    found = left(store)

    def forget(txn: Transaction) -> None:
        for key in found:
            txn.delete(key)

    store.store.transact(forget)


def is_inserted_beyond(session: Session, count: int) -> Callable[[], bool]:
    return lambda: rows(session, "SELECT COUNT(*) FROM killed")[0][0] > count


@pytest.mark.long
def test_drivers_and_workers_that_are_killed(spark_store, session, tmp_path):
    """Kills the driver with all of its processes (kill -9): after its tasks have staged, and after
    rows have arrived. Kills a worker while it works. Every row is written once."""
    run(session, "CREATE TABLE killed (id BIGINT, file INT)")
    for n in range(FILES):
        arrive(tmp_path, n, *range(n * IN_EACH, (n + 1) * IN_EACH))
    for moment in (lambda: bool(staged(spark_store)), is_inserted_beyond(session, IN_EACH)):
        process = begun(spark_store, tmp_path)
        until(moment, 120, lambda: (tmp_path / "driver.log").read_text()[-2000:])
        pids = [process.pid, *below(process.pid)]
        for pid in pids:
            end_by_pid(pid)  # some end with an earlier one
        process.wait(30)
    process = begun(spark_store, tmp_path)
    workers = [
        pid
        for pid in below(process.pid)
        if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    until(lambda: bool(staged(spark_store)) or process.poll() is not None, 120)
    for pid in workers:
        end_by_pid(pid)
    assert process.wait(180) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    wanted = FILES * IN_EACH
    assert rows(session, "SELECT COUNT(*), COUNT(DISTINCT id), MAX(id) FROM killed") == [
        [wanted, wanted, wanted - 1]
    ]
    forget_what_is_left(spark_store)  # loads of the killed drivers


if __name__ == "__main__":
    driver(*sys.argv[1:])
