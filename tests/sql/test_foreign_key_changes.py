"""A schema change waits for whoever took evidence from its table: a parent found, children absent.

The table itself was not written. What changes it and who wrote are on one node, or on two.
"""

import pytest

from support.world import Later, World, error, rows, run

PARENT = "CREATE TABLE p (id INT PRIMARY KEY, u INT, v INT, UNIQUE u1 (u), UNIQUE u2 (u))"
CHILD = (
    "CREATE TABLE c (id INT PRIMARY KEY, p INT, KEY i1 (p), KEY i2 (p),"
    " CONSTRAINT k FOREIGN KEY (p) REFERENCES p (u){})"
)


@pytest.fixture(scope="module")
def nodes():
    with World() as one, World(one.store, owns=False) as other:
        yield one, other


@pytest.fixture(params=["one node", "two nodes"])
def trio(nodes, request):
    """A writer, who changes tables, and who looks: p(1, 7), p(2, 8), and no child."""
    one, other = nodes
    found = one.session(""), (other if request.param == "two nodes" else one).session("")
    writing, changing = found
    run(changing, "CREATE DATABASE fk")
    for each in found:
        run(each, "USE fk")
    run(changing, PARENT)
    run(changing, CHILD.format(""))
    run(changing, "INSERT INTO p VALUES (1, 7, 0), (2, 8, 0)")
    looking = other.session("fk")
    yield writing, changing, looking
    for each in (writing, changing):
        each.rollback()
        run(each, "SET foreign_key_checks = ON")
    run(changing, "SET foreign_key_checks = OFF")
    run(changing, "DROP DATABASE fk")


ON_PARENT = [
    "ALTER TABLE p DROP INDEX u1",
    "ALTER TABLE p ADD INDEX u3 (u, v)",
    "ALTER TABLE p MODIFY u BIGINT",
    "ALTER TABLE p DROP COLUMN v",
    "ALTER TABLE c DROP FOREIGN KEY k",
    "TRUNCATE TABLE p",
    "DROP TABLE p",
]
ON_CHILD = [
    "ALTER TABLE c DROP INDEX i1",
    "ALTER TABLE c ADD INDEX i3 (p, id)",
    "ALTER TABLE c MODIFY p BIGINT",
    "ALTER TABLE c DROP FOREIGN KEY k",
    "TRUNCATE TABLE c",
    "DROP TABLE c",
]


@pytest.mark.parametrize("change", ON_PARENT)
@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN OPTIMISTIC"])
def test_a_change_of_the_parent_waits_for_who_found_it(trio, change, begin):
    writing, changing, looking = trio
    run(writing, begin)
    run(writing, "INSERT INTO c VALUES (1, 7)")
    run(changing, "SET foreign_key_checks = OFF")
    waiting = Later(changing, change)
    assert waiting.waits()
    if change.startswith(("TRUNCATE", "DROP")):
        run(writing, "COMMIT")
    else:  # a front of its own: no lock is seen from there, and the parent goes
        run(looking, "DELETE FROM p WHERE id = 1")
        assert error(writing, "COMMIT") == (1213, "40001")
        assert rows(looking, "SELECT * FROM c") == []
    assert waiting.rows() == []


@pytest.mark.parametrize("change", ON_CHILD)
def test_a_change_of_the_child_waits_for_who_saw_none(trio, change):
    writing, changing, looking = trio
    run(writing, "BEGIN")
    run(writing, "DELETE FROM p WHERE id = 1")
    run(changing, "SET foreign_key_checks = OFF")
    waiting = Later(changing, change)
    assert waiting.waits()
    run(writing, "COMMIT")
    assert waiting.rows() == []
    if change.startswith("ALTER") and "FOREIGN" not in change:
        assert error(looking, "INSERT INTO c VALUES (1, 7)") == (1452, "23000")


@pytest.mark.parametrize("statement", ["INSERT INTO c VALUES (1, NULL)", "UPDATE p SET v = 1"])
def test_who_needs_no_evidence_holds_nobody(trio, statement):
    """No value refers to anything; no value that is referred to goes."""
    writing, changing, _ = trio
    run(writing, "BEGIN")
    run(writing, statement)
    other = "p" if statement.startswith("INSERT") else "c"
    run(changing, f"ALTER TABLE {other} ADD COLUMN more INT")
    run(writing, "COMMIT")


def test_a_view_of_what_waits_names_the_transaction(trio):
    writing, changing, looking = trio
    run(writing, "BEGIN")
    run(writing, "INSERT INTO c VALUES (1, 7)")
    waiting = Later(changing, "ALTER TABLE p DROP INDEX u1")
    assert waiting.waits()
    found: list[object] = []
    while not found:
        seen = looking.services.store.counter("ack")
        found = rows(looking, "SELECT * FROM mysql.tidb_mdl_view")
        looking.services.store.wait("ack", seen, 0.05)
    assert "INSERT INTO c" in str(found)
    run(writing, "COMMIT")
    assert waiting.rows() == []


def test_a_statement_that_failed_leaves_its_fence_to_the_next(trio):
    """What a statement required is forgotten with it; the next one requires it anew."""
    writing, changing, looking = trio
    run(writing, "BEGIN")
    run(writing, "INSERT INTO c VALUES (1, 7)")
    assert error(writing, "INSERT INTO c VALUES (2, 7), (1, 7)") == (1062, "23000")
    run(writing, "INSERT INTO c VALUES (3, 8)")
    waiting = Later(changing, "ALTER TABLE p DROP INDEX u1")
    assert waiting.waits()
    run(writing, "COMMIT")
    assert waiting.rows() == []
    assert rows(looking, "SELECT * FROM c") == [[1, 7], [3, 8]]
    run(looking, "ADMIN CHECK TABLE p, c")


def test_rows_read_for_update_are_fenced(trio):
    """A row that is locked may move to another key range: then its lock locks nothing."""
    writing, changing, _ = trio
    run(changing, "CREATE TABLE r (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2")
    run(changing, "INSERT INTO r VALUES (1)")
    writing.settings.metadata_lock = False
    try:
        run(writing, "BEGIN")
        assert rows(writing, "SELECT * FROM r WHERE id = 1 FOR UPDATE") == [[1]]
        run(writing, "INSERT INTO c VALUES (1, NULL)")
        run(changing, "ALTER TABLE r REMOVE PARTITIONING")
        assert error(writing, "COMMIT") == (8028, "HY000")
    finally:
        writing.settings.metadata_lock = True
