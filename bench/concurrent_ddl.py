"""The two cases of seed 000, under the discipline of two queues and under this one.

    1  CREATE INDEX on big | ALTER TABLE big ADD COLUMN | CREATE TABLE t1      who waits for whom?
    2  CREATE INDEX on big | CREATE INDEX on small

All statements of a case are sent at once, in this order, on connections of their own. The index on
the big table is slowed down by a limit of its write speed, so that it lasts as on a large table.
"""

import argparse
import threading
import time
from typing import Any

from bench.cluster import Cluster, cluster, figure, headline

ROWS = 1 << 15
SPEED = "1MiB"
APART_S = 0.15
CASES = {
    "1": (
        "CREATE INDEX {i} ON big (a)",
        "ALTER TABLE big ADD COLUMN {i}_c INT",
        "CREATE TABLE {i}_t1 (a INT)",
    ),
    "2": ("CREATE INDEX {i} ON big (a)", "CREATE INDEX {i} ON small (a)"),
}


def timed(connections: list[Any], statements: list[str]) -> list[float]:
    """Each statement's time from its own sending; sent one shortly after another. Unit: s."""
    times = [0.0] * len(statements)

    def client(at: int) -> None:
        started = time.perf_counter()
        with connections[at].cursor() as cursor:
            cursor.execute(statements[at])
        times[at] = time.perf_counter() - started

    threads = []
    for at in range(len(statements)):
        threads.append(threading.Thread(target=client, args=(at,)))
        threads[-1].start()
        time.sleep(APART_S)
    for each in threads:
        each.join()
    return times


def fill(running: Cluster, rows: int) -> None:
    """A big and a small table."""
    with running.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE bench")
        cursor.execute("USE bench")
        for name in ("big", "small"):
            create = f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b CHAR(40))"
            cursor.execute(create)
            cursor.execute(f"INSERT INTO {name} (a, b) VALUES (1, 'b'), (2, 'b')")
        for _ in range(rows.bit_length() - 2):
            cursor.execute("INSERT INTO big (a, b) SELECT a + 7, b FROM big")
        cursor.execute(f"SET GLOBAL tidb_ddl_reorg_max_write_speed = '{SPEED}'")


def main(arguments: list[str] | None = None) -> None:
    """Print both cases under both disciplines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    asked = parser.parse_args(arguments)
    headline(f"seed 000: two queues against one ready set, {asked.rows} rows")
    with cluster() as running:
        fill(running, asked.rows)
        connections = [running.connect(0, "bench") for _ in range(3)]
        for value, title in (("OFF", "two queues"), ("ON", "by table")):
            with connections[0].cursor() as cursor:
                cursor.execute(f"SET GLOBAL tidb_enable_concurrent_ddl = {value}")
            for case, texts in CASES.items():
                statements = [text.format(i=f"{value.lower()}{case}") for text in texts]
                times = timed(connections, statements)
                for text, seconds in zip(texts, times, strict=True):
                    name = f"{title}, case {case}: {text.replace('{i}', 'i')}"
                    figure(name[:48], f"{seconds:.2f} s", "must not wait" if "t1" in text else "")


if __name__ == "__main__":
    main()
