"""CREATE TABLE ... SELECT: nobody sees it before it is whole, and what fails leaves nothing."""

import json
import threading

import pytest

from exuvia.base.errors import Refused
from exuvia.ddl import queue
from exuvia.ddl.job import JobState
from exuvia.kv import keys
from exuvia.pipeline import bulk
from exuvia.sql.session import create_select, schema_change
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run


@pytest.fixture
def session(world: World):
    made = world.session("")
    run(made, "CREATE DATABASE cs")
    run(made, "USE cs")
    run(made, "CREATE TABLE s (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(9))")
    run(made, "INSERT INTO s VALUES (1, 10, 'x'), (2, 20, NULL), (3, 20, 'z')")
    yield made
    run(made, "DROP DATABASE cs")
    made.close()


def last_job(world: World):
    txn = world.store.begin()
    try:
        return queue.history(txn, 1)[0]
    finally:
        txn.rollback()


def held(world: World, monkeypatch):
    """A load that stands still before its first row, until it is let go on."""
    reached, go = threading.Event(), threading.Event()
    load = bulk.load

    def waiting(*arguments, **options):
        reached.set()
        assert go.wait(10)
        return load(*arguments, **options)

    monkeypatch.setattr(bulk, "load", waiting)
    return reached, go


def in_background(session: Session, text: str):
    found: list[object] = []

    def ask() -> None:
        try:
            found.append(session.execute(text))
        except Refused as refusal:
            found.append((refusal.code, refusal.message))

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, found


def test_rows_columns_and_indexes(world: World, session: Session) -> None:
    made = run(
        session, "CREATE TABLE t (n INT AUTO_INCREMENT PRIMARY KEY, KEY (a)) SELECT a FROM s"
    )
    assert (made.affected, made.info) == (3, "Records: 3  Duplicates: 0  Warnings: 0")
    assert sorted(rows(session, "SELECT n, a FROM t")) == [[1, 10], [2, 20], [3, 20]]
    assert rows(session, "SELECT COUNT(*) FROM t WHERE a = 20") == [[2]]
    run(session, "ADMIN CHECK TABLE t")
    assert last_job(world).state == JobState.SYNCED
    ((told,),) = rows(session, "SELECT @@tidb_last_ddl_info")
    assert json.loads(told)["seq_num"] == last_job(world).seq_num


def test_nobody_sees_the_table_before_its_rows_are_in_it(world, session, monkeypatch) -> None:
    reached, go = held(world, monkeypatch)
    thread, found = in_background(session, "CREATE TABLE t AS SELECT * FROM s")
    assert reached.wait(10)
    other = world.session("cs")
    assert error(other, "SELECT * FROM t") == (1146, "42S02")
    assert error(other, "CREATE TABLE t (a INT)") == (1050, "42S01")
    assert rows(other, "SHOW TABLES") == [["s"]]
    go.set()
    thread.join(10)
    assert rows(other, "SELECT COUNT(*) FROM t") == [[3]] and len(found) == 1


@pytest.fixture
def by_twos(monkeypatch):
    """Runs of two rows."""
    monkeypatch.setattr(create_select, "RUN_ROWS", 2)


def test_rows_come_run_by_run(world: World, session: Session, by_twos) -> None:
    run(session, "INSERT INTO s VALUES (4, 50, 'u'), (5, 60, 'v')")
    join = "SELECT s.a FROM s JOIN s AS o ON s.id = o.id"
    assert run(session, f"CREATE TABLE t (n INT AUTO_INCREMENT PRIMARY KEY) {join}").affected == 5
    assert rows(session, "SELECT n FROM t ORDER BY n") == [[1], [2], [3], [4], [5]]
    run(session, "CREATE TABLE h (KEY (a)) SELECT a, b FROM s")
    run(session, "INSERT INTO h VALUES (70, 'w')")
    assert rows(session, "SELECT SUM(a), COUNT(*) FROM h") == [[230, 6]]
    assert len(rows(session, "SELECT DISTINCT _tidb_rowid FROM h")) == 6
    run(session, "ADMIN CHECK TABLE h")


def test_what_fails_in_a_later_run_leaves_nothing(world, session, by_twos) -> None:
    run(session, "INSERT INTO s VALUES (4, 300, 'u')")
    failing = "CREATE TABLE t (PRIMARY KEY (id), a TINYINT) SELECT id, a FROM s"
    assert error(session, failing)[0] == 1264
    assert session.warnings[0].message.endswith("at row 4")
    job = last_job(world)
    assert job.state == JobState.ROLLBACK_DONE
    assert rows(session, "SHOW TABLES") == [["s"]]
    left = f"SELECT COUNT(*) FROM mysql.gc_delete_range WHERE job_id = {job.id}"
    assert rows(session, left)[0][0] > 0, "what was loaded is to be emptied"


