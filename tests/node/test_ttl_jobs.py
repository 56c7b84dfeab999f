"""TTL jobs delete only expired rows, also when tables, settings and owners change meanwhile."""

import json
from collections.abc import Iterator

import pytest

from exuvia.sql.session.session import Session
from support.node_processes import until
from support.world import Later, World, error, rows, run

STATUS = "SELECT * FROM mysql.tidb_ttl_table_status"
HISTORY = (
    "SELECT table_schema, table_name, partition_name, expired_rows, deleted_rows,"
    " error_delete_rows, status, summary_text FROM mysql.tidb_ttl_job_history"
    " WHERE table_name = '{}' ORDER BY job_id"
)
DAY = "TTL = c + INTERVAL 1 DAY"


@pytest.fixture
def world() -> Iterator[World]:
    with World() as started:
        yield started


@pytest.fixture
def session(world: World) -> Session:
    return world.session()


def ids(session: Session, table: str = "t") -> list[int]:
    return [row[0] for row in rows(session, f"SELECT id FROM {table} ORDER BY id")]


def jobs(session: Session, table: str = "t") -> list[list]:
    return rows(session, HISTORY.format(table))


def ended(session: Session, table: str = "t", count: int = 1) -> list[list]:
    """The rows of history for the table's jobs, once `count` of them have ended."""
    until(lambda: sum(job[6] == "finished" for job in jobs(session, table)) >= count)
    return jobs(session, table)


def test_expired_rows_are_deleted_with_entries_and_statistics_and_history_reports_it(
    world: World, session: Session
) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, c DATETIME, u INT, KEY (c), UNIQUE (u))")
    values = ", ".join(f"({n}, NOW() - INTERVAL {n * 60 + 30} MINUTE, {n})" for n in range(250))
    run(session, f"INSERT INTO t VALUES {values}, (999, NULL, 999)")
    run(session, f"ALTER TABLE t {DAY}")
    (job,) = ended(session)
    assert ids(session) == [*range(24), 999]
    assert job[:7] == ["test", "t", None, 226, 226, 0, "finished"]
    assert json.loads(job[7]) == {
        "total_rows": 226,
        "success_rows": 226,
        "error_rows": 0,
        "total_scan_task": 1,
        "scheduled_scan_task": 1,
        "finished_scan_task": 1,
    }
    run(session, "ADMIN CHECK TABLE t")
    (status,) = rows(session, STATUS)
    assert status[3] is not None and json.loads(status[7])["success_rows"] == 226
    assert status[8:] == [None] * 9
    assert rows(session, "SELECT * FROM mysql.tidb_ttl_task") == []
    world.deltas.flush()
    counted = f"SELECT count FROM mysql.stats_meta WHERE table_id = {status[0]}"
    until(lambda: rows(session, counted) == [[25]])


def test_each_partition_has_a_job_and_a_global_index_stays_right(session: Session) -> None:
    run(
        session,
        "CREATE TABLE t (id INT, c DATE, u INT, UNIQUE KEY (u) GLOBAL) TTL = c + INTERVAL 1 MONTH"
        " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10),"
        " PARTITION p1 VALUES LESS THAN MAXVALUE)",
    )
    ended(session, count=2)
    run(session, "INSERT INTO t VALUES (1, '2020-01-01', 1), (2, CURDATE(), 2)")
    run(session, "INSERT INTO t VALUES (11, '0001-01-01', 3), (12, CURDATE(), 4)")
    run(session, "ALTER TABLE t TTL_JOB_INTERVAL='0.0001h'")
    until(lambda: ids(session) == [2, 12])
    assert {job[2] for job in jobs(session)} == {"p0", "p1"}
    run(session, "ADMIN CHECK TABLE t")
    run(session, "INSERT INTO t VALUES (1, CURDATE(), 3)")  # its value is free again
    parents = rows(session, "SELECT DISTINCT parent_table_id FROM mysql.tidb_ttl_table_status")
    assert len(parents) == 1


def test_moments_are_read_in_the_servers_time_zone(session: Session) -> None:
    run(session, "SET time_zone = '+00:00'")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, c DATETIME)")
    run(session, "CREATE TABLE s (id INT PRIMARY KEY, c TIMESTAMP)")
    for table in "ts":
        run(session, f"INSERT INTO {table} VALUES (1, NOW() - INTERVAL 3 HOUR), (2, NOW())")
    run(session, "SET GLOBAL time_zone = '+05:00'")
    try:
        for table in "ts":
            run(session, f"ALTER TABLE {table} TTL = c + INTERVAL 4 HOUR")
        ended(session)
        ended(session, "s")
    finally:
        run(session, "SET GLOBAL time_zone = DEFAULT")
    assert ids(session) == []  # of local time there: seven and five hours ago
    assert ids(session, "s") == [1, 2]  # moments


