"""An analysis of a table that has just been changed, before the notifier tells of the change: what
follows from the change is not done to the new statistics once more."""

import time

import pytest

from exuvia.events import notifier
from exuvia.stats import analyze
from support.node_processes import until
from support.world import World, error, rows, run

TOLD_S = 0.5  # long behind the end of ALTER and ANALYZE


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(notifier, "GATHER_S", TOLD_S)
    with World() as world:
        session = world.session("test")
        run(session, "SET GLOBAL exuvia_undo_s = 100")
        like = "(a INT PRIMARY KEY NONCLUSTERED, b INT NOT NULL)"
        bounds = "(PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200))"
        run(session, f"CREATE TABLE t {like}")
        run(session, f"CREATE TABLE q {like} PARTITION BY RANGE (a) {bounds}")
        run(session, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
        run(session, "INSERT INTO q VALUES (1, 1), (2, 1), (3, 3), (101, 1), (102, 2)")
        told(session)
        run(session, "FLUSH STATS_DELTA")
        yield world


def told(session):
    until(lambda: rows(session, "SELECT COUNT(*) FROM mysql.ddl_notifier") == [[0]], every_s=0.05)


def known(session, table):
    """Rows and changed rows by partition, "" for the whole; different values by column."""
    run(session, "FLUSH STATS_DELTA")
    shown = rows(session, f"SHOW STATS_META WHERE Table_name = '{table}'")
    kept = rows(session, f"SHOW STATS_HISTOGRAMS WHERE Table_name = '{table}' AND Is_index = 0")
    counts = {each[2].replace("global", ""): (each[5], each[4]) for each in shown}
    different = {each[3]: each[6] for each in kept if each[2] in ("", "global")}
    return counts, different


def counted(session, table):
    """The same, from the rows."""
    parts = rows(
        session,
        "SELECT PARTITION_NAME FROM INFORMATION_SCHEMA.PARTITIONS"
        f" WHERE TABLE_NAME = '{table}' AND PARTITION_NAME IS NOT NULL",
    )
    sources = {"": table, **{part: f"{table} PARTITION ({part})" for (part,) in parts}}
    counts = {
        part: (rows(session, f"SELECT COUNT(*) FROM {source}")[0][0], 0)
        for part, source in sources.items()
    }
    columns = [each[0] for each in rows(session, f"SHOW COLUMNS FROM {table}")]
    asked = ", ".join(f"COUNT(DISTINCT {each})" for each in columns)
    (different,) = rows(session, f"SELECT {asked} FROM {table}")
    return counts, dict(zip(columns, different, strict=True))


@pytest.mark.parametrize(
    "statements",
    [
        "ALTER TABLE q TRUNCATE PARTITION p0",
        "ALTER TABLE q DROP PARTITION p0",
        "ALTER TABLE q EXCHANGE PARTITION p0 WITH TABLE t",
        "ALTER TABLE q DROP PRIMARY KEY, ADD PRIMARY KEY (a) CLUSTERED",
        "ALTER TABLE q REMOVE PARTITIONING",
        "ALTER TABLE q ADD COLUMN c INT DEFAULT 7; UPDATE q SET c = a",
        "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 2",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a) CLUSTERED",
        "TRUNCATE TABLE t; INSERT INTO t VALUES (6, 6); ADMIN UNDO DDL JOB {last}",
    ],
)
def test_the_statistics_are_those_of_the_rows(world, statements):
    session = world.session("test")
    for each in statements.split("; "):
        run(session, each.format(last=rows(session, "ADMIN SHOW DDL JOBS")[0][0]))
    run(session, "FLUSH STATS_DELTA")
    run(session, "ANALYZE TABLE t, q")
    told(session)
    for table in ("t", "q"):
        assert known(session, table) == counted(session, table)


def test_partitions_that_change_while_they_are_read(world, monkeypatch):
    """The whole is what its partitions are by then."""
    session, other = world.session("test"), world.session("test")
    read, calls = analyze.AnalyzeSettings.read, []

    def read_and_change(self, *asked):
        found = read(self, *asked)
        if not calls:
            run(other, "ALTER TABLE q TRUNCATE PARTITION p0")
        calls.append(found.rows)
        return found

    monkeypatch.setattr(analyze.AnalyzeSettings, "read", read_and_change)
    run(session, "ANALYZE TABLE q")
    told(session)
    assert calls == [3, 2]
    assert known(session, "q") == counted(session, "q")


def test_a_table_without_the_partitions_that_were_read(world, monkeypatch):
    session, other = world.session("test"), world.session("test")
    read = analyze.AnalyzeSettings.read

    def read_and_change(self, *asked):
        found = read(self, *asked)
        run(other, "ALTER TABLE q REMOVE PARTITIONING")
        monkeypatch.undo()
        return found

    monkeypatch.setattr(analyze.AnalyzeSettings, "read", read_and_change)
    code, _ = error(session, "ANALYZE TABLE q")
    assert code == 1105
    told(session)
    run(session, "ANALYZE TABLE q")
    assert known(session, "q") == counted(session, "q")


def test_the_whole_of_an_exchanged_table_from_one_partition(world):
    """It is not written under the table's own id, which is another table's partition."""
    session = world.session("test")
    run(session, "ALTER TABLE q EXCHANGE PARTITION p0 WITH TABLE t")
    run(session, "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 2")
    run(session, "ANALYZE TABLE q")
    run(session, "ANALYZE TABLE t PARTITION p0, p1")
    run(session, "INSERT INTO t VALUES (6, 6)")
    before = rows(session, "SHOW STATS_HISTOGRAMS WHERE Table_name = 'q'")
    run(session, "ANALYZE TABLE t PARTITION p0")
    assert rows(session, "SHOW STATS_HISTOGRAMS WHERE Table_name = 'q'") == before
    assert known(session, "t") == counted(session, "t")


def test_a_handler_that_refuses_is_not_waited_for(world, monkeypatch):
    session = world.session("test")

    def refuse(txn, change):
        raise ValueError("no")

    monkeypatch.setattr(world.stats.notifier.handlers[notifier.STATS_META], "call", refuse)
    run(session, "ALTER TABLE q TRUNCATE PARTITION p0")
    until(lambda: "ValueError" in str(rows(session, "ADMIN SHOW DDL NOTIFIER")))
    began = time.monotonic()
    run(session, "ANALYZE TABLE q")
    assert time.monotonic() - began < analyze.FOLLOWED_S / 2
