"""System variables that change an answer: each test sets one and sees another answer.

catalog/sysvar/effects.py names these tests.
"""

import contextlib
import time
from collections.abc import Iterator

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog.sysvar.variables import VARIABLES
from exuvia.kv.transaction import Transaction
from exuvia.sql.privileges.rights import DATABASE, Rights
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run

READ_ONLY = 1792, "25006"


@pytest.fixture
def table(session: Session) -> Session:
    """A session with a table of two rows, indexed by a."""
    run(session, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b INT, KEY by_a (a))")
    run(session, "INSERT INTO t VALUES (1, 10, 100), (2, 20, 200)")
    run(session, "CREATE SEQUENCE seq")
    return session


# -- access mode and isolation of transactions -----------------------------------------------------

WRITES = (
    "INSERT INTO t VALUES (3, 3, 3)",
    "INSERT INTO t SELECT id + 10, a, b FROM t",
    "REPLACE INTO t VALUES (1, 1, 1)",
    "INSERT INTO t VALUES (1, 1, 1) ON DUPLICATE KEY UPDATE a = 7",
    "UPDATE t SET a = 5",
    "UPDATE t SET a = 5 WHERE id = 1",
    "UPDATE t JOIN t u ON t.id = u.id SET t.a = 5",
    "DELETE FROM t",
    "DELETE FROM t WHERE id IN (SELECT a FROM t u)",
    "SELECT * FROM t FOR UPDATE",
    "BATCH ON id LIMIT 1 DELETE FROM t WHERE a > 0",
    "SELECT NEXTVAL(seq)",
    "DO SETVAL(seq, 100)",
)
CHANGES = (
    "CREATE TABLE u (a INT)",
    "CREATE TABLE u LIKE t",
    "CREATE TABLE u SELECT * FROM t",
    "CREATE TEMPORARY TABLE u (a INT)",
    "ALTER TABLE t ADD COLUMN c INT",
    "CREATE INDEX i ON t (b)",
    "DROP INDEX by_a ON t",
    "TRUNCATE TABLE t",
    "RENAME TABLE t TO u",
    "DROP TABLE t",
    "CREATE VIEW v AS SELECT 1",
    "CREATE SEQUENCE s",
    "CREATE DATABASE other_database",
    "CREATE USER somebody",
    "GRANT SELECT ON *.* TO root",
    "LOCK TABLES t WRITE",
)


@pytest.mark.parametrize("way", ["session", "variable", "alias"])
def test_transaction_read_only(table: Session, way: str) -> None:
    """Outside of BEGIN too, and for every kind of write."""
    ways = {
        "session": "SET SESSION TRANSACTION READ ONLY",
        "variable": "SET transaction_read_only = ON",
        "alias": "SET tx_read_only = 1",
    }
    run(table, ways[way])
    assert rows(table, "SELECT @@transaction_read_only, @@tx_read_only") == [[1, 1]]
    before = rows(table, "SELECT * FROM t")
    for statement in WRITES + CHANGES:
        assert error(table, statement) == READ_ONLY, statement
    assert rows(table, "SELECT * FROM t") == before
    run(table, "PREPARE p FROM 'INSERT INTO t VALUES (3, 3, ?)'")
    run(table, "SET @v = 3")
    assert error(table, "EXECUTE p USING @v") == READ_ONLY
    assert error(table, "INSERT INTO t VALUES (?, 3, 3)", [3]) == READ_ONLY
    assert len(rows(table, "SELECT * FROM t FOR SHARE")) == 2
    assert len(rows(table, "SELECT * FROM t x JOIN t y USING (id) LOCK IN SHARE MODE")) == 2
    run(table, "SET autocommit = 0")
    assert error(table, WRITES[0]) == READ_ONLY
    run(table, "SET autocommit = 1")
    run(table, "BEGIN")
    assert error(table, WRITES[0]) == READ_ONLY
    run(table, "START TRANSACTION READ WRITE")
    assert run(table, WRITES[0]).affected == 1
    run(table, "ROLLBACK")
    run(table, "SET SESSION TRANSACTION READ WRITE")
    assert run(table, WRITES[0]).affected == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/* a */ ", ""),
        ("-- a\n", ""),
        ("# a\n/* b */(", ")"),
        ("WITH q AS (SELECT 1 a, '(' b /* ( */) ", " FROM q"),
        ("WITH q AS (SELECT /*+ SET_VAR(time_zone='+05:00') */ 1 a) ", " FROM q"),
    ],
)
def test_hints_after_what_precedes_the_verb(session: Session, before: str, after: str) -> None:
    hinted = "SELECT /*+ SET_VAR(time_zone='+03:00') */ @@time_zone"
    assert rows(session, before + hinted + after) == [["+03:00"]]
    prepared = session.prepare(before + hinted + after)
    assert session.execute_prepared(prepared, []).rows == [["+03:00"]]
    assert rows(session, "SELECT @@time_zone") == [["SYSTEM"]]
    late = "SELECT /*+ MAX_EXECUTION_TIME(50) */ SLEEP(2)"
    assert error(session, before + late + after) == (3024, "HY000")


