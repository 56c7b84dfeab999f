"""A job is held before it starts or before it is public, and completed when somebody says so; a
statement that does not wait says which jobs it has asked for."""

import pytest

from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.world import Later, World, error, rows, run

SHOWN = "SELECT state, schema_state, comments FROM information_schema.ddl_jobs WHERE job_id = {}"


@pytest.fixture
def world():
    with World() as found:
        session = found.session()
        run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        run(session, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        yield found


@pytest.fixture
def session(world: World) -> Session:
    return world.session()


def held(world: World, statement: str, before: str = "public") -> tuple[Later, int]:
    """The statement that waits, and its job, once that is held."""
    asking = world.session()
    run(asking, f"SET exuvia_ddl_hold = '{before}'")
    waiting = Later(asking, statement)
    every = "SELECT job_id FROM information_schema.ddl_jobs WHERE state = 'held'"
    until(lambda: rows(world.session(), every))
    ((job_id,),) = rows(world.session(), every)
    return waiting, job_id


def is_done(waiting: Later) -> bool:
    """Whether it has ended well."""
    return isinstance(waiting.answer(), Result)


def answer(session: Session, command: str) -> str:
    ((_, told),) = rows(session, f"ADMIN {command}")
    return told


def test_an_index_is_filled_and_kept_complete_and_is_seen_when_it_is_completed(
    world: World, session: Session
) -> None:
    waiting, job_id = held(world, "ALTER TABLE t ADD UNIQUE INDEX u (a)")
    ((state, schema_state, said),) = rows(session, SHOWN.format(job_id))
    assert (state, schema_state) == ("held", "write reorganization")
    assert said == f"held before public: ADMIN COMPLETE DDL JOBS {job_id}"
    assert not rows(session, "SHOW INDEX FROM t WHERE key_name = 'u'")
    assert error(session, "INSERT INTO t VALUES (4, 1)")[0] == 1062
    run(session, "INSERT INTO t VALUES (4, 4)")
    run(session, "UPDATE t SET a = 7 WHERE id = 1")
    run(session, "DELETE FROM t WHERE id = 2")
    run(session, "INSERT INTO t VALUES (5, 2)")
    assert answer(session, f"COMPLETE DDL JOBS {job_id}") == "successful"
    assert is_done(waiting)
    assert len(rows(session, "SHOW INDEX FROM t WHERE key_name = 'u'")) == 1
    run(session, "ADMIN CHECK TABLE t")


def test_several_changes_are_held_together(world: World, session: Session) -> None:
    change = "ALTER TABLE t ADD COLUMN c INT DEFAULT 5, ADD INDEX i (a), ADD COLUMN e INT"
    waiting, _ = held(world, change)
    assert [row[0] for row in rows(session, "SHOW COLUMNS FROM t")] == ["id", "a"]
    run(session, "INSERT INTO t VALUES (4, 4)")
    run(session, "ADMIN COMPLETE DDL JOBS ALL")
    assert is_done(waiting)
    assert rows(session, "SELECT c, e FROM t WHERE a = 4") == [[5, None]]
    run(session, "ADMIN CHECK TABLE t")


def test_younger_changes_of_its_table_wait_and_those_of_others_do_not(
    world: World, session: Session
) -> None:
    waiting, job_id = held(world, "ALTER TABLE t ADD INDEX (a)")
    younger = Later(world.session(), "ALTER TABLE t ADD COLUMN c INT")
    run(session, "CREATE TABLE o (a INT)")
    run(session, "ALTER TABLE o ADD INDEX (a)")
    waits = "SELECT comments FROM information_schema.ddl_jobs WHERE job_type = 'add column'"
    until(lambda: f"job {job_id}" in str(rows(session, waits)))
    run(session, f"ADMIN COMPLETE DDL JOBS {job_id}")
    assert is_done(waiting) and is_done(younger)


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE t RENAME TO v", "ALTER TABLE t DROP COLUMN a", "DROP TABLE t"]
)
def test_what_takes_away_is_held_before_anything_is_gone(
    world: World, session: Session, statement: str
) -> None:
    waiting, job_id = held(world, statement)
    assert rows(session, "SELECT a FROM t WHERE id = 1") == [[1]]
    run(session, f"ADMIN COMPLETE DDL JOBS {job_id}")
    assert is_done(waiting)
    assert error(session, "SELECT a FROM t")[0] in (1146, 1054)


