"""EXPLAIN of a schema change: what it would do, and nothing of it."""

import json
import re
import threading
from contextlib import contextmanager

import pytest

from exuvia.catalog import meta
from exuvia.ddl import queue, two_queues
from exuvia.ddl.job import ActionCode, Binlog, Job, JobState, evolve
from exuvia.kv.packet import Span
from support.world import World, error, rows, run

EVERYTHING = Span(b"", b"\xff")
CHANGES = (
    "CREATE DATABASE d2",
    "ALTER DATABASE test CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "DROP DATABASE d",
    "CREATE TABLE n (a int PRIMARY KEY AUTO_INCREMENT, b int DEFAULT 7, KEY (b), CHECK (b > 0))",
    "CREATE TABLE n LIKE t",
    "CREATE TABLE n (a int) PARTITION BY HASH (a) PARTITIONS 3",
    "CREATE VIEW v2 AS SELECT a FROM t",
    "CREATE SEQUENCE s2",
    "DROP TABLE t, u",
    "DROP VIEW v",
    "DROP SEQUENCE s",
    "TRUNCATE TABLE t",
    "RENAME TABLE t TO t2, u TO t",
    "CREATE INDEX ib ON t (b)",
    "CREATE UNIQUE INDEX ua ON t (a, b)",
    "CREATE INDEX ie ON t ((a + b))",
    "DROP INDEX ic ON t",
    "ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 7",
    "ALTER TABLE t ADD COLUMN d int, ADD INDEX (b), DROP COLUMN c",
    "ALTER TABLE t DROP COLUMN c",
    "ALTER TABLE t MODIFY b varchar(20)",
    "ALTER TABLE t MODIFY b bigint",
    "ALTER TABLE t RENAME COLUMN b TO bb",
    "ALTER TABLE t ALTER COLUMN b SET DEFAULT 3",
    "ALTER TABLE t ADD CONSTRAINT less CHECK (b < 1000000)",
    "ALTER TABLE t RENAME TO tt",
    "ALTER TABLE t COMMENT 'said'",
    "ALTER TABLE p ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))",
    "ALTER TABLE p DROP PARTITION p0",
    "ALTER TABLE p TRUNCATE PARTITION p0",
    "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE x",
    "ALTER TABLE p REORGANIZE PARTITION p0 INTO (PARTITION q VALUES LESS THAN (10))",
    "ALTER TABLE p PARTITION BY HASH (a) PARTITIONS 3",
    "ALTER TABLE p REMOVE PARTITIONING",
    "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES w (a)",
    "ALTER TABLE child DROP FOREIGN KEY f",
    "CREATE TABLE n (a int PRIMARY KEY, CONSTRAINT f2 FOREIGN KEY (a) REFERENCES w (a))",
    "ALTER TABLE child DROP CHECK k",
    "ALTER TABLE child ALTER CHECK k NOT ENFORCED",
    "ALTER SEQUENCE s INCREMENT 3",
    "ALTER TABLE t RENAME INDEX ic TO id",
    "ALTER TABLE t ALTER INDEX ic INVISIBLE",
    "ALTER TABLE child ADD PRIMARY KEY (a) NONCLUSTERED",
    "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "ALTER TABLE t AUTO_INCREMENT = 500",
    "ALTER TABLE t AUTO_ID_CACHE = 50",
    "ALTER TABLE child SHARD_ROW_ID_BITS = 4",
    "ALTER TABLE t CACHE",
    "RECOVER TABLE gone",
    "FLASHBACK TABLE gone TO back",
    "FLASHBACK DATABASE lost",
)


