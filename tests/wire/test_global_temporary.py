"""Real clients of two nodes share a global temporary table, and none sees another's rows."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pymysql
import pytest
from typer.testing import CliRunner

from exuvia.cli.main import app
from support.node_processes import NodeProcess

COLUMNS = "(id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(20), UNIQUE KEY ua (a))"
ROUNDS, ROWS = 15, 20


def run(connection: pymysql.Connection, *texts: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


@pytest.fixture
def clients(pair: list[NodeProcess]) -> Iterator[list[pymysql.Connection]]:
    """Two clients of each node."""
    with pair[0].connect(autocommit=True) as first:
        run(first, "CREATE DATABASE IF NOT EXISTS gt", "USE gt", "DROP TABLE IF EXISTS t, o")
        run(first, f"CREATE GLOBAL TEMPORARY TABLE t {COLUMNS} ON COMMIT DELETE ROWS")
        run(first, "CREATE TABLE o (who INT, id INT, a INT, PRIMARY KEY (who, id))")
    opened = [node.connect("gt", autocommit=True) for node in pair for _ in range(2)]
    yield opened
    for client in opened:
        client.close()


def test_each_client_sees_its_own_rows(clients: list[pymysql.Connection]) -> None:
    for n, client in enumerate(clients):
        run(client, "BEGIN", f"INSERT INTO t (a, b) VALUES (1, 'of {n}'), (2, 'also')")
    for n, client in enumerate(clients):
        assert run(client, "SELECT id, b FROM t WHERE a = 1") == [(1, f"of {n}")]
        with pytest.raises(pymysql.err.IntegrityError):
            run(client, "INSERT INTO t (a) VALUES (2)")
        assert run(client, "SELECT count(*) FROM t") == [(2,)]
    run(clients[0], "COMMIT")
    run(clients[1], "ROLLBACK")
    for client in clients[:2]:
        assert run(client, "SELECT * FROM t") == []
    assert run(clients[2], "SELECT count(*) FROM t") == [(2,)]
    for client in clients[2:]:
        run(client, "COMMIT")
    for client in clients:
        run(client, "INSERT INTO t (a) VALUES (1)")
        assert run(client, "SELECT count(*) FROM t") == [(0,)]


def _work(client: pymysql.Connection, who: int) -> list[str]:
    """Runs transactions with the temporary table. Returns a list of faults."""
    wrong = []
    for n in range(ROUNDS):
        values = ", ".join(f"({who * 1000 + n * ROWS + at}, 'w{who}')" for at in range(ROWS))
        run(client, "BEGIN", f"INSERT INTO t (a, b) VALUES {values}")
        observed = run(client, f"SELECT count(*), count(nullif(b, 'w{who}')), min(id) FROM t")
        if observed != [(ROWS, 0, 1)]:
            wrong.append(f"{who}: {observed}")
        run(client, f"INSERT INTO o SELECT {who}, id + {n * ROWS}, a FROM t", "COMMIT")
        if run(client, "SELECT count(*) FROM t") != [(0,)]:
            wrong.append(f"{who}: rows after COMMIT")
    return wrong


def test_all_at_once_during_schema_changes(
    clients: list[pymysql.Connection], pair: list[NodeProcess]
) -> None:
    """Rows that clients of two nodes write through the table are complete while indexes are added
    and dropped."""
    with ThreadPoolExecutor(len(clients)) as pool, pair[1].connect("gt", autocommit=True) as other:
        working = [pool.submit(_work, client, n) for n, client in enumerate(clients)]
        changes = 0
        while not all(future.done() for future in working):
            run(other, "ALTER TABLE t ADD INDEX ib (b)", "ALTER TABLE t DROP INDEX ib")
            changes += 1
        assert [future.result() for future in working] == [[]] * len(clients)
        assert changes > 0
        totals = run(
            other, "SELECT who, count(*), count(distinct a) FROM o GROUP BY who ORDER BY who"
        )
    assert totals == [(n, ROUNDS * ROWS, ROUNDS * ROWS) for n in range(len(clients))]


def test_a_client_that_breaks_off_leaves_nothing(
    clients: list[pymysql.Connection], pair: list[NodeProcess]
) -> None:
    """Its transaction ends with it: a schema change that waited for its rows continues."""
    closed = pair[0].connect("gt", autocommit=True)
    run(closed, "BEGIN", "INSERT INTO t (a) VALUES (1)")
    closed.break_off()
    run(clients[2], "ALTER TABLE t ADD COLUMN c INT DEFAULT 3")
    run(clients[0], "BEGIN", "INSERT INTO t (a) VALUES (1)")
    assert run(clients[0], "SELECT id, c FROM t") == [(1, 3)]
    run(clients[0], "COMMIT")


def test_it_is_not_exported(
    clients: list[pymysql.Connection], pair: list[NodeProcess], tmp_path: Path
) -> None:
    words = ["export", str(tmp_path / "t"), "--table", "gt.t", "--store", pair[0].store]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 1
    assert "`export` is unsupported on temporary tables" in ended.output
