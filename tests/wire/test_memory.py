"""No statement takes more memory than its quota: resident memory of a real node's processes."""

import time
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from support.memory import Peak
from support.node_processes import NodeProcess, running_nodes

MB = 1 << 20
QUOTA = 1 << 30  # the default
SHARE = 1.2
"""Resident memory is at most this multiple of the quota."""


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node of its own: what other tests leave in its memory is not counted."""
    with running_nodes(tmp_path_factory.mktemp("memory")) as [node]:
        with node.connect() as client:
            client.autocommit(True)
            client.query("CREATE DATABASE m")
            client.select_db("m")
            client.query("CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(20), t LONGTEXT)")
            rows = ",".join(f"({n}, 'x', NULL)" for n in range(2000))
            client.query(f"INSERT INTO big VALUES {rows}")
            client.query("SELECT COUNT(*) FROM big a JOIN big b ON a.v = b.id")  # loads DuckDB
        yield node


def ended(client: Any, statement: str) -> int:
    """The code of the error that ends the statement; 0 where it succeeds."""
    try:
        client.query(statement)
    except pymysql.MySQLError as error:
        return int(error.args[0])
    return 0


BEYOND = {
    "rows": "SELECT REPEAT(v, 4000000) FROM big",
    "one row": "SELECT " + ", ".join(["REPEAT('x', 60000000)"] * 60),
}


@pytest.mark.parametrize("statement", BEYOND.values(), ids=BEYOND.keys())
def test_a_statement_stays_within_its_quota(roomy: NodeProcess, statement: str) -> None:
    with roomy.connect("m") as client, Peak(roomy) as peak:
        assert ended(client, statement) == 8175
        assert QUOTA / 2 < peak.most < peak.before + SHARE * QUOTA
        assert ended(client, "SELECT 1") == 0
    assert peak.settled(100 * MB, 5.0) < 200 * MB


def test_a_row_is_sent_value_by_value(roomy: NodeProcess) -> None:
    with roomy.connect("m") as client, Peak(roomy) as peak:
        rows = client.cursor(pymysql.cursors.SSCursor)
        rows.execute("SELECT " + ", ".join(["REPEAT('x', 50000000)"] * 8))
        time.sleep(1.0)  # the client reads late
        (row,) = rows.fetchall()
        assert [len(value) for value in row] == [50_000_000] * 8
        assert peak.grown < 600 * MB
    assert peak.settled(100 * MB, 5.0) < 150 * MB


def test_a_node_ends_its_largest_statement(roomy: NodeProcess) -> None:
    with roomy.connect("m") as admin, roomy.connect("m") as small, roomy.connect("m") as large:
        base = Peak(roomy).before
        admin.query(f"SET GLOBAL tidb_server_memory_limit = {max(512 * MB, base + 300 * MB)}")
        try:
            time.sleep(1.2)  # the variable is looked at once a second
            with Peak(roomy) as peak:
                small.query("SET @v = REPEAT('v', 60000000), @w = REPEAT('w', 60000000)")
                assert ended(large, "SELECT REPEAT(v, 4000000), SLEEP(0.01) FROM big") == 8176
                assert peak.grown < 600 * MB
            assert ended(small, "SELECT LENGTH(@v)") == 0
        finally:
            admin.query("SET GLOBAL tidb_server_memory_limit = DEFAULT")
    assert "tidb_server_memory_limit ends the largest statement" in roomy.log.read_text()
