"""Schema changes of several sessions: holds that bind, UNDO asked twice, names that come."""

import re
import time

import pytest

from exuvia.sql.privileges.rights import OnDatabase, Rights
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from exuvia.sql.statement import job_waits
from support.node_processes import until
from support.world import Later, error, rows, run


class Limited(Session):
    """A session of an account that may do everything in its own database, and not SUPER."""

    mine = ""

    @property
    def rights(self) -> Rights:
        own = ("SELECT", "INSERT", "CREATE", "DROP", "ALTER", "INDEX")
        return Rights(frozenset(), [OnDatabase("dev", "%", self.mine, frozenset(own))])


@pytest.fixture
def limited(session, another):
    another.__class__ = Limited
    another.mine = session.database
    return another


def state_of_last(session):
    return rows(session, "ADMIN SHOW DDL JOBS 1")[0][11]


# -- GLOBAL exuvia_ddl_hold and exuvia_ddl_window --------------------------------------------------


@pytest.mark.parametrize("own", ["off", "public"])
def test_a_global_hold_binds_who_may_not_complete_jobs(session, limited, own):
    run(session, "CREATE TABLE t (a INT)")
    run(session, "SET GLOBAL exuvia_ddl_hold = 'start'")
    try:
        run(limited, f"SET exuvia_ddl_hold = '{own}'")
        waiting = Later(limited, "ALTER TABLE t ADD COLUMN b INT")
        until(lambda: state_of_last(session) == "held")
        run(session, "ADMIN COMPLETE DDL JOBS ALL")
        assert isinstance(waiting.answer(), Result)
        run(session, "SET exuvia_ddl_hold = 'off'")
        run(session, "ALTER TABLE t ADD COLUMN c INT")  # who may complete jobs may pass
    finally:
        run(session, "SET GLOBAL exuvia_ddl_hold = 'off'")
    run(limited, "SET exuvia_ddl_hold = 'off'")
    run(limited, "ALTER TABLE t ADD COLUMN d INT")


def test_a_global_window_binds_likewise(session, limited):
    run(session, "CREATE TABLE t (a INT)")
    hour = (int(time.strftime("%H", time.gmtime())) + 6) % 24
    run(session, f"SET GLOBAL exuvia_ddl_window = '{hour:02}:00-{hour:02}:30'")
    try:
        run(limited, "SET exuvia_ddl_window = ''")
        waiting = Later(limited, "ALTER TABLE t ADD COLUMN b INT")
        job = rows(session, "ADMIN SHOW DDL JOBS 1")[0][0]
        until(lambda: "window" in str(rows(session, "ADMIN SHOW DDL JOBS 1")[0]))
        run(session, f"ADMIN CANCEL DDL JOBS {job}")
        assert waiting.answer() == 8214
    finally:
        run(session, "SET GLOBAL exuvia_ddl_window = ''")


# -- UNDO asked twice ------------------------------------------------------------------------------

KEY_CHANGES = [
    ("a INT, b INT NOT NULL, PRIMARY KEY (a)", "DROP PRIMARY KEY, ADD PRIMARY KEY (b)"),
    ("a INT NOT NULL, b INT", "ADD PRIMARY KEY (a) CLUSTERED"),
    ("a INT, b INT, PRIMARY KEY (a)", "DROP PRIMARY KEY"),
    ("a INT, b INT, PRIMARY KEY (a)", "DROP PRIMARY KEY, ADD PRIMARY KEY (a) NONCLUSTERED"),
]


@pytest.mark.parametrize(("columns", "change"), KEY_CHANGES)
def test_the_second_undo_of_a_key_is_told_that_it_was_undone(session, another, columns, change):
    run(session, f"CREATE TABLE t ({columns})")
    run(session, "INSERT INTO t VALUES (1, 2), (3, 4)")
    before = rows(session, "SHOW CREATE TABLE t")
    run(session, "SET exuvia_undo_s = 600")
    run(session, f"ALTER TABLE t {change}")
    job = rows(session, "ADMIN SHOW DDL JOBS 1")[0][0]
    run(session, "SET exuvia_ddl_hold = 'start'")
    first = Later(session, f"ADMIN UNDO DDL JOB {job}")
    until(lambda: state_of_last(another) == "held")
    second = Later(another, f"ADMIN UNDO DDL JOB {job}")  # behind it in the queue
    run(session_of(another), "ADMIN COMPLETE DDL JOBS ALL")
    assert isinstance(first.answer(), Result)
    assert second.answer() == 1105
    assert rows(another, "SHOW CREATE TABLE t") == before
    ended = [row for row in rows(another, "ADMIN SHOW DDL JOBS 9") if row[11] == "synced"]
    of_key = [row for row in ended if row[1] == another.database and "primary key" in row[3]]
    assert len(of_key) == 2  # the change, and one way back
    with pytest.raises(Exception, match="undone"):
        run(another, f"ADMIN UNDO DDL JOB {job}")


