"""The slow log: slow statements with their plans, of this node and of all nodes."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import mysql.connector
import pymysql
import pytest
from pymysql.constants import CLIENT

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
    """Set it, and wait until both nodes use it."""
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
        (latest, *_) = rows(client, "ADMIN SHOW SLOW RECENT 1")
        assert latest[0] == query
        slowest = rows(client, "ADMIN SHOW SLOW TOP 1000")
        assert (1, client.thread_id()) in [row[4:6] for row in slowest]
    log = [json.loads(line) for line in nodes[0].log.read_text().splitlines() if line[:1] == "{"]
    assert query in [
        record["query"] for record in log if record["message"] == "a statement was slow"
    ]


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
        (failed,) = rows(client, SLOW, "SELECT missing%")
        assert (failed[2], failed[3]) == (0, None)
        rows(client, "/*!40101 ALTER USER sue */ /* c */ IDENTIFIED BY 'secret word'")
        rows(client, "PREPARE q FROM 'SET PASSWORD FOR sue = ''secret word'''")
        queries = [row[4] for row in rows(client, SLOW, "ALTER USER%")]
        assert queries == ["ALTER USER sue IDENTIFIED BY '***'"] * 2
        assert [row[4] for row in rows(client, SLOW, "PREPARE q%")] == ["PREPARE q FROM '***'"]
        assert rows(client, SLOW, "%secret word%") == []
        rows(client, "INSERT INTO t VALUES (3, 30)")
        (failed,) = rows(client, SLOW, "INSERT INTO t VALUES (3%")
        assert failed[3].startswith("Insert_1")
    threshold(nodes, -1)
    with nodes[0].connect(autocommit=True) as client:
        rows(client, "SELECT SLEEP(0.35), 'unheard'")
        assert rows(client, SLOW, "%unheard%") == []


FORMS = (
    "/* c */ CREATE USER sam IDENTIFIED BY '{}'",
    "-- c\nALTER USER sam IDENTIFIED BY '{}'",
    "/*!40101 ALTER USER sam IDENTIFIED BY '{}' */",
    "ALTER USER sam IDENTIFIED BY '{}' REPLACE '{}'",
    "ALTER USER sam IDENTFIED BY '{}'",
    "ALTER USER sam IDENTIFIED BY '{}",
    "SET PASSWORD FOR sam = '{}'",
    "PREPARE p FROM 'ALTER USER sam IDENTIFIED BY ''{}'''",
    "SET @s = CONCAT('SET PASSWORD FOR sam = ''', '{}', '''')",
    "PREPARE p FROM @s",
    "EXECUTE p",
    "SELECT 1; ALTER USER sam IDENTIFIED BY '{}'; SELECT 2",
    "DO AES_ENCRYPT('x', '{}')",
    "UPDATE slow.people SET password = SHA2('{}', 256) WHERE id = 1",
)


def test_no_door_of_a_node_shows_a_password(nodes: list[NodeProcess]) -> None:
    threshold(nodes, 0)
    node, word = nodes[0], "open5esame"
    with node.connect(autocommit=True) as root:
        rows(root, "CREATE TABLE slow.people (id INT PRIMARY KEY, password VARCHAR(99))")
        rows(root, "INSERT INTO slow.people VALUES (1, '')")
    with node.connect(autocommit=True, client_flag=CLIENT.MULTI_STATEMENTS) as client:
        for form in FORMS:
            with suppress(pymysql.MySQLError), client.cursor() as cursor:
                cursor.execute(form.format(word, word))
                while cursor.nextset():
                    pass
    binary: Any = mysql.connector.connect(
        host="127.0.0.1", port=node.port, user="root", use_pure=True, autocommit=True
    )
    with binary, binary.cursor(prepared=True) as cursor:
        for text, value in (("SELECT PASSWORD(?)", word), ("SELECT ?", f"IDENTIFIED BY '{word}'")):
            cursor.execute(text, (value,))
            cursor.fetchall()
    with (
        node.connect(autocommit=True) as asking,
        node.connect() as holder,
        node.connect() as waiter,
    ):
        rows(holder, f"UPDATE slow.people SET password = SHA2('{word}', 256)")
        waiter.send_command(3, f"/*c*/ UPDATE slow.people SET password = SHA2('{word}', 256)")
        doors = ["SHOW FULL PROCESSLIST", "ADMIN SHOW SLOW RECENT 1000", "ADMIN SHOW DDL JOBS 99"]
        doors.append("ADMIN SHOW DDL JOB QUERIES LIMIT 99")
        tables = rows(
            asking,
            "SELECT DISTINCT table_schema, table_name FROM information_schema.columns"
            " WHERE table_schema IN ('information_schema', 'mysql') AND (column_name = 'INFO'"
            " OR column_name LIKE '%QUERY%' OR column_name LIKE '%SQL%'"
            " OR column_name LIKE '%TEXT%' OR column_name LIKE '%STATEMENT%')",
        )
        doors += [f"SELECT * FROM `{schema}`.`{table}`" for schema, table in tables]
        assert len(doors) > 10
        until(lambda: "SHA2('***'" in str(rows_or_nothing(asking, doors[0])))
        assert [door for door in doors if word in str(rows_or_nothing(asking, door))] == []
        holder.rollback()
        waiter.read_result()
    for page in ("/status", "/page/history", "/page/live"):
        with urllib.request.urlopen(f"http://127.0.0.1:{node.status_port}{page}") as answer:
            assert word not in answer.read().decode(), page
    assert word not in node.log.read_text()
    with node.connect(autocommit=True) as root:
        assert len(rows(root, SLOW, "%***%")) >= len(FORMS) - 3, "they were there"
        rows(root, "DROP USER IF EXISTS sam")


def rows_or_nothing(connection: pymysql.Connection, text: str) -> list[tuple]:
    """The rows of the statement; none if it cannot be read this way."""
    with suppress(pymysql.MySQLError):
        return rows(connection, text)
    return []
