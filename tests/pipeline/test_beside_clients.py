"""A fill on a node with active clients: the job's note, and a target that cannot be met.

The target is p99 below a millisecond for clients that wait for the disk: no share meets it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.node_processes import NodeProcess, running_nodes, until

ROWS = 60_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with running_nodes(tmp_path, 1) as nodes:
        yield nodes[0]


class Clients:
    """Clients that change rows, one after another, until they are stopped."""

    def __init__(self, node: NodeProcess, count: int) -> None:
        self.errors: list[BaseException] = []
        self.statements = 0
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(node, n)) for n in range(count)]
        for each in self._threads:
            each.start()

    def _run(self, node: NodeProcess, number: int) -> None:
        try:
            with node.connect("d", autocommit=True) as connection:
                cursor = connection.cursor()
                while not self._stopping.is_set():
                    row = (self.statements * 17 + number) % ROWS
                    cursor.execute(f"UPDATE t SET v = v + 1 WHERE id = {row}")
                    self.statements += 1
        except BaseException as error:  # reported by the test
            self.errors.append(error)

    def stop(self) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join()


@pytest.mark.alone
def test_a_job_ends_at_its_minimum_share_and_reports_it_if_the_target_cannot_be_met(
    node: NodeProcess,
) -> None:
    asking = node.connect(autocommit=True).cursor()
    for text in (
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT)",
        "SET GLOBAL exuvia_pipeline_inline_rows = 1000000",
        "SET GLOBAL exuvia_ddl_p99_target_ms = 1",
        "SET GLOBAL tidb_ddl_reorg_batch_size = 32",
        "SET GLOBAL tidb_ddl_reorg_max_write_speed = '300KiB'",  # some seconds on any machine
    ):
        asking.execute(text)
    for start in range(0, ROWS, 10_000):
        rows = ",".join(f"({n},{n * 31 % 5000},0)" for n in range(start, start + 10_000))
        asking.execute(f"INSERT INTO t VALUES {rows}")
    clients = Clients(node, 3)
    try:
        until(lambda: clients.statements > 300 or clients.errors)
        builder = node.connect("d", autocommit=True)
        building = threading.Thread(
            target=lambda: builder.cursor().execute("ALTER TABLE t ADD INDEX k (k)")
        )
        building.start()
        said: set[str] = set()
        while building.is_alive():
            asking.execute("ADMIN SHOW DDL JOBS 1")
            said |= {str(value) for row in asking.fetchall() for value in row}
            building.join(0.1)
    finally:
        clients.stop()
    assert not clients.errors
    told = [text for text in said if "clients' p99" in text]
    assert any("share 25%, its least (exuvia_ddl_min_share)" in text for text in told), told
    asking.execute("ADMIN CHECK INDEX t k")
    asking.execute("ADMIN SHOW DDL JOBS 1")
    assert "synced" in {str(value) for row in asking.fetchall() for value in row}
