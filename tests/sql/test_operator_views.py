"""What operators and clients see of schema changes: blockers, kills, sub-jobs, the last change."""

import json
import threading
from contextlib import contextmanager

import pytest

from exuvia.base.errors import Refused
from exuvia.ddl import queue
from exuvia.ddl.job import decode
from support.node_processes import until
from support.world import World, rows


@pytest.fixture(scope="module")
def world():
    with World() as world:
        yield world


@contextmanager
def blocked(world, table, statement):
    """An open transaction wrote the table, another session waits for it with a schema change."""
    writing, changing, looking = world.session(), world.session(), world.session()
    writing.execute(f"CREATE TABLE {table} (a INT)")
    writing.execute("BEGIN")
    writing.execute(f"INSERT INTO {table} VALUES (1)")
    ended = []

    def change():
        try:
            changing.execute(statement)
            ended.append("done")
        except Refused as error:
            ended.append((error.code, error.message))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield writing, changing, looking, ended
    finally:
        writing.rollback()
        thread.join()


def test_the_blocker_of_a_waiting_job_is_named(world):
    alter = "ALTER TABLE blocked ADD COLUMN b INT, ADD COLUMN c INT"
    with blocked(world, "blocked", alter) as (writing, _, looking, _):
        named = (
            "SELECT db_name, table_name, query, session_id, sql_digests FROM mysql.tidb_mdl_view"
        )
        (found,) = until(lambda: rows(looking, named))
        digests = json.dumps(["INSERT INTO blocked VALUES (1)"])
        assert found == ["test", "blocked", alter, writing.connection_id, digests]
        jobs = rows(looking, "ADMIN SHOW DDL JOBS 0")
        assert [job[3] for job in jobs] == [
            "alter table multi-schema change",
            "add column /* subjob */",
            "add column /* subjob */",
        ]
        assert [(job[4], job[11]) for job in jobs[1:]] == [
            ("delete only", "running"),
            ("delete only", "running"),
        ]
        writing.execute("COMMIT")
    assert rows(looking, named) == []
    shown = "SELECT job_type, state FROM information_schema.ddl_jobs WHERE table_name = 'blocked'"
    assert rows(looking, shown)[:3] == [
        ["alter table multi-schema change", "synced"],
        ["add column /* subjob */", "done"],
        ["add column /* subjob */", "done"],
    ]


def test_of_ddl_jobs_no_more_are_read_than_are_asked_for(world, monkeypatch):
    session = world.session()
    session.execute("CREATE TABLE many (a INT)")
    for column in "bcdefgh":
        session.execute(f"ALTER TABLE many ADD COLUMN {column} INT, ADD INDEX ({column})")
    decoded = []

    def counted(job_meta):
        decoded.append(job_meta)
        return decode(job_meta)

    monkeypatch.setattr(queue, "decode", counted)

    def told(clauses, columns="*"):
        decoded.clear()
        text = f"SELECT {columns} FROM information_schema.ddl_jobs {clauses}"
        return rows(session, text), len(decoded)

    everything, looked = told("")
    assert looked > 7
    newest = everything[0][0]
    for column in "bcdefgh":
        [[one]] = rows(session, "SELECT MAX(job_id) FROM information_schema.ddl_jobs"
            f" WHERE query LIKE '%{column} INT, ADD%'")  # fmt: skip
        wanted = [row for row in everything if row[0] == one]
        assert len(wanted) == 3
        assert told(f"WHERE job_id = {one}") == (wanted, 1)
        assert told(f"WHERE job_id = '{one}'") == (wanted, looked)  # compared as doubles
        assert told(f"WHERE {one} = job_id AND job_type LIKE 'add index%'") == (wanted[2:], 1)
    assert told("WHERE job_id = 0") == ([], 0)
    for nothing in (None, -1, 1 << 64, 0.5, 1e300, "''", "'x'"):
        assert told(f"WHERE job_id = {'NULL' if nothing is None else nothing}")[0] == []
    assert told(f"WHERE job_id = {newest} OR job_id = 0")[0] == everything[:3]
    assert told("LIMIT 1") == (everything[:1], 1)
    assert told("LIMIT 2 OFFSET 2", "job_id") == ([row[:1] for row in everything[2:4]], 2)
    assert told("WHERE job_type = 'alter table multi-schema change' LIMIT 1") == (everything[:1], 1)
    assert told("LIMIT 0") == ([], 0)
    assert told("ORDER BY job_id LIMIT 1", "job_id")[0] == [[min(row[0] for row in everything)]]
    assert told("LIMIT 1", "COUNT(*)")[0] == [[len(everything)]]
    assert told("LIMIT 2", "DISTINCT table_name")[0] == [["many"], ["blocked"]]


