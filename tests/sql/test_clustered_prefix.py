"""A clustered primary key with a prefix is as unique as its prefix: the twin that is not clustered
answers every statement alike."""

import random

import pytest

from exuvia.base.errors import Refused
from support.world import rows, run

KEYS = ("a, b(3)", "b(2), a", "b(1)")
WORDS = ("", "x", "xy", "xyz", "xyzz", "xyzy", "xYz", "ä", "äöü", "äöüß", "xyz  ")
STATEMENTS = 160


def statement(rng: random.Random) -> str:
    a, b, c = rng.randrange(3), rng.choice(WORDS), rng.randrange(9)
    other = rng.choice(WORDS)
    low, high = sorted((b, other))
    return rng.choice(
        (
            f"INSERT INTO t VALUES ({a}, '{b}', {c})",
            f"INSERT INTO t VALUES ({a}, '{b}', {c}), ({a + 1}, '{other}', {c})",
            f"INSERT IGNORE INTO t VALUES ({a}, '{b}', {c})",
            f"REPLACE INTO t VALUES ({a}, '{b}', {c})",
            f"INSERT INTO t VALUES ({a}, '{b}', 1) ON DUPLICATE KEY UPDATE c = c + 1",
            f"UPDATE t SET b = '{b}' WHERE a = {a} AND b = '{other}'",
            f"UPDATE t SET b = CONCAT(b, 'q') WHERE a = {a} AND b >= '{b}' ORDER BY b, c LIMIT 1",
            f"UPDATE t SET a = {a} WHERE c = {c} ORDER BY a, b LIMIT 1",
            f"DELETE FROM t WHERE a = {a} AND b = '{b}'",
            f"DELETE FROM t WHERE b BETWEEN '{low}' AND '{high}' AND c = {c}",
            f"SELECT * FROM t WHERE a = {a} AND b = '{b}'",
            f"SELECT * FROM t WHERE b = '{b}' ORDER BY a, b, c",
            f"SELECT * FROM t WHERE a = {a} AND b > '{b}' ORDER BY b, c",
            f"SELECT * FROM t WHERE a IN (0, 1) AND b IN ('{b}', '{other}') ORDER BY a, b",
            "SELECT b, a FROM t ORDER BY b, a LIMIT 4",
            "SELECT a, b FROM t ORDER BY a, b LIMIT 5",
        )
    )


def answer(session, text: str) -> object:
    try:
        found = session.execute(text)
    except Refused as error:
        return error.code, error.message.split("'")[0]
    return found.affected, [list(row) for row in found.rows]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(4))
def test_clustered_and_not_clustered_answer_alike(session, another, key, seed):
    rng = random.Random(f"{key} {seed}")
    for each, kind in ((session, "CLUSTERED"), (another, "NONCLUSTERED")):
        run(each, f"CREATE DATABASE pk_{kind}")
        run(each, f"USE pk_{kind}")
        columns = "a int, b varchar(10) COLLATE utf8mb4_general_ci, c int, KEY (c)"
        run(each, f"CREATE TABLE t ({columns}, PRIMARY KEY ({key}) {kind})")
    refused = 0
    for _ in range(STATEMENTS):
        text = statement(rng)
        one, other = answer(session, text), answer(another, text)
        assert one == other, text
        refused += one[0] == 1062
    assert refused, "no key was ever taken"
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT COUNT(*) FROM t") == rows(another, "SELECT COUNT(*) FROM t")
    run(session, "DROP DATABASE pk_CLUSTERED")
    run(session, "DROP DATABASE pk_NONCLUSTERED")


def test_rows_loaded_in_bulk_have_the_same_handles(session):
    run(session, "CREATE TABLE s (a int, b varchar(10))")
    run(session, "INSERT INTO s VALUES (1, 'abcd'), (1, 'abd'), (2, 'abce')")
    made = "CREATE TABLE l (a int, b varchar(10), PRIMARY KEY (a, b(3)) CLUSTERED) SELECT * FROM s"
    run(session, made)
    assert rows(session, "SELECT b FROM l WHERE a = 1 AND b = 'abcd'") == [["abcd"]]
    assert answer(session, "INSERT INTO l VALUES (2, 'abcx')")[0] == 1062
    run(session, "DROP TABLE l")
    run(session, "INSERT INTO s VALUES (2, 'abcf')")
    assert answer(session, made)[0] == 1062


def test_keys_that_are_cut_for_length_give_no_order(session):
    run(session, "CREATE TABLE k (a varchar(700) PRIMARY KEY)")
    values = [("ä" * 600) + letter for letter in "dacb"]
    run(session, f"INSERT INTO k VALUES ('{values[0]}'), ('{values[1]}')")
    run(session, f"INSERT INTO k VALUES ('{values[2]}'), ('{values[3]}')")
    found = rows(session, "SELECT a FROM k ORDER BY a LIMIT 3")
    assert [row[0][-1] for row in found] == ["a", "b", "c"]
