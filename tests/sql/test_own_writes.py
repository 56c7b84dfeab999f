"""Own writes over a newer snapshot: a plain SELECT sees the transaction's snapshot and, in place
of its rows, those it wrote itself, by whichever index it asks.

Own writes are current reads: between the snapshot and them others may have committed, so an own row
may have values that nobody wrote here. Fault 3 of issue 8: its entries came from the snapshot.
"""

from itertools import product

import pytest

from exuvia.sql.session.session import Session
from support.world import World, rows, run

TABLES = {
    "plain": "id int PRIMARY KEY, mail varchar(30), n int, note varchar(9), KEY by_mail (mail)",
    "unique": "id int PRIMARY KEY, mail varchar(30), n int, note varchar(9),"
    " UNIQUE KEY by_mail (mail)",
    "hidden ids": "id int UNIQUE, mail varchar(30), n int, note varchar(9), KEY by_mail (mail)",
    "clustered text": "id varchar(9), mail varchar(30), n int, note varchar(9),"
    " PRIMARY KEY (id) CLUSTERED, KEY by_mail (mail)",
    "prefix": "id int PRIMARY KEY, mail varchar(30), n int, note varchar(9), KEY by_mail (mail(2))",
    "two columns": "id int PRIMARY KEY, mail varchar(30), n int, note varchar(9),"
    " UNIQUE KEY by_mail (mail, id)",
    "descending": "id int PRIMARY KEY, mail varchar(30), n int, note varchar(9),"
    " KEY by_mail (mail DESC)",
    "expression": "id int PRIMARY KEY, mail varchar(30), n int, note varchar(9),"
    " KEY by_mail ((lower(mail)))",
    "virtual": "id int PRIMARY KEY, mail varchar(30), n int, note varchar(9),"
    " twin varchar(30) AS (mail) VIRTUAL, KEY by_mail (twin)",
    "partitions": "id int PRIMARY KEY, mail varchar(30), n int, note varchar(9),"
    " KEY by_mail (mail)) PARTITION BY HASH (id) PARTITIONS (3",
}

SEEN = [
    ("mail = 'old@5'", []),
    ("mail = 'new@5'", [5]),
    ("mail = 'new@6'", [6]),
    ("mail IN ('old@5', 'new@5', 'new@6')", [5, 6]),
    ("mail > ''", [4, 5, 6, 8]),
    ("mail > 'new@5' AND mail < 'old@6'", [4, 6]),
    ("mail = 'new@7'", []),
    ("mail = 'own@8'", [8]),
    ("lower(mail) = 'new@5'", [5]),
]


@pytest.fixture(params=list(TABLES))
def changed(request: pytest.FixtureRequest, session: Session, another: Session) -> Session:
    """A transaction that has read, whose rows others changed, and that wrote them then: row 4 is
    the snapshot's, 5 was changed, 6 inserted, 7 (as it was) deleted, 8 inserted and then changed by
    the transaction. 5 and 6 keep the mail that others gave them."""
    definition = TABLES[request.param].replace("PARTITIONS (3", "PARTITIONS 3")
    end = "" if "PARTITION BY" in definition else ")"
    run(session, f"CREATE TABLE t ({definition}{end}")
    insert = "INSERT INTO t (id, mail, n, note) VALUES"
    run(session, f"{insert} (4, 'old@4', 0, 'x'), (5, 'old@5', 0, 'x'), (7, 'old@7', 0, 'x')")
    run(session, "BEGIN")
    assert rows(session, "SELECT COUNT(*) FROM t") == [[3]]
    run(another, "UPDATE t SET mail = 'new@5' WHERE id = 5")
    run(another, f"{insert} (6, 'new@6', 0, 'x'), (8, 'new@8', 0, 'x')")
    run(another, "UPDATE t SET mail = 'new@7' WHERE id = 7")
    run(session, "UPDATE t SET n = 1 WHERE id IN (5, 6)")
    run(session, "UPDATE t SET mail = 'own@8' WHERE id = 8")
    run(session, "DELETE FROM t WHERE id = 7")
    return session


def ids(session: Session, query: str) -> list[int]:
    return sorted(int(row[0]) for row in rows(session, query))


def test_an_index_tells_of_own_rows_as_they_are(changed: Session) -> None:
    hints = ("", "FORCE INDEX (by_mail)", "IGNORE INDEX (by_mail)")
    for (where, expected), hint in product(SEEN, hints):
        assert ids(changed, f"SELECT id FROM t {hint} WHERE {where}") == expected, (where, hint)
        counted = rows(changed, f"SELECT COUNT(*), COUNT(mail) FROM t {hint} WHERE {where}")
        assert counted == [[len(expected)] * 2], (where, hint)


@pytest.mark.parametrize("changed", ["virtual"], indirect=True)
def test_an_index_on_a_virtual_column_tells_of_own_rows(changed: Session) -> None:
    for (where, expected), hint in product(SEEN, ("", "FORCE INDEX (by_mail)")):
        query = f"SELECT id FROM t {hint} WHERE {where.replace('mail', 'twin')}"
        assert ids(changed, query) == expected, query


