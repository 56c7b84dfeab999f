"""The forms of ANALYZE: which columns and indexes it reads, and its progress in SHOW ANALYZE
STATUS.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from exuvia.base.types import packed_moment
from exuvia.stats import analyze_jobs
from exuvia.stats.analyze_jobs import Logged
from support.world import World, error, rows, run


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as opened:
        yield opened


def distinct_values(session: Any, table: str) -> dict[tuple[str, int], int]:
    """Distinct values by (name, is_index)."""
    heads = rows(session, f"SHOW STATS_HISTOGRAMS WHERE table_name = '{table}'")
    return {(row[3], row[4]): row[6] for row in heads}


def test_chosen_columns_include_those_of_indexes(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE c (id INT PRIMARY KEY, v INT, w INT, x INT, KEY kv (v))")
    rows(s, f"INSERT INTO c VALUES {','.join(f'({n},{n % 7},{n % 5},1)' for n in range(50))}")
    rows(s, "ANALYZE TABLE c COLUMNS w")
    assert distinct_values(s, "c") == {("id", 0): 50, ("v", 0): 7, ("w", 0): 5, ("kv", 1): 7}
    rows(s, "ANALYZE TABLE c ALL COLUMNS")
    assert distinct_values(s, "c")["x", 0] == 1


def test_one_index(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE i (id INT PRIMARY KEY, v INT, w INT, KEY kv (v), KEY kvw (v, w))")
    rows(s, f"INSERT INTO i VALUES {','.join(f'({n},{n % 7},{n % 5})' for n in range(70))}")
    notes = run(s, "ANALYZE TABLE i INDEX kvw").warnings
    assert notes
    distinct = distinct_values(s, "i")
    assert distinct["kvw", 1] == 35
    rows(s, "INSERT INTO i VALUES (100, 100, 100)")
    rows(s, "ANALYZE TABLE i INDEX")
    assert distinct_values(s, "i")["kvw", 1] == 36 and distinct_values(s, "i")["kv", 1] == 8


def test_the_primary_key_is_named_without_quotes(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE pk (id INT PRIMARY KEY, v INT)")
    rows(s, "CREATE TABLE pn (id INT PRIMARY KEY NONCLUSTERED, v INT, KEY kv (v))")
    rows(s, "CREATE TABLE none (v INT)")
    rows(s, "INSERT INTO pn VALUES (1, 1), (2, 1)")
    run(s, "ANALYZE TABLE pk INDEX primary")
    run(s, "ANALYZE TABLE pn INDEX kv, PRIMARY WITH 3 BUCKETS")
    assert distinct_values(s, "pn")["PRIMARY", 1] == 2
    assert error(s, "ANALYZE TABLE none INDEX PRIMARY") == (8109, "HY000")


def test_the_lock_of_one_partition(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE l (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2")
    rows(s, "INSERT INTO l VALUES (1), (2), (3)")
    rows(s, "LOCK STATS l PARTITION p0")
    assert rows(s, "SHOW STATS_LOCKED WHERE table_name = 'l'") == [["test", "l", "p0", "locked"]]
    notes = run(s, "ANALYZE TABLE l PARTITION p0, p1").warnings
    assert notes is not None
    assert any("skip analyze locked" in note.message for note in notes)
    heads = rows(s, "SHOW STATS_HISTOGRAMS WHERE table_name = 'l'")
    assert "p1" in {row[2] for row in heads} and "p0" not in {row[2] for row in heads}
    rows(s, "UNLOCK STATS l PARTITION p0")
    assert rows(s, "SHOW STATS_LOCKED WHERE table_name = 'l'") == []
    rows(s, "ANALYZE TABLE l")
    heads = rows(s, "SHOW STATS_HISTOGRAMS WHERE table_name = 'l'")
    assert {row[2] for row in heads} == {"global", "p0", "p1"}


def test_refresh_stats_plans_with_stored_statistics(world: World) -> None:
    s = world.session()
    run(s, "CREATE TABLE fresh (a INT)")
    for targets in ("*.*", "test.*, fresh", "fresh FULL", "test.fresh, mysql.* LITE CLUSTER"):
        assert not run(s, f"REFRESH STATS {targets}").warnings
    notes = run(s, "REFRESH STATS nowhere.*, absent").warnings
    assert [note.code for note in notes or ()] == [1049, 1146]
    for wrong in ("", "*", "fresh QUICK", "*.fresh"):
        assert error(s, f"REFRESH STATS {wrong}") == (1064, "42000")


def test_progress_while_it_runs(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE r (id INT PRIMARY KEY)")
    rows(s, f"INSERT INTO r VALUES {','.join(f'({n})' for n in range(400))}")
    world.deltas.flush()
    now_ns = world.clock.wall_ns()
    began = packed_moment(now_ns - 30_000_000_000)
    running = Logged(0, began, "test", "r", "", "analyze table", 100, began)
    txn = world.store.begin()
    (number,) = analyze_jobs.begin(txn, [running._replace(state=analyze_jobs.RUNNING)])
    txn.commit()
    (status,) = rows(s, "SHOW ANALYZE STATUS WHERE table_name = 'r'")
    assert (status[4], status[7]) == (100, "running")
    remaining, share, total = status[-3:]
    assert (share, total) == ("0.2500", 400) and 80 <= int(remaining) <= 100
    txn = world.store.begin()
    ended = {"state": analyze_jobs.FINISHED, "rows": 400, "ended": packed_moment(now_ns)}
    analyze_jobs.change(txn, number, now_ns, **ended)
    txn.commit()
    (status,) = rows(s, "SHOW ANALYZE STATUS WHERE table_name = 'r'")
    assert (status[4], status[7]) == (400, "finished") and status[-3:] == [None, None, None]
