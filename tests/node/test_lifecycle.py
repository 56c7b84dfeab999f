"""Whole nodes: the ready line, a timely end, death of a process, take-over by another node.

One node (`node`) and two (`pair`) are started for all tests that do not stop them. The tests of a
pair run in order; the last one kills the first node.
"""

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
    """The rows of the last statement."""
    with node.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node with d.t(a, b)."""
    with running_nodes(tmp_path_factory.mktemp("one")) as [started]:
        run(
            started,
            "CREATE DATABASE d",
            "CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(10), KEY ib (b))",
        )
        yield started


SHORT_LEASE_S = 2.0


@pytest.fixture(scope="module")
def fault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file exists, the acknowledger of the pair's second node hangs."""
    return tmp_path_factory.mktemp("fault") / "fault"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, fault: Path) -> Iterator[list[NodeProcess]]:
    """Two nodes on one store with d.t(a, b); the lease of the second one is short."""
    folder = tmp_path_factory.mktemp("two")
    program = (str(ROOT / "tests/support/faulty_nodes.py"), "breaking", str(fault))
    url = f"lmdb://{folder}/store"
    nodes = [NodeProcess(url, folder / "log1")]
    try:
        nodes[0].wait_ready()
        nodes.append(NodeProcess(url, folder / "log2", SHORT_LEASE_S, program=program).wait_ready())
        run(nodes[0], "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
        yield nodes
    finally:
        end_all(nodes)


def test_one_line_reports_ready_and_sigterm_ends_all_with_connections_open(tmp_path: Path) -> None:
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


def test_health_status_and_metrics(node: NodeProcess) -> None:
    assert node.get("/livez")[0] == 200
    assert node.get("/readyz")[0] == 200
    until(lambda: node.status()["owner"])
    status = node.status()
    assert {member["kind"] for member in status["members"]} == {"front", "back"}
    assert status["schema_version"] >= 2
    page = node.get("/metrics")[1]
    for name in ("exuvia_schema_version", "exuvia_connections", "exuvia_owner_info"):
        assert re.search(rf"^{name}[ {{]", page, re.MULTILINE), name
    assert 'exuvia_command_duration_seconds_count{kind="query"}' in page
    longest = re.search(r"^exuvia_store_write_lock_longest_seconds (\S+)", page, re.MULTILINE)
    assert longest is not None and 0 < float(longest[1]) < 60


def test_point_statements_load_no_heavy_library(node: NodeProcess) -> None:
    run(
        node,
        "INSERT INTO d.t VALUES (1, 'x'), (2, 'y')",
        "UPDATE d.t SET b = 'z' WHERE a = 1",
        "SELECT b FROM d.t WHERE a = 1",
        "SELECT a FROM d.t WHERE b = 'z'",
        "DELETE FROM d.t WHERE a = 2",
        "ALTER TABLE d.t ADD INDEX iab (a, b)",
        "ALTER TABLE d.t DROP INDEX iab",
    )
    loaded = Path(f"/proc/{node.pid}/maps").read_text()
    assert not re.findall(r"\S*(?:duckdb|pyarrow|libarrow|pyspark|cryptography)\S*", loaded)
    run(node, "SELECT AES_ENCRYPT('a', 'a')")
    assert "cryptography" in Path(f"/proc/{node.pid}/maps").read_text()
    run(node, "SELECT b, COUNT(*) FROM d.t JOIN d.t AS u USING (a, b) GROUP BY b")
    assert "duckdb" not in Path(f"/proc/{node.pid}/maps").read_text()  # few rows
    run(node, "SELECT a, ROW_NUMBER() OVER (ORDER BY b) FROM d.t")
    assert "duckdb" in Path(f"/proc/{node.pid}/maps").read_text()


def test_threads_of_a_front_share_memory(node: NodeProcess) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(node.connect()) for _ in range(20)]

        def ask(client: Any) -> None:
            with client.cursor() as cursor:
                cursor.execute("SELECT b, COUNT(*) FROM d.t GROUP BY b")

        with ThreadPoolExecutor(len(clients)) as pool:
            list(pool.map(ask, clients))
    maps = Path(f"/proc/{node.pid}/maps").read_text().splitlines()
    spans = [re.match(r"(\w+)-(\w+) (\S+) \S+ 00:00 0 *$", line) for line in maps]
    ours = [(int(span[1], 16), int(span[2], 16)) for span in spans if span and span[3] == "rw-p"]
    heaps = [begin for begin, _ in ours if not begin % (64 << 20)]  # glibc's, of which one is more
    assert 0 < len(heaps) <= 3
    assert max(end - begin for begin, end in ours) < 1 << 30  # which mimalloc, Arrow's own, takes


def test_a_back_has_its_memory_as_its_system_gives_it(node: NodeProcess) -> None:
    environment = Path(f"/proc/{node.back_pid()}/environ").read_bytes().split(b"\0")
    assert b"NUMPY_MADVISE_HUGEPAGE=0" in environment
    assert not [
        setting for setting in environment if setting.startswith(b"ARROW_DEFAULT_MEMORY_POOL=")
    ]


