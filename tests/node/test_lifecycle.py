"""Whole nodes: the ready line, an end in time, death of one process, another node's take-over."""

import os
import re
import signal
import socket
import time
from pathlib import Path

import pymysql
import pytest

from support.node_processes import (
    ROOT,
    NodeProcess,
    end_all,
    is_alive,
    running_nodes,
    until,
)


def run(node: NodeProcess, *statements: str, database: str | None = None) -> list[tuple]:
    """The last statement's rows."""
    with node.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def test_one_line_says_ready_and_sigterm_ends_all_with_connections_open(tmp_path: Path) -> None:
    node = NodeProcess(f"lmdb://{tmp_path}/store", tmp_path / "log").wait_ready()
    pattern = (
        r"exuvia ready: mysql 127\.0\.0\.1:\d+, status http://127\.0\.0\.1:\d+, store lmdb://\S+\n"
    )
    assert re.fullmatch(pattern, node.line)
    back = node.back_pid()
    idle, writing = node.connect(), node.connect()
    run(node, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)")
    writing.cursor().execute("BEGIN")
    writing.cursor().execute("INSERT INTO d.t VALUES (1)")
    assert node.stop() < 5
    assert node.process.returncode == 0
    assert not is_alive(back)
    for connection in (idle, writing):
        with pytest.raises(pymysql.err.MySQLError):
            connection.query("SELECT 1")
    again = NodeProcess(f"lmdb://{tmp_path}/store", tmp_path / "log2").wait_ready()
    assert run(again, "SELECT * FROM d.t") == []
    again.stop()


