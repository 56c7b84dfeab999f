"""ANALYZE TABLE through a session, and statistics that follow definitions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from exuvia.kv.transaction import Transaction
from exuvia.stats import records
from support.node_processes import until
from support.world import World, rows, run


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as opened:
        yield opened


def counted(world: World, table: str, expected: list[list[Any]]) -> None:
    """Wait until SHOW STATS_META has these (partition, rows, modified) of the table."""
    s = world.session()

    def counts() -> list[list[Any]]:
        world.deltas.flush()
        lines = rows(s, f"SHOW STATS_META WHERE table_name = '{table}'")
        return [[row[2], row[5], row[4]] for row in lines]

    until(lambda: counts() == expected, about=f"{expected} did not come")


def test_statistics_of_small_tables_are_exact(world: World) -> None:
    s = world.session()
    rows(
        s, "CREATE TABLE a (id INT PRIMARY KEY, v INT, w VARCHAR(9), UNIQUE KEY uw (w), KEY kv (v))"
    )
    rows(s, "INSERT INTO a VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, NULL), (4, NULL, 'z')")
    notes = run(s, "ANALYZE TABLE a").warnings
    assert notes is not None
    assert [note.message.rpartition("reason")[2] for note in notes] == [
        ' to use this rate is "use min(1, 110000/4) as the sample-rate=1"'
    ]
    where = "WHERE table_name = 'a'"
    heads = [row[3:5] + row[6:8] for row in rows(s, f"SHOW STATS_HISTOGRAMS {where}")]
    assert heads == [
        ["id", 0, 4, 0],
        ["v", 0, 2, 1],
        ["w", 0, 3, 1],
        ["uw", 1, 3, 1],
        ["kv", 1, 2, 1],
    ]
    assert [row[3:] for row in rows(s, f"SHOW STATS_TOPN {where}")] == [
        ["v", 0, "1", 2],
        ["v", 0, "2", 1],
        ["kv", 1, "1", 2],
        ["kv", 1, "2", 1],
    ]
    buckets = rows(s, f"SHOW STATS_BUCKETS {where} AND column_name = 'id'")
    assert [row[5:] for row in buckets] == [
        [n, n + 1, 1, str(n + 1), str(n + 1), 0] for n in range(4)
    ]
    counted(world, "a", [["", 4, 0]])
    assert rows(s, f"SHOW STATS_HEALTHY {where}")[0][3] == 100
    rows(s, "UPDATE a SET v = 7 WHERE id = 1")
    counted(world, "a", [["", 4, 1]])
    assert rows(s, f"SHOW STATS_HEALTHY {where}")[0][3] == 75
    (status,) = rows(
        s, f"SELECT job_info, state, processed_rows FROM information_schema.analyze_status {where}"
    )
    info = "analyze table all indexes, all columns with 256 buckets, 100 topn, 1 samplerate"
    assert status == [info, "finished", 4]


def test_tables_that_cannot_be_analyzed(world: World) -> None:
    from support.world import error

    s = world.session()
    rows(s, "CREATE TABLE e (id INT)")
    rows(s, "CREATE VIEW ev AS SELECT * FROM e")
    assert error(s, "ANALYZE TABLE nowhere") == (1146, "42S02")
    assert error(s, "ANALYZE TABLE ev") == (1105, "HY000")
    assert error(s, "ANALYZE TABLE e PARTITION p0") == (1735, "HY000")
    assert error(s, "ANALYZE TABLE e INDEX nope") == (8109, "HY000")
    assert error(s, "ANALYZE TABLE e COLUMNS nope") == (8137, "HY000")
    assert error(s, "ANALYZE TABLE e WITH 0 BUCKETS") == (1105, "HY000")


def test_locked_statistics_do_not_change(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE l (id INT PRIMARY KEY)")
    rows(s, "INSERT INTO l VALUES (1), (2)")
    rows(s, "ANALYZE TABLE l")
    rows(s, "LOCK STATS l")
    assert rows(s, "SHOW STATS_LOCKED") == [["test", "l", "", "locked"]]
    rows(s, "INSERT INTO l VALUES (3)")
    notes = run(s, "ANALYZE TABLE l").warnings
    assert notes is not None
    assert notes[-1].message == "skip analyze locked table: test.l"
    counted(world, "l", [["", 2, 0]])
    rows(s, "UNLOCK STATS l")
    counted(world, "l", [["", 3, 1]])
    rows(s, "DROP STATS l")
    assert rows(s, "SHOW STATS_HISTOGRAMS WHERE table_name = 'l'") == []
    counted(world, "l", [["", 3, 1]])


def test_partitions_apart_and_as_a_whole(world: World) -> None:
    s = world.session()
    rows(
        s,
        "CREATE TABLE p (id INT PRIMARY KEY, v INT, KEY kv (v)) PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (500), PARTITION p1 VALUES LESS THAN (1000))",
    )
    values = ",".join(f"({n}, {n % 200})" for n in range(1000))
    rows(s, f"INSERT INTO p VALUES {values}")
    rows(s, "ANALYZE TABLE p")
    counted(world, "p", [["global", 1000, 0], ["p0", 500, 0], ["p1", 500, 0]])
    heads = rows(s, "SHOW STATS_HISTOGRAMS WHERE table_name = 'p' AND is_index = 1")
    assert [[row[2], row[6]] for row in heads] == [["global", 200], ["p0", 200], ["p1", 200]]
    rows(s, "ANALYZE TABLE p PARTITION p1")
    heads = rows(s, "SHOW STATS_HISTOGRAMS WHERE table_name = 'p' AND partition_name = 'global'")
    assert [row[6] for row in heads] == [1000, 200, 200]
    last = rows(s, "SHOW STATS_BUCKETS WHERE table_name = 'p' AND partition_name = 'global'")
    assert [row[6] for row in last if row[3] == "id"][-1] == 1000
    rows(s, "ALTER TABLE p TRUNCATE PARTITION p0")
    counted(world, "p", [["global", 500, 500], ["p0", 0, 0], ["p1", 500, 0]])


def test_statistics_follow_definitions(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE f (id INT PRIMARY KEY)")
    counted(world, "f", [["", 0, 0]])
    rows(s, "INSERT INTO f VALUES (1), (2), (3)")
    counted(world, "f", [["", 3, 3]])
    rows(s, "ALTER TABLE f ADD COLUMN d INT NOT NULL DEFAULT 5")
    buckets = until(lambda: rows(s, "SHOW STATS_BUCKETS WHERE table_name = 'f'"))
    assert [row[3:] for row in buckets] == [["d", 0, 0, 3, 3, "5", "5", 0]]
    rows(s, "TRUNCATE TABLE f")
    counted(world, "f", [["", 0, 0]])


def estimated(world: World, where: str) -> float:
    """The estRows of the range scan in EXPLAIN."""
    lines = rows(world.session(), f"EXPLAIN SELECT * FROM q WHERE {where}")
    return next(float(line[1]) for line in lines if "Range" in line[0])


def test_explain_estimates_by_histograms(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE q (id INT PRIMARY KEY, v INT, w INT, KEY kv (v), KEY kwv (w, v))")
    for start in range(0, 4000, 1000):
        values = (
            (n, n * 7 % 4000, 9 if n % 4 == 0 else n % 50) for n in range(start, start + 1000)
        )
        rows(s, f"INSERT INTO q VALUES {','.join(map(str, values))}")
    rows(s, "ANALYZE TABLE q")
    for where in (
        "id < 1000",
        "id > 100 AND id <= 333",
        "v >= 2500",
        "v > 5000",
        "w = 9",
        "w = 9 AND v < 2000",
        "w = 13",
        "w > 20 AND w < 30",
    ):
        (exact,) = rows(s, f"SELECT COUNT(*) FROM q WHERE {where}")[0]
        assert abs(estimated(world, where) - exact) <= max(20, exact * 0.05), where


def chosen(world: World, where: str, hint: str = "") -> str:
    """The index that a query on the table c reads."""
    lines = rows(world.session(), f"EXPLAIN SELECT * FROM c {hint} WHERE {where}")
    return next(line[3].partition("index:")[2].partition("(")[0] for line in lines if line[3])


def test_the_most_selective_index_is_read(world: World) -> None:
    s = world.session()
    rows(s, "CREATE TABLE c (id INT PRIMARY KEY, few INT, many INT, KEY kf (few), KEY km (many))")
    values = ",".join(f"({n}, {n % 3}, {n % 300})" for n in range(900))
    rows(s, f"INSERT INTO c VALUES {values}")
    both = "few = 1 AND many = 7"
    by_rule = chosen(world, both)
    assert by_rule == "kf"
    rows(s, "ANALYZE TABLE c")
    assert chosen(world, both) == "km"
    assert chosen(world, "few = 1 AND many > 7") == "kf"  # a third each: the rule decides
    assert chosen(world, both, "USE INDEX (kf)") == "kf"
    assert rows(s, f"SELECT COUNT(*) FROM c WHERE {both}") == [[3]]


def test_partitions_analyzed_by_an_older_version_count_no_text_twice(world: World) -> None:
    """That version hashed texts in another way, and numbers in the same way."""
    s = world.session()
    rows(s, "SET GLOBAL tidb_partition_prune_mode = 'dynamic'")
    parts = "PARTITION BY HASH (id) PARTITIONS 2"
    rows(s, f"CREATE TABLE older (id INT PRIMARY KEY, n INT, t VARCHAR(9)) {parts}")
    values = ",".join(f"({n}, {n // 2 % 300}, 't{n // 2 % 300}')" for n in range(2000))
    rows(s, f"INSERT INTO older VALUES {values}")
    rows(s, "ANALYZE TABLE older ALL COLUMNS")
    table = world.services.schemas.table(world.store.begin(), "test", "older")
    part = table.info.physical_ids[0]

    def as_before(txn: Transaction) -> None:
        statistics = []
        for stats in records.read(txn, part):
            words = np.frombuffer(stats.sketch, np.uint64)[:-1]
            is_text = table.info.cols[stats.hist_id - 1].name.L == "t"
            words = np.sort(words * np.uint64(3)) if is_text else words
            statistics.append(stats._replace(sketch=words.tobytes()))
        records.write(txn, statistics, records.last_version(txn) + 1)

    world.store.transact(as_before)
    rows(s, "ANALYZE TABLE older PARTITION p1 ALL COLUMNS")
    heads = rows(s, "SHOW STATS_HISTOGRAMS WHERE table_name = 'older'")
    whole = {row[3]: row[6] for row in heads if row[2] == "global" and not row[4]}
    assert whole == {"id": 2000, "n": 300, "t": 300}
