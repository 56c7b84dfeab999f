"""A follower that reads nothing but the history of jobs has the catalog of the store."""

import random

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import meta
from exuvia.catalog.model import TableInfo
from exuvia.catalog.system_tables import LAST_SYSTEM_ID
from exuvia.ddl.follow import Follower
from support.world import World, run

STATEMENTS = (
    "CREATE TABLE {d}.{t} (a INT PRIMARY KEY, b INT, c VARCHAR(20), KEY (b))",
    "CREATE TABLE {d}.{t} (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10),"
    " PARTITION p1 VALUES LESS THAN (20))",
    "CREATE TABLE {d}.{t} (a INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES {d}.{u} (a))",
    "CREATE TABLE {d}.{t} LIKE {d}.{u}",
    "CREATE TABLE {d}.{t} AS SELECT * FROM {d}.{u}",
    "CREATE VIEW {d}.{t} AS SELECT 1 AS one",
    "DROP TABLE {d}.{t}",
    "DROP VIEW {d}.{t}",
    "RECOVER TABLE {d}.{t}",
    "TRUNCATE TABLE {d}.{t}",
    "RENAME TABLE {d}.{t} TO {d}.{u}",
    "RENAME TABLE {d}.{t} TO {d}.swap, {d}.{u} TO {d}.{t}, {d}.swap TO {d}.{u}",
    "RENAME TABLE {d}.{t} TO {e}.{t}",
    "INSERT INTO {d}.{t} (a) VALUES (1), (2), (1)",
    "ALTER TABLE {d}.{t} ADD COLUMN d INT DEFAULT 3",
    "ALTER TABLE {d}.{t} ADD COLUMN e INT, ADD INDEX by_e (e), DROP COLUMN d",
    "ALTER TABLE {d}.{t} ADD UNIQUE one (b)",
    "ALTER TABLE {d}.{t} ADD UNIQUE two (a)",
    "ALTER TABLE {d}.{t} DROP COLUMN c",
    "ALTER TABLE {d}.{t} MODIFY COLUMN b BIGINT",
    "ALTER TABLE {d}.{t} MODIFY COLUMN c INT",
    "ALTER TABLE {d}.{t} ADD CHECK (a > 1)",
    "ALTER TABLE {d}.{t} COMMENT = 'x'",
    "ALTER TABLE {d}.{t} ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))",
    "ALTER TABLE {d}.{t} TRUNCATE PARTITION p0",
    "ALTER TABLE {d}.{t} EXCHANGE PARTITION p1 WITH TABLE {d}.{u}",
    "ALTER TABLE {d}.{t} REMOVE PARTITIONING",
    "ALTER TABLE {d}.{t} PARTITION BY HASH (a) PARTITIONS 2",
    "DROP DATABASE {d}",
    "CREATE DATABASE {d}",
    "FLASHBACK DATABASE {d}",
)
HEAVY = ("DROP DATABASE {d}",)


def in_the_store(world: World) -> tuple[dict[int, str], dict[int, TableInfo]]:
    txn = world.store.begin()
    try:
        databases = [each for each in meta.list_databases(txn) if each.id > LAST_SYSTEM_ID]
        tables = {t.id: t for each in databases for t in meta.list_tables(txn, each.id)}
        return {each.id: each.db_name.O for each in databases}, tables
    finally:
        txn.rollback()


def compare(follower: Follower, world: World) -> None:
    follower.step(world.store)
    databases, tables = in_the_store(world)
    assert {n: each.db_name.O for n, each in follower.databases.items()} == databases
    assert follower.tables.keys() == tables.keys()
    for table_id, info in tables.items():
        assert follower.tables[table_id] == info


@pytest.mark.parametrize("seed", range(3))
def test_a_follower_has_the_catalog_of_the_store(seed):
    chance = random.Random(seed)
    done: set[str] = set()
    with World() as world:
        session = world.session()
        for name in ("d1", "d2"):
            run(session, f"CREATE DATABASE {name}")
        eager, late = Follower(), Follower()
        for turn in range(250):
            statement = chance.choice(STATEMENTS)
            if statement in HEAVY and chance.random() < 0.7:
                continue
            place = {"d": chance.choice(("d1", "d2")), "e": chance.choice(("d1", "d2"))}
            place |= {"t": chance.choice("tuv"), "u": chance.choice("tuv")}
            try:
                run(session, statement.format(**place))
                done.add(statement)
            except Refused:
                pass
            if turn % 3 == 0:
                compare(eager, world)
        compare(late, world)
        assert late.step(world.store) == 0
    assert len(done) > 20, done