def test_a_kill_ends_the_wait_and_cancels_the_job(world):
    alter = "ALTER TABLE killed ADD COLUMN b INT"
    with blocked(world, "killed", alter) as (writing, changing, looking, ended):
        until(lambda: rows(looking, "SELECT 1 FROM mysql.tidb_mdl_view"))
        changing.interrupt()
        assert until(lambda: ended) == [(1317, "Query execution was interrupted")]
        writing.execute("COMMIT")
    state = "SELECT state FROM information_schema.ddl_jobs WHERE query = '" + alter + "'"
    until(lambda: rows(looking, state) == [["rollback done"]])
    assert rows(looking, "SELECT * FROM killed") == [[1]]


def test_without_its_client_the_job_goes_on(world):
    alter = "ALTER TABLE left_alone ADD COLUMN b INT"
    with blocked(world, "left_alone", alter) as (writing, changing, looking, ended):
        until(lambda: rows(looking, "SELECT 1 FROM mysql.tidb_mdl_view"))
        changing.interrupt(lost=True)
        until(lambda: ended)
        writing.execute("COMMIT")
    state = "SELECT state FROM information_schema.ddl_jobs WHERE query = '" + alter + "'"
    until(lambda: rows(looking, state) == [["synced"]])
    assert rows(looking, "SELECT * FROM left_alone") == [[1, None]]


def test_an_operator_cancels_a_job_that_waits(world):
    alter = "ALTER TABLE cancelled ADD COLUMN b INT, ADD INDEX i (b)"
    with blocked(world, "cancelled", alter) as (writing, _, looking, ended):
        until(lambda: rows(looking, "SELECT 1 FROM mysql.tidb_mdl_view"))
        job_id = rows(looking, "ADMIN SHOW DDL JOBS 0")[0][0]
        answers = rows(looking, f"ADMIN CANCEL DDL JOBS {job_id}, 1")
        assert answers == [
            [str(job_id), "successful"],
            ["1", "error: [ddl:8224]DDL Job:1 not found"],
        ]
        writing.execute("COMMIT")
        assert until(lambda: ended) == [(8214, "Cancelled DDL job")]
    assert rows(looking, "SELECT * FROM cancelled") == [[1]]
    jobs = rows(looking, f"ADMIN SHOW DDL JOBS 10 WHERE job_id = {job_id}")
    assert [job[11] for job in jobs] == ["rollback done", "rollback done", "cancelled"]


def test_a_job_says_who_asked_for_it_also_in_history(world):
    session = world.session()
    session.user, session.host = "eve", "10.0.0.7"
    rows(session, "CREATE TABLE asked_for (a INT, b INT)")
    rows(session, "ALTER TABLE asked_for ADD COLUMN c INT, ADD INDEX i (b)")
    jobs = rows(session, "ADMIN SHOW DDL JOBS 2 WHERE table_name = 'asked_for'")
    assert [job[13] for job in jobs] == ["eve@10.0.0.7"] * 4
    rows(session, "SET exuvia_history_shown = 1")
    assert len(rows(session, "ADMIN SHOW DDL JOBS WHERE table_name = 'asked_for'")) == 3
    named = "SELECT DISTINCT user FROM information_schema.ddl_jobs WHERE table_name = 'asked_for'"
    assert rows(session, named) == [["eve@10.0.0.7"]]


def test_the_last_change_of_a_session_and_its_place_in_history(world):
    one, other = world.session(), world.session()
    last = "SELECT @@tidb_last_ddl_info"
    assert rows(one, last) == [['{"query":"","seq_num":0}']]
    one.execute("CREATE TABLE first_one (a INT)")
    other.execute("CREATE TABLE second_one (a INT)")
    found = [json.loads(rows(session, last)[0][0]) for session in (one, other)]
    assert [each["query"] for each in found] == [
        "CREATE TABLE first_one (a INT)",
        "CREATE TABLE second_one (a INT)",
    ]
    assert found[1]["seq_num"] == found[0]["seq_num"] + 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("THREAD = 4", "ddl job 1 is not running"),
        ("MAX_WRITE_SPEED = '1MiB'", "ddl job 1 is not running"),
        ("THREAD = 0", "the value 0 for thread is out of range [1, 256]"),
        ("BATCH_SIZE = 20000", "the value 20000 for batch_size is out of range [32, 10240]"),
        ("aaa = 16", "unsupported admin alter ddl jobs config: aaa"),
    ],
)
def test_what_alter_refuses(world, options, said):
    with pytest.raises(Refused) as caught:
        world.session().execute(f"ADMIN ALTER DDL JOBS 1 {options}")
    assert (caught.value.code, caught.value.message) == (1105, said)
