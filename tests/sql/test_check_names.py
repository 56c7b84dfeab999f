"""A CHECK's name is given once in a database, and who asks reads no other table for it."""

import pytest

from exuvia.catalog import meta
from exuvia.ddl import upgrade as upgrades
from exuvia.ddl.upgrade import Upgrade
from exuvia.kv import keys
from support.world import World, error, rows, run

TAKEN = 3822


@pytest.fixture
def session(world: World):
    session = world.session("")
    run(session, "SET GLOBAL tidb_enable_check_constraint = ON")
    for each in ("names", "elsewhere"):
        run(session, f"CREATE DATABASE {each}")
    run(session, "USE names")
    yield session
    for each in ("names", "elsewhere"):
        run(session, f"DROP DATABASE IF EXISTS {each}")
    session.close()


def table(name, check="c"):
    return f"CREATE TABLE {name} (a INT, CONSTRAINT {check} CHECK (a > 0))"


def kept(world):
    """(database's id, name, table's id) of every key; those of databases that were dropped stay
    until their tables are removed."""
    prefix = keys.meta("checkname")
    with world.store.read() as txn:
        found = [key[len(prefix) :] for key, _ in txn.scan(keys.span_of(prefix))]
        there = {each.id for each in meta.list_databases(txn)}
    named = {(keys.read_number(k[:8]), k[8:-9].decode(), keys.read_number(k[-8:])) for k in found}
    return {each for each in named if each[0] in there}


def wanted(world):
    """The same, as the tables have it."""
    with world.store.read() as txn:
        return {
            (database.id, check.constraint_name.L, info.id)
            for database in meta.list_databases(txn)
            for info in meta.list_tables(txn, database.id)
            for check in info.checks
        }


def test_no_other_table_is_read(world, session, monkeypatch):
    run(session, table("t"))

    def never(txn, database_id):
        raise AssertionError("all tables are read")

    monkeypatch.setattr(meta, "list_tables", never)
    assert error(session, table("u", "C"))[0] == TAKEN
    run(session, "CREATE TABLE u (a INT)")
    assert error(session, "ALTER TABLE u ADD CONSTRAINT c CHECK (a > 1)")[0] == TAKEN
    run(session, "ALTER TABLE u ADD CONSTRAINT d CHECK (a > 1)")


@pytest.mark.parametrize(
    ("change", "frees"),
    [
        ("DROP TABLE t", True),
        ("ALTER TABLE t DROP CHECK c", True),
        ("ALTER TABLE t RENAME TO elsewhere.t", True),
        ("ALTER TABLE t RENAME TO s", False),
        ("TRUNCATE TABLE t", False),
        ("ALTER TABLE t ALTER CHECK c NOT ENFORCED", False),
        ("ALTER TABLE t ADD COLUMN b INT", False),
        ("ALTER TABLE t DROP COLUMN a", True),
        ("ALTER TABLE t ADD CONSTRAINT e CHECK (a > 2)", False),
    ],
)
def test_a_name_is_free_where_no_table_has_it(world, session, change, frees):
    run(session, table("t"))
    run(session, table("elsewhere.v"))
    if "DROP COLUMN" in change:
        run(session, "ALTER TABLE t ADD COLUMN more INT")
    run(session, "ALTER TABLE elsewhere.v RENAME TO elsewhere.w")
    run(session, change)
    assert kept(world) == wanted(world)
    if frees:
        run(session, table("u"))
    else:
        assert error(session, table("u"))[0] == TAKEN
    assert kept(world) == wanted(world)


def test_a_table_that_comes_back_has_its_names(world, session):
    run(session, table("t"))
    run(session, "DROP TABLE t")
    run(session, "FLASHBACK TABLE t TO s")
    assert error(session, table("u"))[0] == TAKEN
    run(session, "DROP DATABASE names")
    run(session, "FLASHBACK DATABASE names")
    run(session, "USE names")
    assert error(session, table("u"))[0] == TAKEN
    assert kept(world) == wanted(world)


def test_a_name_that_two_tables_have_is_taken_until_both_are_gone(world, session):
    run(session, table("t"))
    run(session, table("elsewhere.s"))
    run(session, "RENAME TABLE elsewhere.s TO names.s")
    run(session, "DROP TABLE t")
    assert error(session, table("u"))[0] == TAKEN
    run(session, "DROP TABLE s")
    run(session, table("u"))


class Idle:
    """Neither an owner nor a submitter: nothing else is to be done for such a store."""

    is_owner = False


def test_a_store_of_an_older_release_gets_its_keys(world, session, monkeypatch):
    for n in range(5):
        run(session, table(f"t{n}", f"c{n}"))

    def forget(txn):
        for key, _ in list(txn.scan(keys.span_of(keys.meta("checkname")))):
            txn.delete(key)
        txn.delete(keys.CHECK_NAMES)

    world.store.transact(forget)
    assert error(session, table("u", "c3"))[0] == TAKEN
    older = ["a front of 0.4.0"]
    monkeypatch.setattr(upgrades.members, "before_0_5", lambda txn: older)
    monkeypatch.setattr(upgrades, "MOST_TABLES", 2)
    upgrade = Upgrade(world.store, Idle(), Idle())
    for _ in range(3):
        upgrade.step(0.0)
    assert kept(world) == set()
    run(session, "ALTER TABLE t0 DROP CHECK c0")  # it has no key to go with it
    older.clear()
    upgrade.step(0.0)
    with world.store.read() as txn:
        assert txn.get(keys.CHECK_NAMES) is None
    run(session, table("new", "n"))
    while not upgrade.done:
        upgrade.step(0.0)
    assert kept(world) == wanted(world)
    assert error(session, table("u", "c3"))[0] == TAKEN
    run(session, table("u", "c0"))
    assert rows(session, "SELECT COUNT(*) FROM u") == [[0]]
