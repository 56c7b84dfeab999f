"""`exuvia store compact --swap` while two nodes serve clients: no process ends, no row is lost."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pymysql
import pytest

from support.node_processes import NodeProcess, running_nodes, until


def run(node: NodeProcess, statement: str) -> tuple:  # type: ignore[type-arg]
    with node.connect("d", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


@pytest.mark.long
def test_the_file_is_exchanged_under_two_nodes_with_clients(tmp_path: Path) -> None:
    with running_nodes(tmp_path, 2) as nodes:
        first, second = nodes
        with first.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            cursor.execute("CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(500))")
        for _ in range(10):
            rows = ", ".join(f"('{'x' * 500}')" for _ in range(1000))
            run(first, f"INSERT INTO t (b) VALUES {rows}")
        run(first, "DELETE FROM t WHERE a % 20 > 0")
        row_count = run(first, "SELECT count(*) FROM t")[0][0]
        acknowledged: list[int] = []
        over = threading.Event()

        def write() -> None:
            while not over.is_set():
                try:
                    run(second, "INSERT INTO t (b) VALUES ('new')")
                    acknowledged.append(1)
                except pymysql.err.MySQLError:
                    continue

        writer = threading.Thread(target=write)
        writer.start()
        before = [member["pid"] for member in first.status()["members"]]
        size = (tmp_path / "store" / "data.mdb").stat().st_size
        command = [sys.executable, "-m", "exuvia.cli.main", "store", "compact", "--swap", "--yes"]
        url = f"lmdb://{tmp_path / 'store'}"
        result = subprocess.run(
            [*command, "--store", url], capture_output=True, text=True, env=os.environ, check=False
        )
        assert result.returncode == 0, result.stderr
        assert "will wait for about" in result.stdout
        assert "writers waited for" in result.stdout
        done = len(acknowledged)
        until(lambda: len(acknowledged) > done + 5)
        over.set()
        writer.join()
        assert (tmp_path / "store" / "data.mdb").stat().st_size < size / 2
        assert [member["pid"] for member in first.status()["members"]] == before
        total = run(first, "SELECT count(*) FROM t")[0][0]
        assert row_count + len(acknowledged) <= total <= row_count + len(acknowledged) + 1
        run(second, "ALTER TABLE t ADD INDEX ib (b)")
        run(first, "ADMIN CHECK TABLE t")
        until(lambda: "exuvia_store_kept_bytes" in first.get("/metrics")[1])
