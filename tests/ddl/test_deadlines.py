"""What a schema change waits for has an end, if its session says so: it is turned back itself, or
the transactions in its way are ended. And it starts inside its window only."""

import pytest

from exuvia.catalog.model import SchemaState, evolve
from exuvia.ddl import admin, requests
from exuvia.ddl.job import JobState
from exuvia.sql.privileges.rights import OnDatabase, Rights
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.small_cluster import SmallCluster
from support.tables import abc, column
from support.world import Later, World, error, rows, run

JOBS = "SELECT state, comments FROM information_schema.ddl_jobs WHERE job_type = '{}'"


@pytest.fixture
def world():
    with World() as found:
        session = found.session()
        run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        run(session, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        yield found


@pytest.fixture
def writer(world):
    """A transaction in the way of every change of t."""
    session = world.session()
    run(session, "BEGIN")
    run(session, "UPDATE t SET a = 7 WHERE id = 1")
    return session


def asking(world, action, seconds=1):
    session = world.session()
    run(session, f"SET exuvia_ddl_wait_timeout_s = {seconds}")
    run(session, f"SET exuvia_ddl_wait_timeout_action = '{action}'")
    return session


def refused(session, text):
    with pytest.raises(Exception) as found:
        session.execute(text)
    return found.value.code, found.value.message


def columns(world):
    return [row[0] for row in rows(world.session(), "SHOW COLUMNS FROM t")]


# -- refuse ----------------------------------------------------------------------------------------


def test_a_change_that_waits_too_long_is_refused_and_harms_nobody(world, writer):
    code, text = refused(asking(world, "refuse"), "ALTER TABLE t ADD COLUMN c INT")
    assert code == 1205 and "has waited 1 s" in text and "UPDATE t SET a = 7" in text
    ((state, said),) = rows(world.session(), JOBS.format("add column"))
    assert state == "cancelling" and "UPDATE t SET a = 7" in said, "it is undone after the writer"
    run(writer, "UPDATE t SET a = 8 WHERE id = 2")
    run(writer, "COMMIT")
    until(lambda: rows(world.session(), JOBS.format("add column"))[0][0] == "rollback done")
    assert columns(world) == ["id", "a"]
    assert rows(world.session(), "SELECT a FROM t ORDER BY id") == [[7], [8], [3]]
    run(world.session(), "ALTER TABLE t ADD COLUMN c INT")


def test_who_waits_by_number_sees_its_end(world, writer):
    session = asking(world, "refuse")
    run(session, "SET exuvia_ddl_async = ON")
    ((job_id, *_),) = rows(session, "ALTER TABLE t ADD INDEX i (a)")
    until(lambda: rows(session, JOBS.format("add index"))[0][0] == "cancelling")
    waiting = Later(world.session(), f"ADMIN WAIT DDL JOBS {job_id}")
    run(writer, "COMMIT")
    ((_, state, told),) = waiting.rows()
    assert state == "rollback done" and "1205" in told


def test_what_cannot_be_turned_back_waits_on_and_says_so(world, writer):
    waiting = Later(asking(world, "refuse"), "ALTER TABLE t DROP COLUMN a")
    waits_on = "it can no longer be turned back"
    until(lambda: waits_on in str(rows(world.session(), JOBS.format("drop column"))))
    run(writer, "COMMIT")
    assert isinstance(waiting.answer(), Result)
    assert columns(world) == ["id"]


def test_without_a_deadline_it_waits(world, writer):
    waiting = Later(world.session(), "ALTER TABLE t ADD COLUMN c INT")
    until(lambda: "UPDATE t" in str(rows(world.session(), JOBS.format("add column"))))
    assert waiting.waits()
    run(writer, "ROLLBACK")
    assert isinstance(waiting.answer(), Result)


# -- kill ------------------------------------------------------------------------------------------


def test_the_transactions_in_the_way_are_ended_and_named(world, writer):
    session = asking(world, "kill")
    run(session, "ALTER TABLE t ADD COLUMN c INT DEFAULT 5")
    named = f"connection {writer.connection_id} (UPDATE t SET a = 7 WHERE id = 1)"
    assert [
        (note.code, named in note.message) for note in session.warnings if note.level == "Warning"
    ] == [(1317, True)]
    ((state, said),) = rows(session, JOBS.format("add column"))
    assert state == "synced" and f"ended: {named}" in said
    code, text = refused(writer, "UPDATE t SET a = 8 WHERE id = 2")
    assert code == 1317 and "has waited 1 s" in text
    assert rows(writer, "SELECT a, c FROM t ORDER BY id") == [[1, 5], [2, 5], [3, 5]]
    run(writer, "UPDATE t SET a = 9 WHERE id = 1")


def test_a_client_that_rolls_back_what_was_ended_is_answered(world, writer):
    run(asking(world, "kill"), "ALTER TABLE t ADD COLUMN c INT")
    run(writer, "ROLLBACK")
    assert rows(writer, "SELECT a FROM t WHERE id = 1") == [[1]]


def test_a_drop_goes_on_when_its_writers_are_ended(world, writer):
    run(asking(world, "kill"), "ALTER TABLE t DROP COLUMN a")
    assert refused(writer, "COMMIT")[0] == 1317
    assert columns(world) == ["id"]


def test_a_statement_that_runs_in_it_is_interrupted(world, writer):
    asleep = Later(writer, "SELECT SLEEP(60)")
    run(asking(world, "kill"), "ALTER TABLE t ADD COLUMN c INT")
    assert asleep.answer() == 1317
    assert error(writer, "COMMIT")[0] == 1317
    assert rows(writer, "SELECT a FROM t WHERE id = 1") == [[1]]


def test_it_is_ended_on_whichever_node_it_is(world):
    with World(world.store, owns=False) as other:
        far = other.session()
        run(far, "BEGIN")
        run(far, "UPDATE t SET a = 7 WHERE id = 1")
        run(far, "UPDATE t SET a = 7 WHERE id = 2")
        run(asking(world, "kill"), "ALTER TABLE t ADD INDEX i (a)")
        assert refused(far, "COMMIT")[0] == 1317
        run(far, "BEGIN")
        run(far, "UPDATE t SET a = 6 WHERE id = 3")
        run(far, "COMMIT")
    run(world.session(), "ADMIN CHECK TABLE t")


class Limited(Session):
    """A session of an account that may do everything in its database, and KILL nobody else."""

    @property
    def rights(self) -> Rights:
        may = frozenset(
            ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "INDEX")
        )
        return Rights(frozenset(), [OnDatabase("u", "%", "test", may)], account=("u", "%"))