@pytest.mark.parametrize("begin", ["/**/", "-- a\n", "# a\n", "/* ( */("])
def test_many_comments_before_a_statement(table: Session, begin: str) -> None:
    """Time for the search of the verb doubled with each comment, and stopped the whole node."""
    run(table, "SET max_execution_time = 60000")
    start = time.process_time()
    for rest in ("UPDATE t SET a = 5 WHERE id = 7", "nothing /*+ */"):
        with contextlib.suppress(Refused):
            run(table, begin * 25 + rest)
    assert time.process_time() - start < 1
    run(table, "SET max_execution_time = 50")
    query = "SELECT SLEEP(2)"
    assert error(table, begin * 25 + query + ")" * begin.endswith("(") * 25) == (3024, "HY000")


def test_hints_of_explain_and_of_nothing(table: Session) -> None:
    run(table, "EXPLAIN ANALYZE FORMAT = 'brief' SELECT /*+ SET_VAR(nosuch=1) */ a FROM t")
    assert [code for _, code, _ in rows(table, "SHOW WARNINGS")] == [3128]
    zone = "SELECT @@time_zone /*+ SET_VAR(time_zone='+03:00') */"
    for statement in (zone, f"WITH q AS (SELECT 1) {zone}", f"WITH q AS (SELECT 1) ({zone})"):
        assert rows(table, statement) == [["SYSTEM"]]


def test_memory_quota_of_a_statement(session: Session) -> None:
    run(session, "CREATE TABLE big (id INT PRIMARY KEY, b LONGTEXT)")
    insert = "INSERT /*+ MEMORY_QUOTA({}) */ INTO big VALUES ({}, REPEAT('a', 3000000))"
    assert error(session, insert.format("1 MB", 1)) == (8175, "HY000")
    for quota in ("100 MB", "1 gb"):
        run(session, insert.format(quota, len(quota)))


@pytest.mark.parametrize(
    "hint",
    [
        *("autocommit=0", "last_insert_id=5", "tidb_snapshot='2020-01-01'"),
        "character_set_connection='latin1'",
    ],
)
def test_a_hint_cannot_set_what_is_more_than_a_setting(
    table: Session, another: Session, hint: str
) -> None:
    """SET_VAR(autocommit=0) left a transaction open, in which later writes were lost."""
    before = rows(table, "SELECT @@autocommit, LAST_INSERT_ID(), @@character_set_connection")
    run(table, f"SELECT /*+ SET_VAR({hint}) */ * FROM t")
    assert [code for _, code, _ in rows(table, "SHOW WARNINGS")] == [3637]
    run(table, "UPDATE t SET a = 5 WHERE id = 1")
    assert rows(another, "SELECT a FROM t WHERE id = 1") == [[5]]
    after = rows(table, "SELECT @@autocommit, LAST_INSERT_ID(), @@character_set_connection")
    assert after == before


@pytest.mark.parametrize("value", ["1", "ON", "DEFAULT"])
def test_autocommit_commits_where_it_was_off(table: Session, another: Session, value: str) -> None:
    seen = "SELECT COUNT(*) FROM t WHERE a = 5"
    run(table, "SET autocommit = 0")
    run(table, "UPDATE t SET a = 5 WHERE id = 1")
    run(table, f"SET autocommit = {value}")
    assert rows(another, seen) == [[1]]
    run(table, "BEGIN")
    run(table, "UPDATE t SET a = 5 WHERE id = 2")
    run(table, f"SET autocommit = {value}")  # it was on: no end of a transaction
    assert rows(another, seen) == [[1]]
    run(table, "ROLLBACK")
    assert rows(table, seen) == [[1]]


def test_max_execution_time_ends_prepared_queries(session: Session) -> None:
    late = 3024, "HY000"
    run(session, "SET max_execution_time = 50")
    run(session, "PREPARE s FROM 'SELECT SLEEP(2)'")
    assert error(session, "EXECUTE s") == late
    assert error(session, "SELECT SLEEP(?)", [2]) == late
    run(session, "SET max_execution_time = 0")
    run(session, "PREPARE h FROM 'SELECT /*+ MAX_EXECUTION_TIME(50) */ SLEEP(2)'")
    assert error(session, "EXECUTE h") == late
    prepared = session.prepare("SELECT /*+ SET_VAR(max_execution_time = 50) */ SLEEP(?)")
    with pytest.raises(Refused, match="maximum statement execution time"):
        session.execute_prepared(prepared, [2])


