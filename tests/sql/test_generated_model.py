"""Generated columns by a model: whatever is written and defined, every way of reading agrees.

A table with STORED, VIRTUAL and indexed expressions; random writes in and out of transactions,
definitions between them. After each round all rows, by scan, by key, by index and through DuckDB,
hold what Python computes from the stored columns.
"""

import random

import pytest

from exuvia.base.errors import Refused
from support.few import one_in
from support.world import World, rows, run

COLUMNS = (
    "id INT PRIMARY KEY, a INT, b INT, "
    "v INT AS (a + b), s INT AS (v * 2) STORED, w VARCHAR(20) AS (CONCAT(a, '-', b)) VIRTUAL"
)
DEFINITIONS = (
    "CREATE INDEX iv ON {t} (v)",
    "CREATE INDEX ie ON {t} ((a - b), s)",
    "CREATE INDEX iw ON {t} (w)",
    "ALTER TABLE {t} ADD COLUMN x BIGINT AS (s + a)",
    "CREATE INDEX ix ON {t} (x)",
    "DROP INDEX ie ON {t}",
    "ALTER TABLE {t} ADD COLUMN y INT DEFAULT 3 FIRST",
    "ALTER TABLE {t} DROP COLUMN x",
    "CREATE UNIQUE INDEX iu ON {t} ((id + 0), v)",
    "ALTER TABLE {t} RENAME INDEX iu TO ir",
)


def computed(stored):
    """(id, v, s, w, a - b) of stored (id, a, b)."""
    found = []
    for row_id, a, b in sorted(stored):
        v = None if a is None or b is None else a + b
        w = None if v is None else f"{a}-{b}"
        found.append([row_id, v, None if v is None else 2 * v, w, None if v is None else a - b])
    return found


def write(session, table, chance):
    """One statement; a refusal (a duplicate) changes nothing."""
    row_id, a, b = chance.randrange(12), *(chance.choice((None, *range(5))) for _ in "ab")
    value = {None: "NULL"}.get
    a, b = value(a, a), value(b, b)
    text = chance.choice(
        (
            f"INSERT INTO {table} (id, a, b) VALUES ({row_id}, {a}, {b})",
            f"REPLACE INTO {table} (id, a, b) VALUES ({row_id}, {a}, {b})",
            f"INSERT INTO {table} (id, a, b) VALUES ({row_id}, 1, 1) "
            f"ON DUPLICATE KEY UPDATE b = {b}",
            f"UPDATE {table} SET a = {a} WHERE v = {chance.randrange(8)}",
            f"UPDATE {table} SET b = b + 1 WHERE a - b = {chance.randrange(-3, 4)}",
            f"DELETE FROM {table} WHERE s = {2 * chance.randrange(8)}",
        )
    )
    try:
        run(session, text)
    except Refused as error:
        assert error.code == 1062, text


def check(session, table):
    """See the module."""
    stored = [tuple(row) for row in rows(session, f"SELECT id, a, b FROM {table}")]
    wanted = computed(stored)
    everything = f"SELECT id, v, s, w, a - b FROM {table}"
    assert rows(session, f"{everything} ORDER BY id") == wanted
    grouped = rows(session, f"SELECT v, COUNT(*), MAX(w) FROM {table} GROUP BY v ORDER BY v")
    values = sorted({row[1] for row in wanted}, key=lambda v: (v is not None, v))
    assert [row[0] for row in grouped] == values
    for n in range(-2, 9):
        assert rows(session, f"{everything} WHERE v = {n} ORDER BY id") == [
            row for row in wanted if row[1] == n
        ]
        assert rows(session, f"{everything} WHERE a - b >= {n} ORDER BY id") == [
            row for row in wanted if row[4] is not None and row[4] >= n
        ]
    assert rows(session, f"{everything} WHERE w = '2-2' ORDER BY id") == [
        row for row in wanted if row[3] == "2-2"
    ]


@pytest.mark.parametrize("seed", one_in(4, range(4)))
def test_every_way_of_reading_agrees(world: World, seed: int) -> None:
    session, chance, table = world.session("test"), random.Random(seed), f"gm{seed}"
    run(session, f"CREATE TABLE {table} ({COLUMNS})")
    for definition in (None, *DEFINITIONS):
        if definition is not None:
            run(session, definition.format(t=table))
        for _ in range(6):
            write(session, table, chance)
        run(session, "BEGIN")
        for _ in range(4):
            write(session, table, chance)
        check(session, table)
        run(session, chance.choice(("COMMIT", "ROLLBACK")))
        check(session, table)
    run(session, f"ADMIN CHECK TABLE {table}")
    session.close()