def test_who_may_not_kill_others_does_not_so_either(world, writer):
    limited = Limited(world.services, 77, database="test")
    run(limited, "SET exuvia_ddl_wait_timeout_s = 1")
    run(limited, "SET exuvia_ddl_wait_timeout_action = 'kill'")
    assert error(limited, "ALTER TABLE t ADD COLUMN c INT")[0] == 1227
    run(world.session(), "SET GLOBAL exuvia_ddl_wait_timeout_action = 'kill'")
    run(limited, "ALTER TABLE t ADD COLUMN c INT")
    assert error(writer, "COMMIT")[0] == 1317


def test_a_new_owner_ends_them_too():
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc()))
    info = cluster.table("t").info
    ended = []

    def end(error):
        ended.append(error)
        locks.release("writer")

    locks = cluster.fronts[0].locks
    locks.hold("writer", info.id, cluster.table("t").revision, "UPDATE t", 7, end=end)
    asked = requests.add_column(cluster.database(), info, column("c", default="7"))
    job_id = cluster.submit(evolve(asked, exuvia_wait_timeout_s=20, exuvia_wait_kills=True))
    for _ in range(19):
        cluster.clock.advance(1)
        cluster.step(2)
    cluster.crash_owner()
    for _ in range(19):
        cluster.clock.advance(1)
        cluster.step(2)
    assert not ended, "a new owner does not know for how long the one before had waited"
    cluster.clock.advance(2)
    job = cluster.finish(job_id)
    assert job.state == JobState.SYNCED and len(ended) == 1
    assert job.exuvia_ended == ("connection 7 (UPDATE t)",)


