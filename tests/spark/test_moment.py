"""All tasks of several DataFrames read one moment of a store while clients write."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from exuvia.base.errors import Unavailable
from exuvia.kv.postgres.store import PostgresStore
from exuvia.kv.store import open_store
from pyspark_exuvia.moment import one_moment
from support.node_processes import NodeProcess, end_all, until
from support.postgres import shared_server
from support.spark import SparkStore

ROWS, MONEY = 400, 100


@contextmanager
def bank(url: str, folder: Path) -> Iterator[tuple[NodeProcess, list[int]]]:
    """A node with two tables of accounts, and a client that moves money between them without pause;
    the number of its transfers."""
    node = NodeProcess(url, folder / "log").wait_ready()
    moves, stop = [0], threading.Event()

    def move() -> None:
        with node.connect("d") as client, client.cursor() as cursor:
            while not stop.is_set():
                number = moves[0] + 1
                try:
                    cursor.execute(f"UPDATE a SET m = m - 1 WHERE id = {number * 7 % ROWS}")
                    cursor.execute(f"UPDATE b SET m = m + 1 WHERE id = {number * 11 % ROWS}")
                    client.commit()
                    moves[0] = number
                except pymysql.OperationalError:  # the schema changed during the transaction
                    client.rollback()

    mover = threading.Thread(target=move)
    try:
        with node.connect(autocommit=True) as client, client.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            for name in "ab":
                cursor.execute(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, m INT)")
                values = ", ".join(f"({n}, {MONEY})" for n in range(ROWS))
                cursor.execute(f"INSERT INTO d.{name} VALUES {values}")
        mover.start()
        until(lambda: moves[0] > 10)
        yield node, moves
    finally:
        stop.set()
        if mover.is_alive():
            mover.join()
        end_all([node])


def total(session: Any, table: str, **options: str) -> int:
    frame = session.read.format("exuvia").options(**options, dbtable=table, numPartitions="2")
    [row] = frame.load().groupBy().sum("m").collect()
    return int(row[0])


@pytest.mark.parametrize("engine", ["postgres", pytest.param("lmdb", marks=pytest.mark.long)])
def test_two_tables_are_read_at_one_moment(
    engine: str, tmp_path: Path, spark_store: SparkStore
) -> None:
    session = spark_store.spark.session()
    url = shared_server().new_url() if engine == "postgres" else f"lmdb://{tmp_path}/store"
    with bank(url, tmp_path) as (node, moves):
        with one_moment(url) as moment:
            before = moves[0]
            first = total(session, "d.a", **moment)
            until(lambda: moves[0] > before + 20)
            with node.connect(autocommit=True) as client, client.cursor() as cursor:
                cursor.execute("ALTER TABLE d.b ADD COLUMN later INT")
            frame = session.read.format("exuvia").options(**moment, dbtable="d.b").load()
            assert frame.columns == ["id", "m"]  # unchanged
            assert first + total(session, "d.b", **moment) == 2 * ROWS * MONEY
            assert total(session, "d.a", **moment) == first
            assert total(session, "d.a", url=url) < first
        with pytest.raises(Exception, match="has ended"):
            total(session, "d.a", **moment)
        assert not list(tmp_path.glob("exuvia-moment-*"))


def test_a_moment_past_its_limit_ends_with_an_error() -> None:
    url = shared_server().new_url()
    with one_moment(url, max_s=0.5) as moment, closing(open_store(url)) as other:
        assert isinstance(other, PostgresStore)
        other.at_moment(moment["moment"]).close()
        began = time.monotonic()

        def has_ended() -> bool:
            try:
                other.at_moment(moment["moment"]).close()
            except Unavailable as error:
                return "has ended" in str(error)
            return False

        until(has_ended)
        assert time.monotonic() - began < 10
        with pytest.raises(Unavailable, match="no name of a moment"):
            other.at_moment("'; DROP TABLE kv; --")
