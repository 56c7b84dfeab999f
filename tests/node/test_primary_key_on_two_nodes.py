"""Rows move to another clustered primary key, and to hidden ids, while clients of two nodes write.

The owner is killed during the backfill, during the move, and after readers have switched."""

import contextlib
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymysql
import pytest

from support.node_processes import NodeProcess, end_all, until
from support.postgres import own_server

LEASE_S = 4.0
ROWS = 10_000
AGAIN = {1213, 8022, 9007}  # a conflict: nothing was written
NEWEST = (
    "SELECT schema_state, row_count FROM information_schema.ddl_jobs ORDER BY job_id DESC LIMIT 1"
)


def run(connection: Any, *texts: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


@contextlib.contextmanager
def store(kind: str, folder: Path) -> Iterator[str]:
    if kind == "postgresql":
        with own_server() as server:
            yield server.new_url()
    else:
        yield f"lmdb://{folder}/store"


class Writers:
    """Two clients of one node, each with its own rows. `rows`: the acknowledged values."""

    def __init__(self, node: NodeProcess, rows: dict[int, int]) -> None:
        self.rows = rows
        self.done = 0
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(2)
        self._ends = [self._pool.submit(self._write, node, number) for number in range(2)]

    def __enter__(self) -> "Writers":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for future in self._ends:
            future.result()

    def _write(self, node: NodeProcess, number: int) -> None:
        chance = random.Random(number)
        with node.connect("d", autocommit=True) as connection, connection.cursor() as cursor:
            while not self._stop.is_set():
                key = chance.randrange(ROWS * 5 // 4) * 2 + number
                value = chance.randrange(1000)
                if key not in self.rows:
                    text = f"INSERT INTO t (k, v) VALUES ({key}, {value})"
                elif chance.random() < 0.3:
                    text = f"DELETE FROM t WHERE k = {key}"
                else:
                    text = f"UPDATE t SET v = {value} WHERE k = {key}"
                try:
                    cursor.execute(text)
                except pymysql.Error as error:
                    assert error.args[0] in AGAIN, (text, error)
                    continue
                if text[0] == "D":
                    del self.rows[key]
                else:
                    self.rows[key] = value
                self.done += 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["lmdb", "partitions", "spark", "postgresql"])
def test_no_row_is_lost_when_the_owner_is_killed(kind: str, tmp_path: Path) -> None:
    nodes: list[NodeProcess] = []
    with store(kind, tmp_path) as url:

        def start() -> NodeProcess:
            nodes.append(NodeProcess(url, tmp_path / f"log{len(nodes)}", LEASE_S).wait_ready())
            return nodes[-1]

        try:
            owner = start()
            rows = {n: n % 977 for n in range(ROWS)}
            with owner.connect(autocommit=True) as client:
                run(client, "CREATE DATABASE d", "USE d")
                cut = "PARTITION BY HASH (k) PARTITIONS 4" if kind == "partitions" else ""
                run(
                    client, f"CREATE TABLE t (k BIGINT, v INT, UNIQUE KEY uk (k), KEY iv (v)) {cut}"
                )
                values = ", ".join(f"({key}, {value})" for key, value in rows.items())
                run(client, f"INSERT INTO t VALUES {values}")
                # under load tasks of Spark pause longer: small batches would take minutes
                batch = 128 if kind == "spark" else 32
                run(client, f"SET GLOBAL tidb_ddl_reorg_batch_size = {batch}")
                if kind == "spark":
                    run(client, "SET GLOBAL exuvia_pipeline_inline_rows = 0")
            changes(owner, start, rows)
        finally:
            end_all(nodes)


def changes(owner: NodeProcess, start: Any, rows: dict[int, int]) -> None:
    for change, state in (
        ("ADD PRIMARY KEY (k) CLUSTERED", "write reorganization"),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (v, k)", "delete reorganization"),
        ("DROP PRIMARY KEY", "write reorganization"),
    ):
        other = start()
        with other.connect("d", autocommit=True) as client, Writers(other, rows) as writers:
            changing = threading.Thread(target=run, args=(client, f"ALTER TABLE t {change}"))
            changing.start()
            with other.connect("d", autocommit=True) as looking, other.connect("d") as holding:
                until(lambda look=looking: reached(look, "write reorganization"), 240)
                # the state lasts while a member has the version before
                if state != "write reorganization":
                    run(holding, "INSERT INTO t (k, v) VALUES (-1, 0)")
                    until(lambda look=looking, at=state: reached(look, at), 240)
                owner.kill()
                holding.rollback()
            before = writers.done
            changing.join()
            until(lambda done=writers, since=before: done.done > since)
        with other.connect("d", autocommit=True) as client:
            run(client, "ADMIN CHECK TABLE t")
            [(_, definition)] = run(client, "SHOW CREATE TABLE t")
            if "ADD" in change:
                key = "`k`" if change.startswith("ADD") else "`v`,`k`"
                assert f"PRIMARY KEY ({key}) /*T![clustered_index] CLUSTERED" in definition
            else:
                assert "PRIMARY" not in definition
                assert run(client, "SELECT COUNT(DISTINCT _tidb_rowid) FROM t") == [(len(rows),)]
            assert dict(run(client, "SELECT k, v FROM t")) == rows
            assert dict(run(client, "SELECT k, v FROM t FORCE INDEX (uk) WHERE k >= 0")) == rows
            assert dict(run(client, "SELECT k, v FROM t FORCE INDEX (iv) WHERE v >= 0")) == rows
            assert run(
                client, "SELECT COUNT(*) FROM information_schema.ddl_jobs WHERE end_time IS NULL"
            ) == [(0,)]
        owner = other


def reached(looking: Any, state: str) -> bool:
    """Whether the newest job has reached that state and writes rows, or has ended."""
    [(now, written)] = run(looking, NEWEST)
    return now == state and bool(written)
