"""The four causes of slow schema changes in TiDB's FAQ (7.2), produced on real nodes and named by
COMMENTS.

They are: an earlier job, an election of the owner, a process that was killed, and one that has lost
the store."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.node_processes import NodeProcess, end_all, until
from support.torture import own_store, stop_outside_the_gate

LEASE_S = 4.0


def run(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def comments(node: NodeProcess, about: str) -> str:
    """COMMENTS of the unfinished job of that table; both sources must agree."""
    query = f"SELECT COMMENTS FROM information_schema.ddl_jobs WHERE table_name = '{about}'"
    rows = run(node, f"{query} AND STATE NOT IN ('synced', 'cancelled')")
    listed = [row for row in run(node, "ADMIN SHOW DDL JOBS 1") if row[2] == about]
    return str(rows[0][0]) if rows and listed else ""


def back_of(node: NodeProcess) -> int:
    return int(until(lambda: node.status()["back_pid"]))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[NodeProcess]]:
    store = f"lmdb://{tmp_path}/store"
    started = [NodeProcess(store, tmp_path / f"log{n}", LEASE_S) for n in range(2)]
    try:
        for node in started:
            node.wait_ready()
        run(started[0], "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
        yield started
    finally:
        end_all(started)


def changing(node: NodeProcess, text: str) -> Future[list[tuple[Any, ...]]]:
    return ThreadPoolExecutor(1).submit(run, node, text)


def owner_first(nodes: list[NodeProcess]) -> list[NodeProcess]:
    address = until(lambda: run(nodes[0], "ADMIN SHOW DDL")[0][2])
    return sorted(nodes, key=lambda node: not address.endswith(f":{node.port}"))


def test_each_cause_is_named(nodes: list[NodeProcess], tmp_path: Path) -> None:
    owning, other = owner_first(nodes)

    # a job in front of it
    numbers = ", ".join(f"({n}, {n})" for n in range(3_000))
    run(other, f"INSERT INTO d.t VALUES {numbers}")
    run(other, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
    run(other, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 1024")
    first = changing(other, "ALTER TABLE d.t ADD INDEX ib (b)")
    [[number]] = until(lambda: run(other, "SELECT job_id FROM mysql.tidb_ddl_job"))
    second = changing(other, "ALTER TABLE d.t ADD COLUMN c INT")
    expected = f"waiting: job {number} (add index d.t)"
    query = "SELECT COMMENTS FROM information_schema.ddl_jobs WHERE JOB_TYPE = 'add column'"
    until(lambda: run(other, query) == [(expected,)], about=lambda: run(other, query))
    run(other, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
    first.result(60)
    second.result(60)

    # a process that lost the store: first the owner, then a front that must acknowledge
    stopped = back_of(owning)
    with own_store(f"lmdb://{tmp_path}/store") as store:
        stop_outside_the_gate(stopped, store)
    try:
        third = changing(other, "CREATE TABLE d.u (a INT PRIMARY KEY)")
        expected_text = f"the owner, node 127.0.0.1:{owning.port}, silent "
        until(lambda: expected_text in comments(other, "u"), about=lambda: comments(other, "u"))
        third.result(60)  # after its lease another owns the role
        assert owner_first(nodes)[0] is other
    finally:
        os.kill(stopped, signal.SIGCONT)
    with own_store(f"lmdb://{tmp_path}/store") as store:
        stop_outside_the_gate(owning.pid, store)
    try:
        fourth = changing(other, "ALTER TABLE d.t ADD COLUMN e INT")
        expected_text = f"waiting: node 127.0.0.1:{owning.port}: silent "
        until(lambda: expected_text in comments(other, "t"), about=lambda: comments(other, "t"))
        fourth.result(60)
    finally:
        owning.send(signal.SIGCONT)

    # processes that were killed: nobody is left who could own schema changes until a new back has
    # been elected
    owning.kill()
    os.kill(back_of(other), signal.SIGKILL)
    last = changing(other, "ALTER TABLE d.t ADD COLUMN f INT")
    expected_text = f"waiting: the owner, node 127.0.0.1:{other.port}, has ended, another takes ddl"
    until(lambda: expected_text in comments(other, "t"), about=lambda: comments(other, "t"))
    last.result(60)
