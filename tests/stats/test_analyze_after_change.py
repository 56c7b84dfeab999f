"""An analysis between a change of the table and its event: the event must not adapt the new
statistics a second time.
"""

import time

import pytest

from exuvia.events import notifier
from exuvia.stats import analyze
from support.node_processes import until
from support.world import World, error, rows, run

TOLD_S = 0.5  # long after the end of ALTER and ANALYZE


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
        all_delivered(session)
        run(session, "FLUSH STATS_DELTA")
        yield world


def all_delivered(session):
    until(lambda: rows(session, "SELECT COUNT(*) FROM mysql.ddl_notifier") == [[0]], every_s=0.05)


def statistics_of(session, table):
    """Rows and changed rows by partition, "" for the whole; distinct values by column."""
    run(session, "FLUSH STATS_DELTA")
    meta_rows = rows(session, f"SHOW STATS_META WHERE Table_name = '{table}'")
    histograms = rows(
        session, f"SHOW STATS_HISTOGRAMS WHERE Table_name = '{table}' AND Is_index = 0"
    )
    counts = {row[2].replace("global", ""): (row[5], row[4]) for row in meta_rows}
    different = {row[3]: row[6] for row in histograms if row[2] in ("", "global")}
    return counts, different


def counted(session, table):
    """The same numbers, computed from the rows."""
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
    columns = [column[0] for column in rows(session, f"SHOW COLUMNS FROM {table}")]
    expressions = ", ".join(f"COUNT(DISTINCT {column})" for column in columns)
    (different,) = rows(session, f"SELECT {expressions} FROM {table}")
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
    for statement in statements.split("; "):
        run(session, statement.format(last=rows(session, "ADMIN SHOW DDL JOBS")[0][0]))
    run(session, "FLUSH STATS_DELTA")
    run(session, "ANALYZE TABLE t, q")
    all_delivered(session)
    for table in ("t", "q"):
        assert statistics_of(session, table) == counted(session, table)


def test_partitions_changed_during_the_read(world, monkeypatch):
    """The whole is merged from the partitions that exist at the merge."""
    session, other = world.session("test"), world.session("test")
    read, calls = analyze.AnalyzeSettings.read, []

    def read_and_change(self, *arguments):
        summary = read(self, *arguments)
        if not calls:
            run(other, "ALTER TABLE q TRUNCATE PARTITION p0")
        calls.append(summary.rows)
        return summary

    monkeypatch.setattr(analyze.AnalyzeSettings, "read", read_and_change)
    run(session, "ANALYZE TABLE q")
    all_delivered(session)
    assert calls == [3, 2]
    assert statistics_of(session, "q") == counted(session, "q")


def test_partitions_dropped_during_the_read(world, monkeypatch):
    session, other = world.session("test"), world.session("test")
    read = analyze.AnalyzeSettings.read

    def read_and_change(self, *arguments):
        summary = read(self, *arguments)
        run(other, "ALTER TABLE q REMOVE PARTITIONING")
        monkeypatch.undo()
        return summary

    monkeypatch.setattr(analyze.AnalyzeSettings, "read", read_and_change)
    code, _ = error(session, "ANALYZE TABLE q")
    assert code == 1105
    all_delivered(session)
    run(session, "ANALYZE TABLE q")
    assert statistics_of(session, "q") == counted(session, "q")


def test_the_whole_of_an_exchanged_table_from_one_partition(world):
    """The whole is not written under the table's own id, which is another table's partition."""
    session = world.session("test")
    run(session, "ALTER TABLE q EXCHANGE PARTITION p0 WITH TABLE t")
    run(session, "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 2")
    run(session, "ANALYZE TABLE q")
    run(session, "ANALYZE TABLE t PARTITION p0, p1")
    run(session, "INSERT INTO t VALUES (6, 6)")
    before = rows(session, "SHOW STATS_HISTOGRAMS WHERE Table_name = 'q'")
    run(session, "ANALYZE TABLE t PARTITION p0")
    assert rows(session, "SHOW STATS_HISTOGRAMS WHERE Table_name = 'q'") == before
    assert statistics_of(session, "t") == counted(session, "t")


def test_analyze_does_not_wait_for_a_refusing_handler(world, monkeypatch):
    session = world.session("test")

    def refuse(txn, change):
        raise ValueError("no")

    monkeypatch.setattr(world.stats.notifier.handlers[notifier.STATS_META], "call", refuse)
    run(session, "ALTER TABLE q TRUNCATE PARTITION p0")
    until(lambda: "ValueError" in str(rows(session, "ADMIN SHOW DDL NOTIFIER")))
    began = time.monotonic()
    run(session, "ANALYZE TABLE q")
    assert time.monotonic() - began < analyze.FOLLOWED_S / 2
