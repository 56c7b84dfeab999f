"""How long indexes of each kind take to fill, and rows to move, through a client of one node.

    python -m bench.kinds                  300,000 rows, each index three times
    python -m bench.kinds --rows 1000000 --runs 1

Two tables of the same rows, one of them with four partitions. A row has three elements in its
array. What is told of an index is also said as a multiple of a plain one's time on its table, and
of an array's by the entry.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

from bench.cluster import figure
from bench.products import Exuvia, Session

PIECE = 1_000
COLUMNS = "(id INT PRIMARY KEY, k INT, j JSON)"
ELEMENTS = 3
INDEXES = {
    "t": {
        "plain": "INDEX i (k)",
        "partial, all rows": "INDEX i (k) WHERE id >= 0",
        "unique": "UNIQUE INDEX i (k, id)",
        "multi-valued": "INDEX i ((CAST(j AS SIGNED ARRAY)))",
    },
    "p": {
        "plain": "INDEX i (k)",
        "global": "INDEX i (k) GLOBAL",
        "global unique": "UNIQUE INDEX i (k, id) GLOBAL",
        "multi-valued": "INDEX i ((CAST(j AS SIGNED ARRAY)))",
    },
}
MOVES = {
    "t": (
        "DROP PRIMARY KEY",
        "ADD PRIMARY KEY (id) CLUSTERED",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (k, id)",
        "PARTITION BY HASH (id) PARTITIONS 4",
        "REMOVE PARTITIONING",
    ),
}


def load(session: Session, rows: int) -> None:
    """Both tables, in statements of a thousand rows."""
    session.execute("CREATE TABLE n (k INT)")
    session.execute(f"INSERT INTO n VALUES {', '.join(f'({n})' for n in range(PIECE))}")
    for table, cut in (("t", ""), ("p", "PARTITION BY HASH (id) PARTITIONS 4")):
        session.execute(f"CREATE TABLE {table} {COLUMNS} {cut}")
        for first in range(0, rows, PIECE):
            values = f"{first} + k, ({first} + k) * 7919 % 1000003, JSON_ARRAY(k, k + {first}, -k)"
            session.execute(f"INSERT INTO {table} SELECT {values} FROM n")


def timed(session: Session, text: str) -> float:
    """Seconds from sending a statement to its answer."""
    began = time.perf_counter()
    session.execute(text)
    return time.perf_counter() - began


def fills(session: Session, runs: int) -> None:
    """Each index, the kinds in turn."""
    took: dict[tuple[str, str], list[float]] = {}
    for _ in range(runs):
        for table, kinds in INDEXES.items():
            for kind, definition in kinds.items():
                seconds = timed(session, f"ALTER TABLE {table} ADD {definition}")
                took.setdefault((table, kind), []).append(seconds)
                session.execute(f"ALTER TABLE {table} DROP INDEX i")
    for (table, kind), found in took.items():
        middle = sorted(found)[len(found) // 2]
        of = middle / sorted(took[table, "plain"])[len(found) // 2]
        share = f"{of:.2f} of a plain one"
        if kind == "multi-valued":
            share += f", {of / ELEMENTS:.2f} an entry"
        figure(f"{'partitions, ' if table == 'p' else ''}{kind}", f"{middle:.2f} s", share)


def moves(session: Session) -> None:
    """Rows that move, with an index beside them."""
    for table, changes in MOVES.items():
        session.execute(f"ALTER TABLE {table} ADD INDEX i (k)")
        for change in changes:
            figure(change, f"{timed(session, f'ALTER TABLE {table} {change}'):.2f} s")
        session.execute(f"ADMIN CHECK TABLE {table}")


def main() -> None:
    """Print each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    print(f"machine     {os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}")
    with (
        tempfile.TemporaryDirectory(prefix="exuvia-bench-") as folder,
        Exuvia(Path(folder)).running() as product,
    ):
        session = product.session()
        load(session, asked.rows)
        fills(session, asked.runs)
        moves(session)
        session.close()


if __name__ == "__main__":
    main()