def test_global_transaction_read_only(table: Session, world: World) -> None:
    run(table, "SET GLOBAL TRANSACTION READ ONLY")
    try:
        assert run(table, "UPDATE t SET a = 1").affected == 2  # it began before
        later = world.session(table.database)
        assert error(later, "UPDATE t SET a = 2") == READ_ONLY
        later.close()
    finally:
        run(table, "SET GLOBAL TRANSACTION READ WRITE")


def test_temporary_tables_are_written_in_a_read_only_session(table: Session) -> None:
    run(table, "CREATE TEMPORARY TABLE mine (a INT)")
    run(table, "SET SESSION TRANSACTION READ ONLY")
    assert run(table, "INSERT INTO mine VALUES (1)").affected == 1


def test_set_transaction_is_for_exactly_the_next(table: Session) -> None:
    write = "UPDATE t SET a = a + 1 WHERE id = 1"
    run(table, "SET TRANSACTION READ ONLY")
    assert error(table, write) == READ_ONLY
    run(table, "SELECT @@version")  # no transaction
    assert error(table, write) == READ_ONLY
    run(table, "SELECT * FROM t")
    assert run(table, write).affected == 1
    run(table, "SET TRANSACTION READ ONLY")
    run(table, "SELECT * FROM t WHERE id = 1")  # by a kept plan
    assert run(table, write).affected == 1
    run(table, "SET TRANSACTION READ ONLY")
    run(table, "BEGIN")
    assert error(table, write) == READ_ONLY
    run(table, "COMMIT")
    assert run(table, write).affected == 1
    for end in ("COMMIT", "ROLLBACK"):
        run(table, "SET TRANSACTION READ ONLY")
        run(table, end)
        assert run(table, write).affected == 1
    run(table, "SET SESSION TRANSACTION READ ONLY")
    run(table, "SET TRANSACTION READ WRITE")
    assert run(table, write).affected == 1
    assert error(table, write) == READ_ONLY


def sees_newest(session: Session, another: Session) -> bool:
    """Whether the session's transaction sees what commits after its first read."""
    run(session, "BEGIN")
    run(session, "SELECT * FROM t")
    run(another, "UPDATE t SET b = b + 1 WHERE id = 2")
    (found,) = rows(session, "SELECT b FROM t WHERE id = 2")
    run(session, "COMMIT")
    return found == rows(another, "SELECT b FROM t WHERE id = 2")[0]


@pytest.mark.parametrize("name", ["transaction_isolation", "tx_isolation"])
def test_transaction_isolation(table: Session, another: Session, name: str) -> None:
    assert not sees_newest(table, another)
    run(table, f"SET {name} = 'READ-COMMITTED'")
    assert rows(table, "SELECT @@tx_isolation, @@transaction_isolation") == [["READ-COMMITTED"] * 2]
    shown = rows(table, "SHOW VARIABLES LIKE 't%_isolation'")
    assert [value for _, value in shown] == ["READ-COMMITTED"] * 2
    assert sees_newest(table, another)