def test_health_status_and_metrics(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as [node]:
        assert node.get("/livez")[0] == 200
        assert node.get("/readyz")[0] == 200
        until(lambda: node.status()["owner"])
        run(node, "CREATE DATABASE d")
        status = node.status()
        assert {each["kind"] for each in status["members"]} == {"front", "back"}
        assert status["schema_version"] >= 2
        page = node.get("/metrics")[1]
        for name in ("exuvia_schema_version", "exuvia_connections", "exuvia_owner_info"):
            assert re.search(rf"^{name}[ {{]", page, re.MULTILINE), name
        assert 'exuvia_command_duration_seconds_count{kind="query"}' in page
        longest = re.search(r"^exuvia_store_write_lock_longest_seconds (\S+)", page, re.MULTILINE)
        assert longest is not None and 0 < float(longest[1]) < 60


def test_a_killed_back_is_started_again_and_schema_changes_go_on(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as [node]:
        run(node, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
        first = node.back_pid()
        os.kill(first, signal.SIGKILL)
        run(node, "ALTER TABLE d.t ADD INDEX ib (b)", "INSERT INTO d.t VALUES (1, 2)")
        assert node.back_pid() != first
        assert run(node, "SELECT a FROM d.t WHERE b = 2") == [(1,)]
        assert node.get("/readyz")[0] == 200


def test_a_killed_front_takes_its_back_along_and_the_other_node_takes_over(tmp_path: Path) -> None:
    with running_nodes(tmp_path, 2) as [first, second]:
        run(first, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
        backs = first.back_pid(), second.back_pid()
        run(second, "INSERT INTO d.t VALUES (1, 2)")
        assert run(first, "SELECT b FROM d.t") == [(2,)]
        first.kill()
        until(lambda: not is_alive(backs[0]), timeout_s=5)
        run(second, "ALTER TABLE d.t ADD INDEX ib (b)", "CREATE TABLE d.u (a INT)")
        until(lambda: len(second.status()["members"]) == 2)
        owner = second.status()["owner"]["member"]
        assert {each["id"]: each["pid"] for each in second.status()["members"]}[owner] == backs[1]


@pytest.mark.long  # tests/cluster has ten processes without their servers
def test_ten_nodes_at_once_fill_an_empty_store_once(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    nodes = [NodeProcess(url, tmp_path / f"log{n}") for n in range(10)]
    try:
        for node in nodes:
            node.wait_ready(90)
        until(lambda: len(nodes[0].status()["members"]) == 20, timeout_s=60)
        assert {node.status()["schema_version"] for node in nodes} == {1}
        run(nodes[3], "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)")
        run(nodes[7], "INSERT INTO d.t VALUES (7)")
        assert all(run(node, "SELECT a FROM d.t") == [(7,)] for node in nodes)
        assert len({node.status()["owner"]["member"] for node in nodes}) == 1
    finally:
        end_all(nodes)


def test_point_statements_load_no_heavy_library(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as [node]:
        run(
            node,
            "CREATE DATABASE d",
            "CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(10), KEY ib (b))",
            "INSERT INTO d.t VALUES (1, 'x'), (2, 'y')",
            "UPDATE d.t SET b = 'z' WHERE a = 1",
            "SELECT b FROM d.t WHERE a = 1",
            "SELECT a FROM d.t WHERE b = 'z'",
            "DELETE FROM d.t WHERE a = 2",
        )
        loaded = Path(f"/proc/{node.pid}/maps").read_text()
        assert not re.findall(r"\S*(?:duckdb|pyarrow|libarrow|pyspark|cryptography)\S*", loaded)
        run(node, "SELECT AES_ENCRYPT('a', 'a')")
        assert "cryptography" in Path(f"/proc/{node.pid}/maps").read_text()
        run(node, "SELECT COUNT(*), SUM(a) FROM d.t GROUP BY b")
        assert "duckdb" in Path(f"/proc/{node.pid}/maps").read_text()


def test_a_node_that_cannot_start_says_why_and_ends(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        node = NodeProcess(f"lmdb://{tmp_path}/s", tmp_path / "log", options=("--port", port))
        assert node.process.wait(20) == 1
        node._close()
    assert "address already in use" in (tmp_path / "log").read_text()
    wrong = NodeProcess("nosuch:store", tmp_path / "log2")
    assert wrong.process.wait(20) == 1
    wrong._close()
    assert "lmdb:///path" in (tmp_path / "log2").read_text()


def test_two_nodes_serve_one_catalog_and_a_silent_one_is_waited_for_as_long_as_its_lease(
    tmp_path: Path,
) -> None:
    with running_nodes(tmp_path, 2, lease_s=1.0) as [first, second]:
        run(first, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
        run(second, "INSERT INTO d.t VALUES (1, 2)", "ALTER TABLE d.t ADD INDEX ib (b)")
        assert run(first, "SELECT a FROM d.t WHERE b = 2") == [(1,)]
        jobs = [run(node, "ADMIN SHOW DDL JOBS 1")[0][:4] for node in (first, second)]
        assert jobs[0] == jobs[1]
        assert jobs[0][3] == "add index"
        first.send(signal.SIGSTOP)
        try:
            began = time.monotonic()
            run(second, "ALTER TABLE d.t ADD COLUMN c INT DEFAULT 7")
            assert 0.5 < time.monotonic() - began < 30
        finally:
            first.send(signal.SIGCONT)
        until(lambda: first.get("/readyz")[0] == 200)
        assert run(first, "SELECT * FROM d.t") == [(1, 2, 7)]
        run(first, "INSERT INTO d.t VALUES (2, 3, 4)")


def test_a_front_whose_acknowledger_hangs_is_waited_for_as_long_as_its_lease(
    tmp_path: Path,
) -> None:
    url, fault = f"lmdb://{tmp_path}/store", tmp_path / "fault"
    program = (str(ROOT / "tests/support/faulty_nodes.py"), "breaking", str(fault))
    hanging = NodeProcess(url, tmp_path / "log1", 2.0, program=program)
    other = NodeProcess(url, tmp_path / "log2", 2.0)
    try:
        for node in (hanging, other):
            node.wait_ready()
        run(other, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)")
        fault.write_text("hang")
        until(lambda: hanging.get("/readyz")[0] == 503)
        run(other, "ALTER TABLE d.t ADD COLUMN b INT", "INSERT INTO d.t VALUES (1, 2)")
        with pytest.raises(pymysql.err.MySQLError) as refused:
            run(hanging, "INSERT INTO d.t VALUES (2, 3)")
        assert refused.value.args[0] == 8027
    finally:
        end_all([hanging, other])
