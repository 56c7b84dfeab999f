"""Several fronts of one node act as one server to clients."""

import contextlib
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from exuvia.server.fronts import ClientCounts, Place, listen
from support.node_processes import NodeProcess, children_of, is_alive, until
from support.torture import run

FRONTS = 3


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("fronts")
    options = ("--fronts", str(FRONTS), "--connections", "24")
    running = NodeProcess(f"lmdb://{folder}/store", folder / "log", 10.0, options)
    try:
        running.wait_ready()
        until(lambda: len(fronts_of(running)) == FRONTS)
        yield running
    finally:
        running.kill()


def rows(connection: Any, text: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


def fronts_of(node: NodeProcess) -> list[dict[str, Any]]:
    return [member for member in node.status()["members"] if member["kind"] == "front"]


def front_of(connection: Any) -> int:
    """The number of the connection's front."""
    return int(connection.thread_id()) >> 21


@contextlib.contextmanager
def one_client_of_each(node: NodeProcess) -> Iterator[list[Any]]:
    """Yields a connection to each front."""
    by_front: dict[int, Any] = {}

    def is_complete() -> bool:
        connection = node.connect("test", autocommit=True)
        if by_front.setdefault(front_of(connection), connection) is not connection:
            connection.close()
        return len(by_front) == FRONTS

    try:
        until(is_complete)
        yield list(by_front.values())
    finally:
        for client in by_front.values():
            with contextlib.suppress(pymysql.MySQLError):
                client.close()


def no_clients(node: NodeProcess) -> bool:
    return bool(node.status()["connections"] == 0)


def test_clients_are_spread_over_the_fronts(node: NodeProcess) -> None:
    until(lambda: no_clients(node))
    clients = [node.connect() for _ in range(4 * FRONTS)]
    try:
        of_each = Counter(map(front_of, clients))
        assert len(of_each) == FRONTS
        # a front that a busy machine keeps waiting may be passed over now and then
        assert max(of_each.values()) <= 4 + 2
        assert node.status()["connections"] == 4 * FRONTS
    finally:
        for client in clients:
            client.close()


def test_sessions_are_listed_and_killed_whoever_serves_them(node: NodeProcess) -> None:
    with one_client_of_each(node) as clients:
        ids = {client.thread_id() for client in clients}
        for client in clients:
            assert ids <= {row[0] for row in rows(client, "SHOW PROCESSLIST")}
            [(_, connected)] = rows(client, "SHOW STATUS LIKE 'Threads_connected'")
            assert int(connected) >= FRONTS
        first, *others = clients
        for other in others:
            rows(first, f"KILL {other.thread_id()}")
            with pytest.raises(pymysql.MySQLError):
                until(lambda other=other: rows(other, "SELECT 1") and False)
        assert rows(first, "SELECT 1") == [(1,)]


def test_named_locks_and_row_locks_hold_among_them(node: NodeProcess) -> None:
    with one_client_of_each(node) as clients:
        first, second, third = clients
        rows(first, "CREATE TABLE locked (id INT PRIMARY KEY, n INT)")
        rows(first, "INSERT INTO locked VALUES (1, 0)")
        assert rows(first, "SELECT GET_LOCK('one', 0)") == [(1,)]
        assert rows(second, "SELECT GET_LOCK('one', 0)") == [(0,)]
        second.begin()
        rows(second, "SELECT * FROM locked FOR UPDATE")
        third.begin()
        with pytest.raises(pymysql.MySQLError) as caught:
            rows(third, "SELECT * FROM locked FOR UPDATE NOWAIT")
        assert caught.value.args[0] == 3572
        second.rollback()
        third.rollback()


def test_as_many_clients_as_the_node_allows(node: NodeProcess) -> None:
    until(lambda: no_clients(node))
    clients = []
    try:
        with pytest.raises(pymysql.MySQLError) as caught:
            for _ in range(25):
                clients.append(node.connect())
        assert caught.value.args[0] == 1040
        assert len(clients) == 24
        assert len({front_of(client) for client in clients}) == FRONTS
    finally:
        for client in clients:
            client.close()


def test_their_counters_are_added_up(node: NodeProcess) -> None:
    def errors() -> int:
        page = node.get("/metrics")[1]
        match = re.search(r'exuvia_client_errors_total\{code="1146"\} (\d+)', page)
        return int(match[1]) if match else 0

    before = errors()
    with one_client_of_each(node) as clients:
        for client in clients:
            with pytest.raises(pymysql.MySQLError):
                rows(client, "SELECT * FROM there_is_none")
    assert errors() == before + FRONTS


def test_a_schema_change_waits_for_each_front(node: NodeProcess) -> None:
    run(node, "CREATE TABLE changed (id INT PRIMARY KEY, n INT)")
    with one_client_of_each(node) as clients:
        first, *others = clients
        first.begin()
        rows(first, "INSERT INTO changed VALUES (1, 1)")
        change = threading.Thread(
            target=run, args=(node, "ALTER TABLE changed ADD COLUMN m INT DEFAULT 7")
        )
        change.start()
        for number, client in enumerate(others):
            rows(client, f"INSERT INTO changed (id, n) VALUES ({number + 10}, 0)")
        first.commit()
        change.join(30)
        for client in clients:
            assert [row[0] for row in rows(client, "SELECT m FROM changed")] == [7] * FRONTS


def test_a_front_that_is_killed_loses_its_own_sessions_only(node: NodeProcess) -> None:
    back = node.back_pid()
    zero = parent_of(back)
    other = next(front["pid"] for front in fronts_of(node) if front["pid"] != zero)
    kill_one(node, other)
    assert node.back_pid() == back
    kill_one(node, zero)
    assert not is_alive(back)  # it ends with front 0, and there is a new one
    assert node.back_pid() != back


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def kill_one(node: NodeProcess, victim: int) -> None:
    """Kill one of three fronts while each has a client. Returns when all are back. New clients are
    served meanwhile."""
    with one_client_of_each(node) as clients:
        os.kill(victim, signal.SIGKILL)
        until(lambda: not is_alive(victim))
        lost = 0
        for client in clients:
            try:
                assert rows(client, "SELECT 1") == [(1,)]
            except pymysql.MySQLError:
                lost += 1
        assert lost == 1
        assert run(node, "SELECT 1") == [(1,)]

    def is_complete() -> bool:
        with contextlib.suppress(OSError):  # front 0 has the pages
            pids = {front["pid"] for front in fronts_of(node)}
            return len(pids) == FRONTS and victim not in pids
        return False

    until(is_complete)


def test_all_end_in_order_and_none_outlives_its_keeper(tmp_path: Path) -> None:
    for by, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        store, log = f"lmdb://{tmp_path}/{by.name}", tmp_path / by.name.lower()
        node = NodeProcess(store, log, options=("--fronts", "2")).wait_ready()
        try:
            children = until(
                lambda node=node: len(pids := children_of(node.process.pid)) == 2 and pids
            )
            node.process.send_signal(by)
            assert node.process.wait(20) == code
            until(lambda children=children: not any(map(is_alive, children)))
        finally:
            node.kill()


# -- distribution of clients -----------------------------------------------------------------------


def test_a_front_leaves_a_client_to_one_that_has_fewer() -> None:
    counts = ClientCounts(3)
    one, two = Place(counts, 0), Place(counts, 1)
    assert not one.has_more and not two.has_more  # the third has not begun
    one.put(1)
    assert one.has_more and not two.has_more
    two.put(1)
    assert not one.has_more
    assert one.total == 2
    third = Place(counts, 2)
    assert one.has_more and not third.has_more
    counts.remove(2)
    assert not one.has_more
    counts.remove(1)
    assert one.total == 1


def test_every_address_of_a_host_has_the_same_port() -> None:
    listeners = listen("localhost", 0)
    try:
        assert len({listener.getsockname()[1] for listener in listeners}) == 1
    finally:
        for listener in listeners:
            listener.close()