def test_set_transaction_isolation_is_for_exactly_the_next(
    table: Session, another: Session
) -> None:
    run(table, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert sees_newest(table, another)
    assert not sees_newest(table, another)
    run(table, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    run(table, "SELECT * FROM t")  # that was it
    assert not sees_newest(table, another)


# -- the end of a transaction ----------------------------------------------------------------------


def is_begun(session: Session) -> bool:
    return session.current is not None


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_completion_type(table: Session, end: str) -> None:
    run(table, end)
    assert not is_begun(table)
    run(table, f"{end} AND CHAIN")
    assert is_begun(table)
    run(table, f"{end} WORK AND NO CHAIN NO RELEASE")
    assert not is_begun(table)
    run(table, "SET completion_type = 1")
    run(table, "START TRANSACTION READ ONLY")
    run(table, end)
    assert is_begun(table)
    assert error(table, "DELETE FROM t") == READ_ONLY  # the chain's are alike
    run(table, f"{end} AND NO CHAIN")
    assert not is_begun(table)
    run(table, "BEGIN")
    run(table, f"{end} NO RELEASE")
    assert not is_begun(table)
    assert error(table, f"{end} AND CHAIN RELEASE") == (1064, "42000")
    run(table, "SET completion_type = 'RELEASE'")
    run(table, f"{end} AND NO CHAIN")
    assert not table.is_released
    run(table, end)
    assert table.is_released


# -- what a statement may touch, and how much it answers -------------------------------------------

UNSAFE = 1175, "HY000"


@pytest.mark.parametrize("is_kept", [False, True])
def test_sql_safe_updates(table: Session, is_kept: bool) -> None:
    run(table, "CREATE TABLE u (id INT PRIMARY KEY, x INT)")
    run(table, "INSERT INTO u VALUES (1, 1)")
    refused = (
        "UPDATE t SET b = 1",
        "UPDATE t SET b = 1 WHERE b = 2",
        "UPDATE t SET b = 1 WHERE a + 1 = 2",
        "DELETE FROM t",
        "DELETE FROM t WHERE b > 1000",
        "DELETE FROM t WHERE b IN (SELECT id FROM u)",
        "UPDATE t JOIN u ON t.b = u.x SET t.b = 1",
        "DELETE t FROM t JOIN u ON t.b = u.x",
    )
    done = (
        "UPDATE t SET b = 2 WHERE id = 1",
        "UPDATE t SET b = 2 WHERE a > 1 AND b = 9",
        "UPDATE t SET b = 2 LIMIT 1",
        "DELETE FROM t WHERE a = 1000",
        "DELETE FROM t WHERE b = 1000 LIMIT 5",
        "DELETE FROM t WHERE id IN (SELECT x + 1000 FROM u)",
        "UPDATE t JOIN u ON t.id = u.id SET t.b = 2",
    )
    if is_kept:
        run(table, "BEGIN")
        for statement in refused + done:
            run(table, statement)
        run(table, "ROLLBACK")
    run(table, "SET sql_safe_updates = 1")
    for statement in refused:
        assert error(table, statement) == UNSAFE, statement
    for statement in done:
        run(table, statement)
    assert error(table, "UPDATE t SET b = ?", [1]) == UNSAFE
    run(table, "DROP INDEX by_a ON t")
    assert error(table, "DELETE FROM t WHERE a = 1000") == UNSAFE
    run(table, "SET sql_safe_updates = 0")
    assert run(table, "DELETE FROM t WHERE b > 0").affected == 2


@pytest.mark.parametrize("is_kept", [False, True])
def test_sql_select_limit(table: Session, is_kept: bool) -> None:
    limited = (
        "SELECT * FROM t",
        "SELECT id FROM t WHERE a > 1 ORDER BY id",
        "(SELECT id FROM t)",
        "SELECT id FROM t UNION ALL SELECT id FROM t",
        "SELECT DISTINCT a, COUNT(*) FROM t GROUP BY a",
        "WITH c AS (SELECT id FROM t) SELECT * FROM c",
        "SELECT x.id FROM t x JOIN t y ON x.id = y.id",
        "TABLE t",
    )
    if is_kept:
        assert all(len(rows(table, query)) >= 2 for query in limited)
    run(table, "PREPARE p FROM 'SELECT * FROM t WHERE id > ?'")
    run(table, "SET @low = 0, sql_select_limit = 1")
    for query in limited:
        assert len(rows(table, query)) == 1, query
    assert len(rows(table, "EXECUTE p USING @low")) == 1
    assert len(rows(table, "SELECT * FROM t WHERE id > ?", [0])) == 1
    assert len(rows(table, "SELECT * FROM t LIMIT 2")) == 2
    assert len(rows(table, "(SELECT * FROM t LIMIT 2)")) == 2
    assert rows(table, "SELECT COUNT(*) FROM (SELECT * FROM t) x") == [[2]]
    assert run(table, "CREATE TABLE u SELECT id FROM t").affected == 2
    assert run(table, "INSERT INTO u SELECT id FROM t").affected == 2
    assert len(rows(table, "SELECT /*+ SET_VAR(sql_select_limit=2) */ * FROM t")) == 2
    run(table, "SET sql_select_limit = 0")
    assert rows(table, "SELECT * FROM t") == []
    run(table, "SET sql_select_limit = DEFAULT")
    assert all(len(rows(table, query)) >= 2 for query in limited)


def test_sql_require_primary_key(table: Session) -> None:
    without = 3750, "HY000"
    run(table, "CREATE TABLE heap (a INT)")
    run(table, "CREATE TABLE keyed (a INT, b INT, PRIMARY KEY (a) NONCLUSTERED)")
    refused = (
        "CREATE TABLE u (a INT)",
        "CREATE TABLE u (a INT UNIQUE)",
        "CREATE TEMPORARY TABLE u (a INT)",
        "CREATE TABLE u LIKE heap",
        "CREATE TEMPORARY TABLE u LIKE heap",
        "CREATE TABLE u SELECT * FROM t",
        "ALTER TABLE keyed DROP PRIMARY KEY",
        "ALTER TABLE keyed ADD COLUMN c INT, DROP PRIMARY KEY",
        "DROP INDEX `PRIMARY` ON keyed",
    )
    run(table, "SET sql_require_primary_key = ON")
    for statement in refused:
        assert error(table, statement) == without, statement
    run(table, "CREATE TABLE u (a INT PRIMARY KEY)")
    run(table, "CREATE TABLE w LIKE keyed")
    run(table, "ALTER TABLE keyed ADD COLUMN c INT")
    run(table, "SET sql_require_primary_key = OFF")
    run(table, "ALTER TABLE keyed DROP PRIMARY KEY")


# -- ids -------------------------------------------------------------------------------------------


def test_insert_id(table: Session) -> None:
    run(table, "SET insert_id = 77")
    assert rows(table, "SELECT @@insert_id") == [[77]]
    assert run(table, "INSERT INTO t (a) VALUES (1), (2)").last_insert_id == 77
    run(table, "INSERT INTO t (a) VALUES (3)")
    found = rows(table, "SELECT id FROM t WHERE a < 10 ORDER BY a")
    assert found[:2] == [[77], [78]] and found[2][0] > 78
    assert rows(table, "SELECT @@insert_id") == [[0]]
    run(table, "SET insert_id = 1")
    assert error(table, "INSERT INTO t (a) VALUES (4)") == (1062, "23000")


@pytest.mark.parametrize("name", ["last_insert_id", "identity"])
def test_last_insert_id(table: Session, name: str) -> None:
    run(table, f"SET {name} = 9")
    assert rows(table, "SELECT LAST_INSERT_ID(), @@last_insert_id, @@identity") == [[9, 9, 9]]
    run(table, "INSERT INTO t (a, b) VALUES (LAST_INSERT_ID(), 0)")
    assert rows(table, "SELECT a FROM t WHERE b = 0") == [[9]]


# -- values of SET ---------------------------------------------------------------------------------


def test_a_word_given_to_a_user_variable_is_its_value(session: Session) -> None:
    run(session, "SET @t = TRUE, @f = FALSE, @n = NULL, @u = CURRENT_USER")
    assert rows(session, "SELECT @t + 1, @f + 1, @n, @u") == [[2, 1, None, "root@%"]]
    for word in ("CURRENT_DATE", "CURRENT_TIMESTAMP", "UTC_DATE", "LOCALTIME"):
        run(session, f"SET timestamp = 1700000000, @v = {word}")
        assert rows(session, f"SELECT @v = {word}") == [[1]], word
    assert error(session, "SET @v = nosuch") == (1054, "42S22")
    assert error(session, "SET @v = `ON`") == (1054, "42S22")
    assert error(session, "SET @v = DEFAULT") == (1064, "42000")
    run(session, "SET autocommit = TRUE, sql_mode = ANSI_QUOTES, time_zone = SYSTEM")
    run(session, "SET foreign_key_checks = FALSE")
    assert rows(session, "SELECT @@foreign_key_checks, @@sql_mode") == [[0, "ANSI_QUOTES"]]


def test_an_invisible_column_is_refused(session: Session) -> None:
    run(session, "CREATE TABLE t (a INT, b INT)")
    for statement in (
        "CREATE TABLE u (a INT, b INT INVISIBLE)",
        "CREATE TABLE u (a INT, b INT /*!80023 INVISIBLE */)",
        "ALTER TABLE t ADD COLUMN c INT INVISIBLE",
        "ALTER TABLE t MODIFY b INT INVISIBLE",
        "ALTER TABLE t CHANGE b c INT INVISIBLE",
        "ALTER TABLE t ALTER COLUMN b SET INVISIBLE",
    ):
        assert error(session, statement) == (8200, "HY000"), statement
    run(session, "CREATE TABLE u (a INT VISIBLE, b INT, KEY (a) INVISIBLE)")


# -- read-only modes -------------------------------------------------------------------------------

MODES = ("read_only", "super_read_only", "tidb_restricted_read_only", "tidb_super_read_only")


class WithoutSuper(Session):
    """A session whose account may read and write, and is no administrator."""

    held = frozenset(DATABASE)

    @property
    def rights(self) -> Rights:
        return Rights(self.held, account=("somebody", "%"))


class Replicator(WithoutSuper):
    """One that was granted what TiDB's read-only modes ask for."""

    held = WithoutSuper.held | {"RESTRICTED_REPLICA_WRITER_ADMIN"}


def session_of(kind: type[Session], other: Session) -> Session:
    return kind(other.services, 99, database=other.database)


@pytest.fixture
def modes(table: Session) -> Iterator[Session]:
    yield table
    for name in MODES:
        run(table, f"SET GLOBAL {name} = OFF")


ROWS_LOCKED = "SELECT * FROM t FOR UPDATE"
WRITTEN = tuple(text for text in WRITES if text != ROWS_LOCKED)
CHANGED = tuple(text for text in CHANGES if not text.startswith("LOCK") and "TEMPORARY" not in text)


def test_read_only(modes: Session) -> None:
    """Who has SUPER writes."""
    refused = 1290, "HY000"
    plain = session_of(WithoutSuper, modes)
    run(modes, "SET GLOBAL read_only = ON")
    for statement in WRITTEN:
        assert error(plain, statement) == refused, statement
    assert error(plain, "CREATE TABLE u (a INT)") == refused
    assert error(plain, "ALTER TABLE t ADD COLUMN c INT") == refused
    assert len(rows(plain, ROWS_LOCKED)) == 2
    run(plain, "CREATE TEMPORARY TABLE mine (a INT)")
    assert run(plain, "INSERT INTO mine VALUES (1)").affected == 1
    assert run(modes, "UPDATE t SET b = 1 WHERE id = 1").affected == 1
    run(modes, "SET GLOBAL read_only = OFF")
    assert run(plain, "UPDATE t SET b = 2 WHERE id = 1").affected == 1


def test_super_read_only(modes: Session) -> None:
    refused = 1290, "HY000"
    run(modes, "SET GLOBAL super_read_only = ON")
    assert rows(modes, "SELECT @@read_only, @@super_read_only") == [[1, 1]]
    for statement in WRITTEN + CHANGED:
        assert error(modes, statement) == refused, statement
    run(modes, "ANALYZE TABLE t")
    run(modes, "SET GLOBAL read_only = OFF")
    assert rows(modes, "SELECT @@read_only, @@super_read_only") == [[0, 0]]
    assert run(modes, "UPDATE t SET b = 1").affected == 2


@pytest.mark.parametrize("name", ["tidb_restricted_read_only", "tidb_super_read_only"])
def test_tidb_super_read_only(modes: Session, name: str) -> None:
    """SUPER is not enough."""
    refused = 1836, "HY000"
    run(modes, f"SET GLOBAL {name} = ON")
    assert rows(modes, "SELECT @@tidb_super_read_only") == [[1]]
    for statement in (*WRITTEN, *CHANGED, ROWS_LOCKED):
        assert error(modes, statement) == refused, statement
    assert run(session_of(Replicator, modes), "UPDATE t SET b = 1 WHERE id = 1").affected == 1
    internal = session_of(Session, modes)
    internal.is_internal = True
    assert run(internal, "UPDATE t SET b = 2 WHERE id = 1").affected == 1
    if name == "tidb_restricted_read_only":
        assert error(modes, "SET GLOBAL tidb_super_read_only = OFF") == (1105, "HY000")
        run(modes, f"SET GLOBAL {name} = OFF")
        assert error(modes, "DELETE FROM t") == refused
    run(modes, "SET GLOBAL tidb_super_read_only = OFF")
    assert run(modes, "DELETE FROM t").affected == 2


@pytest.mark.parametrize(
    ("name", "code"), [("super_read_only", 1290), ("tidb_super_read_only", 1836)]
)
def test_a_transaction_that_wrote_before_a_read_only_mode_does_not_commit(
    modes: Session, another: Session, name: str, code: int
) -> None:
    run(another, "BEGIN")
    run(another, "UPDATE t SET b = 7")
    run(modes, f"SET GLOBAL {name} = ON")
    assert len(rows(another, "SELECT * FROM t WHERE b = 7")) == 2
    assert error(another, "COMMIT") == (code, "HY000")
    assert rows(another, "SELECT * FROM t WHERE b = 7") == []
    run(another, "BEGIN")
    run(another, "SELECT * FROM t")
    run(another, "COMMIT")


def test_a_commit_under_way_is_fenced_by_a_read_only_mode(modes: Session, another: Session) -> None:
    """Also what was let in, and looked at last, before the mode was switched on."""
    run(another, "BEGIN")
    run(another, "UPDATE t SET b = 7")
    look = another.transactions.check_commit

    def late() -> None:
        look()
        run(modes, "SET GLOBAL super_read_only = ON")

    another.transactions.check_commit = late  # type: ignore[method-assign]
    assert error(another, "COMMIT") == (1290, "HY000")
    assert rows(modes, "SELECT * FROM t WHERE b = 7") == []


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD COLUMN c INT",
        "CREATE TABLE u (a INT)",
        "CREATE TABLE u AS SELECT * FROM t",
        "TRUNCATE TABLE t",
        "CREATE USER late",
    ],
)
def test_a_change_under_way_is_fenced_by_a_read_only_mode(
    modes: Session, another: Session, statement: str
) -> None:
    """What was let in before the mode was switched on puts no job into the queue after it."""
    let_in = another.transactions.admit

    def late(txn: Transaction, writes: bool) -> None:
        let_in(txn, writes)
        another.transactions.admit = let_in  # type: ignore[method-assign]
        run(modes, "SET GLOBAL super_read_only = ON")

    jobs = rows(modes, "ADMIN SHOW DDL JOB QUERIES LIMIT 1")
    another.transactions.admit = late  # type: ignore[method-assign]
    assert error(another, statement) == (1290, "HY000")
    assert rows(modes, "ADMIN SHOW DDL JOB QUERIES LIMIT 1") == jobs
    assert rows(modes, "SELECT COUNT(*), SUM(b) FROM t") == [[2, 300]]


