"""What a polling client sees of an ADD INDEX (seed 003, 3.2): each state, and ROW_COUNT growing.

Steps take milliseconds, so each is held by a transaction that plans with the revision before it:

    A writes t   ALTER -> delete only    B writes t, A commits -> write only
    C writes t, B commits -> write reorganization    C commits -> the fill, public
"""

import threading
from itertools import pairwise
from typing import Any

import pymysql
import pytest

from support.node_processes import NodeProcess, until
from support.torture import Nodes, begin, jobs, load, own_store, run

ROWS = 60_000


class Poller:
    """ADMIN SHOW DDL JOBS on one node, over and over; what it showed of one job, in order."""

    def __init__(self, node: NodeProcess, job_id: int) -> None:
        self.seen: list[dict[str, Any]] = []
        self._node, self._job_id = node, job_id
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        settings = {"autocommit": True, "cursorclass": pymysql.cursors.DictCursor}
        with self._node.connect(**settings) as client:
            while not self._stopping.wait(0.02):
                with client.cursor() as cursor:
                    cursor.execute("ADMIN SHOW DDL JOBS")
                    shown = cursor.fetchall()
                self.seen += [job for job in shown if job["JOB_ID"] == self._job_id]

    def stop(self) -> None:
        """Poll no more."""
        self._stopping.set()
        self._thread.join(30)

    def states(self) -> list[tuple[str, str]]:
        """(SCHEMA_STATE, STATE) without repetitions; "done" lasts as long as the last answers."""
        found = [(job["SCHEMA_STATE"], job["STATE"]) for job in self.seen]
        found = [state for state in found if state[1] != "done"]
        return [one for n, one in enumerate(found) if n == 0 or found[n - 1] != one]

    def shows(self, state: str) -> None:
        """Wait until it has shown the schema state."""
        until(lambda: self.seen and self.seen[-1]["SCHEMA_STATE"] == state, 30, f"no {state}")


class Holder:
    """A transaction that wrote the table, and so holds the version it planned with."""

    def __init__(self, node: NodeProcess, row_id: int) -> None:
        self._connection = node.connect("test")
        with self._connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO t VALUES ({row_id}, 1, 1)")

    def commit(self) -> None:
        """Let go."""
        self._connection.commit()
        self._connection.close()


@pytest.mark.parametrize("on_owner", [pytest.param(True, marks=pytest.mark.long), False])
def test_each_state_is_seen_and_the_row_count_grows(calm: Nodes, on_owner: bool) -> None:
    owner = calm.owner_slot()
    node = calm.slots[owner if on_owner else 1 - owner]
    with own_store(calm.url) as store:
        load(node, store, "t", ROWS)
    run(node, "SET GLOBAL exuvia_pipeline_inline_rows = 1000000")
    run(node, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
    first = Holder(node, -1)
    begin(node, "ALTER TABLE t ADD INDEX ik (k)")
    begin(node, "ALTER TABLE t ADD INDEX iv (v)")
    until(lambda: len(adding(node)) == 2)
    older, younger = (Poller(node, job_id) for job_id in adding(node))
    walk(older, first, node)
    until(lambda: older.seen[-1]["STATE"] == "synced")
    run(node, "SET GLOBAL tidb_ddl_reorg_batch_size = 10240")
    until(lambda: younger.seen and younger.seen[-1]["STATE"] == "synced")
    for poller in (older, younger):
        poller.stop()
    assert older.states() == [
        ("delete only", "running"),
        ("write only", "running"),
        ("write reorganization", "running"),
        ("public", "synced"),
    ]
    assert younger.states()[0][0] == "none"
    assert any(f"job {older.seen[0]['JOB_ID']}" in job["COMMENTS"] for job in younger.seen)
    counts = [int(job["ROW_COUNT"]) for job in older.seen]
    assert all(one <= other for one, other in pairwise(counts))
    assert len(set(counts)) >= 3, "it grew while it was looked at"
    assert counts[-1] == ROWS + 3
    run(node, "ADMIN CHECK TABLE t")


def adding(node: NodeProcess) -> list[int]:
    return sorted(job["JOB_ID"] for job in jobs(node, 0) if job["JOB_TYPE"] == "add index")


def walk(poller: Poller, first: Holder, node: NodeProcess) -> None:
    """Hold each state until it was seen."""
    holder = first
    poller.shows("delete only")
    for number, state in enumerate(("write only", "write reorganization")):
        following = Holder(node, -2 - number)
        holder.commit()
        poller.shows(state)
        holder = following
    holder.commit()