@pytest.mark.parametrize("kind", ["TABLE", "TABLE IF NOT EXISTS", "TEMPORARY TABLE"])
def test_a_changed_source_begins_the_statement_again(world, session, monkeypatch, kind) -> None:
    temporary = kind == "TEMPORARY TABLE"
    module, name = (schema_change, "_create_temporary") if temporary else (create_select, "_place")
    began = getattr(module, name)
    changes = [
        "ALTER TABLE s MODIFY a BIGINT NOT NULL",
        "ALTER TABLE s ADD COLUMN c INT NOT NULL DEFAULT 7",
    ]

    def changed_meanwhile(*arguments):
        found = None if temporary else began(*arguments)
        if changes:
            run(world.session("cs"), changes.pop(0))
        return began(*arguments) if temporary else found

    monkeypatch.setattr(module, name, changed_meanwhile)
    run(session, f"CREATE {kind} t SELECT * FROM s")
    assert not changes
    assert rows(session, "SELECT id, a, c FROM t ORDER BY id") == [
        [1, 10, 7],
        [2, 20, 7],
        [3, 20, 7],
    ]
    shown = rows(session, "SHOW CREATE TABLE t")[0][1]
    assert "`a` bigint" in shown


def test_a_source_without_the_column_ends_it(world, session, monkeypatch) -> None:
    place = create_select._place

    def changed_meanwhile(*arguments):
        found = place(*arguments)
        run(world.session("cs"), "ALTER TABLE s DROP COLUMN b")
        return found

    monkeypatch.setattr(create_select, "_place", changed_meanwhile)
    assert error(session, "CREATE TABLE t SELECT b FROM s")[0] == 1054
    assert rows(session, "SHOW TABLES") == [["s"]]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE TABLE t (UNIQUE KEY (a)) AS SELECT a FROM s", 1062),
        ("CREATE TABLE t (PRIMARY KEY (a)) AS SELECT a FROM s", 1062),
        ("CREATE TABLE t (b INT NOT NULL) AS SELECT b FROM s WHERE id < 3", 1366),
        ("CREATE TABLE t (c INT NOT NULL) AS SELECT b FROM s", 1364),
        ("CREATE TABLE t (a TINYINT) AS SELECT a * 100 AS a FROM s", 1264),
        ("CREATE TABLE t AS SELECT nope FROM s", 1054),
        ("CREATE TABLE t AS SELECT a, a FROM s", 1060),
    ],
)
def test_what_fails_leaves_no_table(world: World, session: Session, text: str, code: int) -> None:
    assert error(session, text)[0] == code
    assert rows(session, "SHOW TABLES") == [["s"]]
    run(session, "CREATE TABLE t (a INT)")
    assert rows(session, "SELECT * FROM t") == []


def test_a_cancelled_load_writes_nothing_more(world, session, monkeypatch) -> None:
    reached, go = held(world, monkeypatch)
    thread, found = in_background(session, "CREATE TABLE t AS SELECT * FROM s")
    assert reached.wait(10)
    other = world.session("cs")
    ((job_id,),) = [[row[0]] for row in rows(other, "ADMIN SHOW DDL JOBS 1")[:1]]
    assert rows(other, f"ADMIN CANCEL DDL JOBS {job_id}")[0][1] == "successful"
    job = world.services.submitter.wait(job_id, 10)
    assert job.state == JobState.ROLLBACK_DONE
    go.set()
    thread.join(10)
    assert found == [(8214, "Cancelled DDL job")]
    assert world.store.count(keys.table_span(job.table_id)) == 0


@pytest.mark.parametrize("made", ["TABLE", "TEMPORARY TABLE"])
def test_values_are_stored_as_the_sql_mode_says(session: Session, made: str) -> None:
    columns = "(t TINYINT, v VARCHAR(2), n INT NOT NULL, d DATE)"
    query = "SELECT 1000 AS t, 'abc' AS v, NULL AS n, '2024-02-30' AS d"
    assert error(session, f"CREATE {made} k {columns} {query}")[0] == 1264
    run(session, "SET sql_mode = ''")
    run(session, f"CREATE {made} k {columns} {query}")
    codes = [code for _, code, _ in rows(session, "SHOW WARNINGS")]
    run(session, "CREATE TABLE i (t TINYINT, v VARCHAR(2), n INT NOT NULL, d DATE)")
    run(session, f"INSERT INTO i {query}")
    assert codes == [code for _, code, _ in rows(session, "SHOW WARNINGS")] != []
    assert rows(session, "SELECT * FROM k") == rows(session, "SELECT * FROM i")
    assert rows(session, "SELECT t, v, n FROM k") == [[127, "ab", 0]]
