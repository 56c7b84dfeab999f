"""What the change log of a table costs: statements a second and bytes, with the log on and off.

One node, clients that each UPDATE random rows by key, or INSERT rows of their own, one statement a
commit. Two tables alike, one of them with EXUVIA_CHANGE_LOG = ON, in turns, so that neither has the
quieter machine.

Command: python -m bench.change_log lmdb:///tmp/x   (or postgresql://...?schema=x, an empty one)
"""

import argparse
import itertools
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from bench.bloat import connect
from bench.cluster import figure, headline
from exuvia.cli.demo import story
from exuvia.cli.store import open_environment
from exuvia.kv.lmdb.pages import pages_of

CLIENTS = 4
TABLES = {"plain": "off", "logged": "on"}
WORKS = ("UPDATE", "INSERT")


def statement(
    work: str, table: str, numbers: Iterator[int], chance: random.Random, rows: int
) -> str:
    """One that changes one row."""
    text = f"{chance.random()}"
    if work == "INSERT":
        return f"INSERT INTO d.{table} VALUES ({next(numbers)}, 1, '{text}')"
    return f"UPDATE d.{table} SET k = k + 1, c = '{text}' WHERE id = {chance.randrange(rows)}"


class Turn:
    """Clients for so many seconds. Statements that were made."""

    def __init__(self, port: int, work: str, table: str, numbers: Any, rows: int) -> None:
        self.made = 0
        self._stop = threading.Event()
        self._counts = [0] * CLIENTS
        self._threads = [
            threading.Thread(target=self._run, args=(port, work, table, numbers, rows, n))
            for n in range(CLIENTS)
        ]

    def _run(self, port: int, work: str, table: str, numbers: Any, rows: int, client: int) -> None:
        chance = random.Random(time.time_ns())
        connection = connect(port)
        with connection.cursor() as cursor:
            while not self._stop.is_set():
                cursor.execute(statement(work, table, numbers, chance, rows))
                self._counts[client] += 1
        connection.close()

    def last(self, seconds: float) -> float:
        """Statements a second."""
        began = time.monotonic()
        for each in self._threads:
            each.start()
        self._stop.wait(seconds)
        self._stop.set()
        for each in self._threads:
            each.join()
        self.made = sum(self._counts)
        return self.made / (time.monotonic() - began)


def kept_bytes(url: str) -> int:
    """Of an embedded store: its used pages. Of a server: the log (WAL) written so far."""
    if url.startswith("lmdb"):
        environment = open_environment(url)
        try:
            pages = pages_of(environment.lmdb)
            return pages.used * pages.size
        finally:
            environment.close()
    with psycopg.connect(url.partition("?")[0]) as server:
        found = server.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
        return int((found.fetchone() or (0,))[0])


def measure(asked: argparse.Namespace, port: int) -> None:
    with connect(port) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        for table in TABLES:
            cursor.execute(
                f"CREATE TABLE d.{table} (id INT PRIMARY KEY, k INT, c CHAR(120), KEY (k))"
            )
            for first in range(0, asked.rows, 5_000):
                rows = range(first, min(first + 5_000, asked.rows))
                values = ", ".join(f"({n}, {n}, 'text of row {n}')" for n in rows)
                cursor.execute(f"INSERT INTO d.{table} VALUES {values}")
        cursor.execute("ALTER TABLE d.logged EXUVIA_CHANGE_LOG = ON")
        cursor.execute("INSERT INTO d.logged VALUES (-1, 1, 'the log begins')")
    numbers = itertools.count(asked.rows)
    begun = time.time() + 3
    for work in WORKS:
        rates: dict[str, list[float]] = {table: [] for table in TABLES}
        sizes = dict.fromkeys(TABLES, 0)
        made = dict.fromkeys(TABLES, 0)
        for number in range(asked.turns + 1):
            for table in TABLES:
                before = kept_bytes(asked.store)
                turn = Turn(port, work, table, numbers, asked.rows)
                rate = turn.last(asked.seconds)
                if number:  # the first is for warmth
                    rates[table].append(rate)
                    sizes[table] += kept_bytes(asked.store) - before
                    made[table] += turn.made
        for table, name in TABLES.items():
            least, middle, most = min(rates[table]), median(rates[table]), max(rates[table])
            shown = f"{middle:.0f} ({least:.0f} to {most:.0f})"
            figure(f"{work}, log {name}: a second, median of turns", shown)
            figure(f"{work}, log {name}: bytes each", f"{sizes[table] / max(1, made[table]):.0f}")
        shares = [on / off for off, on in zip(rates["plain"], rates["logged"], strict=True)]
        figure(f"{work}: with the log, of the turn before without", f"{median(shares):.2f}")
    with connect(port) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT records, bytes FROM information_schema.exuvia_change_logs")
        ((records, size),) = cursor.fetchall()
        figure("a record in the log, about", f"{size / records:.0f} bytes")
        as_of = f"AS OF TIMESTAMP FROM_UNIXTIME({begun:.3f})"
        for what in (f"c FROM d.logged {as_of} WHERE id = 1", f"SUM(k) FROM d.logged {as_of}"):
            began = time.monotonic()
            cursor.execute(f"SELECT {what}")
            took_s = time.monotonic() - began
            figure(f"SELECT {what[:3]}... AS OF, {records:,} records since", f"{took_s:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", help="an empty one: lmdb:///... or postgresql://...?schema=...")
    parser.add_argument("--seconds", type=float, default=2, help="of each turn")
    parser.add_argument("--turns", type=int, default=16, help="of each table")
    parser.add_argument("--rows", type=int, default=20_000)
    asked = parser.parse_args()
    headline(f"{CLIENTS} clients, a table with and without a change log, {asked.store[:10]}")
    with tempfile.TemporaryDirectory(prefix="exuvia-bench-") as folder:
        node = story.start(asked.store, Path(folder) / "log")
        try:
            measure(asked, node.port)
        finally:
            node.stop()


if __name__ == "__main__":
    main()