def test_who_may_write_commits_through_a_switch(modes: Session, another: Session) -> None:
    """Neither a mode that lets it write nor one that is switched off undoes a transaction."""
    for before, after in (("OFF", "ON"), ("ON", "OFF")):
        run(modes, f"SET GLOBAL read_only = {before}")
        run(another, "BEGIN")
        run(another, "UPDATE t SET b = b + 1")
        run(modes, f"SET GLOBAL read_only = {after}")
        run(another, "COMMIT")
    plain = session_of(WithoutSuper, modes)
    run(plain, "BEGIN")
    run(plain, "UPDATE t SET b = b + 1")
    run(modes, "SET GLOBAL super_read_only = ON")
    run(modes, "SET GLOBAL read_only = OFF")
    run(plain, "COMMIT")
    assert rows(modes, "SELECT b FROM t") == [[103], [203]]


# -- how many --------------------------------------------------------------------------------------


def test_max_prepared_stmt_count(session: Session, another: Session) -> None:
    """Of all sessions of the node together."""
    full = 1461, "42000"
    before = len(session.services.prepared)
    run(session, f"SET GLOBAL max_prepared_stmt_count = {before + 2}")
    try:
        run(session, "PREPARE a FROM 'SELECT 1'")
        run(another, "PREPARE b FROM 'SELECT 2'")
        assert error(session, "PREPARE c FROM 'SELECT 3'") == full
        with pytest.raises(Refused) as caught:
            another.prepare("SELECT 4")
        assert caught.value.code == full[0]
        run(another, "DEALLOCATE PREPARE b")
        run(session, "PREPARE c FROM 'SELECT 3'")
    finally:
        run(session, "SET GLOBAL max_prepared_stmt_count = DEFAULT")
    run(session, "PREPARE d FROM 'SELECT 4'")


