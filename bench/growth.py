"""How each figure grows with what there is: rows, tables, partitions, waiting jobs; drawn.

    python -m bench.growth                             1, 4, 16 times 1 M rows; 100,000 tables; ...
    python -m bench.growth --rows 250000 --times 1,4,16 --tables 20000
    python -m bench.growth --only rows,tables

    rows         fill, rewrite and count: seconds, and the memory that the fill takes
    tables       CREATE TABLE by 16 clients, one after another up to --tables: p50 and p99 of each
                 tenth; the same latency at the end as at the start is the goal
    partitions   ADD INDEX and ADD COLUMN on a table of the same rows in more and more partitions
    jobs         ADD COLUMN by so many clients at once on one table: each waits for those before;
                 milliseconds a job

Adds to the results file of bench.report, whose report shows the picture (growth.svg).
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.products import Exuvia, Meter
from bench.report import RESULTS, Record, Write, end_politely, machine, render, writer
from bench.workloads import QUICK, created, quantile

PARTS = ("rows", "tables", "partitions", "jobs")
TENTHS = 10


class Growth:
    """Notes points: (panel, line, size) -> value."""

    def __init__(self, folder: Path, write: Write) -> None:
        self.product = Exuvia(folder)
        self._write = write

    def point(self, panel: str, line: str, size: int, value: float, unit: str, x: str) -> None:
        about: Record = {"kind": "growth", "panel": panel, "line": line, "size": size}
        self._write({**about, "value": float(f"{value:.5g}"), "unit": unit, "x": x})
        sys.stdout.write(f"{panel:<14} {line:<28} {size:>12,} {value:,.4g} {unit}\n")
        sys.stdout.flush()

    def tried(self, panel: str, size: int, work: Callable[[], None]) -> None:
        """On an empty folder; an error is a row of the report."""
        try:
            with self.product.running():
                work()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:400]
            about: Record = {"kind": "growth", "panel": panel, "line": "error", "size": size}
            self._write({**about, "error": text, "unit": "", "x": ""})
            sys.stdout.write(f"{panel} {size:,} {text}\n")


def rows(growth: Growth, sizes: list[int]) -> None:
    """Fill, rewrite, count at each number of rows."""
    product = growth.product

    def at(size: int) -> None:
        product.load(size)
        product.execute(
            "SELECT COUNT(*), SUM(k) FROM sbtest1",
            product.add_index("warm", "k"),
            product.drop_index("warm"),
        )
        statements = (
            ("fill, ADD INDEX (k)", product.add_index("k_1", "k")),
            ("COUNT(*)", "SELECT COUNT(*) FROM sbtest1"),
            ("rewrite, MODIFY k VARCHAR", "ALTER TABLE sbtest1 MODIFY k VARCHAR(20) NOT NULL"),
        )
        for name, statement in statements:
            with Meter(product.pid) as meter:
                product.execute(statement)
            growth.point("by rows", name, size, meter.usage.wall_s, "s", "rows")
            memory = meter.usage.memory_mb
            growth.point("memory by rows", name, size, memory, "MB", "rows")

    for size in sizes:
        growth.tried("by rows", size, lambda size=size: at(size))  # type: ignore[misc]


def tables(growth: Growth, most: int) -> None:
    """CREATE TABLE until there are so many: the latency of each tenth."""

    def alter(prefix: str, size: int) -> None:
        session = growth.product.session()
        for name, text in (
            ("ADD COLUMN, p50", "ALTER TABLE {prefix}_{n}_1 ADD COLUMN b INT"),
            ("ADD INDEX, p50", "ALTER TABLE {prefix}_{n}_1 ADD INDEX (a)"),
        ):
            times = []
            for n in range(16):
                began = time.perf_counter()
                session.execute(text.format(prefix=prefix, n=n))
                times.append((time.perf_counter() - began) * 1000)
            growth.point("by tables", name, size, quantile(times, 0.5), "ms", "tables")
        session.close()

    def run() -> None:
        session = growth.product.session()
        for n in range(16):
            session.execute(f"CREATE TABLE first_{n}_1 (id INT PRIMARY KEY, a INT)")
            session.execute(f"CREATE TABLE last_{n}_1 (id INT PRIMARY KEY, a INT)")
        session.close()
        alter("first", 32)
        done = created(growth.product, QUICK, "t", most)
        each = max(1, len(done) // TENTHS)
        for at in range(0, each * (len(done) // each), each):
            latencies = [ms for _, ms in done[at : at + each]]
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                value = quantile(latencies, share)
                line = f"CREATE TABLE, 16 clients, {name}"
                growth.point("by tables", line, at + each, value, "ms", "tables")
        alter("last", most)

    growth.tried("by tables", most, run)


def partitions(growth: Growth, sizes: list[int], rows_of_table: int) -> None:
    """The same rows in more partitions."""
    product = growth.product

    def at(size: int) -> None:
        key = "id INT NOT NULL PRIMARY KEY, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL, "
        text = f"CREATE TABLE sbtest1 ({key} pad CHAR(60) NOT NULL) PARTITION BY HASH (id) "
        began = time.perf_counter()
        product.execute(f"{text} PARTITIONS {size}")
        took = time.perf_counter() - began
        growth.point("by partitions", "CREATE TABLE", size, took, "s", "partitions")
        session = product.session()
        for start in range(1, rows_of_table + 1, 1000):
            end = min(start + 1000, rows_of_table + 1)
            values = ",".join(f"({n},{n * 7919 % 1000003},'c{n}','p')" for n in range(start, end))
            session.execute(f"INSERT INTO sbtest1 VALUES {values}")
        for name, statement in (
            ("ADD INDEX (k)", "ALTER TABLE sbtest1 ADD INDEX k_1 (k)"),
            ("ADD COLUMN", "ALTER TABLE sbtest1 ADD COLUMN b INT NOT NULL DEFAULT 7"),
            ("COUNT(*)", "SELECT COUNT(*) FROM sbtest1"),
        ):
            began = time.perf_counter()
            session.execute(statement)
            took = time.perf_counter() - began
            growth.point("by partitions", name, size, took, "s", "partitions")
        session.close()

    for size in sizes:
        growth.tried("by partitions", size, lambda size=size: at(size))  # type: ignore[misc]


def jobs(growth: Growth, sizes: list[int]) -> None:
    """So many ALTERs sent at once to one table."""
    product = growth.product

    def at(size: int) -> None:
        product.execute("CREATE TABLE w (id INT PRIMARY KEY)")
        sessions = [product.session() for _ in range(size)]
        wrong: list[Exception] = []

        def alter(n: int) -> None:
            try:
                sessions[n].execute(f"ALTER TABLE w ADD COLUMN c{n} INT")
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=alter, args=(n,)) for n in range(size)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        for session in sessions:
            session.close()
        if wrong:
            raise wrong[0]
        line = "ADD COLUMN, one table, a job"
        growth.point("by waiting jobs", line, size, took / size * 1000, "ms", "waiting jobs")

    for size in sizes:
        growth.tried("by waiting jobs", size, lambda size=size: at(size))  # type: ignore[misc]


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main(arguments: list[str] | None = None) -> None:
    """Measure what is asked for, then write the report anew."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m bench.growth")
    parser.add_argument("--only", default=",".join(PARTS), help="of " + ", ".join(PARTS))
    parser.add_argument("--rows", type=int, default=1_000_000, help="once")
    parser.add_argument("--times", type=_numbers, default=[1, 4, 16])
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--partitions", type=_numbers, default=[16, 64, 256, 1024])
    parser.add_argument("--partition-rows", type=int, default=20_000)
    parser.add_argument("--jobs", type=_numbers, default=[16, 64, 256])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args(words)
    parts: dict[str, Callable[[Growth], Any]] = {
        "rows": lambda growth: rows(growth, [asked.rows * times for times in asked.times]),
        "tables": lambda growth: tables(growth, asked.tables),
        "partitions": lambda growth: partitions(growth, asked.partitions, asked.partition_rows),
        "jobs": lambda growth: jobs(growth, asked.jobs),
    }
    run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-", dir=asked.folder))
    try:
        write = writer(asked.results, run)
        command = " ".join(["python -m bench.growth", *words])
        write({**machine(folder), "command": command})
        for part in asked.only.split(","):
            parts[part](Growth(folder, write))
            render(asked.results, asked.results.with_name("report.md"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    end_politely()
    main()