# -- windows ---------------------------------------------------------------------------------------


def test_a_window_is_checked_and_kept(world):
    session = world.session()
    run(session, "SET exuvia_ddl_window = '22:00-6:00'")
    assert rows(session, "SELECT @@exuvia_ddl_window") == [["22:00-06:00 +0000"]]
    for wrong in ("22:00", "22:00-25:00", "always", "22:00-23:00 +01"):
        assert error(session, f"SET exuvia_ddl_window = '{wrong}'")[0] == 1231
    run(session, "SET exuvia_ddl_window = ''")
    run(session, "CREATE TABLE n (a INT)")


def windowed(window):
    """A cluster at 22:30 UTC, and a job that may start in that window only."""
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc()))
    info = cluster.table("t").info
    asked = requests.add_column(cluster.database(), info, column("c", default="7"))
    return cluster, cluster.submit(evolve(asked, exuvia_window=window))


def test_a_job_waits_for_its_window_and_says_when_it_opens():
    cluster, job_id = windowed("23:59-01:00 +0100")
    cluster.step(20)
    assert cluster.job(job_id).schema_state == SchemaState.ABSENT
    cluster, job_id = windowed("22:00-23:00 +0000")
    assert cluster.finish(job_id).state == JobState.SYNCED
    cluster, job_id = windowed("02:00-03:00 +0000")
    cluster.step(20)
    job = cluster.job(job_id)
    assert (job.state, job.begun) == (JobState.QUEUEING, False)
    assert job.exuvia_wait == (
        "waiting: its window 02:00-03:00 +0000 opens at 2023-11-15 02:00 UTC"
    )
    cluster.clock.advance(3.5 * 3600 - 10)
    cluster.step(20)
    assert not cluster.job(job_id).begun
    cluster.clock.advance(10)
    cluster.step(3)
    assert cluster.job(job_id).begun, "it starts when the window opens, and not at a next look"
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_what_waits_for_its_window_may_be_cancelled_or_started():
    cluster, job_id = windowed("02:00-03:00 +0000")
    cluster.step(20)
    assert admin.command_now(cluster.store, "cancel", [job_id]) == [(job_id, None)]
    assert cluster.finish(job_id).state == JobState.CANCELLED
    cluster, job_id = windowed("02:00-03:00 +0000")
    cluster.step(20)
    assert admin.command_now(cluster.store, "complete", [job_id]) == [(job_id, None)]
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_it_takes_no_worker_and_younger_changes_of_its_table_wait_for_it():
    cluster, job_id = windowed("02:00-03:00 +0000")
    info = cluster.table("t").info
    younger = cluster.submit(requests.add_column(cluster.database(), info, column("d")))
    others = [
        cluster.submit(requests.create_table(cluster.database(), abc(f"o{n}"))) for n in range(10)
    ]
    for each in others:
        assert cluster.finish(each).state == JobState.SYNCED
    assert not cluster.job(younger).begun
    admin.command_now(cluster.store, "cancel", [job_id])
    assert cluster.finish(younger).state == JobState.SYNCED


def test_a_lone_node_goes_on_owning_schema_changes(world):
    session = world.session()
    text = "SET GLOBAL tidb_enable_ddl = {}"
    assert error(session, text.format("OFF")) == (8246, "HY000")
    run(session, text.format("ON"))
    with World(world.store, owns=False):
        run(session, text.format(0))
        assert rows(session, "SELECT @@tidb_enable_ddl") == [[0]]
    run(session, text.format("DEFAULT"))
    run(session, "CREATE DATABASE owned")
