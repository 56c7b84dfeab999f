"""How long one small schema change takes on two idle nodes, asked of either node.

Goals: CREATE TABLE under 20 ms, ADD INDEX on an empty table under 50 ms (medians).
"""

import time
from typing import Any

from bench.cluster import cluster, figure, headline, quantile

ROUNDS = 40


def timed(cursor: Any, statement: str) -> float:
    """Run a statement; its time. Unit: ms."""
    started = time.perf_counter()
    cursor.execute(statement)
    return (time.perf_counter() - started) * 1000


def measure(connection: Any, suffix: str) -> dict[str, list[float]]:
    """Times of each kind of change. Unit: ms."""
    times: dict[str, list[float]] = {"CREATE TABLE": [], "ADD INDEX": [], "ADD COLUMN": []}
    with connection.cursor() as cursor:
        for n in range(ROUNDS):
            table = f"t_{suffix}_{n}"
            create = f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b VARCHAR(20))"
            times["CREATE TABLE"].append(timed(cursor, create))
            times["ADD INDEX"].append(timed(cursor, f"ALTER TABLE {table} ADD INDEX (a)"))
            add = f"ALTER TABLE {table} ADD COLUMN c INT NOT NULL DEFAULT 7"
            times["ADD COLUMN"].append(timed(cursor, add))
    return times


def main() -> None:
    """Print the medians and p95 of both nodes."""
    headline("schema change on empty tables, two idle nodes")
    goals = {"CREATE TABLE": "goal < 20 ms", "ADD INDEX": "goal < 50 ms", "ADD COLUMN": ""}
    with cluster() as running:
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE bench")
            cursor.execute("CREATE TABLE bench.warm (a INT PRIMARY KEY)")
        time.sleep(1)
        for node in (0, 1):
            with running.connect(node, "bench") as connection:
                for kind, times in measure(connection, f"n{node}").items():
                    middle, high = quantile(times, 0.5), quantile(times, 0.95)
                    name = f"{kind}, node {node + 1}: median (p95)"
                    figure(name, f"{middle:.1f} ({high:.1f}) ms", goals[kind])


if __name__ == "__main__":
    main()