def test_a_killed_back_is_started_again_and_schema_changes_go_on(node: NodeProcess) -> None:
    first = node.back_pid()
    os.kill(first, signal.SIGKILL)
    run(node, "ALTER TABLE d.t ADD INDEX iba (b, a)", "INSERT INTO d.t VALUES (7, 'w')")
    assert node.back_pid() != first
    assert run(node, "SELECT a FROM d.t WHERE b = 'w'") == [(7,)]
    assert node.get("/readyz")[0] == 200


@pytest.mark.long  # tests/cluster has ten processes without their servers
def test_ten_nodes_at_once_fill_an_empty_store_once(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    nodes = [NodeProcess(url, tmp_path / f"log{n}") for n in range(10)]
    try:
        for node in nodes:
            node.wait_ready(90)
        until(lambda: len(nodes[0].status()["members"]) == 20)
        assert {node.status()["schema_version"] for node in nodes} == {1}
        run(nodes[3], "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)")
        run(nodes[7], "INSERT INTO d.t VALUES (7)")
        assert all(run(node, "SELECT a FROM d.t") == [(7,)] for node in nodes)
        assert len({node.status()["owner"]["member"] for node in nodes}) == 1
    finally:
        end_all(nodes)


def test_a_node_that_cannot_start_reports_why_and_ends(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = str(occupied.getsockname()[1])
        node = NodeProcess(f"lmdb://{tmp_path}/s", tmp_path / "log", options=("--port", port))
        assert node.process.wait(20) == 1
        node.close()
    assert "Address already in use" in (tmp_path / "log").read_text()
    assert not (tmp_path / "s").exists()
    wrong = NodeProcess("nosuch:store", tmp_path / "log2")
    assert wrong.process.wait(20) == 1
    wrong.close()
    assert "lmdb:///path" in (tmp_path / "log2").read_text()


def test_two_nodes_serve_one_catalog_and_a_silent_one_is_waited_for_as_long_as_its_lease(
    pair: list[NodeProcess],
) -> None:
    first, second = pair
    run(second, "INSERT INTO d.t VALUES (1, 2)", "ALTER TABLE d.t ADD INDEX ib (b)")
    assert run(first, "SELECT a FROM d.t WHERE b = 2") == [(1,)]
    jobs = [run(node, "ADMIN SHOW DDL JOBS 1")[0][:4] for node in pair]
    assert jobs[0] == jobs[1]
    assert jobs[0][3] == "add index"
    second.send(signal.SIGSTOP)
    try:
        began = time.monotonic()
        run(first, "ALTER TABLE d.t ADD COLUMN c INT DEFAULT 7")
        assert SHORT_LEASE_S / 2 < time.monotonic() - began < 30
    finally:
        second.send(signal.SIGCONT)
    until(lambda: second.get("/readyz")[0] == 200)
    assert run(second, "SELECT * FROM d.t") == [(1, 2, 7)]
    run(second, "INSERT INTO d.t VALUES (2, 3, 4)")


def test_a_front_whose_acknowledger_hangs_is_waited_for_as_long_as_its_lease(
    pair: list[NodeProcess], fault: Path
) -> None:
    first, second = pair
    fault.write_text("hang")
    until(lambda: second.get("/readyz")[0] == 503)
    run(first, "CREATE TABLE d.u (a INT PRIMARY KEY)", "ALTER TABLE d.u ADD COLUMN b INT")
    run(first, "INSERT INTO d.u VALUES (1, 2)")
    with pytest.raises(pymysql.err.MySQLError) as refused:
        run(second, "INSERT INTO d.u VALUES (2, 3)")
    assert refused.value.args[0] == 8027
    fault.unlink()
    hanging = second.pid
    os.kill(hanging, signal.SIGKILL)  # its keeper starts another one
    until(lambda: second.pid not in (0, hanging) and serves(second))


def serves(node: NodeProcess) -> bool:
    """Whether clients are served on the known port."""
    with contextlib.suppress(pymysql.MySQLError, OSError), node.connect() as connection:
        connection.cursor().execute("SELECT 1")
        return node.get("/readyz")[0] == 200
    return False


def test_a_killed_front_ends_its_back_and_the_other_node_takes_over(
    pair: list[NodeProcess],
) -> None:
    """The other node takes over at once, although the lease has a long time to run."""
    first, second = pair
    backs = first.back_pid(), second.back_pid()
    run(second, "DELETE FROM d.t", "INSERT INTO d.t (a, b) VALUES (1, 2)")
    assert run(first, "SELECT b FROM d.t") == [(2,)]
    first.kill()
    until(lambda: not is_alive(backs[0]))
    run(second, "ALTER TABLE d.t ADD INDEX ibb (b, a)", "CREATE TABLE d.v (a INT)")
    until(lambda: len(second.status()["members"]) == 2)
    owner = second.status()["owner"]["member"]
    assert {member["id"]: member["pid"] for member in second.status()["members"]}[owner] == backs[1]
    assert second.stop() < 5
    assert second.process.returncode == 0