@pytest.fixture(scope="module")
def world():
    with World() as found:
        session = found.session()
        run(session, "CREATE DATABASE d")
        run(session, "CREATE TABLE d.t (a int)")
        run(session, "CREATE TABLE t (a int PRIMARY KEY, b int, c int, KEY ic (c))")
        run(session, "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
        for name in "uwx":
            run(session, f"CREATE TABLE {name} (a int PRIMARY KEY)")
        run(session, "SET GLOBAL tidb_enable_check_constraint = ON")
        columns = "a int NOT NULL, b int, CONSTRAINT k CHECK (b > 0)"
        run(
            session,
            f"CREATE TABLE child ({columns}, CONSTRAINT f FOREIGN KEY (a) REFERENCES w (a))",
        )
        run(session, "CREATE TABLE gone (a int)")
        run(session, "DROP TABLE gone")
        run(session, "CREATE DATABASE lost")
        run(session, "DROP DATABASE lost")
        run(session, "CREATE VIEW v AS SELECT a FROM t")
        run(session, "CREATE SEQUENCE s")
        parts = "PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20)"
        run(session, f"CREATE TABLE p (a int PRIMARY KEY) PARTITION BY RANGE (a) ({parts})")
        run(session, "INSERT INTO p VALUES (1), (11)")
        found.deltas.flush()  # row counts, which would come some seconds later
        yield found


def whole_store(world):
    """Every key but the counters of channels, on which another node is asked."""
    view = world.store.snapshot()
    try:
        return {k: v for k, v in view.scan(EVERYTHING) if not k.startswith(b"m/channel")}
    finally:
        view.close()


@contextmanager
def left_as_it_was(world, monkeypatch):
    """The whole store is at the end what it was, but for what the loops of the nodes have written
    meanwhile: heartbeats, row counts, statistics, what dropped tables left, whenever they are due.
    """
    of_loops = set()
    apply = world.store._apply

    def noting(after, channels):
        if threading.current_thread().name.startswith(("loop-", "analysis")):
            of_loops.update(after)
        return apply(after, channels)

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "_apply", noting)
        before = whole_store(world)
        yield
        after = whole_store(world)
    changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
    assert changed - of_loops == set()


@pytest.mark.parametrize("text", CHANGES)
def test_a_change_that_is_explained_leaves_the_whole_store_as_it_was(world, text, monkeypatch):
    session = world.session()
    run(session, "SELECT 1")
    asked = session.settings.get("tidb_last_ddl_info")
    with left_as_it_was(world, monkeypatch):
        found = rows(session, f"EXPLAIN {text}")
    assert session.database == "test" and session.settings.get("tidb_last_ddl_info") == asked
    assert any(row[0].strip("└├─").startswith("Step") for row in found)
    assert any("into history: synced" in row[4] for row in found), found


def test_the_open_transaction_stays_open(world):
    session = world.session()
    run(session, "BEGIN")
    run(session, "INSERT INTO u VALUES (77)")
    rows(session, "EXPLAIN ALTER TABLE u ADD COLUMN b int")
    run(session, "ROLLBACK")
    assert rows(session, "SELECT * FROM u WHERE a = 77") == []


def test_a_temporary_table_is_neither_made_nor_dropped(world):
    session = world.session()
    assert rows(session, "EXPLAIN CREATE TEMPORARY TABLE mine (a int)") == []
    assert error(session, "SELECT * FROM mine") == (1146, "42S02")
    run(session, "CREATE TEMPORARY TABLE mine (a int)")
    run(session, "INSERT INTO mine VALUES (1)")
    assert rows(session, "EXPLAIN TRUNCATE TABLE mine") == []
    assert rows(session, "EXPLAIN DROP TABLE mine") == []
    assert rows(session, "SELECT * FROM mine") == [[1]]


def test_an_index_on_rows_tells_steps_rows_bytes_and_time(world):
    session = world.session()
    found = rows(session, "EXPLAIN CREATE INDEX ib ON t (b)")
    first, reorg = found[0], next(row for row in found if "Reorg" in row[0])
    assert first[:4] == ["add index_1", "3.00", "reorg worker", "table:test.t"]
    assert first[4] == "4 step(s), 4 version(s), 1 reorg(s)"
    steps = [row[4] for row in found if "Step" in row[0]]
    assert steps[0] == "none -> delete only, version +1"
    assert steps[2].startswith("write only -> write reorganization, reorg begins, version +1")
    assert reorg[1] == "3.00" and reorg[3] == "fill and verify index ib"
    assert reorg[4].startswith("reads ") and "rows/s" in reorg[4]
    assert "no such job has finished" in reorg[4]
    assert reorg[2] == "local"
    stages = [row[1:] for row in found if "Stage" in row[0]]
    assert [stage[:3] for stage in stages] == [
        ["3.00", "local", "fill"], ["3.00", "local", "verify: compare"],
    ]  # fmt: skip
    assert re.fullmatch(r"1 task\(s\), reads \d+ bytes, writes 117 bytes", stages[0][3])
    assert re.fullmatch(r"1 task\(s\), reads \d+ bytes", stages[1][3])
    assert found[-1][0].startswith("└─Refuses") and "index name is taken" in found[-1][4]


