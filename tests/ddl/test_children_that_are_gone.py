"""What a parent knows of a foreign key outlives a child that may come back: it refuses nothing
while no child is there, holds again when one is, and is forgotten with the child's last row."""

import pytest

from exuvia.catalog import meta
from exuvia.kv import keys
from support.node_processes import until
from support.world import World, error, rows, run

PARENT = "CREATE TABLE p (id INT, c DATE, PRIMARY KEY (id) CLUSTERED)"
CHILD = (
    "CREATE TABLE {} (id INT PRIMARY KEY, p INT, CONSTRAINT k FOREIGN KEY (p) REFERENCES d.p (id))"
)
GOES_AND_COMES = {
    "a table": ("c", "DROP TABLE c", "RECOVER TABLE c"),
    "under another name": ("c", "DROP TABLE c", "FLASHBACK TABLE c TO c2"),
    "a database": ("e.c", "DROP DATABASE e", "FLASHBACK DATABASE e"),
}


@pytest.fixture
def session():
    with World() as world:
        found = world.session()
        for text in ("CREATE DATABASE d", "CREATE DATABASE e", "USE d", PARENT):
            run(found, text)
        run(found, "INSERT INTO p VALUES (1, '2020-01-01'), (2, NULL)")
        yield found


def known(session, table="p"):
    """How many keys the table knows."""
    with session.services.store.read() as txn:
        found = session.services.schemas.table(txn, "d", table)
        return len(found.info.exuvia_referred)


@pytest.mark.parametrize("how", GOES_AND_COMES)
def test_a_child_that_is_gone_refuses_nothing_and_holds_again_when_it_is_back(session, how):
    child, goes, comes = GOES_AND_COMES[how]
    run(session, CHILD.format(child))
    run(session, f"INSERT INTO {child} VALUES (1, 1)")
    run(session, goes)
    run(session, "ALTER TABLE p DROP PRIMARY KEY, ADD PRIMARY KEY (id) NONCLUSTERED")
    run(session, "ALTER TABLE p ADD INDEX i (c)")
    run(session, comes)
    assert error(session, "ALTER TABLE p TTL = c + INTERVAL 1 DAY")[0] == 8152
    assert error(session, "DELETE FROM p WHERE id = 1")[0] == 1451
    assert error(session, "DROP TABLE p")[0] == 3730
    run(session, "DELETE FROM p WHERE id = 2")


def test_ttl(session):
    run(session, CHILD.format("c"))
    run(session, "INSERT INTO c VALUES (1, 1)")
    assert error(session, "ALTER TABLE p TTL = c + INTERVAL 1 DAY")[0] == 8152
    run(session, "DROP TABLE c")
    run(session, "SET GLOBAL tidb_ttl_job_enable = OFF")
    run(session, "ALTER TABLE p TTL = c + INTERVAL 1 DAY")
    run(session, "RECOVER TABLE c")  # rows of its parent do not expire while it is there
    run(session, "CREATE TABLE w (id INT, c DATE) TTL = c + INTERVAL 1 DAY")
    run(session, "INSERT INTO w VALUES (1, '2020-01-01')")
    run(session, "SET GLOBAL tidb_ttl_job_enable = ON")
    until(lambda: rows(session, "SELECT * FROM w") == [])
    assert rows(session, "SELECT id FROM p ORDER BY id") == [[1], [2]]
    run(session, "DROP TABLE c")
    until(lambda: rows(session, "SELECT id FROM p") == [[2]])


def test_a_clustered_key_goes(session):
    run(session, CHILD.format("c"))
    assert error(session, "ALTER TABLE p DROP PRIMARY KEY")[0] == 1553
    run(session, "DROP TABLE c")
    run(session, "ALTER TABLE p DROP PRIMARY KEY")
    assert rows(session, "SELECT id FROM p ORDER BY id") == [[1], [2]]


def test_a_truncate_is_taken_back(session):
    run(session, CHILD.format("c"))
    run(session, "DROP TABLE c")
    run(session, "SET exuvia_undo_s = 600")
    run(session, "TRUNCATE TABLE p")
    ((job_id,),) = rows(session, "SELECT job_id FROM information_schema.exuvia_undo")
    run(session, "RECOVER TABLE c")
    code, said = error_text(session, f"ADMIN UNDO DDL JOB {job_id}")
    assert code == 1105 and "its table has foreign keys now" in said
    run(session, "DROP TABLE c")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    assert rows(session, "SELECT id FROM p ORDER BY id") == [[1], [2]]


def error_text(session, text):
    with pytest.raises(Exception) as found:
        run(session, text)
    return found.value.code, found.value.message


def test_a_child_that_was_truncated_holds_when_its_older_rows_are_gone(session):
    run(session, CHILD.format("c"))
    run(session, "SET GLOBAL exuvia_drop_retention_s = 0")
    run(session, "TRUNCATE TABLE c")
    until(lambda: rows(session, "SELECT * FROM mysql.gc_delete_range") == [])
    run(session, "INSERT INTO c VALUES (1, 1)")
    assert error(session, "DELETE FROM p WHERE id = 1")[0] == 1451
    assert error(session, "ALTER TABLE p TTL = c + INTERVAL 1 DAY")[0] == 8152


