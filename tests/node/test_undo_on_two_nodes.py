"""UNDO of a MODIFY on two nodes whose clients write; the owner is killed meanwhile."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.node_processes import NodeProcess, end_all, until

LEASE_S = 4.0
ROWS = 3000


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[NodeProcess]]:
    url = f"lmdb://{tmp_path}/store"
    started = [NodeProcess(url, tmp_path / f"log{n}", LEASE_S) for n in range(2)]
    try:
        for node in started:
            node.wait_ready()
        yield started
    finally:
        end_all(started)


def run(connection: Any, *texts: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


def test_it_goes_on_at_the_other_node_and_no_value_is_lost(nodes: list[NodeProcess]) -> None:
    with nodes[0].connect(autocommit=True) as client:
        run(client, "CREATE DATABASE d")
        run(client, "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, p DECIMAL(9,2), KEY ip (p))")
        values = ", ".join(f"({n}, 0, {n}.25)" for n in range(ROWS))
        run(client, f"INSERT INTO d.t VALUES {values}")
        run(client, "SET exuvia_undo_s = 600", "ALTER TABLE d.t MODIFY p INT")
        run(client, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
    report = nodes[0].status()
    back = next(m["pid"] for m in report["members"] if m["id"] == report["owner"]["member"])
    owner = next(node for node in nodes if node.status()["back_pid"] == back)
    (other,) = [node for node in nodes if node is not owner]
    stopped, written = threading.Event(), {}

    def write() -> None:
        with other.connect(autocommit=True) as connection:
            row = 0
            while not stopped.is_set():
                run(connection, f"UPDATE d.t SET a = a + 1 WHERE id = {row}")
                if row % 2:
                    run(connection, f"UPDATE d.t SET p = {row} + 5 WHERE id = {row}")
                written[row] = row
                row = (row + 7) % ROWS

    with other.connect(autocommit=True) as client:
        ((job,),) = run(client, "SELECT job_id FROM information_schema.exuvia_undo")
        writer = threading.Thread(target=write)
        writer.start()
        try:
            until(lambda: len(written) > 20)
            undoing = threading.Thread(target=run, args=(client, f"ADMIN UNDO DDL JOB {job}"))
            undoing.start()
            until(lambda: _is_filling(other, job))
            owner.kill()
            before = len(written)
            undoing.join()
            until(lambda: len(written) > before)
        finally:
            stopped.set()
            writer.join()
        run(client, "ADMIN CHECK TABLE d.t")
        expected = {n: n + 5 if n in written and n % 2 else n + 0.25 for n in range(ROWS)}
        assert dict(run(client, "SELECT id, p FROM d.t")) == expected
        rows = run(client, "SELECT id, p FROM d.t FORCE INDEX (ip) WHERE p >= 0")
        assert dict(rows) == expected
        assert not run(client, "SELECT * FROM information_schema.exuvia_undo")


def _is_filling(node: NodeProcess, job: int) -> bool:
    """Whether the newest job is a later one, and writes rows or has ended."""
    with node.connect(autocommit=True) as connection:
        newest = run(connection, "ADMIN SHOW DDL JOBS 1")[0]
    return newest[0] > job and newest[4] in ("write reorganization", "public")
