"""How many general schema changes a second, asked by many clients at once (seed 003, 7.5).

    CLIENTS connections, alternating between two nodes, each asks for one change after another

CREATE TABLE is measured twice: as it is, and with tidb_enable_fast_create_table=OFF, where each is
a job of its own. An error of any kind ends the benchmark: with more than twenty clients at once a
queue of keys would answer some of them with a conflict.
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from bench.cluster import Cluster, cluster, figure, headline

CLIENTS = 200
TABLES = 5000
GOAL_A_SECOND = 180


def ask_all(connections: list[Any], statements: Iterable[str]) -> tuple[int, float]:
    """Run the statements on all connections at once: (how many, seconds)."""
    waiting = iter(list(statements))
    lock, done = threading.Lock(), count()
    errors: list[tuple[str, Exception]] = []

    def client(connection: Any) -> None:
        with connection.cursor() as cursor:
            while not errors:
                with lock:
                    statement = next(waiting, None)
                if statement is None:
                    return
                try:
                    cursor.execute(statement)
                except Exception as error:  # any error at all fails the benchmark
                    errors.append((statement, error))
                    return
                next(done)

    threads = [threading.Thread(target=client, args=(each,)) for each in connections]
    started = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise AssertionError(f"{errors[0][0]}: {errors[0][1]!r}")
    return next(done), time.perf_counter() - started


def connect_all(running: Cluster, clients: int) -> list[Any]:
    """Clients, half of them at either node."""
    return [running.connect(n % len(running.nodes), "bench") for n in range(clients)]


def kinds(tables: int) -> list[tuple[str, Callable[[int], str], int]]:
    """(name, statement number n, how many); each kind works on what the one before left."""
    some = max(tables // 5, 1)
    return [
        ("CREATE TABLE", lambda n: f"CREATE TABLE t{n} (id INT PRIMARY KEY, a INT)", tables),
        ("ALTER TABLE COMMENT", lambda n: f"ALTER TABLE t{n} COMMENT 'number {n}'", some),
        ("ADD COLUMN, four steps", lambda n: f"ALTER TABLE t{n} ADD COLUMN b INT", some),
        ("ADD INDEX, empty, four steps", lambda n: f"ALTER TABLE t{n} ADD INDEX (a)", some),
        ("RENAME TABLE", lambda n: f"RENAME TABLE t{n} TO u{n}", some),
        ("DROP TABLE, three steps", lambda n: f"DROP TABLE u{n}", some),
    ]


def main(arguments: list[str] | None = None) -> None:
    """Print the rate of each kind of change."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--tables", type=int, default=TABLES)
    asked = parser.parse_args(arguments)
    headline(f"general schema changes, {asked.clients} clients on two nodes")
    with cluster() as running:
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE bench")
        connections = connect_all(running, asked.clients)
        for name, statement, number in kinds(asked.tables):
            done, seconds = ask_all(connections, (statement(n) for n in range(number)))
            figure(f"{name} ({done})", f"{done / seconds:.0f}/s", f"goal > {GOAL_A_SECOND}/s")
        with connections[0].cursor() as cursor:
            cursor.execute("SET GLOBAL tidb_enable_fast_create_table = OFF")
        alone = (f"CREATE TABLE v{n} (id INT PRIMARY KEY, a INT)" for n in range(asked.tables // 5))
        done, seconds = ask_all(connections, alone)
        figure(f"CREATE TABLE, each a job ({done})", f"{done / seconds:.0f}/s")
        figure("errors", "0")
        for each in connections:
            each.close()


if __name__ == "__main__":
    main()