@pytest.mark.parametrize("goes", ["DROP TABLE e.c", "DROP DATABASE e"])
def test_what_does_not_come_back_is_forgotten(session, goes):
    run(session, CHILD.format("e.c"))
    run(session, "INSERT INTO e.c VALUES (1, 1)")
    run(session, "SET GLOBAL exuvia_drop_retention_s = 0")
    run(session, goes)
    assert known(session) == 1
    until(lambda: rows(session, "SELECT * FROM mysql.gc_delete_range") == [])
    with session.services.store.read() as txn:
        p = session.services.schemas.table(txn, "d", "p").info
        left = [
            list(txn.scan(keys.span_of(keys.meta(kind))))
            for kind in ("fkchild", "fkparent", "fkgone", "fkorphan")
        ]
        assert left == [[], [], [], []]
        assert meta.gone_links(txn, (p,)) == {p.exuvia_referred[0].link}
        marks = keys.span_of(keys.mark_prefix(p.id, p.exuvia_referred[0].link))
        assert list(txn.scan(marks)) == []
    run(session, "ALTER TABLE p COMMENT 'x'")
    assert known(session) == 0
    run(session, CHILD.format("c"))
    assert known(session) == 1
    run(session, "INSERT INTO c VALUES (1, 1)")
    assert error(session, "DELETE FROM p WHERE id = 1")[0] == 1451


def test_a_parent_made_anew_is_not_held_by_a_child_that_is_gone(session):
    run(session, CHILD.format("c"))
    run(session, "DROP TABLE c")
    run(session, "DROP TABLE p")
    run(session, PARENT + " TTL = c + INTERVAL 1 DAY")
    run(session, "ALTER TABLE p TTL = c + INTERVAL 2 DAY")
    run(session, "ALTER TABLE p DROP PRIMARY KEY")
    run(session, "RECOVER TABLE c")
    assert error(session, "INSERT INTO c VALUES (1, 1)")[0] == 1452
    assert error(session, "ALTER TABLE p TTL = c + INTERVAL 1 DAY")[0] == 8152


# -- what comes back beside its successor ----------------------------------------------------------


ANEW = {
    "dropped and made anew": ("DROP TABLE p", PARENT),
    "truncated": ("TRUNCATE TABLE p",),
}


@pytest.mark.parametrize("how", ANEW)
def test_a_former_parent_does_not_take_the_children_of_its_successor(session, how):
    run(session, CHILD.format("c"))
    run(session, "INSERT INTO c VALUES (1, 1)")
    run(session, "SET foreign_key_checks = OFF")
    for text in ANEW[how]:
        run(session, text)
    run(session, "INSERT INTO p (id) VALUES (1), (3)")
    run(session, "SET foreign_key_checks = ON")
    run(session, "FLASHBACK TABLE p TO former")
    assert (known(session), known(session, "former")) == (1, 0)
    assert "REFERENCES `p`" in rows(session, "SHOW CREATE TABLE c")[0][1]
    assert error(session, "INSERT INTO c VALUES (2, 2)")[0] == 1452
    run(session, "INSERT INTO c VALUES (3, 3)")
    assert error(session, "DELETE FROM p WHERE id = 3")[0] == 1451
    run(session, "DELETE FROM former")
    run(session, "DROP TABLE former")


def test_a_parent_under_another_name_is_another_table(session):
    run(session, CHILD.format("c"))
    run(session, "SET foreign_key_checks = OFF")
    run(session, "DROP TABLE p")
    run(session, "SET foreign_key_checks = ON")
    run(session, "FLASHBACK TABLE p TO former")
    assert error(session, "INSERT INTO c VALUES (1, 1)")[0] == 1452
    run(session, "DROP TABLE former")
    run(session, "FLASHBACK TABLE former TO p")  # and the one they wait for
    run(session, "INSERT INTO c VALUES (1, 1)")
    assert error(session, "DELETE FROM p WHERE id = 1")[0] == 1451
    assert error(session, "INSERT INTO c VALUES (5, 5)")[0] == 1452


def test_a_child_that_was_truncated_leaves_its_keys_to_its_successor(session):
    run(session, CHILD.format("c"))
    run(session, "INSERT INTO c VALUES (1, 1)")
    run(session, "TRUNCATE TABLE c")
    run(session, "INSERT INTO c VALUES (2, 2)")
    run(session, "FLASHBACK TABLE c TO former")
    assert rows(session, "SHOW WARNINGS") == [
        ["Note", 1105, "foreign key 'k' stays with table 'c'"]
    ]
    assert "FOREIGN KEY" not in rows(session, "SHOW CREATE TABLE former")[0][1]
    assert error(session, "DELETE FROM p WHERE id = 2")[0] == 1451
    run(session, "INSERT INTO former VALUES (9, 9)")
    run(session, "DROP TABLE former")
    assert error(session, "DELETE FROM p WHERE id = 2")[0] == 1451
    run(session, "DROP TABLE c")
    run(session, "FLASHBACK TABLE c TO last")  # the only one that has the key
    assert error(session, "DELETE FROM p WHERE id = 2")[0] == 1451
    assert error(session, "INSERT INTO last VALUES (9, 9)")[0] == 1452


OWN = "CREATE TABLE s (id INT PRIMARY KEY, p INT, CONSTRAINT o FOREIGN KEY (p) REFERENCES s (id))"


def test_a_table_that_refers_to_itself_does_so_again(session):
    run(session, OWN)
    run(session, "INSERT INTO s VALUES (1, NULL), (2, 1)")
    run(session, "DROP TABLE s")
    run(session, OWN)
    assert known(session, "s") == 1, "its own"
    run(session, "FLASHBACK TABLE s TO former")
    for table in ("s", "former"):
        assert f"REFERENCES `{table}`" in rows(session, f"SHOW CREATE TABLE {table}")[0][1]
    assert error(session, "DELETE FROM former WHERE id = 1")[0] == 1451
    assert error(session, "INSERT INTO s VALUES (2, 1)")[0] == 1452
    run(session, "INSERT INTO former VALUES (3, 2)")
    run(session, "TRUNCATE TABLE former")
    run(session, "FLASHBACK TABLE former TO oldest")
    assert (known(session, "former"), known(session, "oldest")) == (1, 0)
    run(session, "DELETE FROM oldest WHERE id = 1")