def test_a_refused_set_changes_nothing(session: Session) -> None:
    told = (
        "SELECT @@time_zone, @@sql_mode, @@autocommit, @@collation_connection, @@last_insert_id, @a"
    )
    run(session, "SET @a = 1")
    before = rows(session, told)
    for last in ("sql_mode = 'bogus'", "nosuch = 1", "@b = nosuch", "max_connections = 5"):
        changes = "time_zone = '+01:00', sql_mode = '', last_insert_id = 9, @a = 2"
        assert error(session, f"SET NAMES latin1, {changes}, {last}")[0] in (1231, 1193, 1054, 1229)
        assert rows(session, told) == before, last
    run(session, "CREATE TABLE t (a INT)")
    run(session, "SET autocommit = 0")
    run(session, "INSERT INTO t VALUES (1)")
    assert error(session, "SET autocommit = 1, sql_mode = 'bogus'")[0] == 1231
    run(session, "ROLLBACK")
    assert rows(session, "SELECT * FROM t") == []
    run(session, "SET @a = 2, @b = @a + 1, time_zone = '+01:00'")
    assert rows(session, "SELECT @a, @b, @@time_zone") == [[2, 3, "+01:00"]]


def test_every_way_tells_the_same_of_a_session(table: Session) -> None:
    run(table, "INSERT INTO t (a) VALUES (7)")
    shown = "SHOW VARIABLES WHERE variable_name IN ('last_insert_id', 'identity', 'timestamp')"
    for _ in range(2):
        last = rows(table, "SELECT LAST_INSERT_ID()")[0][0]
        assert rows(table, "SELECT @@last_insert_id, @@identity") == [[last, last]]
        told = dict(rows(table, shown))
        assert (told["last_insert_id"], told["identity"]) == (str(last), str(last))
        moment = "SELECT ABS(@@timestamp - UNIX_TIMESTAMP(NOW(6))) < 5, id FROM t WHERE id = 1"
        assert rows(table, moment) == [[1, 1]]
        assert float(told["timestamp"]) > 1e9
        run(table, "SET timestamp = 1000000000, last_insert_id = 5")
        assert rows(table, "SELECT @@timestamp, UNIX_TIMESTAMP()") == [[1e9, 1000000000]]
        run(table, "SET timestamp = DEFAULT")


