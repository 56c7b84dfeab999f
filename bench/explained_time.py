"""How far off the time is that EXPLAIN of a schema change expects: explained, run, compared.

Each change is made three times on one table: the first guess is the assumed pace, the others that
of the jobs before. Everything runs in the node's own process, not on Spark.
"""

import argparse
import re
import time
from typing import Any

from bench.cluster import cluster, figure, headline

RUNS = 3
BATCH_ROWS = 20_000
CHANGES = {
    "add index": ("ADD INDEX i (b)", "DROP INDEX i"),
    "add unique index": ("ADD UNIQUE INDEX u (b, a)", "DROP INDEX u"),
    "rewrite": ("MODIFY b varchar(20)", "MODIFY b bigint"),
    "check": ("MODIFY c int NOT NULL", "MODIFY c int"),
}
EXPECTED = re.compile(r"expected ([0-9.]+) s")


def load(cursor: Any, rows: int) -> None:
    """A table of that many rows."""
    cursor.execute("CREATE DATABASE bench")
    cursor.execute("USE bench")
    cursor.execute("CREATE TABLE t (a int PRIMARY KEY, b bigint, c int, d varchar(40))")
    for start in range(0, rows, BATCH_ROWS):
        values = (
            f"({n}, {n * 7919 % 1000003}, {n % 100}, 'row {n}')"
            for n in range(start, min(start + BATCH_ROWS, rows))
        )
        cursor.execute(f"INSERT INTO t VALUES {', '.join(values)}")


def expected_s(cursor: Any, change: str) -> float:
    """What EXPLAIN expects of all reorgs of the change."""
    cursor.execute(f"EXPLAIN ALTER TABLE t {change}")
    return sum(float(found) for row in cursor.fetchall() for found in EXPECTED.findall(row[4]))


def compare(cursor: Any, name: str, change: str, back: str) -> None:
    """Explain and run, RUNS times."""
    for n in range(RUNS):
        expected = expected_s(cursor, change)
        started = time.perf_counter()
        cursor.execute(f"ALTER TABLE t {change}")
        took = time.perf_counter() - started
        cursor.execute(f"ALTER TABLE t {back}")
        share = f"{expected / took:.2f} of it expected"
        figure(f"{name}, run {n + 1}", f"{expected:.1f} s / {took:.1f} s", share)


def main() -> None:
    """Print, for each change, expected and real time."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rows", type=int, default=200_000)
    rows = asked.parse_args().rows
    headline(f"EXPLAIN's expected time, {rows} rows")
    with cluster(1) as running, running.connect() as client, client.cursor() as cursor:
        cursor.execute("SET GLOBAL exuvia_pipeline_inline_rows = 100000000")
        load(cursor, rows)
        for name, (change, back) in CHANGES.items():
            compare(cursor, name, change, back)


if __name__ == "__main__":
    main()
