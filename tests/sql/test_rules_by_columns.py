"""Rules held against many rows at once say what they say of each row alone."""

import random
from decimal import Decimal

import pytest

from exuvia.catalog.codec import row_batch
from exuvia.catalog.table import Table
from exuvia.kv.packet import STAMP_BYTES
from exuvia.sql.env import PlainEnv
from exuvia.sql.generated import scope_of
from exuvia.sql.write.checks import row_check
from exuvia.sql.write.checks_judge import Parents, VectorCheck
from exuvia.sql.write.foreign_keys import Finder
from support.world import error, run

ROWS = 300
COLUMNS = (
    "n INT, a INT, b BIGINT UNSIGNED, s VARCHAR(9) COLLATE utf8mb4_general_ci, d DATE,"
    " m DECIMAL(9, 2), w DECIMAL(60, 2), f DOUBLE, e ENUM('x', 'y')"
)
CONDITIONS = [
    "a > 3",
    "a + n > b",
    "b > 5 OR a < 0",
    "s = 'B'",
    "s LIKE 'a%' AND a IS NOT NULL",
    "YEAR(d) > 2002",
    "d > '2003-05-01'",
    "m * 2 > a",
    "w > a",
    "f <> 0",
    "e = 'y'",
    "UPPER(CONCAT(s, a)) <> 'B3'",
    "a IN (1, 2) OR a IS NULL",
    "NOT (a BETWEEN 2 AND 5)",
    "LENGTH(s) > 1",
]


def value_of(chance, column):
    if chance.random() < 0.2:
        return None
    if column == "s":
        return chance.choice(["a", "A ", "b", "B", "abc", ""])
    if column == "d":
        return chance.randrange(1999, 2008) << 9 | chance.randrange(1, 12) << 5 | 15
    if column in "mw":
        return Decimal(chance.randrange(-900, 900)).scaleb(-2)
    if column == "f":
        return chance.choice([0.0, -0.5, 2.25])
    if column == "e":
        return chance.randrange(1, 3)
    return chance.randrange(0 if column == "b" else -9, 9)


def table_of(session, world, name) -> Table:
    txn = world.store.begin()
    try:
        return world.services.schemas.table(txn, session.database, name)
    finally:
        txn.rollback()


def columns_of(table, rows, positions):
    raws = [bytes(STAMP_BYTES) + table.encoder.encode(row) for row in rows]
    keys = [table.row_prefix + n.to_bytes(8, "big") for n in range(len(rows))]
    return row_batch.decode(table, keys, raws, STAMP_BYTES, positions)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_is_false_of_the_same_rows(session, world, condition):
    run(session, f"CREATE TABLE t ({COLUMNS}, CONSTRAINT c CHECK ({condition}))")
    table = table_of(session, world, "t")
    chance = random.Random(condition)
    rows = [[n, *(value_of(chance, each) for each in "absdmwfe")] for n in range(ROWS)]
    check = row_check(table.info.checks[0], scope_of(table.info.cols))
    columns = columns_of(table, rows, list(check.reads))
    env = PlainEnv()
    alone = [n for n, row in enumerate(rows) if check.breaks(row, env)]
    found = VectorCheck(check.bound, table.info.cols).broken(columns)
    left_to_rows = "w" in condition or " + " in condition
    assert found is None if left_to_rows else found == alone
    assert 0 < len(alone) < ROWS


def test_what_duckdb_refuses_is_left_to_the_rows(session, world):
    run(session, "CREATE TABLE t (a BIGINT, CONSTRAINT c CHECK (a + 1 > 0))")
    table = table_of(session, world, "t")
    check = row_check(table.info.checks[0], scope_of(table.info.cols))
    columns = columns_of(table, [[1], [(1 << 63) - 1]], [0])
    assert VectorCheck(check.bound, table.info.cols).broken(columns) is None
    run(session, "CREATE TABLE u (a BIGINT, b BIGINT)")
    run(session, "INSERT INTO u VALUES (1, 1), (9223372036854775807, 1)")
    assert error(session, "ALTER TABLE u ADD CHECK (a + b > 0)")[0] == 1690


PARENTS = {
    "number": "x INT PRIMARY KEY, y INT",
    "unsigned": "x INT UNSIGNED PRIMARY KEY, y INT",
    "text": "x VARCHAR(9) PRIMARY KEY, y INT",
    "unique": "x VARCHAR(9) COLLATE utf8mb4_general_ci, y INT, UNIQUE KEY (x)",
    "decimal": "x DECIMAL(5, 1), y INT, UNIQUE KEY (x)",
    "several": "x INT, y INT, KEY (x)",
    "prefix": "x INT, y INT, PRIMARY KEY (x, y)",
}


@pytest.mark.parametrize("kind", PARENTS)
def test_the_same_rows_have_no_parent(session, world, kind):
    run(session, f"CREATE TABLE p ({PARENTS[kind]})")
    run(session, "INSERT INTO p VALUES (1, 1), (2, 2), (4, 4), (7, 7)")
    if kind in ("several", "prefix"):
        run(session, "INSERT INTO p VALUES (4, 5)")
    definition = PARENTS[kind].split(",")[0] if kind != "decimal" else "x DECIMAL(5, 1)"
    run(session, f"CREATE TABLE c ({definition.replace(' PRIMARY KEY', '')})")
    wanted = ["NULL", "1", "3", "4", "4", "2", "9", "NULL", "7", "8", "1"]
    run(session, f"INSERT INTO c VALUES {', '.join(f'({each})' for each in wanted)}")
    parent, child = table_of(session, world, "p"), table_of(session, world, "c")
    txn = world.store.begin()
    try:
        keys, raws = next(iter(txn.snapshot.chunks(child.row_span())))
        own = [row_batch.decode(child, keys, raws, STAMP_BYTES, [0]).column(0)]
        finder = Finder(parent, [parent.info.cols[0].id])
        parents = Parents(finder)
        missing = parents.missing(txn, own)
        assert missing == parents.one_by_one(txn, own)
        assert missing == [n for n, each in enumerate(wanted) if each in ("3", "8", "9")]
    finally:
        txn.rollback()


def test_a_key_over_rows_without_parents_is_refused(session):
    run(session, "CREATE TABLE p (x INT PRIMARY KEY)")
    run(session, "CREATE TABLE c (id INT PRIMARY KEY, x INT)")
    run(session, "INSERT INTO p VALUES (1), (2)")
    run(session, "INSERT INTO c VALUES (1, 1), (2, NULL), (3, 5), (4, 6)")
    add = "ALTER TABLE c ADD CONSTRAINT k FOREIGN KEY (x) REFERENCES p (x)"
    assert error(session, add)[0] == 1452
    run(session, "DELETE FROM c WHERE x > 2")
    run(session, add)
    assert error(session, "INSERT INTO c VALUES (5, 9)")[0] == 1452
