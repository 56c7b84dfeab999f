"""No statement takes more memory than its quota: resident memory of a real node's processes."""

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
    peak.settle(150 * MB, 10.0)


JOIN = "big a JOIN big b ON a.id < 30 AND b.id < 100"
LARGE_ROWS = {
    "a join": f"SELECT a.t FROM {JOIN}",
    "joined texts": f"SELECT MAX(CONCAT({', '.join(['a.t'] * 40)}, b.id)) FROM {JOIN}",
    "a function": f"SELECT MAX(REPEAT(a.t, 40)) FROM {JOIN}",
    "a key": f"SELECT COUNT(DISTINCT a.t, b.id) FROM {JOIN}",
    "GROUP_CONCAT": f"SELECT GROUP_CONCAT(a.t) FROM {JOIN}",
    "JSON_ARRAYAGG": f"SELECT JSON_ARRAYAGG(a.t) FROM {JOIN}",
    "a recursion": "WITH RECURSIVE c AS (SELECT CAST('x' AS CHAR(100000000)) AS s, 1 AS n"
    " UNION ALL SELECT CONCAT(s, s), n + 1 FROM c WHERE n < 28) SELECT COUNT(*) FROM c",
}


@pytest.mark.parametrize("statement", LARGE_ROWS.values(), ids=LARGE_ROWS.keys())
def test_rows_that_are_joined_stay_within_the_quota(roomy: NodeProcess, statement: str) -> None:
    quota = 100 * MB
    with roomy.connect("m") as client:
        client.autocommit(True)
        client.query("UPDATE big SET t = REPEAT(CHAR(97 + id), 100000) WHERE id < 30")
        client.query("SELECT COUNT(DISTINCT UPPER(t)) FROM big")
        client.query(f"SET tidb_mem_quota_query = {quota}")
        with Peak(roomy) as peak:
            assert ended(client, statement) == 8175
            assert peak.grown < SHARE * quota + 96 * MB  # DuckDB has 64 for itself
        assert ended(client, "SELECT SUM(LENGTH(t)) FROM big") == 0


def test_a_row_is_sent_value_by_value(roomy: NodeProcess) -> None:
    with roomy.connect("m") as client, Peak(roomy) as peak:
        rows = client.cursor(pymysql.cursors.SSCursor)
        rows.execute("SELECT " + ", ".join(["REPEAT('x', 50000000)"] * 8))
        (row,) = rows.fetchall()
        assert [len(value) for value in row] == [50_000_000] * 8
        assert peak.grown < 600 * MB
    peak.settle(150 * MB, 10.0)


def test_a_node_ends_its_largest_statement(roomy: NodeProcess) -> None:
    with roomy.connect("m") as admin, roomy.connect("m") as small, roomy.connect("m") as large:
        base = Peak(roomy).before
        admin.query(f"SET GLOBAL tidb_server_memory_limit = {max(512 * MB, base + 300 * MB)}")
        try:
            with Peak(roomy) as peak:
                small.query("SET @v = REPEAT('v', 60000000), @w = REPEAT('w', 60000000)")
                assert ended(large, "SELECT REPEAT(v, 4000000), SLEEP(0.02) FROM big") == 8176
                assert peak.grown < 600 * MB
            assert ended(small, "SELECT LENGTH(@v)") == 0
        finally:
            admin.query("SET GLOBAL tidb_server_memory_limit = DEFAULT")
    assert "tidb_server_memory_limit ends the largest statement" in roomy.log.read_text()
