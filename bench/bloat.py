"""What an hour of updates leaves in the table of a store on PostgreSQL: its size, its dead rows,
what autovacuum did, and the log (WAL) a commit needs.

One node, clients that each update random rows at an even rate. Halfway a transaction stays open for
a tenth of the time: until it ends, nothing that was replaced since it began can be taken away.

Command: python -m bench.bloat postgresql://postgres@127.0.0.1:5432/postgres --minutes 60
"""

import argparse
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from bench.cluster import figure, headline, quantile
from exuvia.cli.demo import story

LOOKS = 12
_SIZES = """
SELECT pg_relation_size(c.oid), pg_indexes_size(c.oid), s.n_live_tup, s.n_dead_tup,
       s.autovacuum_count, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,
       s.n_tup_upd, s.n_tup_hot_upd
FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.oid = %s::regclass
"""


class Clients:
    """Threads that update one row at a time, `rate` a second together. Unit of `times`: s."""

    def __init__(self, port: int, rows: int, rate: float, number: int = 4) -> None:
        self.times: list[float] = []
        self._stop = threading.Event()
        pause_s = number / rate
        self._threads = [
            threading.Thread(target=self._run, args=(port, rows, pause_s, n)) for n in range(number)
        ]
        for each in self._threads:
            each.start()

    def _run(self, port: int, rows: int, pause_s: float, seed: int) -> None:
        chance = random.Random(seed)
        connection = connect(port)
        due = time.monotonic()
        with connection.cursor() as cursor:
            while not self._stop.is_set():
                row = chance.randrange(rows)
                began = time.monotonic()
                cursor.execute(
                    f"UPDATE d.t SET k = k + 1, c = '{chance.random()}' WHERE id = {row}"
                )
                self.times.append(time.monotonic() - began)
                due = max(due + pause_s, began)
                self._stop.wait(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()


def connect(port: int) -> Any:
    return pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="postgresql://..., a database that may have a new schema")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=100, help="updates a second")
    asked = parser.parse_args()
    headline(f"{asked.rate:g} updates a second of {asked.rows} rows, {asked.minutes:g} minutes")
    schema = f"bloat{int(time.time())}"
    with tempfile.TemporaryDirectory(prefix="exuvia-bench-") as folder:
        node = story.start(f"{asked.server}?schema={schema}", Path(folder) / "log")
        try:
            measure(asked, node.port, schema)
        finally:
            node.stop()
    with psycopg.connect(asked.server, autocommit=True) as server:
        server.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def measure(asked: argparse.Namespace, port: int, schema: str) -> None:
    """Fill, update, look."""
    with connect(port) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        cursor.execute("CREATE TABLE d.t (id INT PRIMARY KEY, k INT, c CHAR(120), INDEX (k))")
        for first in range(0, asked.rows, 5_000):
            rows = range(first, min(first + 5_000, asked.rows))
            values = ", ".join(f"({n}, {n}, 'text of row {n}')" for n in rows)
            cursor.execute(f"INSERT INTO d.t VALUES {values}")
    server = psycopg.connect(asked.server, autocommit=True)

    def look() -> tuple[int, ...]:
        found = server.execute(_SIZES, (f"{schema}.kv",)).fetchone()
        assert found is not None
        return tuple(map(int, found))

    server.execute(f"VACUUM ANALYZE {schema}.kv".encode())
    begun = look()
    clients = Clients(port, asked.rows, asked.rate)
    holder: Any = None
    print(f"   {'min':>5} {'MB':>7} {'index MB':>9} {'dead':>9} {'vacuums':>8} {'p99 ms':>7}")
    seen = 0
    try:
        for n in range(1, LOOKS + 1):
            deadline = time.monotonic() + asked.minutes * 60 / LOOKS
            if n == LOOKS // 2 + 1:
                holder = psycopg.connect(asked.server)
                holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                holder.execute("SELECT 1 FROM pg_class LIMIT 1")
            while time.monotonic() < deadline:
                time.sleep(0.2)
            if holder is not None and n > LOOKS // 2 + 1:
                holder.close()
                holder = None
            now, lately = look(), clients.times[seen:]
            seen += len(lately)
            held = "  a transaction is open" if holder is not None else ""
            print(
                f"   {n * asked.minutes / LOOKS:>5.1f} {now[0] / 1e6:>7.1f} {now[1] / 1e6:>9.1f}"
                f" {now[3]:>9,} {now[4]:>8} {quantile(lately, 0.99) * 1e3:>7.1f}{held}",
                flush=True,
            )
    finally:
        clients.end()
    last = look()
    commits = len(clients.times)
    figure("updates", f"{commits:,}")
    figure("table, of what it was", f"{last[0] / begun[0]:.2f}")
    figure("its index, of what it was", f"{last[1] / begun[1]:.2f}")
    figure("log (WAL) a commit", f"{(last[5] - begun[5]) / commits / 1024:.1f} KiB")
    figure(
        "updates in their page (HOT)", f"{(last[7] - begun[7]) / max(1, last[6] - begun[6]):.0%}"
    )


if __name__ == "__main__":
    main()
