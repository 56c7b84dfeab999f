"""Many clients change schemas at once; who replays what they were told has the same catalog.

As the fuzzer schrddl does it: after each statement its session reads @@tidb_last_ddl_info, whose
seq_num is the change's place in history; a model that applies in that order what the server did
accepts all of it, and ends with the same tables. (What the server refused is not asked of the
model: a change is of the table it was asked for, not of another that has its name by then.)
"""

import json
import random
import threading

from exuvia.base.errors import Refused
from exuvia.ddl import queue
from support.world import World, rows, run

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
    """(seq_num, statement, code) of every change that became a job."""
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
        assert len([1 for _, _, code in told if not code]) > CLIENTS and any(
            code for _, _, code in told
        )
        txn = world.store.begin()
        kept = {job.seq_num: job.query for job in queue.history(txn, None)}
        txn.rollback()
        assert {number: kept[number] for number in numbers} == {n: text for n, text, _ in told}
