"""More open transactions than the store has slots: clients get an error, and no node is harmed."""

import contextlib
from pathlib import Path
from typing import Any

import pymysql
import pytest

from support.node_processes import NodeProcess, end_all, until

LEASE_S = 4.0


@pytest.mark.long  # tests/kv/test_lmdb_limits.py and tests/sql/test_first_reads.py: without nodes
def test_a_burst_of_open_transactions_is_refused_clearly_and_harms_no_node(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store?readers=96"
    nodes = [NodeProcess(url, tmp_path / f"log{n}", LEASE_S) for n in range(2)]
    try:
        for node in nodes:
            node.wait_ready()
        with nodes[0].connect(autocommit=True) as connection:
            connection.query("CREATE DATABASE d")
            connection.query("CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
            connection.query("INSERT INTO d.t VALUES (1, 1)")
        with contextlib.ExitStack() as burst:
            codes = [begin(burst.enter_context(nodes[n % 2].connect())) for n in range(130)]
            assert set(codes) == {0, 1637}
            assert 20 < codes.count(0) < 100
            altered_everywhere(nodes, "while_it_lasts")
        altered_everywhere(nodes, "afterwards")
    finally:
        end_all(nodes)
    for node in nodes:
        text = node.log.read_text()
        assert "broken" not in text and "the back ended" not in text


def begin(connection: Any) -> int:
    """Run BEGIN and a read. Returns the error code, or 0."""
    connection.query("BEGIN")
    try:
        connection.query("SELECT b FROM d.t WHERE a = 1")
    except pymysql.MySQLError as error:
        assert "snapshots that they may" in error.args[1]
        return int(error.args[0])
    return 0


def altered_everywhere(nodes: list[NodeProcess], about: str) -> None:
    """Every node changes the schema, and a node with a free slot writes."""
    for number, node in enumerate(nodes):
        with node.connect(autocommit=True, read_timeout=30) as connection:
            if about == "afterwards":
                until(lambda at=connection: writes(at), LEASE_S + 4)
            connection.query(f"ALTER TABLE d.t ADD COLUMN {about}{number} INT")


def writes(connection: Any) -> bool:
    """Whether the client can write. The server may still be closing transactions of the burst."""
    try:
        connection.query("UPDATE d.t SET b = b + 1 WHERE a = 1")
    except pymysql.MySQLError as error:
        assert error.args[0] == 1637, error
        return False
    return True
