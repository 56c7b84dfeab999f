"""Reorgs with tasks on other nodes: selection by scope and number, and the cost of a lost node."""

import contextlib
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymysql
import pytest

from support.node_processes import NodeProcess, end_all, until

LEASE_S = 5.0
ROWS = 60_000


@contextlib.contextmanager
def nodes_on(url: str, folder: Path, number: int) -> Iterator[list[NodeProcess]]:
    """`number` nodes of one cluster; the first one owns schema changes."""
    started: list[NodeProcess] = []
    try:
        for n in range(number):
            started.append(NodeProcess(url, folder / f"log{n}", LEASE_S).wait_ready())
            until(lambda: run(started[0], "ADMIN SHOW DDL")[0][2])
        yield started
    finally:
        end_all(started)


def run(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def fill(node: NodeProcess) -> None:
    """Create d.t with ROWS rows."""
    run(node, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, c VARCHAR(20))")
    for begin in range(0, ROWS, 10_000):
        numbers = ", ".join(f"({n}, {n % 977}, 'text {n}')" for n in range(begin, begin + 10_000))
        run(node, f"INSERT INTO d.t VALUES {numbers}")
    run(
        node,
        "SET GLOBAL tidb_enable_dist_task = ON",
        "SET GLOBAL exuvia_pipeline_inline_rows = 5000",
        "SET GLOBAL exuvia_ddl_reorg_span_rows = 2000",
    )


def tasks_done(node: NodeProcess) -> int:
    """The number of shares of other nodes' waves that this node's back has begun."""
    return node.log.read_text().count("tasks of another node")


@pytest.mark.long
def test_tasks_go_to_the_nodes_of_the_scope(tmp_path: Path) -> None:
    with nodes_on(f"lmdb://{tmp_path}/store", tmp_path, 3) as nodes:
        owner, second, third = nodes
        fill(owner)
        run(owner, "ALTER TABLE d.t ADD INDEX i1 (b)")
        assert tasks_done(second) and tasks_done(third)

        run(owner, "SET GLOBAL tidb_max_dist_task_nodes = 1")
        before = [tasks_done(node) for node in nodes]
        run(owner, "ALTER TABLE d.t ADD INDEX i2 (c)")
        assert [tasks_done(node) for node in nodes] == before
        with pytest.raises(pymysql.Error) as refused:
            run(owner, "SET GLOBAL tidb_max_dist_task_nodes = 0")
        assert refused.value.args[0] == 1231
        run(owner, "SET GLOBAL tidb_max_dist_task_nodes = -1")

        run(third, "SET GLOBAL tidb_service_scope = 'Background'")
        assert run(third, "SELECT @@global.tidb_service_scope") == [("background",)]
        assert run(second, "SELECT @@global.tidb_service_scope") == [("",)]
        before = [tasks_done(node) for node in nodes]
        run(second, "ALTER TABLE d.t MODIFY b VARCHAR(20)")
        after = [tasks_done(node) for node in nodes]
        assert after[:2] == before[:2] and after[2] > before[2]

        run(second, "SET GLOBAL tidb_service_scope = 'reports'")
        run(second, "ALTER TABLE d.t ADD INDEX i3 (b, c)")
        assert [tasks_done(node) > count for node, count in zip(nodes, after, strict=True)] == [
            False,
            True,
            False,
        ]
        [job] = run(owner, "ADMIN SHOW DDL JOBS 1")
        assert "service_scope=reports" in job[12]
        with pytest.raises(pymysql.Error) as refused:
            run(second, "SET GLOBAL tidb_service_scope = 'no blanks'")
        assert refused.value.args[0] == 1231
        run(owner, "ADMIN CHECK TABLE d.t")


def test_a_node_that_is_lost_with_its_tasks_is_done_without(tmp_path: Path) -> None:
    with nodes_on(f"lmdb://{tmp_path}/store", tmp_path, 2) as [owner, second]:
        fill(owner)
        run(owner, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 400000")
        changing = ThreadPoolExecutor(1).submit(run, owner, "ALTER TABLE d.t ADD INDEX i1 (b)")
        until(lambda: tasks_done(second))
        second.send(signal.SIGKILL)
        changing.result(60)
        run(owner, "ADMIN CHECK TABLE d.t")
