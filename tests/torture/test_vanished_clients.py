"""Clients that vanish: the connection breaks without a goodbye, with work half done."""

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from support.node_processes import NodeProcess, until
from support.torture import begin, job_of, nodes_to_hurt, run, wait_for_job

RESET = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("vanished")
    with pytest.MonkeyPatch.context() as patch, nodes_to_hurt(folder, patch, count=1) as nodes:
        yield nodes.slots[0]


@pytest.fixture
def node(one_node: NodeProcess) -> NodeProcess:
    run(one_node, "DROP TABLE IF EXISTS t", "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    run(one_node, "INSERT INTO t VALUES (1, 1), (2, 2)")
    return one_node


def vanish(connection: Any, reset: bool = True) -> None:
    """Break the connection: with a reset, or by closing the socket without COM_QUIT."""
    if reset:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.break_off()


@pytest.mark.parametrize("reset", [pytest.param(True, marks=pytest.mark.long), False])
def test_in_a_transaction_it_is_rolled_back_and_blocks_nobody(
    node: NodeProcess, reset: bool
) -> None:
    connection = node.connect("test")
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE t SET b = 9 WHERE a = 1")
        cursor.execute("INSERT INTO t VALUES (3, 3)")
    blocked = begin(node, "ALTER TABLE t ADD INDEX ib (b)")
    until(lambda: "UPDATE t" in job_of(node, "add index")["COMMENTS"])
    vanish(connection, reset)
    wait_for_job(node, "add index")
    blocked.close()
    assert run(node, "SELECT * FROM t") == [(1, 1), (2, 2)]
    run(node, "UPDATE t SET b = 7 WHERE a = 1", "ADMIN CHECK TABLE t")
    assert run(node, "SELECT a FROM t WHERE b = 7") == [(1,)]
    until(lambda: len(run(node, "SHOW PROCESSLIST")) == 1, about="its session stays")


@pytest.mark.parametrize("reset", [True, False])
def test_in_an_alter_the_job_finishes_without_it(node: NodeProcess, reset: bool) -> None:
    holder = node.connect("test")
    with holder.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE t SET b = 9 WHERE a = 1")
        altering = begin(node, "ALTER TABLE t ADD COLUMN c INT DEFAULT 5")
        until(lambda: job_of(node, "add column")["STATE"] != "synced")  # not the job before
        job = job_of(node, "add column")
        vanish(altering, reset)
        until(lambda: len(run(node, "SHOW PROCESSLIST")) == 2, about="its session stays")
        cursor.execute("COMMIT")
    assert wait_for_job(node, "add column")["JOB_ID"] == job["JOB_ID"]
    assert run(node, "SELECT * FROM t") == [(1, 9, 5), (2, 2, 5)]
    holder.close()


def test_in_the_middle_of_a_statement_s_bytes_nothing_is_run(node: NodeProcess) -> None:
    connection = node.connect("test", autocommit=True)
    text = b"\x03INSERT INTO t VALUES (4, 4)"
    connection.socket.sendall(len(text).to_bytes(3, "little") + b"\0" + text[:-3])
    vanish(connection, reset=False)
    until(lambda: len(run(node, "SHOW PROCESSLIST")) == 1)
    assert run(node, "SELECT a FROM t") == [(1,), (2,)]
    assert node.get("/readyz")[0] == 200


def test_with_an_unread_answer_of_many_rows_the_node_serves_on(node: NodeProcess) -> None:
    for doubled in range(13):
        run(node, f"INSERT INTO t SELECT a + {2 << doubled}, b FROM t")
    assert run(node, "SELECT COUNT(*) FROM t") == [(1 << 14,)]
    readers = [begin(node, "SELECT x.a, y.b, x.b FROM t x JOIN t y ON y.a < 100") for _ in range(3)]
    run(node, "INSERT INTO t VALUES (-1, -1)")
    for reader in readers:
        vanish(reader)
    until(lambda: len(run(node, "SHOW PROCESSLIST")) == 1, 30, "their sessions stay")
    assert run(node, "SELECT b FROM t WHERE a = -1") == [(-1,)]
