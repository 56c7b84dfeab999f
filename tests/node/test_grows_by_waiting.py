"""Nodes on a PostgreSQL server that is 20 ms away: throughput that depends on waiting grows with
nodes and workers.

Also the duration of a step without load, and under continuous writes.

Prints its figures: run it with -s."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.node_processes import NodeProcess, end_all, until
from support.postgres import PostgresServer, own_server
from support.relay import Relay

FAR_S = 0.02
LEASE_S = 15.0
STEPS = 5  # of an ADD COLUMN: three states, public, and its way into history

pytestmark = [pytest.mark.long, pytest.mark.alone]


@contextlib.contextmanager
def nodes_on(url: str, folder: Path, number: int) -> Iterator[list[NodeProcess]]:
    """`number` nodes of one cluster, with an elected owner."""
    started = [NodeProcess(url, folder / f"log{n}", LEASE_S) for n in range(number)]
    try:
        for node in started:
            node.wait_ready()
        until(lambda: run(started[0], "ADMIN SHOW DDL")[0][2])
        yield started
    finally:
        end_all(started)


def run(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True, read_timeout=120) as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


class Writers:
    """Clients that insert rows into d.t without pause, `each` of them on every node."""

    def __init__(self, nodes: Sequence[NodeProcess], per_node: int) -> None:
        self._stop = threading.Event()
        self._counts = [0] * (per_node * len(nodes))
        first = time.time_ns() // 1_000_000 << 20
        self._threads = [
            threading.Thread(target=self._write, args=(nodes[n // per_node], n, first + (n << 32)))
            for n in range(per_node * len(nodes))
        ]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, node: NodeProcess, number: int, key: int) -> None:
        with node.connect("d", autocommit=True) as connection, connection.cursor() as cursor:
            while not self._stop.is_set():
                cursor.execute(f"INSERT INTO t (a) VALUES ({key})")
                key += 1
                self._counts[number] += 1

    def rate(self, seconds: float) -> float:
        """Commits a second of all clients."""
        before, began = sum(self._counts), time.monotonic()
        self._stop.wait(seconds)
        return (sum(self._counts) - before) / (time.monotonic() - began)


def far_url(server: PostgresServer, relay: Relay) -> str:
    return server.new_url().replace(f":{server.port}/", f":{relay.port}/")


def test_commits_grow_with_nodes(tmp_path: Path) -> None:
    rates: dict[int, float] = {}
    with own_server() as server, contextlib.closing(Relay(server.port, FAR_S)) as relay:
        url = far_url(server, relay)
        for number in (1, 2, 4):
            with nodes_on(url, tmp_path, number) as nodes:
                if number == 1:
                    run(nodes[0], "CREATE DATABASE d", "CREATE TABLE d.t (a BIGINT PRIMARY KEY)")
                with Writers(nodes, 4) as writers:
                    writers.rate(2.0)
                    rates[number] = writers.rate(6.0)
    print(f"\ncommits/s of 1, 2, 4 nodes, 4 clients each: {[round(r) for r in rates.values()]}")
    assert rates[2] >= 1.8 * rates[1]
    assert rates[4] >= 3 * rates[1]


def test_a_fill_grows_with_workers(tmp_path: Path) -> None:
    rows = 60_000
    took_s: dict[int, float] = {}
    with (
        own_server() as server,
        contextlib.closing(Relay(server.port, FAR_S)) as relay,
        nodes_on(far_url(server, relay), tmp_path, 1) as [node],
    ):
        run(node, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
        for begin in range(0, rows, 10_000):
            values = ", ".join(f"({n}, {n % 977})" for n in range(begin, begin + 10_000))
            run(node, f"INSERT INTO d.t VALUES {values}")
        run(
            node,
            "SET GLOBAL exuvia_pipeline_inline_rows = 0",
            "SET GLOBAL exuvia_ddl_reorg_span_rows = 10000",
            "ALTER TABLE d.t ADD INDEX warm (b)",
        )
        for workers in (1, 2):
            run(node, f"SET GLOBAL tidb_ddl_reorg_worker_cnt = {workers}")
            began = time.monotonic()
            run(node, f"ALTER TABLE d.t ADD INDEX i{workers} (b, a)")
            took_s[workers] = time.monotonic() - began
    print(f"\nADD INDEX, {rows} rows, 1 and 2 workers: {took_s[1]:.1f} and {took_s[2]:.1f} s")
    assert took_s[1] >= 1.5 * took_s[2]  # 1.6 in a quiet run


def test_a_step_of_three_nodes_idle_and_under_eight_writers(tmp_path: Path) -> None:
    with own_server() as server, nodes_on(server.new_url(), tmp_path, 3) as nodes:
        run(nodes[0], "CREATE DATABASE d", "CREATE TABLE d.t (a BIGINT PRIMARY KEY)")

        def changes_s(number: int) -> list[float]:
            took_s = []
            with nodes[1].connect("d", autocommit=True) as connection:
                cursor = connection.cursor()
                for n in range(number):
                    began = time.monotonic()
                    cursor.execute(f"ALTER TABLE t ADD COLUMN c{n} INT")
                    took_s.append(time.monotonic() - began)
                for n in range(number):
                    cursor.execute(f"ALTER TABLE t DROP COLUMN c{n}")
            return sorted(took_s)

        idle = changes_s(30)
        with Writers([*nodes, *nodes[:1]], 2) as writers:
            rate = writers.rate(3.0)
            [(before,)] = server.ask("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
            committed = writers.rate(3.0) * 3.0
            [(after,)] = server.ask("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
            beside = changes_s(30)
    print(
        f"\nADD COLUMN of 3 idle nodes: p50 {idle[15] * 1000:.0f}, most {idle[-1] * 1000:.0f} ms; "
        f"beside 8 writers ({rate:.0f} commits/s of "
        f"{float(after - before) / committed:.0f} bytes of WAL): "
        f"p50 {beside[15] * 1000:.0f}, most {beside[-1] * 1000:.0f} ms"
    )
    assert idle[15] / STEPS < 0.05
    assert beside[-1] < 2.5  # no step above 500 ms
