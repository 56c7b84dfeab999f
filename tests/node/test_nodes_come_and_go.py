"""Members of a cluster as an operator sees them, and a node that leaves: it hands its role over and
finishes transactions."""

import contextlib
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymysql
import pytest

from support.node_processes import NodeProcess, end_all, until

LEASE_S = 5.0
OPTIONS = ("--drain-s", "20")


@contextlib.contextmanager
def nodes_on(url: str, folder: Path, number: int) -> Iterator[list[NodeProcess]]:
    """`number` nodes of one cluster."""
    started: list[NodeProcess] = []
    try:
        for n in range(number):
            started.append(NodeProcess(url, folder / f"log{n}", LEASE_S, OPTIONS).wait_ready())
        yield started
    finally:
        end_all(started)


def run(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def members(node: NodeProcess) -> list[dict[str, Any]]:
    """The rows of ADMIN SHOW DDL NODES."""
    with (
        node.connect(autocommit=True) as connection,
        connection.cursor(pymysql.cursors.DictCursor) as cursor,
    ):
        cursor.execute("ADMIN SHOW DDL NODES")
        return list(cursor.fetchall())


def owner(node: NodeProcess) -> str:
    """The address of the owner of schema changes, or ""."""
    return str(run(node, "ADMIN SHOW DDL")[0][2])


def end_of(node: NodeProcess, expected: int = 0) -> None:
    assert node.process.wait(30) == expected, node.log.read_text()[-2000:]


def test_nodes_are_shown_and_the_owner_resigns(tmp_path: Path) -> None:
    with nodes_on(f"lmdb://{tmp_path}/store", tmp_path, 1) as [first]:
        until(lambda: owner(first))
        with pytest.raises(pymysql.Error) as refused:
            run(first, "ADMIN RESIGN DDL OWNER")
        assert refused.value.args == (1105, "no other node could own ddl")
        second = NodeProcess(first.store, tmp_path / "other", LEASE_S).wait_ready()
        try:
            shows_all_and_hands_over([first, second])
        finally:
            end_all([second])


def shows_all_and_hands_over(nodes: list[NodeProcess]) -> None:
    first, second = nodes
    ports = {node.port: node for node in nodes}
    until(lambda: len(members(first)) == 4)
    run(second, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)")
    rows = until(lambda: (now := members(first)) and all(row["LAG"] == 0 for row in now) and now)
    assert sorted(row["KIND"] for row in rows) == ["back", "back", "front", "front"]
    assert {row["STATE"] for row in rows} == {"serves"}
    assert all(0 < row["LEASE_LEFT_MS"] <= LEASE_S * 1000 for row in rows)
    [release] = {row["VERSION"] for row in rows}
    assert run(first, "SELECT DISTINCT version FROM information_schema.tidb_servers_info") == [
        (release,)
    ]
    statuses = run(first, "SELECT port, status_port FROM information_schema.tidb_servers_info")
    assert dict(statuses) == {node.port: node.status_port for node in nodes}
    [owning] = [row for row in rows if "ddl" in row["ROLES"]]

    began = time.monotonic()
    [(former, _, now)] = run(second, "ADMIN RESIGN DDL OWNER")
    assert time.monotonic() - began < 1
    assert former == owning["ADDRESS"] != now
    run(first, "ALTER TABLE d.t ADD COLUMN b INT")
    assert owner(first) == now
    [(former_again, _, _)] = run(first, "ADMIN RESIGN DDL OWNER")
    assert former_again == now

    silent = next(node for node in nodes if node is not first)
    silent.send(signal.SIGSTOP)
    try:
        [row] = [
            row
            for row in members(first)
            if row["KIND"] == "front" and ports[int(row["ADDRESS"].split(":")[1])] is silent
        ]
        assert (row["STATE"], row["LEASE_LEFT_MS"]) == ("has not answered", None)
    finally:
        silent.send(signal.SIGCONT)


@pytest.mark.long
def test_a_node_that_stops_hands_over_at_once_and_finishes_transactions(tmp_path: Path) -> None:
    """The owner's node stops in the middle of a backfill, with an open transaction and an idle
    client."""
    with nodes_on(f"lmdb://{tmp_path}/store", tmp_path, 2) as nodes:
        first = nodes[0]
        run(first, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
        numbers = ", ".join(f"({n}, {n})" for n in range(20_000))
        run(first, f"INSERT INTO d.t VALUES {numbers}", "CREATE TABLE d.u (a INT PRIMARY KEY)")
        run(first, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 40000")
        owning = until(lambda: owner(first))
        leaving = next(node for node in nodes if owning.endswith(f":{node.port}"))
        staying = next(node for node in nodes if node is not leaving)
        changing = ThreadPoolExecutor(1).submit(run, staying, "ALTER TABLE d.t ADD INDEX ib (b)")
        until(lambda: (job := run(staying, "ADMIN SHOW DDL JOBS 1")[0]) and job[7] > 0)

        idle, writing = leaving.connect(), leaving.connect()
        with writing.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO d.u VALUES (1)")
            stopped = time.monotonic()
            leaving.send(signal.SIGTERM)
            until(lambda: owner(staying) not in ("", owning))
            assert time.monotonic() - stopped < 1
            assert leaving.get("/readyz")[0] == 503
            with pytest.raises(pymysql.Error) as closed:
                idle.query("SELECT 1")
            assert closed.value.args[0] in (1053, 2006, 2013)
            with pytest.raises(pymysql.Error) as refused:
                leaving.connect()
            assert refused.value.args[0] == 2003
            cursor.execute("INSERT INTO d.u VALUES (2)")
            states = {"serves", "drains"}  # its back may be ending while it is asked
            until(lambda: {row["STATE"] for row in members(staying)} == states)
            writing.commit()
        end_of(leaving)
        assert run(staying, "SELECT a FROM d.u ORDER BY a") == [(1,), (2,)]
        changing.result(60)
        assert run(staying, "ADMIN CHECK TABLE d.t") == []


def test_a_client_that_does_not_end_its_transaction_is_disconnected_in_time(tmp_path: Path) -> None:
    """A schema change that a client waits for continues without its node."""
    node = NodeProcess(
        f"lmdb://{tmp_path}/store", tmp_path / "log", LEASE_S, ("--drain-s", "0.5")
    ).wait_ready()
    try:
        run(node, "CREATE DATABASE d", "CREATE TABLE d.u (a INT PRIMARY KEY, b INT)")
        run(node, f"INSERT INTO d.u (a) VALUES {', '.join(f'({n})' for n in range(3_000))}")
        run(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 10240")
        text = "ALTER TABLE d.u ADD INDEX ib (b)"
        changing = ThreadPoolExecutor(1).submit(run, node, text)
        until(lambda: (job := run(node, "ADMIN SHOW DDL JOBS 1")[0]) and job[7] > 0)
        writing = node.connect("d")
        writing.cursor().execute("INSERT INTO u (a) VALUES (-1)")
        node.send(signal.SIGTERM)
        end_of(node)
        with pytest.raises(pymysql.Error):
            writing.query("SELECT 1")
        with pytest.raises(pymysql.Error) as cut:
            changing.result(10)
        assert cut.value.args[0] in (1053, 1317, 2013)
        node = NodeProcess(node.store, tmp_path / "again", LEASE_S).wait_ready()
        run(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        until(lambda: run(node, "ADMIN SHOW DDL JOBS 1")[0][11] == "synced")
        assert run(node, "SELECT COUNT(*) FROM d.u") == [(3_000,)]
    finally:
        end_all([node])
