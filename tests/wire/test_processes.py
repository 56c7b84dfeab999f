"""Sessions of several nodes: ids, the process list, KILL."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest

from support.node_processes import NodeProcess, until


@pytest.fixture(scope="module")
def nodes(pair: list[NodeProcess]) -> Iterator[list[NodeProcess]]:
    with pair[0].connect(autocommit=True) as root:
        root.query("CREATE DATABASE shop")
        root.query("CREATE TABLE shop.t (id INT PRIMARY KEY, a INT)")
        root.query("INSERT INTO shop.t VALUES (1, 10), (2, 20)")
        root.commit()
        root.query("CREATE USER ann")
        root.query("GRANT SELECT ON shop.* TO ann")
    yield pair
    with pair[0].connect(autocommit=True) as root:
        root.query("DROP USER ann")
        root.query("DROP DATABASE shop")


def rows(connection: pymysql.Connection, text: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


def failing(work: Callable[[], object]) -> tuple[threading.Thread, list[int]]:
    """Run it in a thread. Returns the thread and a list that gets the error codes."""
    codes: list[int] = []

    def run() -> None:
        try:
            work()
        except pymysql.MySQLError as error:
            codes.append(error.args[0])

    thread = threading.Thread(target=run)
    thread.start()
    return thread, codes


LISTED = "SELECT ID FROM information_schema.cluster_processlist"


def test_ids_are_unique_and_every_node_lists_all(nodes: list[NodeProcess]) -> None:
    first, second = nodes
    with first.connect(autocommit=True) as one, second.connect(autocommit=True) as two:
        mine, its = one.thread_id(), two.thread_id()
        assert mine >> 21 != its >> 21
        assert 0 not in (mine >> 21, its >> 21)
        assert rows(one, "SELECT CONNECTION_ID()") == [(mine,)]
        for connection in (one, two):
            listed = rows(
                connection,
                "SELECT INSTANCE, ID, USER, DB, COMMAND FROM"
                " information_schema.cluster_processlist ORDER BY ID",
            )
            assert {(row[0], row[1]) for row in listed} >= {
                (f"127.0.0.1:{first.port}", mine),
                (f"127.0.0.1:{second.port}", its),
            }
            assert {row[2] for row in listed} == {"root"}
        own = rows(one, "SHOW FULL PROCESSLIST")
        assert [row[0] for row in own] == [mine]
        assert own[0][6:] == ("autocommit", "SHOW FULL PROCESSLIST")
        assert str(own[0][2]).startswith("127.0.0.1:")


@pytest.mark.parametrize("words", ["KILL", "KILL TIDB", "KILL CONNECTION"])
def test_a_connection_of_another_node_is_ended(nodes: list[NodeProcess], words: str) -> None:
    first, second = nodes
    with first.connect(autocommit=True) as one, second.connect(autocommit=True) as two:
        its = two.thread_id()
        with two.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("UPDATE shop.t SET a = 11 WHERE id = 1")
        rows(one, f"{words} {its}")
        with pytest.raises(pymysql.err.OperationalError) as caught:
            rows(two, "SELECT 1")
        assert caught.value.args[0] in (1927, 2006, 2013)
        until(lambda: (its,) not in rows(one, LISTED))
        assert rows(one, "SELECT a FROM shop.t WHERE id = 1") == [(10,)]


def test_a_query_of_another_node_is_ended_and_its_session_stays(
    nodes: list[NodeProcess],
) -> None:
    first, second = nodes
    with first.connect(autocommit=True) as one, second.connect(autocommit=True) as two:
        its = two.thread_id()
        thread, codes = failing(lambda: rows(two, "SELECT SLEEP(30)"))
        running = f"{LISTED} WHERE ID = {its} AND COMMAND = 'Query'"
        until(lambda: rows(one, running))
        rows(one, f"KILL QUERY {its}")
        thread.join(10)
        assert not thread.is_alive()
        assert codes in ([], [1317])  # SLEEP answers 1 in MySQL
        assert rows(two, "SELECT 1") == [(1,)]


def test_only_ones_own_connections_may_be_ended(nodes: list[NodeProcess]) -> None:
    first, second = nodes
    ann = {"host": "127.0.0.1", "user": "ann"}
    with (
        second.connect(autocommit=True) as root,
        pymysql.connect(port=first.port, **ann) as one,  # type: ignore[call-overload]
        pymysql.connect(port=second.port, **ann) as two,  # type: ignore[call-overload]
    ):
        with pytest.raises(pymysql.err.OperationalError) as caught:
            rows(one, f"KILL {root.thread_id()}")
        assert caught.value.args[0] == 1095
        assert rows(root, "SELECT 1") == [(1,)]
        assert set(rows(one, LISTED)) == {(one.thread_id(),), (two.thread_id(),)}
        rows(one, f"KILL {two.thread_id()}")
        until(lambda: rows(one, LISTED) == [(one.thread_id(),)])


def test_an_unknown_id_is_an_error(nodes: list[NodeProcess]) -> None:
    with nodes[0].connect(autocommit=True) as one:
        for number in (one.thread_id() + 2, 2047 << 21 | 2, 7):
            with pytest.raises(pymysql.err.OperationalError) as caught:
                rows(one, f"KILL {number}")
            assert caught.value.args == (1094, f"Unknown thread id: {number}")


def test_the_lock_view_names_a_session_by_the_id_it_is_ended_by(
    nodes: list[NodeProcess],
) -> None:
    first, second = nodes
    with (
        first.connect(autocommit=True) as one,
        first.connect(autocommit=True) as watcher,
        second.connect(autocommit=True) as two,
    ):
        with two.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("UPDATE shop.t SET a = 12 WHERE id = 1")
        thread, codes = failing(lambda: rows(one, "ALTER TABLE shop.t ADD COLUMN b INT"))
        view = "SELECT SESSION_ID FROM mysql.tidb_mdl_view"
        blockers = until(lambda: rows(watcher, view))
        assert blockers == [(two.thread_id(),)]
        rows(watcher, f"KILL {blockers[0][0]}")
        thread.join(20)
        assert not codes
        assert not thread.is_alive()


@pytest.mark.parametrize("words", ["KILL", "KILL QUERY"])
def test_ending_who_submitted_a_change_cancels_it(nodes: list[NodeProcess], words: str) -> None:
    first, second = nodes
    with (
        first.connect(autocommit=True) as one,
        first.connect(autocommit=True) as writer,
        second.connect(autocommit=True) as two,
    ):
        with writer.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("UPDATE shop.t SET a = 13 WHERE id = 1")
        thread, codes = failing(lambda: rows(one, "ALTER TABLE shop.t ADD INDEX by_a (a)"))
        until(lambda: rows(two, "SELECT 1 FROM mysql.tidb_mdl_view"))
        rows(two, f"{words} {one.thread_id()}")
        thread.join(20)
        assert not thread.is_alive()
        assert codes
        state = "SELECT STATE FROM information_schema.ddl_jobs ORDER BY JOB_ID DESC LIMIT 1"
        until(lambda: rows(two, state) == [("cancelling",)])
        rows(writer, "ROLLBACK")
        until(lambda: rows(two, state) == [("rollback done",)])
        assert rows(two, "SHOW INDEX FROM shop.t WHERE Key_name = 'by_a'") == []


def test_a_stopped_node_is_reported_and_not_waited_for(nodes: list[NodeProcess]) -> None:
    first, second = nodes
    with first.connect(autocommit=True) as one, second.connect(autocommit=True) as two:
        its = two.thread_id()
        second.send(signal.SIGSTOP)
        try:
            with one.cursor() as cursor:
                cursor.execute(LISTED)
                assert cursor.fetchall() == ((one.thread_id(),),)
                message = f"node 127.0.0.1:{second.port} has not answered"
                assert warnings_of(one, second) == [("Warning", 1105, message)]
            with pytest.raises(pymysql.err.OperationalError) as caught:
                rows(one, f"KILL QUERY {its}")
            assert caught.value.args[0] == 1105
            assert f"127.0.0.1:{second.port} has not answered" in caught.value.args[1]
        finally:
            second.send(signal.SIGCONT)
        until(lambda: (its,) in rows(one, LISTED))


MOST_KILLED = 8


def test_a_killed_node_is_reported_until_it_is_fenced(
    nodes: list[NodeProcess], tmp_path: Path
) -> None:
    """The owner looks for dead members from time to time, and a waiting job does at once.

    A node that is fenced before the first query is not reported. In this case another node is
    killed."""
    for number in range(MOST_KILLED):
        third = NodeProcess(nodes[0].store, tmp_path / f"killed{number}.log").wait_ready()
        closed = third.connect()
        its = closed.thread_id()
        message = f"node 127.0.0.1:{third.port} has ended"
        with nodes[0].connect(autocommit=True) as one:
            third.kill()
            listed, warnings = rows(one, LISTED), warnings_of(one, third)
            assert (its,) not in listed
            with pytest.raises(pymysql.err.OperationalError) as caught:
                rows(one, f"KILL {its}")
            assert caught.value.args[0] == 1094
            # the waiting change fences the node
            rows(one, f"ALTER TABLE shop.t ADD COLUMN fenced{number} INT")
            rows(one, LISTED)
            assert warnings_of(one, third) == []
        if warnings:
            assert warnings == [("Warning", 1105, message)]
            return
    raise AssertionError("each of them was fenced before anybody asked")


def warnings_of(connection: pymysql.Connection, node: NodeProcess) -> list[tuple[object, ...]]:
    """The warnings of the last statement about that node. Another node may be slow at the same
    time."""
    return [
        warning
        for warning in rows(connection, "SHOW WARNINGS")
        if f":{node.port} " in str(warning[2])
    ]


def test_a_transaction_that_reads_for_longer_than_allowed_is_ended_and_told(
    nodes: list[NodeProcess],
) -> None:
    with nodes[0].connect() as reader, nodes[0].connect(autocommit=True) as root:

        def ended() -> str:
            try:
                rows(reader, "SELECT a FROM shop.t WHERE id = 1")
            except pymysql.MySQLError as error:
                return str(error)
            return ""

        try:
            root.query("SET GLOBAL exuvia_max_snapshot_s = 1")
            reader.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            assert "open longer than 1 s" in until(ended)
        finally:
            root.query("SET GLOBAL exuvia_max_snapshot_s = DEFAULT")
