"""Spark's JVM and its Python workers end with the node, however that ends."""

import subprocess
from pathlib import Path

import pytest

from support.node_processes import is_alive, running_nodes, until


def descendants(pid: int) -> list[int]:
    """Every process below one."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout
    children = [int(each) for each in listed.split()]
    return children + [each for child in children for each in descendants(child)]


@pytest.mark.long  # tests/spark kills a driver, too
def test_no_jvm_outlives_a_front_that_is_killed(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as [node]:
        with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            cursor.execute("CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
            cursor.execute("INSERT INTO d.t VALUES (1, 2), (2, 3)")
            cursor.execute("SET GLOBAL exuvia_pipeline_inline_rows = 0")
            cursor.execute("ALTER TABLE d.t ADD INDEX ib (b)")
            cursor.execute("ADMIN CHECK TABLE d.t")
        processes = [node.back_pid(), *descendants(node.back_pid())]
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes]
        assert "java" in names
        node.kill()
        until(lambda: not any(map(is_alive, processes)))
