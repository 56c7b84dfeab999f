"""Whole nodes on a PostgreSQL server: two nodes as one cluster, and loss of the server."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql
import pytest

from support.node_processes import NodeProcess, end_all, until
from support.postgres import PostgresServer, own_server, shared_server
from support.relay import Relay

LEASE_S = 5.0
REST_S = 0.005
RETRYABLE = (1205, 1213, 2013, 8022, 8027, 8028)


@contextlib.contextmanager
def nodes_on(url: str, folder: Path, number: int) -> Iterator[list[NodeProcess]]:
    """`number` nodes of one cluster."""
    started = [NodeProcess(url, folder / f"node{n}.log", LEASE_S) for n in range(number)]
    try:
        for node in started:
            node.wait_ready()
        yield started
    finally:
        end_all(started)


def run(
    node: NodeProcess, *statements: str, database: str | None = "shop"
) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


class Writers:
    """Clients that insert and update with short pauses, and record what was acknowledged."""

    def __init__(self, nodes: list[NodeProcess], begin: int = 1) -> None:
        self._nodes = nodes
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []
        self.errors: list[tuple[int, str]] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(n, (begin * 100 + n) * 1_000_000))
            for n in range(2 * len(nodes))
        ]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, n: int, first: int) -> None:
        number = first
        while not self._stop.is_set():
            node = self._nodes[n % len(self._nodes)]
            try:
                with node.connect("shop", autocommit=True) as client, client.cursor() as cursor:
                    while not self._stop.is_set():
                        number += 1
                        cursor.execute("INSERT INTO t (id, a) VALUES (%s, %s)", (number, number))
                        self.acknowledged.append(number)
                        cursor.execute("UPDATE t SET a = a + 1 WHERE id = %s", (number,))
                        self._stop.wait(REST_S)
            except (pymysql.Error, OSError) as error:
                code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
                self.errors.append((code, str(error)))
                self.unknown.append(number)
                number += 1000
                self._stop.wait(0.05)

    def more(self, number: int) -> None:
        """Wait until `number` more rows are acknowledged."""
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) >= before + number, about=lambda: self.errors[-3:])


def in_background(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    return thread, failed


def test_locks_are_known_to_all_nodes_and_go_with_theirs(tmp_path: Path) -> None:
    with nodes_on(shared_server().new_url(), tmp_path, 2) as [first, second]:
        run(first, "CREATE DATABASE shop", database=None)
        run(first, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 0)")
        holder = first.connect("shop")
        with holder.cursor() as cursor:
            cursor.execute("SELECT * FROM t WHERE id = 1 FOR UPDATE")
            cursor.execute("SELECT GET_LOCK('migration', 0)")
            assert cursor.fetchall() == ((1,),)
        assert run(second, "SELECT GET_LOCK('migration', 0)") == [(0,)]
        with pytest.raises(pymysql.Error) as caught:
            run(second, "SELECT * FROM t WHERE id = 1 FOR UPDATE NOWAIT")
        assert caught.value.args[0] == 3572
        waits = [
            in_background(lambda text=text: run(second, text))  # type: ignore[misc]
            for text in ("UPDATE t SET a = 1 WHERE id = 1", "SELECT GET_LOCK('migration', 60)")
        ]
        first.kill()
        for thread, failed in waits:
            thread.join(LEASE_S)
            assert not thread.is_alive() and not failed
        assert run(second, "SELECT a FROM t") == [(1,)]


def test_two_nodes_on_a_server_are_one_cluster(tmp_path: Path) -> None:
    """Both nodes change the schema while clients write on both. One node is killed during a
    backfill."""
    with nodes_on(shared_server().new_url(), tmp_path, 2) as [first, second]:
        run(first, "CREATE DATABASE shop", database=None)
        run(first, "CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b VARCHAR(20) DEFAULT 'x')")
        for at in range(0, 20_000, 1000):
            run(second, f"INSERT INTO t (id, a) VALUES {rows(at, 1000)}")
        with Writers([first, second]) as writers:
            writers.more(50)
            run(first, "ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 3")
            run(second, "CREATE INDEX ia ON t (a)")
            run(first, "ALTER TABLE t MODIFY b VARCHAR(10)")
            writers.more(50)
        assert not writers.errors
        with Writers([second], begin=2) as writers:
            changing, failed = in_background(lambda: run(second, "CREATE INDEX ib ON t (a, b)"))
            first.kill()
            changing.join()
            writers.more(20)
        assert not failed
        assert not writers.errors
        run(second, "ADMIN CHECK TABLE t")
        assert run(second, "SELECT COUNT(*) FROM t WHERE c = 3")[0][0] >= 20_000


def test_point_selects_are_answered_while_connections_to_the_server_are_cut(tmp_path: Path) -> None:
    """Each client gets its row again, or an error that tells it to repeat; none waits for ever."""
    relay = Relay(shared_server().port)
    url = urlsplit(shared_server().new_url())
    near = url._replace(netloc=f"postgres@127.0.0.1:{relay.port}").geturl()
    with nodes_on(near, tmp_path, 1) as [node]:
        run(node, "CREATE DATABASE shop", database=None)
        run(
            node,
            "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
            f"INSERT INTO t VALUES {rows(0, 90)}",
        )
        stop, codes, answers = threading.Event(), set(), [0] * 6

        def read(n: int) -> None:
            with node.connect("shop", autocommit=True) as client, client.cursor() as cursor:
                while not stop.is_set():
                    wanted = (answers[n] * 7 + n) % 90
                    try:
                        cursor.execute("SELECT a FROM t WHERE id = %s", (wanted,))
                        assert cursor.fetchall() == ((wanted,),)
                        answers[n] += 1
                    except pymysql.Error as error:
                        codes.add(error.args[0])

        clients = [in_background(partial(read, n)) for n in range(6)]
        for _ in range(8):
            relay.swallow_answers = True
            goals = [number + 6 for number in answers]
            until(partial(reached, answers, goals))
        stop.set()
        for thread, failed in clients:
            thread.join(30.0)
            assert not thread.is_alive() and not failed
        assert codes <= set(RETRYABLE)
        assert re.search(
            r"^exuvia_store_grouped_reads\S* [1-9]", node.get("/metrics")[1], re.MULTILINE
        )
    relay.close()


def reached(numbers: list[int], goals: list[int]) -> bool:
    """Whether all numbers are at least their goals."""
    return all(number >= goal for number, goal in zip(numbers, goals, strict=True))


def rows(at: int, number: int) -> str:
    """`number` rows of t, as text."""
    return ", ".join(f"({n}, {n % 977})" for n in range(at, at + number))


@pytest.mark.long
def test_the_server_fails_over_under_a_fill_and_writers(tmp_path: Path) -> None:
    """kill -9 of the primary; its synchronous standby is promoted.

    No acknowledged row is lost, and the job ends. The old primary serves nobody when it returns at
    its old address."""
    standby = PostgresServer()
    with own_server("synchronous_standby_names=second") as primary:
        try:
            standby.copy_of(primary, "second")
            standby.start()
            hosts = f"postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
            url = f"postgresql://{hosts}/postgres?schema=moved&connect_s=2"
            with nodes_on(url, tmp_path, 2) as [first, second]:
                _fail_over(primary, standby, first, second)
        finally:
            standby.remove()


def _fail_over(
    primary: PostgresServer, standby: PostgresServer, first: NodeProcess, second: NodeProcess
) -> None:
    run(first, "CREATE DATABASE shop", database=None)
    run(first, "CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b VARCHAR(20) DEFAULT 'x')")
    for at in range(0, 20_000, 1000):
        run(second, f"INSERT INTO t (id, a) VALUES {rows(at, 1000)}")
    with Writers([first, second]) as writers:
        writers.more(50)
        run(first, "SET GLOBAL tidb_ddl_reorg_max_write_speed = '64KiB'")
        changing, _ = in_background(lambda: run(first, "CREATE INDEX ia ON t (a)"))
        until(lambda: "write reorganization" in str(run(second, "ADMIN SHOW DDL JOBS 1")))
        primary.kill()
        standby.promote()
        writers.more(50)
        run(second, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        primary.start()  # at its old address
        writers.more(50)
        changing.join()
    ended = "ADMIN SHOW DDL JOBS 1 WHERE job_type = 'add index' AND state = 'synced'"
    until(lambda: run(second, ended), about=lambda: run(second, "ADMIN SHOW DDL JOBS 5"))
    assert {code for code, _ in writers.errors} <= set(RETRYABLE), writers.errors
    there = {row[0] for row in run(second, "SELECT id FROM t WHERE id >= 20000")}
    assert set(writers.acknowledged) <= there
    assert there <= {*writers.acknowledged, *writers.unknown}
    run(second, "ADMIN CHECK TABLE t")
    [(entries,)] = run(second, "SELECT COUNT(*) FROM t USE INDEX (ia) WHERE a >= 0")
    assert entries == len(there) + 20_000
    old = primary.ask("SELECT count(*) FROM moved.kv")
    run(first, "INSERT INTO t (id, a) VALUES (-1, 0)")
    assert primary.ask("SELECT count(*) FROM moved.kv") == old


@pytest.mark.long
def test_a_burst_of_2000_transactions_is_refused_clearly_and_harms_no_node(tmp_path: Path) -> None:
    """The server has its default limit of 100 connections."""
    with (
        own_server("max_connections=100") as server,
        nodes_on(server.new_url(), tmp_path, 2) as nodes,
    ):
        run(nodes[0], "CREATE DATABASE shop", database=None)
        run(nodes[0], "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
        with contextlib.ExitStack() as burst:
            codes = [
                code_of_begin(burst.enter_context(nodes[n % 2].connect("shop")))
                for n in range(2000)
            ]
            assert set(codes) == {0, 1637}
            assert 10 <= codes.count(0) < 60
            for number, node in enumerate(nodes):
                run(node, f"ALTER TABLE t ADD COLUMN meanwhile{number} INT")
        for number, node in enumerate(nodes):
            until(lambda at=node: begins(at))
            run(node, f"ALTER TABLE t ADD COLUMN after{number} INT")
            run(node, "UPDATE t SET a = a + 1 WHERE id = 1")
    for node in nodes:
        assert "broken" not in node.log.read_text()


def code_of_begin(connection: Any) -> int:
    """Run BEGIN and a read. Returns the error code, or 0."""
    connection.query("BEGIN")
    try:
        connection.query("SELECT a FROM t WHERE id = 1")
    except pymysql.MySQLError as error:
        return int(error.args[0])
    return 0


def begins(node: NodeProcess) -> bool:
    """Whether there is room again. The server may still be closing connections of the burst."""
    with node.connect("shop") as connection:
        return code_of_begin(connection) == 0