def test_a_row_changed_meanwhile_is_kept_and_a_locked_row_is_skipped(
    world: World, session: Session
) -> None:
    run(session, "SET GLOBAL tidb_ttl_job_enable = OFF")
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, c DATETIME) {DAY}")
    run(session, "INSERT INTO t VALUES (1, '2020-01-01'), (2, '2020-01-01'), (3, '2020-01-01')")
    holder = world.session()
    run(holder, "BEGIN")
    run(holder, "UPDATE t SET c = NOW() WHERE id = 2")
    run(session, "SET GLOBAL tidb_ttl_job_enable = ON")
    until(lambda: ids(session) == [2])  # the others do not wait for it
    run(holder, "COMMIT")
    (job,) = ended(session)
    assert ids(session) == [2]
    assert job[3:6] in ([3, 2, 0], [3, 2, 1])  # counted as an error only if it was held for long


def test_it_ends_when_it_is_disabled_and_the_next_begins_when_it_is_due(
    session: Session,
) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, c DATETIME)")
    values = ", ".join(f"({n}, '2020-01-01')" for n in range(100))
    run(session, f"INSERT INTO t VALUES {values}")
    run(session, "SET GLOBAL tidb_ttl_delete_batch_size = 1")
    run(session, "SET GLOBAL tidb_ttl_delete_rate_limit = 2")
    try:
        run(session, f"ALTER TABLE t {DAY} TTL_JOB_INTERVAL='0.0001h'")
        until(lambda: len(ids(session)) < 100)
        (running,) = rows(session, STATUS)
        assert running[15] == "running" and running[9]
        run(session, "ALTER TABLE t TTL_ENABLE='OFF'")
        (job,) = ended(session)
        remaining = len(ids(session))
        assert remaining > 50 and job[6] == "finished"
        summary = json.loads(job[7])
        assert summary["finished_scan_task"] == 0 and "do not expire" in summary["scan_task_err"]
        run(session, "SET GLOBAL tidb_ttl_job_enable = OFF")
        run(session, "ALTER TABLE t TTL_ENABLE='ON'")
        run(session, "SET GLOBAL tidb_ttl_delete_rate_limit = 0")
        assert len(ids(session)) == remaining
        run(session, "SET GLOBAL tidb_ttl_job_enable = ON")
        until(lambda: ids(session) == [])
    finally:
        for name in ("job_enable", "delete_batch_size", "delete_rate_limit"):
            run(session, f"SET GLOBAL tidb_ttl_{name} = DEFAULT")


def test_nothing_begins_outside_the_window(session: Session) -> None:
    hour = int(rows(session, "SELECT HOUR(UTC_TIME())")[0][0])
    window = "tidb_ttl_job_schedule_window"
    run(session, f"SET GLOBAL {window}_start_time = '{(hour + 2) % 24:02}:00 +0000'")
    run(session, f"SET GLOBAL {window}_end_time = '{(hour + 3) % 24:02}:00 +0000'")
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, c DATE) {DAY}")
    run(session, "INSERT INTO t VALUES (1, '2020-01-01')")
    assert ids(session) == [1]
    assert jobs(session) == []
    run(session, f"SET GLOBAL {window}_start_time = DEFAULT")
    run(session, f"SET GLOBAL {window}_end_time = DEFAULT")
    until(lambda: ids(session) == [])


def test_rows_go_while_partitions_change_and_indexes_are_added(session: Session) -> None:
    run(
        session,
        "CREATE TABLE t (id INT PRIMARY KEY, c DATETIME, a INT) PARTITION BY HASH (id)"
        " PARTITIONS 2",
    )
    values = ", ".join(f"({n}, NOW() - INTERVAL {n % 2} MONTH, {n})" for n in range(3000))
    run(session, f"INSERT INTO t VALUES {values}")
    run(session, f"ALTER TABLE t {DAY} TTL_JOB_INTERVAL='0.0001h'")
    run(session, "ALTER TABLE t ADD INDEX (a)")
    run(session, "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 3")
    run(session, "ALTER TABLE t MODIFY COLUMN c TIMESTAMP")
    until(lambda: ids(session) == list(range(0, 3000, 2)))
    run(session, "ADMIN CHECK TABLE t")


def test_the_status_of_dropped_tables_is_deleted(session: Session) -> None:
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, c DATE) {DAY}")
    run(session, f"CREATE TABLE u (id INT PRIMARY KEY, c DATE) {DAY}")
    ended(session)
    ended(session, "u")
    assert len(rows(session, STATUS)) == 2
    run(session, "DROP TABLE t")
    run(session, "ALTER TABLE u REMOVE TTL")
    until(lambda: rows(session, STATUS) == [])
    assert len(jobs(session)) == 1


SLOW = ("delete_batch_size = 1", "delete_rate_limit = 4")


@pytest.fixture
def slow(session: Session) -> Iterator[list[int]]:
    """A running job that deletes four rows a second of `t`."""
    for setting in SLOW:
        run(session, f"SET GLOBAL tidb_ttl_{setting}")
    run(
        session,
        "CREATE TABLE t (id INT PRIMARY KEY, c DATE) PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200))",
    )
    values = ", ".join(f"({n}, '2020-01-01')" for n in range(100))
    run(session, f"INSERT INTO t VALUES {values}")
    run(session, f"ALTER TABLE t {DAY}")
    until(lambda: len(ids(session)) < 100)
    yield ids(session)
    for setting in SLOW:
        run(session, f"SET GLOBAL tidb_ttl_{setting.split()[0]} = DEFAULT")