# -- what is told, and who may ---------------------------------------------------------------------


def test_sql_notes(session: Session) -> None:
    run(session, "DROP TABLE IF EXISTS nothing")
    assert len(rows(session, "SHOW WARNINGS")) == 1
    run(session, "SET sql_notes = 0")
    assert run(session, "DROP TABLE IF EXISTS nothing").warnings == []
    assert rows(session, "SHOW WARNINGS") == []
    run(session, "SELECT CAST('1x' AS SIGNED)")
    assert len(rows(session, "SHOW WARNINGS")) == 1  # it is no note


def test_tidb_mem_oom_action(table: Session) -> None:
    run(table, "INSERT INTO t (a) VALUES (1), (2), (3), (4), (5), (6), (7), (8)")
    query = "SELECT x.a, REPEAT('a', 1000) FROM t x, t y, t z, t w"
    run(table, "SET tidb_mem_quota_query = 1000000")
    assert error(table, query) == (8175, "HY000")
    run(table, "SET GLOBAL tidb_mem_oom_action = 'LOG'")
    try:
        assert len(rows(table, query)) == 10_000
    finally:
        run(table, "SET GLOBAL tidb_mem_oom_action = DEFAULT")


def test_tidb_resource_control_strict_mode(session: Session) -> None:
    plain = session_of(WithoutSuper, session)
    assert error(plain, "SET RESOURCE GROUP `default`") == (1227, "42000")
    run(session, "SET GLOBAL tidb_resource_control_strict_mode = OFF")
    try:
        run(plain, "SET RESOURCE GROUP `default`")
    finally:
        run(session, "SET GLOBAL tidb_resource_control_strict_mode = DEFAULT")