def test_own_rows_come_in_order_and_only_as_many_as_limit_says(changed: Session) -> None:
    for hint in ("", "FORCE INDEX (by_mail)", "IGNORE INDEX (by_mail)"):
        found = [["new@5"], ["new@6"], ["old@4"], ["own@8"]]
        assert rows(changed, f"SELECT mail FROM t {hint} ORDER BY mail") == found
        assert rows(changed, f"SELECT mail FROM t {hint} ORDER BY mail LIMIT 2") == found[:2]
        backwards = f"SELECT mail FROM t {hint} ORDER BY mail DESC LIMIT 1, 2"
        assert rows(changed, backwards) == [found[2], found[1]]
        assert rows(changed, f"SELECT MIN(mail), MAX(mail) FROM t {hint}") == [["new@5", "own@8"]]
        ranged = f"SELECT MIN(mail), MAX(mail) FROM t {hint} WHERE mail >= 'new@6'"
        assert rows(changed, ranged) == [["new@6", "own@8"]]


def test_joins_subqueries_and_groups_see_the_same_rows(changed: Session) -> None:
    joined = "SELECT a.id FROM t a JOIN t b ON a.mail = b.mail WHERE b.mail = '{}'"
    assert ids(changed, joined.format("new@5")) == [5]
    assert ids(changed, joined.format("old@5")) == []
    nested = "SELECT id FROM t WHERE mail IN (SELECT mail FROM t WHERE mail > 'new@5')"
    assert ids(changed, nested) == [4, 6, 8]
    exists = "SELECT id FROM t o WHERE EXISTS (SELECT 1 FROM t i WHERE i.mail = o.mail AND n = 1)"
    assert ids(changed, exists) == [5, 6]
    grouped = "SELECT mail, COUNT(*) FROM t WHERE mail LIKE 'new%' GROUP BY mail ORDER BY 1"
    assert rows(changed, grouped) == [["new@5", 1], ["new@6", 1]]


def test_current_reads_and_the_end_see_what_is_committed(
    changed: Session, another: Session
) -> None:
    assert ids(changed, "SELECT id FROM t WHERE mail = 'new@5' FOR UPDATE") == [5]
    assert run(changed, "UPDATE t SET n = n + 1 WHERE mail LIKE 'new%'").affected == 2
    assert ids(changed, "SELECT id FROM t WHERE mail = 'new@6' AND n = 2") == [6]
    run(changed, "COMMIT")
    expected = [[4, 0], [5, 2], [6, 2], [8, 0]]
    numbers = [[int(i), n] for i, n in rows(another, "SELECT id, n FROM t ORDER BY id")]
    assert numbers == expected
    run(another, "ADMIN CHECK TABLE t")


def test_a_savepoint_gives_back_the_snapshot_and_its_entries(
    session: Session, another: Session
) -> None:
    run(session, f"CREATE TABLE t ({TABLES['plain']})")
    run(session, "INSERT INTO t VALUES (5, 'old@5', 0, 'x'), (6, 'old@6', 0, 'x')")
    run(session, "BEGIN")
    rows(session, "SELECT * FROM t")
    run(another, "UPDATE t SET mail = CONCAT('new@', id)")
    run(session, "UPDATE t SET n = 1 WHERE id = 6")
    run(session, "SAVEPOINT s")
    run(session, "UPDATE t SET n = 1 WHERE id = 5")
    assert ids(session, "SELECT id FROM t WHERE mail LIKE 'new@%'") == [5, 6]
    run(session, "UPDATE t SET mail = 'own@5' WHERE id = 5")
    assert ids(session, "SELECT id FROM t WHERE mail > 'old@5'") == [5]
    run(session, "ROLLBACK TO s")
    assert ids(session, "SELECT id FROM t WHERE mail = 'old@5'") == [5]
    assert ids(session, "SELECT id FROM t WHERE mail >= 'new@6'") == [5, 6]
    run(session, "COMMIT")
    assert rows(another, "SELECT n FROM t ORDER BY id") == [[0], [1]]


def test_a_unique_value_that_an_own_row_took_over_is_seen_at_both(
    session: Session, another: Session
) -> None:
    """Row 1 is the snapshot's and still has the value there; 2 is an own row and has it now."""
    run(session, f"CREATE TABLE t ({TABLES['unique']})")
    run(session, "INSERT INTO t VALUES (1, 'same', 0, 'x'), (2, 'two', 0, 'x')")
    run(session, "BEGIN")
    rows(session, "SELECT * FROM t")
    run(another, "DELETE FROM t WHERE id = 1")
    run(session, "UPDATE t SET mail = 'same' WHERE id = 2")
    for hint in ("", "FORCE INDEX (by_mail)", "IGNORE INDEX (by_mail)"):
        assert ids(session, f"SELECT id FROM t {hint} WHERE mail = 'same'") == [1, 2]
    run(session, "COMMIT")
    assert ids(session, "SELECT id FROM t WHERE mail = 'same'") == [2]


def test_a_read_of_the_newest_snapshot_goes_by_the_keys_alone(
    world: World, session: Session, another: Session
) -> None:
    """What is computed for a mixed transaction costs no other one anything."""
    run(session, f"CREATE TABLE t ({TABLES['plain']})")
    run(session, "INSERT INTO t VALUES (5, 'old@5', 0, 'x')")
    for begin in ("BEGIN", "BEGIN OPTIMISTIC"):
        for _ in range(20):  # another commit, as of the node itself, makes the transaction mixed
            before = _last_commit(world)
            run(session, begin)
            rows(session, "SELECT * FROM t")
            run(session, "UPDATE t SET n = n + 1 WHERE id = 5")
            rows(session, "SELECT * FROM t WHERE mail = 'old@5'")
            assert session.current is not None
            txn = session.current.txn
            is_mixed, has_views = txn.is_mixed, bool(txn.views)
            run(session, "ROLLBACK")
            if _last_commit(world) == before:
                break
        assert (is_mixed, has_views) == (False, False)


def _last_commit(world: World) -> int:
    with world.store.read() as txn:
        return txn.sequence
