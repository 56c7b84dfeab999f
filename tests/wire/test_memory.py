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
    assert peak.settled(100 * MB, 5.0) < 200 * MB