@pytest.mark.parametrize(
    ("name", "password"), [("number_count", "aaaA#aaaa"), ("special_char_count", "aaaA1aaaa")]
)
def test_validate_password_counts(session: Session, name: str, password: str) -> None:
    strength = f"SELECT VALIDATE_PASSWORD_STRENGTH('{password}')"
    run(session, "SET GLOBAL validate_password.enable = ON")
    try:
        assert rows(session, strength) == [[50]]
        run(session, f"SET GLOBAL validate_password.{name} = 0")
        assert rows(session, strength) == [[100]]
    finally:
        run(session, f"SET GLOBAL validate_password.{name} = DEFAULT")
        run(session, "SET GLOBAL validate_password.enable = DEFAULT")


# -- settings whose other values are refused, and those that change nothing ------------------------


@pytest.mark.parametrize(
    "name", [name for name, v in VARIABLES.items() if v.effect.kind == "refused"]
)
def test_what_is_not_done_is_refused(session: Session, name: str) -> None:
    found = VARIABLES[name]
    other = "de_DE" if name == "lc_time_names" else "OFF" if found.default == "ON" else "ON"
    scope = "SESSION" if "S" in found.scope else "GLOBAL"
    assert error(session, f"SET {scope} {name} = '{other}'") == (1235, "42000")
    assert error(session, f"SET GLOBAL {name} = '{other}'") == (1235, "42000")
    run(session, f"SET {scope} {name} = '{found.default}'")
    told = "SELECT IS_NOOP FROM information_schema.variables_info WHERE VARIABLE_NAME = ?"
    assert rows(session, told, [name]) == [["YES"]]


def test_there_is_no_binary_log(session: Session) -> None:
    assert rows(session, "SELECT @@log_bin, @@binlog_format, @@sql_log_bin") == [
        [0, "STATEMENT", 1]
    ]


@pytest.mark.parametrize("found_by_query", [False, True])
def test_update_assigns_in_turn_in_mysql_mode(session: Session, found_by_query: bool) -> None:
    """TiDB computes all values from the row as it was, MySQL from the assignments before, too."""
    run(session, "CREATE TABLE turns (id int PRIMARY KEY, a int, b int, c varchar(9))")
    where = "id IN (SELECT 1)" if found_by_query else "id = 1"
    text = f"UPDATE turns SET a = a + 1, b = a * 10, c = CONCAT(b, 'x'), a = a + 1 WHERE {where}"
    for mode, expected in (("tidb", [2, 10, "5x"]), ("mysql", [3, 20, "20x"]), ("tidb", None)):
        run(session, f"SET exuvia_compatibility = '{mode}'")
        for prepared in (False, True):
            run(session, "REPLACE INTO turns VALUES (1, 1, 5, '')")
            if prepared:
                run(session, f"PREPARE s FROM '{text.replace(chr(39), chr(39) * 2)}'")
            run(session, "EXECUTE s" if prepared else text)
            found = rows(session, "SELECT a, b, c FROM turns")
            assert found == [expected or [2, 10, "5x"]], (mode, prepared)
    run(session, "DROP TABLE turns")
