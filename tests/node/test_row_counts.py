"""Row counts after a front is killed: only unflushed counts are lost. They are exact again once
every session of the other fronts is closed."""

from pathlib import Path
from typing import Any

import pytest

from exuvia.kv.store import open_store
from exuvia.stats import meta
from exuvia.stats.meta import FLUSH_S
from support.node_processes import NodeProcess, running_nodes, until

FLUSHED, YOUNG, LATER = 20, 5, 7
PATIENCE_S = 40.0


def insert(connection: Any, first: int, number: int) -> None:
    """Insert rows, one transaction each."""
    with connection.cursor() as cursor:
        for n in range(first, first + number):
            cursor.execute("INSERT INTO t VALUES (%s)", (n,))


def counts(node: NodeProcess) -> tuple[int, int]:
    """(rows, modified) as every client sees them."""
    with node.connect("test", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATS_META WHERE table_name = 't'")
        lines = cursor.fetchall()
    return (int(lines[0][5]), int(lines[0][4])) if lines else (0, 0)


@pytest.mark.long  # tests/stats/test_row_counts.py shows it without processes
def test_a_front_that_is_killed_loses_what_came_since_its_last_flush(tmp_path: Path) -> None:
    assert FLUSH_S <= 3.0  # the bound that decision 021 gives
    with running_nodes(tmp_path, 2) as (killed, other):
        with killed.connect("test", autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
            insert(connection, 0, FLUSHED)
            whole = FLUSHED, FLUSHED
            until(lambda: counts(other) == whole, PATIENCE_S, "the flush did not come")
            insert(connection, FLUSHED, YOUNG)
            killed.kill()
        counted, modified = counts(other)
        assert FLUSHED <= counted == modified <= FLUSHED + YOUNG
        with other.connect("test", autocommit=True) as connection:
            insert(connection, 100, LATER)
            with connection.cursor() as cursor:
                cursor.execute("SELECT COUNT(*) FROM t")
                assert cursor.fetchall() == ((FLUSHED + YOUNG + LATER,),)  # no row is lost
    store = open_store(f"lmdb://{tmp_path / 'store'}")  # the other has stopped, and flushed
    txn = store.begin()
    (stored,) = [
        table_counts for table_counts in meta.changed(txn, 0) if table_counts.rows >= FLUSHED
    ]
    txn.rollback()
    store.close()
    assert (stored.rows, stored.modified) == (counted + LATER, counted + LATER)
