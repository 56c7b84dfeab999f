"""A rolling upgrade from older releases on one store that never stops.

Clients write, an index is backfilled, and the ownership of schema changes moves from the old
program to the new one."""

import threading
import time
from pathlib import Path
from typing import Any

import pymysql
import pytest

from exuvia import __version__
from support.node_processes import NodeProcess, end_all, until
from support.releases import source_of

LEASE_S = 5.0
RELEASES = ("0.2.0", "0.4.0")
ROWS = 6_000
ACCOUNTS, MONEY = 50, 1000
RETRIED = (1053, 1205, 1213, 1412, 2003, 2006, 2013, 8022, 8027, 8028)
"""Error codes of a node that stops; the client retries on another node."""


def run(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


class Writers:
    """Clients that move money on the nodes that serve. `done`: number of acknowledged moves."""

    def __init__(self, nodes: list[NodeProcess], number: int = 4) -> None:
        self.nodes = nodes
        self.done = 0
        self.slowest_s = 0.0
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(number)]
        for thread in self._threads:
            thread.start()

    def _run(self, n: int) -> None:
        move = 0
        while not self._stop.is_set():
            move += 1
            began = time.monotonic()
            while not self._moved(n, move):
                if time.monotonic() - began > 30:
                    self.errors.append("no node served for 30 s")
                    return
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.done += 1

    def _moved(self, n: int, move: int) -> bool:
        node = self.nodes[(n + move) % len(self.nodes)]
        giver, taker = (n * 7 + move) % ACCOUNTS, (n * 7 + move * 3 + 1) % ACCOUNTS
        try:
            with node.connect("d") as connection, connection.cursor() as cursor:
                for _ in range(10):
                    cursor.execute(f"UPDATE acct SET v = v - 1 WHERE id = {giver}")
                    cursor.execute(f"UPDATE acct SET v = v + 1 WHERE id = {taker}")
                    connection.commit()
        except pymysql.Error as error:
            if error.args[0] not in RETRIED:
                self.errors.append(repr(error))
            return False
        return True

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert self.errors == [] and self.done


@pytest.mark.long  # test_two_versions runs two versions at a time in the short run
@pytest.mark.parametrize(
    "release", [pytest.param(release, marks=pytest.mark.release(release)) for release in RELEASES]
)
def test_nodes_are_exchanged_one_by_one_and_nobody_notices(release: str, tmp_path: Path) -> None:
    source = source_of(release, tmp_path)
    store = f"lmdb://{tmp_path}/store"

    def node(name: str, **options: Any) -> NodeProcess:
        return NodeProcess(store, tmp_path / name, LEASE_S, **options).wait_ready()

    nodes = [node("old0", source=source)]
    started = list(nodes)
    try:
        old = nodes[0]
        started.append(node("old1", source=source))
        nodes.append(started[1])
        run(old, "CREATE DATABASE d", "CREATE TABLE d.acct (id INT PRIMARY KEY, v INT)")
        run(old, "CREATE TABLE d.big (id INT PRIMARY KEY, a INT)")
        run(
            old,
            f"INSERT INTO d.acct VALUES {', '.join(f'({n}, {MONEY})' for n in range(ACCOUNTS))}",
            f"INSERT INTO d.big VALUES {', '.join(f'({n}, {n})' for n in range(ROWS))}",
            "SET GLOBAL tidb_ddl_reorg_batch_size = 32",
            "SET GLOBAL tidb_ddl_reorg_max_write_speed = 10240",
        )
        writers = Writers(nodes)
        # 0.2.0 treats the end of a node as a KILL of its clients' schema changes (8214). So the
        # client disconnects first, which never stopped a change
        asking = old.connect("d")
        asking.send_command(3, "ALTER TABLE big ADD INDEX ia (a)")
        until(lambda: "write reorganization" in str(run(old, "ADMIN SHOW DDL JOBS 1")))
        asking.break_off()
        for n, leaving in enumerate(list(nodes)):
            new = node(f"new{n}", options=("--drain-s", "10"))
            started.append(new)
            nodes.append(new)
            run(new, f"ALTER TABLE d.acct ADD COLUMN c{n} INT DEFAULT {n}")
            nodes.remove(leaving)
            leaving.stop()
        new = nodes[0]
        run(new, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        until(lambda: not run(new, "SELECT job_id FROM mysql.tidb_ddl_job"))
        writers.end()

        owner = until(lambda: run(new, "ADMIN SHOW DDL")[0][2])
        assert owner in {f"127.0.0.1:{node.port}" for node in nodes}
        assert {row[5] for row in run(new, "ADMIN SHOW DDL NODES")} == {__version__}
        states = [(row[3], row[11]) for row in run(new, "ADMIN SHOW DDL JOBS 30")]
        assert ("add index", "synced") in states
        assert {state for _, state in states} == {"synced"}
        assert run(new, "SELECT SUM(v), COUNT(*) FROM d.acct") == [(ACCOUNTS * MONEY, ACCOUNTS)]
        assert run(new, "SELECT DISTINCT c0, c1 FROM d.acct") == [(0, 1)]
        assert run(new, "ADMIN CHECK TABLE d.acct, d.big") == []
        assert writers.slowest_s < 2 * LEASE_S, writers.slowest_s
    finally:
        end_all(started)
