"""Statistics of a table whose rows move to another primary key or physical id: statistics and locks
move with them.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from support.node_processes import until
from support.world import World, rows, run

HASH = "PARTITION BY HASH (id) PARTITIONS 2"
CHANGES = {
    "added": ("", "ADD PRIMARY KEY (id) CLUSTERED", ""),
    "changed": ("PRIMARY KEY (id)", "DROP PRIMARY KEY, ADD PRIMARY KEY (c)", ""),
    "dropped": ("PRIMARY KEY (c)", "DROP PRIMARY KEY", ""),
    "clustered no longer": (
        "PRIMARY KEY (c)",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (c) NONCLUSTERED",
        "",
    ),
    "another, not clustered": (
        "PRIMARY KEY (id)",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (c) NONCLUSTERED",
        "",
    ),
    "of partitions": ("PRIMARY KEY (id)", "DROP PRIMARY KEY, ADD PRIMARY KEY (id, c)", HASH),
    "to a global one": (
        "PRIMARY KEY (id)",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (c) NONCLUSTERED GLOBAL",
        HASH,
    ),
    "of a global one": (
        "PRIMARY KEY (c) NONCLUSTERED GLOBAL",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (id) CLUSTERED",
        HASH,
    ),
    "cut": ("", HASH, ""),
    "whole again": ("", "REMOVE PARTITIONING", HASH),
}
ROWS = 1200


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as opened:
        run(opened.session(), "SET GLOBAL tidb_enable_auto_analyze = OFF")
        yield opened


@pytest.fixture
def session(world: World) -> Any:
    opened = world.session("")
    for text in ("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", "USE d"):
        run(opened, text)
    return opened


def analyzed(world: World, session: Any, key: str, cut: str) -> None:
    columns = "id INT NOT NULL, a INT, c VARCHAR(20) NOT NULL, KEY ka (a)"
    run(session, f"CREATE TABLE t ({columns}{', ' * bool(key)}{key}) {cut}")
    cells = ", ".join(f"({n}, {n % 7}, 'x{n}')" for n in range(ROWS))
    run(session, f"INSERT INTO t VALUES {cells}")
    world.deltas.flush()
    run(session, "ANALYZE TABLE t")


def status_of(session: Any, what: str) -> list[list[Any]]:
    return rows(session, f"SHOW STATS_{what} WHERE db_name = 'd'")


def counts(session: Any) -> tuple[int, int]:
    """Rows of the whole table, and rows modified since the analysis."""
    modified, row_count = next(
        line[4:6] for line in status_of(session, "META") if line[2] in ("", "global")
    )
    return row_count, modified


@pytest.mark.parametrize("how", CHANGES)
def test_statistics_move_with_the_rows(world: World, session: Any, how: str) -> None:
    key, change, cut = CHANGES[how]
    analyzed(world, session, key, cut)
    columns = {"id": ROWS, "a": 7, "c": ROWS, "ka": 7}
    run(session, f"ALTER TABLE t {change}")

    def there() -> bool:
        heads = [line for line in status_of(session, "HISTOGRAMS") if line[2] in ("", "global")]
        return {line[3]: line[6] for line in heads}.items() >= columns.items()

    until(there)
    run(session, "DELETE FROM t WHERE id < 10")
    world.deltas.flush()
    assert counts(session) == (ROWS - 10, 10)


@pytest.mark.parametrize("how", CHANGES)
def test_a_lock_moves_with_the_rows(world: World, session: Any, how: str) -> None:
    key, change, cut = CHANGES[how]
    analyzed(world, session, key, cut)
    run(session, "LOCK STATS t")
    run(session, "DELETE FROM t WHERE id < 5")
    world.deltas.flush()
    locked = [line[2] for line in status_of(session, "LOCKED")]
    run(session, f"ALTER TABLE t {change}")
    if "PARTITION" not in change:
        until(lambda: [line[2] for line in status_of(session, "LOCKED")] == locked)
    until(lambda: any(line[2] in ("", "global") for line in status_of(session, "LOCKED")))
    run(session, "DELETE FROM t WHERE id < 10")
    world.deltas.flush()
    notes = run(session, "ANALYZE TABLE t").warnings
    assert notes is not None and any("skip analyze locked" in note.message for note in notes)
    assert counts(session) == (ROWS, 0)
    run(session, "UNLOCK STATS t")
    assert status_of(session, "LOCKED") == []
    assert counts(session) == (ROWS - 10, 10)


def test_an_index_added_with_the_key_is_analyzed(world: World, session: Any) -> None:
    analyzed(world, session, "PRIMARY KEY (id)", "")
    run(session, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (c)")
    run(session, "SET GLOBAL tidb_enable_auto_analyze = ON")
    until(lambda: "PRIMARY" in {line[3] for line in status_of(session, "HISTOGRAMS")})
    run(session, "SET GLOBAL tidb_enable_auto_analyze = OFF")
