"""EXCHANGE PARTITION brings rows whose hidden ids others of the table have: when rows of both move
they get new ids first, and nobody loses one."""

import random
import threading
from itertools import product

import numpy as np
import pytest

from exuvia.base.errors import Refused
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.pipeline.kernels import renumber
from support.few import one_in
from support.stepped_alter import SteppedAlter, ended
from support.world import World, rows, run

CUT = (
    "PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10000),"
    " PARTITION p1 VALUES LESS THAN (20000), PARTITION p2 VALUES LESS THAN MAXVALUE)"
)
KEYS = {
    "none": "",
    "local": ", UNIQUE KEY u (a, b), KEY kb (b)",
    "primary": ", PRIMARY KEY (a) NONCLUSTERED, KEY kb (b)",
    "global": ", UNIQUE KEY u (b) GLOBAL, KEY kc (c)",
    "many": ", UNIQUE KEY u (a, b), KEY j ((CAST(d->'$' AS UNSIGNED ARRAY)))",
}
CHANGES = {
    "remove": "REMOVE PARTITIONING",
    "reorganize": "REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN (20000))",
    "partition by": "PARTITION BY HASH (a) PARTITIONS 3",
}


@pytest.fixture(scope="module")
def world():
    with World() as found:
        yield found


@pytest.fixture
def session(world):
    found = world.session()
    run(found, "DROP DATABASE IF EXISTS d")
    run(found, "CREATE DATABASE d")
    run(found, "USE d")
    return found


def filled(session, with_keys, count):
    """p with so many rows in p0 and in p1, each id in both."""
    # a global index stands in the way of the exchange, and is added behind it
    added = with_keys if "GLOBAL" not in with_keys else ""
    columns = f"a INT, b INT, c INT, d JSON DEFAULT ('[1, 2]'){added}"
    run(session, f"CREATE TABLE p ({columns}) {CUT}")
    run(session, f"CREATE TABLE n ({columns})")
    for table, first in (("p", 0), ("n", 10000)):
        values = ", ".join(f"({first + n}, {first + n}, {n % 7})" for n in range(count))
        run(session, f"INSERT INTO {table} (a, b, c) VALUES {values}")
    run(session, "ALTER TABLE p EXCHANGE PARTITION p1 WITH TABLE n")
    if added != with_keys:
        for each in with_keys.split(", ")[1:]:
            run(session, f"ALTER TABLE p ADD {each}")
    assert twice(session) == count


def twice(session):
    """How many ids stand in two partitions."""
    text = "SELECT COUNT(*), COUNT(DISTINCT _tidb_rowid) FROM p"
    ((count, ids),) = rows(session, text)
    return count - ids


@pytest.mark.parametrize("with_keys", KEYS)
@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_two_partitions_with_one_id_move(session, with_keys, change):
    filled(session, KEYS[with_keys], 40)
    before = rows(session, "SELECT a, b, c, d FROM p ORDER BY a")
    run(session, f"ALTER TABLE p {CHANGES[change]}")
    assert rows(session, "SELECT a, b, c, d FROM p ORDER BY a") == before
    run(session, "ADMIN CHECK TABLE p")
    assert twice(session) == 0
    kept = "SELECT COUNT(*) FROM p WHERE a < 10000 AND _tidb_rowid <= 40"
    assert rows(session, kept) == [[40]], "rows of the first partition keep their ids"
    run(
        session,
        "INSERT INTO p (a, b, c) VALUES (30000, 30000, 1)"
        if change != "reorganize"
        else "INSERT INTO p (a, b, c) VALUES (19999, 19999, 1)",
    )
    assert twice(session) == 0


def test_coalesce(session):
    run(session, "CREATE TABLE p (a INT, KEY ka (a)) PARTITION BY HASH (a) PARTITIONS 3")
    run(session, "CREATE TABLE n (a INT, KEY ka (a))")
    run(session, "INSERT INTO p VALUES (3), (6), (9), (2)")
    run(session, "INSERT INTO n VALUES (1), (4), (7)")
    run(session, "ALTER TABLE p EXCHANGE PARTITION p1 WITH TABLE n")
    assert twice(session) == 3
    run(session, "ALTER TABLE p COALESCE PARTITION 2")
    assert rows(session, "SELECT a FROM p ORDER BY a") == [[1], [2], [3], [4], [6], [7], [9]]
    assert twice(session) == 0


def test_partitions_that_stay_keep_their_ids(session):
    filled(session, KEYS["local"], 5)
    text = "REORGANIZE PARTITION p1 INTO (PARTITION q VALUES LESS THAN (15000), PARTITION r VALUES"
    run(session, f"ALTER TABLE p {text} LESS THAN (20000))")
    assert twice(session) == 5


BEGINS = ("BEGIN", "BEGIN OPTIMISTIC")


