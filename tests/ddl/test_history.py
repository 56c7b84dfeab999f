"""Whoever reads nothing but the history of jobs has the catalog of the store.

Many clients change schemas at once, as the fuzzer schrddl does it: after each statement its session
reads @@tidb_last_ddl_info, whose seq_num is the change's place in history; a model that applies in
that order what the server did accepts all of it, and ends with the same tables. (What the server
refused is not asked of the model: a change is of the table it was asked for, not of another that
has its name by then.)
"""

import json
import random
import threading

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import meta
from exuvia.catalog.model import TableInfo
from exuvia.catalog.system_tables import LAST_SYSTEM_ID
from exuvia.ddl import queue
from exuvia.ddl.follow import Follower
from support.world import World, rows, run

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


# -- many clients at once --------------------------------------------------------------------------

CLIENTS = 8
EACH = 12
TABLES = ("t0", "t1", "t2")
LAST = "SELECT @@tidb_last_ddl_info"


def statement(chance, n):
    """One that may meet those of others."""
    table = chance.choice(TABLES)
    column = f"c{chance.randrange(4)}"
    return chance.choice(
        [
            f"CREATE TABLE {table} (a INT PRIMARY KEY, b INT)",
            f"DROP TABLE {table}",
            f"ALTER TABLE {table} ADD COLUMN {column} INT DEFAULT {n}",
            f"ALTER TABLE {table} DROP COLUMN {column}",
            f"ALTER TABLE {table} ADD INDEX i{column} (b), ADD COLUMN {column} INT",
            f"ALTER TABLE {table} DROP INDEX i{column}",
            f"ALTER TABLE {table} MODIFY b BIGINT DEFAULT {n}",
            f"TRUNCATE TABLE {table}",
        ]
    )


def ask(session, text):
    """The code it was refused with, 0 if it was not."""
    try:
        session.execute(text)
    except Refused as error:
        return error.code
    return 0


def client(session, chance, start, told):
    """(seq_num, statement, code) of every change whose job began."""
    before = json.loads(rows(session, LAST)[0][0])["seq_num"]
    start.wait()
    for n in range(EACH):
        text = statement(chance, n)
        code = ask(session, text)
        found = json.loads(rows(session, LAST)[0][0])
        if found["seq_num"] != before:
            before = found["seq_num"]
            assert found["query"] == text
            told.append((before, text, code))
        else:
            assert code, "what succeeds has a place"


def catalog(session):
    names = [name for (name,) in rows(session, "SHOW TABLES")]
    return [rows(session, f"SHOW CREATE TABLE {name}") for name in names]


def test_a_model_that_follows_the_numbers_has_the_same_catalog():
    with World() as world, World() as model:
        first, replay = world.session(), model.session()
        run(first, "SET GLOBAL tidb_enable_fast_create_table = OFF")
        for table in TABLES:
            for each in (first, replay):
                run(each, f"CREATE TABLE {table} (a INT PRIMARY KEY, b INT)")
        told, start = [], threading.Barrier(CLIENTS)
        threads = [
            threading.Thread(target=client, args=(world.session(), random.Random(n), start, told))
            for n in range(CLIENTS)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        told.sort()
        numbers = [number for number, _, _ in told]
        assert numbers == list(range(len(TABLES) + 1, len(TABLES) + 1 + len(told))), "no gap"
        for number, text, code in told:
            assert code or not ask(replay, text), (number, text)
        assert catalog(replay) == catalog(first)
        assert len([1 for _, _, code in told if not code]) >= CLIENTS // 2
        txn = world.store.begin()
        ended = queue.history(txn, None)
        txn.rollback()
        kept = {job.seq_num: job.query for job in ended if job.seq_num}
        assert any(not job.begun for job in ended), "others came first"
        assert {number: kept[number] for number in numbers} == {n: text for n, text, _ in told}