def test_a_large_backfill_tells_the_bytes_of_its_sorted_runs(world, monkeypatch):
    monkeypatch.setattr(type(world.store), "folder", "/somewhere", raising=False)
    monkeypatch.setattr(type(world.store), "count", lambda *_: 2_000_000)
    session = world.session()
    found = rows(session, "EXPLAIN CREATE INDEX ib ON t (b)")
    (reorg,) = (row for row in found if "Reorg" in row[0])
    assert reorg[3] == (
        "fill and verify index ib through sorted runs on disk, about 78000000 bytes"
    )
    assert "writes 78000000 bytes" in reorg[4]
    assert stages_in(found)["fill: spill"].endswith(", spills 78000000 bytes")
    assert "reads 78000000 bytes, writes 78000000 bytes" in stages_in(found)["fill: merge"]
    run(session, "SET GLOBAL exuvia_ddl_reorg_span_rows = 3000000")
    try:
        (reorg,) = (
            row for row in rows(session, "EXPLAIN CREATE INDEX ib ON t (b)") if "Reorg" in row[0]
        )
        assert reorg[3] == "fill and verify index ib"
        assert "fill" in stages_in(rows(session, "EXPLAIN CREATE INDEX ib ON t (b)"))
    finally:
        run(session, "SET GLOBAL exuvia_ddl_reorg_span_rows = DEFAULT")


def test_a_large_change_of_the_primary_key_tells_the_bytes_of_its_sorted_runs(world, monkeypatch):
    monkeypatch.setattr(type(world.store), "folder", "/somewhere", raising=False)
    monkeypatch.setattr(type(world.store), "count", lambda *_: 100_001)
    session = world.session()
    run(session, "CREATE TABLE by_key (id INT PRIMARY KEY, a INT NOT NULL, KEY ia (a))")
    run(session, "INSERT INTO by_key VALUES (1, 1)")
    change = "EXPLAIN ALTER TABLE by_key DROP PRIMARY KEY, ADD PRIMARY KEY (a) CLUSTERED"
    (reorg,) = (row for row in rows(session, change) if "Reorg" in row[0])
    assert "move rows to another primary key" in reorg[3]
    spilled = int(reorg[3].partition("sorted runs on disk, about ")[2].partition(" ")[0])
    assert spilled > 100_001 * 2 * 30, "rows and entries of an index"


def stages_in(found):
    """Tasks and bytes of each stage, by its name."""
    return {row[3]: row[4] for row in found if "Stage" in row[0]}


def test_the_engine_and_the_tasks_follow_the_setting(world, monkeypatch):
    monkeypatch.setattr(type(world.store), "count", lambda *_: 2_000_000)
    monkeypatch.setattr("exuvia.pipeline.engine.processors", lambda: 6)
    session = world.session()
    for setting in ("local", "spark"):
        run(session, f"SET GLOBAL exuvia_pipeline_engine = {setting}")
        try:
            found = rows(session, "EXPLAIN CREATE INDEX ib ON t (b)")
        finally:
            run(session, "SET GLOBAL exuvia_pipeline_engine = DEFAULT")
        assert {row[2] for row in found if row[0].strip("├─").startswith(("Reorg", "Stage"))} == {
            setting
        }
        assert int(stages_in(found)["fill"].split()[0]) >= 6, "a task for each processor"
    assert error(session, "SET GLOBAL exuvia_pipeline_engine = 'flink'") == (1231, "42000")


def test_the_pace_is_that_of_finished_jobs_with_their_own_error(world):
    txn = world.store.begin()
    for n, seconds in enumerate((1, 2, 4)):
        start, end = (1 << 40) << 18, ((1 << 40) + 1000 * seconds) << 18
        job = Job(
            id=meta.next_ids(txn, 1),
            type=ActionCode.ADD_CHECK,
            state=JobState.SYNCED,
            table_name=f"paced{n}",
            row_count=1000,
            real_start_ts=start,
        )
        queue.archive(txn, queue_end(job, end))
    txn.commit()
    found = rows(world.session(), "EXPLAIN ALTER TABLE t ADD CONSTRAINT less CHECK (b < 1000)")
    (reorg,) = [row for row in found if "Reorg" in row[0]]
    assert "at 500 rows/s, as 3 finished job(s), +-62 %" in reorg[4]


