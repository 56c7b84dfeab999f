"""A table that was exchanged keeps its id, which is the other table's partition from then on. What
is done to either leaves the other's rows, counters and statistics alone, whatever follows.

    exchanged: t (its id, p0's rows)    q.p0 (t's id, t's rows)
"""

import pytest

from exuvia.sql.result import Result
from support.node_processes import until
from support.world import Later, World, rows, run


@pytest.fixture
def world():
    with World() as world:
        session = world.session("test")
        run(session, "SET GLOBAL exuvia_drop_retention_s = 0")
        run(session, "CREATE TABLE t (a INT PRIMARY KEY NONCLUSTERED, b INT NOT NULL)")
        bounds = "p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200)"
        like = "(a INT PRIMARY KEY NONCLUSTERED, b INT NOT NULL)"
        run(session, f"CREATE TABLE q {like} PARTITION BY RANGE (a) (PARTITION {bounds})")
        run(session, "INSERT INTO t VALUES (1, 1), (2, 2)")
        run(session, "INSERT INTO q VALUES (3, 3), (101, 1)")
        run(session, "ALTER TABLE q EXCHANGE PARTITION p0 WITH TABLE t")
        yield world


def emptied(session):
    until(lambda: rows(session, "SELECT COUNT(*) FROM mysql.gc_delete_range") == [[0]])


@pytest.mark.parametrize(
    "statements",
    [
        [],
        ["ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b, a) CLUSTERED"],
        ["ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 2"],
        [
            "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 2",
            "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b, a) CLUSTERED",
        ],
        ["ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 2", "ALTER TABLE t REMOVE PARTITIONING"],
        ["TRUNCATE TABLE t"],
    ],
)
@pytest.mark.parametrize("end", ["DROP TABLE t", "CREATE DATABASE d; RENAME TABLE t TO d.t"])
def test_the_table_goes_and_the_partition_keeps_its_rows(world, statements, end):
    session = world.session("test")
    for each in (*statements, *end.split("; ")):
        run(session, each)
    if "RENAME" in end:
        run(session, "DROP DATABASE d")
    emptied(session)
    assert rows(session, "SELECT a FROM q ORDER BY a") == [[1], [2], [101]]
    run(session, "ADMIN CHECK TABLE q")


def test_statistics_of_the_whole_stand_apart_from_the_partitions(world):
    """Each table's are its own, and locked alone."""
    session = world.session("test")
    run(session, "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 2")
    run(session, "INSERT INTO t VALUES (4, 4), (5, 5), (6, 6)")
    run(session, "INSERT INTO q VALUES (7, 7)")
    run(session, "ANALYZE TABLE t, q")
    counts = [["", 4], ["p0", 2], ["p1", 2]], [["", 4], ["p0", 3], ["p1", 1]]
    assert (known(session, "t"), known(session, "q")) == counts
    run(session, "ALTER TABLE q TRUNCATE PARTITION p0")
    until(lambda: known(session, "q") == [["", 1], ["p0", 0], ["p1", 1]])
    assert known(session, "t") == counts[0]
    run(session, "LOCK STATS t")
    assert {each[1] for each in rows(session, "SHOW STATS_LOCKED")} == {"t"}


def test_rows_written_while_a_table_gets_partitions_are_counted_once(world):
    session, writer = world.session("test"), world.session("test")
    run(writer, "BEGIN")
    run(writer, "INSERT INTO t VALUES (4, 4)")  # the first version of the change waits for it
    change = Later(world.session("test"), "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 2")
    until(lambda: "delete only" in str(rows(session, "ADMIN SHOW DDL JOBS")[0]))
    run(session, "INSERT INTO t VALUES (5, 5), (6, 6)")
    run(session, "DELETE FROM t WHERE a = 6")
    assert ["", 2] in known(session, "t")
    run(writer, "COMMIT")
    assert isinstance(change.answer(), Result)
    run(session, "INSERT INTO t VALUES (7, 7)")
    assert known(session, "t")[0] == ["", 4]


def known(session, table):
    """Rows by partition, "" for the whole."""
    run(session, "FLUSH STATS_DELTA")
    shown = rows(session, f"SHOW STATS_META WHERE Table_name = '{table}'")
    return sorted([each[2].replace("global", ""), each[5]] for each in shown)