@pytest.mark.parametrize(
    "removal",
    ["DROP TABLE t", "TRUNCATE TABLE t", "ALTER TABLE t DROP PARTITION p0", "DROP DATABASE test"],
)
def test_a_job_whose_rows_go_away_ends(session: Session, slow: list[int], removal: str) -> None:
    (job,) = (job_row for job_row in jobs(session) if job_row[2] == "p0")
    assert job[6] == "running" and len(slow) > 90
    run(session, removal)
    until(lambda: {job_row[6] for job_row in jobs(session)} == {"finished"})
    (job,) = (job_row for job_row in jobs(session) if job_row[2] == "p0" and job_row[3])
    assert job[3] < 90
    assert "do not expire" in json.loads(job[7])["scan_task_err"]
    assert rows(session, "SELECT COUNT(*) FROM mysql.tidb_ttl_task") == [[0]]
    if removal == "DROP DATABASE test":
        run(session, "FLASHBACK DATABASE test")
        assert 10 < len(ids(session, "test.t")) <= len(slow)


def test_rows_that_change_places_are_their_new_tables(session: Session, slow: list[int]) -> None:
    run(session, f"CREATE TABLE u (id INT PRIMARY KEY, c DATE) {DAY}")
    run(session, "INSERT INTO u VALUES (50, NULL)")
    run(session, "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u")
    until(lambda: any("another table" in job_row[7] for job_row in jobs(session) if job_row[7]))
    run(session, "SET GLOBAL tidb_ttl_delete_rate_limit = 0")
    assert ids(session) == [50]
    assert 10 < len(ids(session, "u")) <= len(slow)
    run(session, "ALTER TABLE u TTL_JOB_INTERVAL='0h'")
    until(lambda: ids(session, "u") == [])
    assert ids(session) == [50]


def test_rows_that_a_foreign_key_refers_to_stay(session: Session) -> None:
    run(session, "SET GLOBAL tidb_ttl_job_enable = OFF")
    run(session, "SET foreign_key_checks = 0")
    run(
        session,
        "CREATE TABLE k (p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE)",
    )
    for table in "uw":
        run(session, f"CREATE TABLE {table} (id INT PRIMARY KEY, c DATE) {DAY}")
        run(session, f"INSERT INTO {table} VALUES (1, '2020-01-01')")
    run(session, "RENAME TABLE u TO t")  # refused (8152) where keys are checked
    run(session, "SET foreign_key_checks = 1")
    run(session, "INSERT INTO k VALUES (1)")
    run(session, "SET GLOBAL tidb_ttl_job_enable = ON")
    ended(session, "w")  # the older table's turn would have come first
    assert ids(session) == [1]
    run(session, "ALTER TABLE t TTL_ENABLE='OFF'")
    run(session, "ALTER TABLE k DROP FOREIGN KEY f")
    run(session, "ALTER TABLE t TTL_ENABLE='ON'")
    until(lambda: ids(session) == [])
    assert rows(session, "SELECT p FROM k") == [[1]]


def test_no_interval_is_so_short_that_jobs_crowd(session: Session) -> None:
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, c DATE) {DAY} TTL_JOB_INTERVAL='0h'")
    ended(session, count=3)
    query = "SELECT COUNT(*), COUNT(DISTINCT create_time) FROM mysql.tidb_ttl_job_history"
    ((count, moments),) = rows(session, query)
    assert count == moments


def test_people_read_the_tables_and_do_not_write_them(session: Session) -> None:
    for table in ("tidb_ttl_table_status", "tidb_ttl_task", "tidb_ttl_job_history"):
        assert rows(session, f"SELECT COUNT(*) FROM mysql.{table}") == [[0]]
        assert error(session, f"DELETE FROM mysql.{table}")[0]


def test_a_deleted_row_that_a_client_waits_for_is_gone_for_it(
    world: World, session: Session
) -> None:
    run(session, "SET GLOBAL tidb_ttl_job_enable = OFF")
    run(
        session,
        f"CREATE TABLE t (id INT PRIMARY KEY, c DATETIME) {DAY} TTL_JOB_INTERVAL='0.0001h'",
    )
    run(session, "INSERT INTO t VALUES (1, '2020-01-01')")
    holder, other = world.session(), world.session()
    run(holder, "BEGIN")
    run(holder, "SELECT * FROM t WHERE id = 1 FOR UPDATE")
    run(session, "SET GLOBAL tidb_ttl_job_enable = ON")
    waiting = Later(other, "UPDATE t SET c = '2020-01-02'")
    run(holder, "ROLLBACK")
    waiting.answer()
    until(lambda: ids(session) == [])
