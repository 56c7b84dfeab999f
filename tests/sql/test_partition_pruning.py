"""A partitioned table answers every WHERE as a table without partitions does, and reads less."""

import random

import pytest

from support.world import run

ROWS = 60
QUERIES = 120
CUTS = {
    "range": "RANGE (a) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (11),"
    " PARTITION p2 VALUES LESS THAN MAXVALUE)",
    "year": "RANGE (YEAR(d)) (PARTITION p0 VALUES LESS THAN (2001), PARTITION p1 VALUES LESS THAN"
    " (2005), PARTITION p2 VALUES LESS THAN MAXVALUE)",
    "range_columns": "RANGE COLUMNS (a, s) (PARTITION p0 VALUES LESS THAN (4, 'c'), PARTITION p1"
    " VALUES LESS THAN (4, 'm'), PARTITION p2 VALUES LESS THAN (9, 'b'), PARTITION p3 VALUES LESS"
    " THAN (MAXVALUE, MAXVALUE))",
    "list": "LIST (a) (PARTITION p0 VALUES IN (1, 3, 5, NULL), PARTITION p1 VALUES IN (2, 4, 6, 7),"
    " PARTITION p2 DEFAULT)",
    "list_columns": "LIST COLUMNS (s) (PARTITION p0 VALUES IN ('a', 'b', 'c'), PARTITION p1 VALUES"
    " IN ('m', NULL), PARTITION p2 DEFAULT)",
    "hash": "HASH (a) PARTITIONS 4",
    "hash_of": "HASH (a DIV 3) PARTITIONS 3",
    "key": "KEY (a, s) PARTITIONS 3",
}


def _value(chance, column):
    if column == "a":
        return str(chance.randrange(-2, 15))
    if column == "s":
        return f"'{chance.choice('abcdmnz')}'"
    return f"'{chance.randrange(1999, 2008)}-0{chance.randrange(1, 10)}-15'"


def _term(chance):
    column = chance.choice("aaasd")
    kind = chance.randrange(6)
    if kind == 0:
        return f"{column} IN ({', '.join(_value(chance, column) for _ in range(3))})"
    if kind == 1:
        return f"{column} BETWEEN {_value(chance, column)} AND {_value(chance, column)}"
    if kind == 2:
        return f"{column} = {_value(chance, column)}"
    if kind == 3:
        return f"{column} IS {chance.choice(['', 'NOT '])}NULL"
    return f"{column} {chance.choice(['<', '<=', '>', '>='])} {_value(chance, column)}"


def _where(chance):
    terms = [_term(chance) for _ in range(chance.randrange(1, 4))]
    return f" {chance.choice(['AND', 'AND', 'OR'])} ".join(terms)


@pytest.mark.parametrize("cut", CUTS)
def test_as_without_partitions(session, cut):
    chance = random.Random(cut)
    run(session, "CREATE TABLE plain (n INT, a INT, s VARCHAR(9), d DATE, KEY (a), KEY (s))")
    run(
        session,
        "CREATE TABLE cut (n INT, a INT, s VARCHAR(9), d DATE, KEY (a), KEY (s))"
        f" PARTITION BY {CUTS[cut]}",
    )
    for n in range(ROWS):
        cells = [_value(chance, c) if chance.random() < 0.93 else "NULL" for c in "asd"]
        for table in ("plain", "cut"):
            run(session, f"INSERT INTO {table} VALUES ({n}, {', '.join(cells)})")
    for _ in range(QUERIES):
        where = _where(chance)
        answers = [
            sorted(run(session, f"SELECT n FROM {table} WHERE {where}").rows)
            for table in ("plain", "cut")
        ]
        assert answers[0] == answers[1], where


def test_only_what_is_left_is_read(session):
    run(session, f"CREATE TABLE t (a INT, s VARCHAR(9)) PARTITION BY {CUTS['range']}")
    run(session, "INSERT INTO t VALUES (1, 'x'), (7, 'y'), (70, 'z')")
    wanted = {
        "a = 7": "p1",
        "a IN (1, 70)": "p0,p2",
        "a < 5": "p0",
        "a BETWEEN 6 AND 9": "p1",
        "a > 4 AND a < 6": "p1",
        "s = 'x'": "all",
        "a = NULL": "dual",
    }

    for where, expected in wanted.items():
        lines = run(session, f"EXPLAIN SELECT * FROM t WHERE {where}").rows
        shown = [line[3] for line in lines if line[3]]
        assert shown == [f"partition:{expected}", "table:t"], where
