"""ADD UNIQUE over rows that have duplicates, over the wire: all are named, nothing of it stays."""

import pymysql
import pytest

from exuvia.kv import keys
from exuvia.kv.store import Store
from support.node_processes import NodeProcess, until
from support.torture import Nodes, jobs, own_store, plan, run

ROWS = 4_000
TWICE = 12


@pytest.mark.parametrize("on_owner", [pytest.param(True, marks=pytest.mark.long), False])
def test_1062_names_all_duplicates_and_nothing_of_the_index_stays(
    calm: Nodes, on_owner: bool
) -> None:
    owner = calm.owner_slot()
    node = calm.slots[owner if on_owner else 1 - owner]
    with own_store(calm.url) as store:
        make(node)
        before = entries(store)
        first, listed = refused(node, "ALTER TABLE t ADD UNIQUE INDEX ub (b)")
        assert first[0] == 1062 and first[1] in listed
        assert f"' ({TWICE} duplicates: '" in first[1]
        assert sorted(line.split(" (")[0] for line in listed) == sorted(
            f"Duplicate entry '{n}' for key 't.ub'" for n in range(TWICE)
        )
        job = next(job for job in jobs(node) if job["JOB_TYPE"] == "add index")
        assert (job["STATE"], job["SCHEMA_STATE"]) == ("rollback done", "none")
        until(lambda: entries(store) == before, 30, "entries of the refused index stay")
    assert [row[2] for row in run(node, "SHOW INDEX FROM t")] == ["PRIMARY", "ik"]
    run(node, "ADMIN CHECK TABLE t", "INSERT INTO t VALUES (-1, 3, 3), (-2, 3, 3)")
    run(node, "DELETE FROM t WHERE a < 0", f"DELETE FROM t WHERE a >= {ROWS}")
    run(node, "ALTER TABLE t ADD UNIQUE INDEX ub (b)", "ADMIN CHECK TABLE t")
    with pytest.raises(pymysql.err.IntegrityError, match=r"Duplicate entry '3' for key 't\.ub'"):
        run(node, "INSERT INTO t VALUES (-1, 3, 3)")


def refused(node: NodeProcess, statement: str) -> tuple[tuple[int, str], list[str]]:
    """The error of a statement, and every line that SHOW WARNINGS has about it."""
    with node.connect("test", autocommit=True) as client, client.cursor() as cursor:
        with pytest.raises(pymysql.err.IntegrityError) as error:
            cursor.execute(statement)
        cursor.execute("SHOW WARNINGS")
        return error.value.args, [text for _, _, text in cursor.fetchall()]


def make(node: NodeProcess) -> None:
    """Rows 0..ROWS-1 with a `b` of their own, and TWICE more that repeat the first ones'."""
    run(node, "SET GLOBAL exuvia_preflight_rows = 0")  # no look before the job
    run(node, "CREATE TABLE t (a INT PRIMARY KEY, b INT, k INT, KEY ik (k))")
    rows = [*((n, n) for n in range(ROWS)), *((ROWS + n, n) for n in range(TWICE))]
    for start in range(0, len(rows), 1000):
        values = ", ".join(f"({a}, {b}, {a % 7})" for a, b in rows[start : start + 1000])
        run(node, f"INSERT INTO t VALUES {values}")


def entries(store: Store) -> int:
    """Index entries, live or tombstones, of all indexes the table ever had."""
    prefix = b"t" + keys.u64(plan(store, "t").info.id) + b"i"
    txn = store.begin()
    try:
        return sum(1 for _ in txn.scan(keys.span_of(prefix)))
    finally:
        txn.rollback()
