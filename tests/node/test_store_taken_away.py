"""A node whose store's folder is removed while it runs acknowledges nothing and starts no new
store."""

from pathlib import Path

import pymysql
import pytest

from support.node_processes import NodeProcess, running_nodes, until


def insert(node: NodeProcess, number: int) -> None:
    with node.connect("d", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO t VALUES ({number})")


def test_after_the_folder_is_removed_no_write_is_acknowledged_and_no_empty_cluster_begun(
    tmp_path: Path,
) -> None:
    with running_nodes(tmp_path) as [node]:
        with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            cursor.execute("CREATE TABLE d.t (a INT PRIMARY KEY)")
        insert(node, 1)
        folder = tmp_path / "store"
        folder.rename(tmp_path / "kept")  # the same as removed, seen by its path
        with pytest.raises(pymysql.err.MySQLError):
            insert(node, 2)
        log = node.log
        until(lambda: "was removed while it was open" in log.read_text())
        until(lambda: "is not there any more: put it back" in log.read_text())
        with pytest.raises(pymysql.err.OperationalError, match="cannot serve") as refused:
            insert(node, 2)  # a new client does not wait forever
        assert refused.value.args[0] == 1053
        assert not folder.exists()
        (tmp_path / "kept").rename(folder)  # put back: it goes on by itself
        until(lambda: _serves(node))
        insert(node, 3)
        with node.connect("d") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT a FROM t ORDER BY a")
            assert cursor.fetchall() == ((1,), (3,))


def _serves(node: NodeProcess) -> bool:
    try:
        node.connect().close()
    except pymysql.err.MySQLError:
        return False
    return True
