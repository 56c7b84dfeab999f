"""The slow log: what took long, with its plan, on this node and on all."""

import json
from collections.abc import Iterator
from itertools import count

import pymysql
import pytest

from support.node_processes import NodeProcess, until

SLOW = (
    "SELECT user, db, succ, plan, query, query_time FROM information_schema.slow_query"
    " WHERE query LIKE %s ORDER BY time"
)


PROBES = count()


def rows(connection: pymysql.Connection, text: str, *values: object) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(text, values or None)
        return list(cursor.fetchall())


@pytest.fixture(scope="module")
def nodes(pair: list[NodeProcess]) -> Iterator[list[NodeProcess]]:
    with pair[0].connect(autocommit=True) as root:
        rows(root, "CREATE DATABASE slow")
        rows(root, "CREATE TABLE slow.t (id INT PRIMARY KEY, a INT, KEY ia (a))")
        rows(root, "INSERT INTO slow.t VALUES (1, 10), (2, 20)")
        rows(root, "CREATE USER sue IDENTIFIED BY 'hidden'")
    yield pair
    with pair[0].connect(autocommit=True) as root:
        rows(root, "SET GLOBAL tidb_slow_log_threshold = 300")
        rows(root, "DROP USER sue")
        rows(root, "DROP DATABASE slow")


def threshold(nodes: list[NodeProcess], value: int) -> None:
    """Set it, and wait until both nodes go by it."""
    with nodes[0].connect(autocommit=True) as root:
        rows(root, f"SET GLOBAL tidb_slow_log_threshold = {value}")
    for node in nodes:
        with node.connect(autocommit=True) as client:

            def goes_by_it(client: pymysql.Connection = client) -> bool:
                probe = f"SELECT {next(PROBES)} + {client.thread_id()}"
                rows(client, probe)
                return bool(rows(client, SLOW, probe)) == (value == 0)

            until(goes_by_it)


def test_what_takes_long_is_there_with_its_plan(nodes: list[NodeProcess]) -> None:
    with nodes[0].connect(autocommit=True, database="slow") as client:
        rows(client, "SELECT SLEEP(0.4), a FROM t WHERE a = 10")
        rows(client, "SELECT a, 'quick' FROM t WHERE a = 20")
        ((user, database, succeeded, plan, query, took_s),) = rows(client, SLOW, "SELECT SLEEP%")
        assert (user, database, succeeded) == ("root", "slow", 1)
        assert query == "SELECT SLEEP(0.4), a FROM t WHERE a = 10"
        assert 0.4 <= took_s < 30
        assert "table:t, index:ia(a)" in plan
        assert rows(client, SLOW, "SELECT a, 'quick'%") == []
        (shown, *_) = rows(client, "ADMIN SHOW SLOW RECENT 1")
        assert shown[0] == query
        slowest = rows(client, "ADMIN SHOW SLOW TOP 1000")
        assert (1, client.thread_id()) in [each[4:6] for each in slowest]
    log = [json.loads(line) for line in nodes[0].log.read_text().splitlines() if line[:1] == "{"]
    assert query in [each["query"] for each in log if each["message"] == "a statement was slow"]


def test_other_nodes_are_asked_and_other_users_see_their_own(nodes: list[NodeProcess]) -> None:
    everywhere = "SELECT instance, user FROM information_schema.cluster_slow_query WHERE query = %s"
    text = "SELECT SLEEP(0.35), 7"
    with nodes[1].connect(autocommit=True) as other:
        rows(other, text)
    with nodes[0].connect(autocommit=True) as client:
        assert len(rows(client, everywhere, text)) == 1
        assert rows(client, SLOW, text) == []
    sue = pymysql.connect(host="127.0.0.1", port=nodes[1].port, user="sue", password="hidden")
    with sue:
        assert rows(sue, everywhere, text) == []


def test_failures_passwords_and_parameters(nodes: list[NodeProcess]) -> None:
    threshold(nodes, 0)
    with nodes[0].connect(autocommit=True, database="slow") as client:
        with pytest.raises(pymysql.MySQLError):
            rows(client, "SELECT missing FROM t")
        rows(client, "ALTER USER sue IDENTIFIED BY 'secret word'")
        rows(client, "PREPARE p FROM 'SELECT a FROM t WHERE id = ?'")
        (found,) = rows(client, SLOW, "SELECT missing%")
        assert (found[2], found[3]) == (0, None)
        rows(client, "/*!40101 ALTER USER sue */ /* c */ IDENTIFIED BY 'secret word'")
        rows(client, "PREPARE q FROM 'SET PASSWORD FOR sue = ''secret word'''")
        shown = [row[4] for row in rows(client, SLOW, "ALTER USER%")]
        assert shown == ["ALTER USER sue IDENTIFIED BY '***'"] * 2
        assert [row[4] for row in rows(client, SLOW, "PREPARE q%")] == ["PREPARE q FROM '***'"]
        assert rows(client, SLOW, "%secret word%") == []
        rows(client, "INSERT INTO t VALUES (3, 30)")
        (found,) = rows(client, SLOW, "INSERT INTO t VALUES (3%")
        assert found[3].startswith("Insert_1")
    threshold(nodes, -1)
    with nodes[0].connect(autocommit=True) as client:
        rows(client, "SELECT SLEEP(0.35), 'unheard'")
        assert rows(client, SLOW, "%unheard%") == []