@pytest.mark.parametrize(
    ("with_keys", "change", "begin"), one_in(4, product(KEYS, CHANGES, BEGINS))
)
def test_in_every_state(world, session, with_keys, change, begin):
    """Beside a transaction exactly one state behind, and statements of this one: of rows that get
    new ids, that keep theirs, and that go from one partition to the other. A transaction whose row
    got another id meanwhile may have to begin anew; what it did is not there then."""
    filled(session, KEYS[with_keys], 60)
    before = rows(session, "SELECT a, b, c FROM p ORDER BY a")
    other, lags = world.session("d"), world.session("d")
    changing = SteppedAlter(world, session, f"ALTER TABLE p {CHANGES[change]}", "p")

    def behind(state):
        """It has written a row of each partition in this state."""
        mine = world.session("d")
        run(mine, begin)
        run(mine, f"UPDATE p SET d = '[3]' WHERE a IN ({40 + state}, {10040 + state})")
        return mine

    lags = behind(0)
    changing.start()
    for state in range(1, 7):
        changing.reaches(state)
        following = behind(state)
        for mine, n in ((other, state), (lags, 10 + state), (other, 20 + state)):
            for a in (n, 10000 + n):
                run(mine, f"UPDATE p SET c = c + 1 WHERE a = {a}")
                run(mine, f"UPDATE p SET c = c - 1 WHERE a = {a}")
            there, back = f"a = {n + 15000}", f"a = a - 15000, b = b - 15000 WHERE a = {n + 15000}"
            run(mine, f"UPDATE p SET a = a + 15000, b = b + 15000 WHERE a = {n}")  # to the other
            assert len(rows(mine, f"SELECT a FROM p WHERE {there} FOR UPDATE")) == 1
            run(mine, f"UPDATE p SET {back}")
            run(mine, f"DELETE FROM p WHERE a IN ({n}, {n + 10000})")
            assert rows(mine, f"SELECT a FROM p WHERE a IN ({n}, {n + 10000}) FOR UPDATE") == []
            again = ", ".join(f"({each}, {each}, {n % 7})" for each in (n, n + 10000))
            run(mine, f"INSERT INTO p (a, b, c) VALUES {again}")
        ended(lags)
        lags = following
    ended(lags)
    changing.ends()
    assert rows(other, "SELECT a, b, c FROM p ORDER BY a") == before
    run(other, "ADMIN CHECK TABLE p")
    assert twice(other) == 0


@pytest.mark.parametrize(
    ("with_keys", "change"), one_in(4, product(["local", "primary", "global"], CHANGES))
)
def test_beside_writers(world, session, with_keys, change, monkeypatch):
    """Four writers, each with numbers of its own; some hold a transaction open for a while, so that
    they are a state behind."""
    count = 200
    filled(session, KEYS[with_keys], count)
    monkeypatch.setattr(renumber, "BATCH_ROWS", 3)
    monkeypatch.setattr(renumber, "WINDOW_ROWS", 300)
    stop, wrong = threading.Event(), []
    model = {n + first: n % 7 for first in (0, 10000) for n in range(count)}
    ((most,),) = rows(session, "SELECT MAX(_tidb_rowid) FROM p")
    assert most == count

    def write(number):
        mine, chance = world.session("d"), random.Random(number)
        own = {a: c for a, c in model.items() if a % 4 == number}
        while not stop.is_set():
            a = chance.choice(range(number, count, 4)) + chance.choice((0, 10000, 15000))
            after = dict(own)
            try:
                run(mine, "BEGIN")
                for _ in range(chance.choice((1, 1, 3))):
                    a, after = one(mine, chance, number, a, after)
                run(mine, "COMMIT")
                own = after
            except Refused as refused:
                run(mine, "ROLLBACK")
                if refused.code not in (8028, 9007, 1213, 1205):
                    wrong.append(str(refused))
                    return
        for a in [a for a in model if a % 4 == number]:
            del model[a]
        model.update(own)

    def one(mine, chance, number, a, after):
        what = chance.choice(("add", "drop", "change", "move"))
        if a not in after:
            run(mine, f"INSERT INTO p (a, b, c) VALUES ({a}, {a}, {number})")
            after[a] = number
        elif what == "drop":
            run(mine, f"DELETE FROM p WHERE a = {a}")
            del after[a]
        elif what == "move" and a + 5000 not in after and a < 15000:
            run(mine, f"UPDATE p SET a = a + 5000, b = b + 5000 WHERE a = {a}")
            after[a + 5000] = after.pop(a)
        else:
            run(mine, f"UPDATE p SET c = c + 1 WHERE a = {a}")
            after[a] += 1
        return chance.choice(range(number, count, 4)), after

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for each in threads:
        each.start()
    try:
        run(session, f"ALTER TABLE p {CHANGES[change]}")
    finally:
        stop.set()
        for each in threads:
            each.join()
    assert not wrong
    run(session, "ADMIN CHECK TABLE p")
    assert dict(rows(session, "SELECT a, c FROM p")) == model
    assert twice(session) == 0


def test_equal_ids_are_found_whatever_the_chunks(monkeypatch):
    chance, store = np.random.default_rng(1), MemoryStore()
    held = {n: set(chance.integers(-500, 3000, 800).tolist()) for n in (5, 7, 9)}
    held[11] = set()
    txn = store.begin()
    for source, ids in held.items():
        for each in ids:
            txn.put(keys.row_prefix(source) + keys.i64(each), b"x")
    txn.commit()
    monkeypatch.setattr(renumber, "WINDOW_ROWS", 400)
    spans = [keys.span_of(keys.row_prefix(source)) for source in held]
    seen, found = 0, []
    with store.read() as txn:
        for count, some in renumber.repeated_ids(txn.snapshot, tuple(held), spans):
            seen, found = seen + count, found + some
    assert seen == sum(map(len, held.values()))
    one, two, three, _ = held.values()
    expected = {(7, each) for each in one & two} | {(9, each) for each in three & (one | two)}
    assert {(source, keys.read_i64(handle)) for source, handle in found} == expected
    assert len(found) == len(expected) > 100