def session_of(session):
    """A third session beside that one."""
    found = Session(session.services)
    found.database = session.database
    return found


# -- names that come -------------------------------------------------------------------------------


def test_add_column_if_not_exists_beside_the_same_is_a_note(session, another):
    run(session, "CREATE TABLE t (a INT)")
    run(session, "SET exuvia_ddl_hold = 'public'")
    first = Later(session, "ALTER TABLE t ADD COLUMN b INT")
    until(lambda: state_of_last(another) == "held")
    second = Later(another, "ALTER TABLE t ADD COLUMN IF NOT EXISTS b INT")
    third = session_of(another)
    run(third, "ADMIN COMPLETE DDL JOBS ALL")
    assert isinstance(first.answer(), Result)
    told = second.answer()
    assert isinstance(told, Result)
    assert [note.code for note in told.warnings] == [1060]
    assert error(another, "ALTER TABLE t ADD COLUMN b INT")[0] == 1060


def test_a_second_expression_index_of_one_name_is_1061(session):
    run(session, "CREATE TABLE t (a INT)")
    run(session, "ALTER TABLE t ADD INDEX i ((a + 1))")
    for text in ("((a + 1))", "((a + 2))", "(a)"):
        assert error(session, f"ALTER TABLE t ADD INDEX i {text}")[0] == 1061
        assert error(session, f"CREATE INDEX I ON t {text}")[0] == 1061
    assert error(session, "CREATE TABLE u (a INT, KEY i ((a + 1)), KEY i ((a + 2)))")[0] == 1061


SLOW = {
    "insert": "INSERT INTO t SELECT SLEEP(0.4) FROM t",
    "update": "UPDATE t, (SELECT SLEEP(0.4) AS s) d SET t.a = d.s + 7",
    "delete": "DELETE t FROM t JOIN (SELECT SLEEP(0.4) AS s) d ON t.a > d.s",
    "condition": "UPDATE t SET a = 5 WHERE SLEEP(0.4) = 0",
}


@pytest.mark.parametrize("case", SLOW)
def test_a_statement_that_began_ends_under_its_own_schema(session, another, case):
    """Its columns are counted once; a change of the table waits for it from before it reads."""
    run(session, "CREATE TABLE t (a INT)")
    run(session, "INSERT INTO t VALUES (1)")
    slow = Later(another, SLOW[case], computes=True)
    run(session, "ALTER TABLE t ADD COLUMN b INT DEFAULT 9")
    assert isinstance(slow.answer(), Result)
    assert all(row[1] == 9 for row in rows(session, "SELECT * FROM t"))


# -- savepoints without the metadata lock ----------------------------------------------------------


@pytest.mark.parametrize("mode", ["PESSIMISTIC", "OPTIMISTIC"])
@pytest.mark.parametrize(
    ("before", "after", "changed", "commits"),
    [
        ("t", "o", "o", True),  # what was written to o is undone
        ("t", "o", "t", False),
        ("o", "o", "o", False),
        ("t", "t", "o", True),
    ],
)
def test_a_table_written_only_after_a_savepoint_may_change(
    session, world, mode, before, after, changed, commits
):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY)")
    run(session, "CREATE TABLE o (id INT PRIMARY KEY)")
    run(session, "SET GLOBAL tidb_enable_metadata_lock = OFF")
    try:
        another = world.session(session.database)  # it learns at its start that there is no lock
        run(another, f"BEGIN {mode}")
        run(another, f"INSERT INTO {before} VALUES (1)")
        run(another, "SAVEPOINT s")
        run(another, f"INSERT INTO {after} VALUES (2)")
        run(session, f"ALTER TABLE {changed} ADD COLUMN c INT")
        run(another, "ROLLBACK TO SAVEPOINT s")
        if commits:
            run(another, "COMMIT")
        else:
            assert error(another, "COMMIT") == (8028, "HY000")
    finally:
        run(session, "SET GLOBAL tidb_enable_metadata_lock = ON")
    assert [row[0] for row in rows(session, f"SELECT id FROM {before}")] == [1] * commits


# -- what a change waited for ----------------------------------------------------------------------


def test_a_change_that_waited_says_for_what(session, another, monkeypatch):
    monkeypatch.setattr(job_waits, "NOTED_S", job_waits.FIRST_LOOK_S)
    run(session, "CREATE TABLE t (a INT)")
    run(another, "BEGIN")
    run(another, "INSERT INTO t VALUES (1)")
    waiting = Later(session, "ALTER TABLE t ADD COLUMN b INT")
    until(lambda: "INSERT INTO t" in session.waits.reason)
    run(another, "COMMIT")
    (note,) = waiting.answer().warnings
    assert note.level == "Note" and session.waits.reason == ""
    assert re.match(
        r"schema change \d+ waited \d+ s, at last for: node .*INSERT INTO t", note.message
    )
    run(session, "ALTER TABLE t ADD COLUMN c INT")
    assert not session.warnings
