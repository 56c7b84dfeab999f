"""A parent goes while a child comes: one of both commits, in either order, on two nodes.

Optimistic transactions take no lock, so nothing keeps them apart: the store alone decides.
"""

import pytest

from exuvia.base.errors import Refused
from exuvia.kv.memory import MemoryStore
from support.world import World, error, rows, run


@pytest.fixture(scope="module")
def nodes():
    store = MemoryStore()
    with World(store) as one, World(store, owns=False) as other:
        yield one, other


@pytest.fixture
def pair(nodes):
    """Sessions of both nodes: p(1), p(2) and an empty c that refers to it."""
    one, other = (node.session("") for node in nodes)
    run(one, "DROP DATABASE IF EXISTS fk")
    run(one, "CREATE DATABASE fk")
    for session in (one, other):
        run(session, "USE fk")
    run(one, "CREATE TABLE p (id INT PRIMARY KEY, u INT, k INT, v INT, UNIQUE (u), KEY (k))")
    run(one, "INSERT INTO p VALUES (1, 1, 1, 0), (2, 2, 2, 0)")
    yield one, other
    one.rollback()
    other.rollback()


def child(session, column="id", rule=""):
    run(
        session,
        "CREATE TABLE c (id INT PRIMARY KEY, p INT,"
        f" FOREIGN KEY (p) REFERENCES p ({column}) {rule})",
    )


def commits(session):
    try:
        run(session, "COMMIT")
    except Refused as refused:
        assert refused.code == 1213
        return False
    return True


WRITES = {
    "delete": "DELETE FROM p WHERE id = 1",
    "update": "UPDATE p SET id = 9, u = 9, k = 9 WHERE id = 1",
    "replace": "REPLACE INTO p VALUES (1, 7, 7, 7)",
}


@pytest.mark.parametrize("column", ["id", "u", "k"])
@pytest.mark.parametrize("write", list(WRITES))
@pytest.mark.parametrize("first", ["parent", "child"])
def test_one_of_both_commits(pair, column, write, first):
    if (column, write) == ("id", "replace"):
        write = "delete"
    one, other = pair
    child(one, column)
    run(one, "BEGIN OPTIMISTIC")
    run(other, "BEGIN OPTIMISTIC")
    rows(other, "SELECT * FROM p")
    run(one, WRITES[write])
    run(other, "INSERT INTO c VALUES (1, 1)")
    order = (one, other) if first == "parent" else (other, one)
    assert [commits(session) for session in order] == [True, False]
    orphans = f"SELECT c.id FROM c LEFT JOIN p ON p.{column} = c.p WHERE p.id IS NULL"
    assert rows(one, orphans) == []


@pytest.mark.parametrize("rule", ["ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_a_child_that_comes_late_does_not_escape_a_cascade(pair, rule):
    one, other = pair
    child(one, "id", rule)
    run(one, "BEGIN OPTIMISTIC")
    run(one, "DELETE FROM p WHERE id = 1")
    run(other, "INSERT INTO c VALUES (1, 1)")
    assert not commits(one)
    assert rows(one, "SELECT * FROM c") == [[1, 1]]


def test_children_of_one_parent_do_not_conflict(pair):
    one, other = pair
    child(one)
    run(one, "BEGIN")
    run(other, "BEGIN")
    run(one, "INSERT INTO c VALUES (1, 1)")
    run(other, "INSERT INTO c VALUES (2, 1)")
    assert commits(one) and commits(other)


def test_a_parents_other_columns_are_free(pair):
    one, other = pair
    child(one, "u")
    run(one, "BEGIN")
    run(one, "INSERT INTO c VALUES (1, 1)")
    run(other, "UPDATE p SET v = v + 1")
    assert commits(one)


def test_a_new_parent_may_be_referred_to_in_its_own_transaction(pair):
    one, other = pair
    child(one)
    run(one, "BEGIN")
    run(one, "INSERT INTO p VALUES (3, 3, 3, 3)")
    run(one, "INSERT INTO c VALUES (1, 3)")
    assert error(other, "INSERT INTO c VALUES (2, 3)") == (1452, "23000")
    assert commits(one)
    assert error(other, "DELETE FROM p WHERE id = 3") == (1451, "23000")


def test_a_writer_from_before_the_key_is_caught_by_its_reorg_or_refused(pair):
    """Both tables' revisions move: who planned without the key meets the scan, or 8028."""
    one, other = pair
    run(one, "CREATE TABLE c (id INT PRIMARY KEY, p INT, KEY (p))")
    run(one, "SET GLOBAL tidb_enable_metadata_lock = OFF")
    try:
        run(other, "BEGIN")
        run(other, "INSERT INTO c VALUES (1, 77)")
        run(one, "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id)")
        with pytest.raises(Refused) as refused:
            run(other, "COMMIT")
        assert refused.value.code == 8028
    finally:
        run(one, "SET GLOBAL tidb_enable_metadata_lock = ON")
    assert rows(one, "SELECT * FROM c") == []


def test_versions_spent(pair):
    one, _ = pair
    run(one, "CREATE TABLE d (id INT PRIMARY KEY, p INT, KEY (p))")

    def spent(statement):
        before = version(one)
        run(one, statement)
        return version(one) - before

    assert spent("CREATE TABLE e (p INT, FOREIGN KEY (p) REFERENCES p (id))") == 2
    assert spent("ALTER TABLE d ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES p (id)") == 3
    assert spent("ALTER TABLE d DROP FOREIGN KEY k") == 1
    assert spent("ALTER TABLE d ADD CONSTRAINT n CHECK (p > 0)") == 3
    assert spent("ALTER TABLE d ALTER CHECK n NOT ENFORCED") == 1
    assert spent("ALTER TABLE d ALTER CHECK n ENFORCED") == 3
    assert spent("ALTER TABLE d DROP CHECK n") == 2


def version(session):
    return rows(session, "ADMIN SHOW DDL")[0][0]