def test_who_wants_the_name_that_a_held_rename_takes_waits_behind_it(
    world: World, session: Session
) -> None:
    waiting, job_id = held(world, "ALTER TABLE t RENAME TO v")
    other = Later(world.session(), "CREATE TABLE v (a INT)")
    waits = "SELECT comments FROM information_schema.ddl_jobs WHERE job_type = 'create table'"
    until(lambda: f"job {job_id}" in str(rows(session, waits)))
    run(session, f"ADMIN COMPLETE DDL JOBS {job_id}")
    assert is_done(waiting) and other.answer() == 1050


def test_it_is_held_before_it_starts(world: World, session: Session) -> None:
    waiting, job_id = held(world, "ALTER TABLE t ADD INDEX i (a)", before="start")
    ((_, schema_state, said),) = rows(session, SHOWN.format(job_id))
    assert (schema_state, said.split(":")[0]) == ("none", "held before start")
    run(session, f"ADMIN COMPLETE DDL JOBS {job_id}")
    assert is_done(waiting)


def test_what_an_operator_may_do_to_a_held_job(world: World, session: Session) -> None:
    waiting, job_id = held(world, "ALTER TABLE t ADD INDEX i (a)")
    assert "is held" in answer(session, f"RESUME DDL JOBS {job_id}")
    assert "8262" in answer(session, f"PAUSE DDL JOBS {job_id}")
    assert answer(session, f"HOLD DDL JOBS {job_id}") == "successful"
    assert answer(session, f"CANCEL DDL JOBS {job_id}") == "successful"
    assert waiting.answer() == 8214
    assert "not found" in answer(session, f"COMPLETE DDL JOBS {job_id}").lower()
    assert rows(session, "ADMIN COMPLETE DDL JOBS ALL") == []
    run(session, "ADMIN CHECK TABLE t")
    assert not rows(session, "SHOW INDEX FROM t WHERE key_name = 'i'")


# -- asynchronous ----------------------------------------------------------------------------------


def test_a_statement_that_does_not_wait_says_its_jobs(session: Session) -> None:
    run(session, "SET exuvia_ddl_async = ON")
    run(session, "SET exuvia_ddl_hold = 'public'")
    text = "ALTER TABLE t ADD INDEX i (a)"
    ((job_id, kind, query, before),) = rows(session, text)
    assert (kind, query, before) == ("add index", text, "public")
    until(lambda: rows(session, SHOWN.format(job_id))[0][0] == "held")
    ((_, state, said),) = rows(session, f"ADMIN WAIT DDL JOBS {job_id} TIMEOUT 0")
    assert state == "held" and "ADMIN COMPLETE" in said
    run(session, f"ADMIN COMPLETE DDL JOBS {job_id}")
    assert rows(session, f"ADMIN WAIT DDL JOBS {job_id}") == [[str(job_id), "synced", "successful"]]
    run(session, "SET exuvia_ddl_hold = 'off'")
    (first, second) = rows(session, "DROP TABLE IF EXISTS t, nothing") + rows(
        session, "CREATE TABLE n (a INT)"
    )
    ids = f"{first[0]}, {second[0]}"
    told = rows(session, f"ADMIN WAIT DDL JOBS {ids}")
    assert [row[1:] for row in told] == [["synced", "successful"]] * 2


def test_one_that_fails_says_so_to_who_waits(session: Session) -> None:
    run(session, "SET exuvia_ddl_async = ON")
    run(session, "SET GLOBAL exuvia_preflight_rows = 0")  # or the statement itself is refused
    run(session, "UPDATE t SET a = 1")
    ((job_id, *_),) = rows(session, "ALTER TABLE t ADD UNIQUE INDEX u (a)")
    ((_, state, said),) = rows(session, f"ADMIN WAIT DDL JOBS {job_id}, 999999")[:1]
    assert state == "rollback done" and "1062" in said
    assert error(session, "ALTER TABLE t ADD INDEX (nothing)")[0] == 1072
    assert error(session, "SET exuvia_ddl_hold = 'never'")[0] == 1231


def test_rows_of_a_query_are_waited_for_all_the_same(session: Session) -> None:
    run(session, "SET exuvia_ddl_async = ON")
    run(session, "CREATE TABLE c AS SELECT * FROM t")
    assert rows(session, "SELECT COUNT(*) FROM c") == [[3]]