def test_a_check_is_not_paced_by_a_rewrite(world):
    session = world.session()
    run(session, "CREATE TABLE paced (a int PRIMARY KEY, b int)")
    run(session, f"INSERT INTO paced VALUES {', '.join(f'({n}, {n})' for n in range(3000))}")
    said = "EXPLAIN ALTER TABLE paced MODIFY b int NOT NULL"

    def told():
        return next(row[4] for row in rows(session, said) if "Reorg" in row[0])

    before = told()
    run(session, "ALTER TABLE paced MODIFY b varchar(20)")
    run(session, "ALTER TABLE paced MODIFY b int")
    assert told().split(", expected")[1] == before.split(", expected")[1]
    run(session, "DROP TABLE paced")


def queue_end(job, end):
    return evolve(job, binlog=Binlog(FinishedTS=end))


def test_a_rewrite_and_a_change_of_metadata_are_told_apart(world):
    session = world.session()
    assert "no rows are touched" in rows(session, "EXPLAIN ALTER TABLE t MODIFY b bigint")[0][4]
    found = rows(session, "EXPLAIN ALTER TABLE t MODIFY b varchar(20)")
    assert [row[3] for row in found if "Reorg" in row[0]] == ["rewrite column b"]


def test_what_it_would_wait_for_now_is_told(world):
    session, writer = world.session(), world.session()
    info = world.services.schemas.table(world.store.begin(), "test", "u").info
    txn = world.store.begin()
    older = Job(
        id=meta.next_ids(txn, 1),
        type=ActionCode.ADD_COLUMN,
        state=JobState.PAUSED,
        schema_id=info.exuvia_db,
        table_id=info.id,
        schema_name="test",
        table_name="u",
    )
    queue.insert(txn, older)
    txn.commit()
    run(writer, "BEGIN")
    run(writer, "INSERT INTO u VALUES (5)")
    found = rows(session, "EXPLAIN ALTER TABLE u ADD COLUMN b int")
    waits = [row[3] for row in found if "Waits" in row[0]]
    assert waits[0] == f"job {older.id} (add column test.u)"
    assert waits[1].startswith("open transaction of connection")
    run(writer, "ROLLBACK")
    run(session, f"ADMIN CANCEL DDL JOBS {older.id}")


def test_what_is_written_by_a_statement_is_noticed(world, monkeypatch):
    session = world.session()
    with pytest.raises(AssertionError), left_as_it_was(world, monkeypatch):
        run(session, "INSERT INTO x VALUES (1)")
    run(session, "DELETE FROM x")


def test_transactions_of_other_nodes_are_named_too(world, monkeypatch):
    session = world.session()
    with World(world.store, owns=False) as elsewhere:
        writer = elsewhere.session()
        run(writer, "BEGIN")
        run(writer, "INSERT INTO u VALUES (6)")
        with left_as_it_was(world, monkeypatch):
            found = rows(session, "EXPLAIN ALTER TABLE u ADD COLUMN b int")
            (said,) = [row[3] for row in found if "Waits" in row[0]]
            name = f"open transaction of connection {writer.connection_id} of node "
            assert said.startswith(name)
            assert said.endswith("INSERT INTO u VALUES (6)"), said
            assert {k for k in whole_store(world) if k.startswith(b"m/sync")} == set()
            run(writer, "ROLLBACK")
            found = rows(session, "EXPLAIN ALTER TABLE u ADD COLUMN b int")
            assert [row[3] for row in found if "Waits" in row[0]] == []


def test_what_is_refused_at_once_is_refused_here_with_the_same_error(world):
    session = world.session()
    assert error(session, "EXPLAIN ALTER TABLE t ADD COLUMN a int") == (1060, "42S21")
    assert error(session, "EXPLAIN DROP TABLE nowhere") == (1051, "42S02")
    assert error(session, "EXPLAIN ANALYZE ALTER TABLE t ADD COLUMN d int") == (1235, "42000")
    assert error(session, "EXPLAIN CREATE TABLE n AS SELECT * FROM t") == (1235, "42000")


def test_as_json(world):
    text = "EXPLAIN FORMAT = 'json' DROP INDEX ic ON t"
    ((told,),) = rows(world.session(), text)
    assert json.loads(told)[0]["id"] == "drop index_1"
    assert two_queues.DEFAULT_JOB_LIST_KEY not in told
