"""Changes of one table in one group become one job, as if one ALTER TABLE had asked for all."""

import pytest

from exuvia.catalog import meta
from exuvia.ddl import groups, queue, requests
from exuvia.ddl.job import JobState
from exuvia.ddl.manager import Pools
from support.node_processes import until
from support.small_cluster import SmallCluster
from support.tables import abc, column, index
from support.world import World, error, rows, run

STATES = "SELECT state, job_id, job_state FROM information_schema.exuvia_ddl_groups"


@pytest.fixture
def world():
    with World() as found:
        session = found.session()
        for name in ("t", "u"):
            run(session, f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b INT, KEY kb (b))")
            run(session, f"INSERT INTO {name} VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
        yield found


@pytest.fixture
def session(world):
    """Its changes are of the group g."""
    found = world.session()
    run(found, "ADMIN CREATE DDL GROUP g")
    run(found, "SET exuvia_ddl_group = 'g'")
    return found


def asked(session, *statements):
    return [rows(session, text)[0][0] for text in statements]


def all_held(world, count=1):
    until(lambda: [row[2] for row in rows(world.session(), STATES)] == ["held"] * count)


def complete(world, *ids):
    run(world.session(), "ADMIN COMPLETE DDL GROUP g")
    told = rows(world.session(), f"ADMIN WAIT DDL JOBS {', '.join(map(str, ids))}")
    assert {tuple(row[1:]) for row in told} == {("synced", "successful")}, told


def shape(world, table):
    found = rows(world.session(), f"SHOW CREATE TABLE {table}")[0][1]
    return found.replace("`", "")


def test_each_statement_answers_with_the_number_of_the_one_job(world, session):
    (first,) = asked(session, "ALTER TABLE t ADD INDEX i (a)")
    all_held(world)
    with world.store.read() as txn:
        before = meta.version(txn)
    ((second, kind, text, held_before),) = rows(session, "ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
    assert (second, kind, held_before) == (first, "alter table multi-schema change", "public")
    assert text == "ALTER TABLE t ADD COLUMN c INT DEFAULT 7"
    assert rows(session, "CREATE INDEX ic ON t (c)")[0][0] == first
    assert rows(session, "DROP INDEX kb ON t")[0][0] == first
    all_held(world)
    ((whole,),) = rows(session, f"ADMIN SHOW DDL JOB QUERIES {first}")
    assert whole == (
        "ALTER TABLE t ADD INDEX i (a); ALTER TABLE t ADD COLUMN c INT DEFAULT 7; "
        "CREATE INDEX ic ON t (c); DROP INDEX kb ON t"
    )
    with world.store.read() as txn:
        moved = meta.version(txn)
        subs = queue.get(txn, first).multi_schema_info.sub_jobs
    assert [sub.type.name for sub in subs] == ["ADD_INDEX", "ADD_COLUMN", "ADD_INDEX", "DROP_INDEX"]
    assert moved == before + 3 + 3, "the index that stood filled has not moved again"
    seen = shape(world, "t")
    assert "KEY kb" in seen and "KEY i " not in seen and " c " not in seen
    complete(world, first)
    seen = shape(world, "t")
    assert "KEY kb" not in seen and "KEY i (a)" in seen and "KEY ic (c)" in seen
    run(world.session(), "ADMIN CHECK TABLE t")
    assert rows(world.session(), "SELECT id, c FROM t USE INDEX (ic) WHERE c = 7") == [
        [1, 7],
        [2, 7],
        [3, 7],
    ]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("ADD COLUMN c INT", "ADD COLUMN c TEXT"),
        ("ADD COLUMN c INT", "DROP COLUMN c"),
        ("ADD COLUMN c INT AFTER a", "DROP COLUMN a"),
        ("ADD COLUMN c INT AS (a + 1)", "MODIFY a BIGINT"),
        ("ADD INDEX i (a)", "DROP COLUMN a"),
        ("ADD INDEX i (a)", "ADD INDEX I (b)"),
        ("ADD INDEX i (a)", "DROP INDEX i"),
        ("ADD INDEX i (a)", "RENAME COLUMN a TO x"),
        ("ADD INDEX i ((a + 1))", "MODIFY a BIGINT"),
        ("DROP COLUMN a", "MODIFY a BIGINT"),
        ("DROP COLUMN a", "ADD COLUMN a INT"),
        ("DROP INDEX kb", "RENAME INDEX kb TO x"),
        ("DROP INDEX kb", "ADD INDEX kb (a)"),
        ("MODIFY a BIGINT", "ALTER COLUMN a SET DEFAULT 3"),
        ("MODIFY a BIGINT", "ADD INDEX i (a)"),
        ("RENAME COLUMN a TO x", "ADD INDEX i (x)"),
        ("ADD CONSTRAINT k CHECK (a > 0)", "ADD CONSTRAINT k CHECK (a > 1)"),
        ("ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES u (id)",
         "ADD CONSTRAINT k FOREIGN KEY (b) REFERENCES u (id)"),
        ("ADD CONSTRAINT k CHECK (a > 0)", "RENAME COLUMN a TO x"),
        ("ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES u (id)", "DROP COLUMN a"),
        ("ADD COLUMN c INT", "RENAME TO t2"),
        ("RENAME TO t2", "ADD COLUMN c INT"),
        ("AUTO_ID_CACHE = 4", "ADD COLUMN c INT"),
        ("DROP COLUMN a", "DROP COLUMN id"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stands", ["queued", "held"])
def test_what_one_alter_table_refuses_is_refused(world, session, first, then, stands):
    run(world.session(), "SET GLOBAL tidb_enable_check_constraint = ON")
    alone = world.session()
    wanted = error(alone, f"ALTER TABLE t {first}, {then}")
    blocker = world.session()
    if stands == "queued":
        run(blocker, "SET exuvia_ddl_async = ON")
        run(blocker, "SET exuvia_ddl_hold = 'public'")
        run(blocker, "ALTER TABLE t COMMENT = 'x'")
    (job,) = asked(session, f"ALTER TABLE t {first}")
    if stands == "held":
        all_held(world)
    with world.store.read() as txn:
        before = queue.get(txn, job)
    assert error(session, f"ALTER TABLE t {then}") == wanted
    with world.store.read() as txn:
        after = queue.get(txn, job)
    assert after.multi_schema_info == before.multi_schema_info and after.query == before.query


def test_it_is_judged_again_where_it_joins(world, session):
    """Two sessions that built their changes on one moment: the second one is refused."""
    (job,) = asked(session, "ALTER TABLE t ADD INDEX i (a)")
    all_held(world)
    submitter = world.services.submitter
    with world.store.read() as txn:
        database = world.services.schemas.database(txn, "test")
        info = world.services.schemas.table(txn, "test", "t").info
    for text, refused in (("i", 8200), ("kb", 1061)):
        with pytest.raises(Exception) as found:
            submitter.submit_to_group(requests.add_index(database, info, index(text, "a")), "g")
        assert found.value.code == refused
    with pytest.raises(Exception) as found:
        submitter.submit_to_group(requests.add_index(database, info, index("x", "none")), "g")
    assert found.value.code == 1072
    with world.store.read() as txn:
        assert queue.get(txn, job).exuvia_held


def test_names_that_are_made_up_differ(world, session):
    run(world.session(), "SET GLOBAL tidb_enable_check_constraint = ON")
    (job, *same) = asked(
        session,
        "ALTER TABLE t ADD CHECK (a > 0)",
        "ALTER TABLE t ADD CHECK (b > 0)",
        "ALTER TABLE t ADD INDEX (a)",
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (id)",
        "ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES u (id)",
    )
    assert set(same) == {job}
    all_held(world)
    complete(world, job)
    seen = shape(world, "t")
    for each in ("t_chk_1", "t_chk_2", "fk_1", "fk_2"):
        assert f"CONSTRAINT {each} " in seen, seen
    assert seen.count("KEY a (a)") == 1 and "KEY fk_1 (a)" not in seen, seen
    assert error(world.session(), "INSERT INTO t VALUES (9, 9, 9)")[0] == 1452
    assert error(world.session(), "INSERT INTO t VALUES (9, -1, 1)")[0] == 3819


def test_a_job_that_comes_to_involve_a_table_keeps_younger_changes_of_it_waiting(world, session):
    (job,) = asked(session, "ALTER TABLE t ADD COLUMN c INT")
    outsider = world.session()
    run(outsider, "SET exuvia_ddl_async = ON")
    run(outsider, "SET exuvia_ddl_hold = 'public'")
    (other,) = asked(outsider, "ALTER TABLE u ADD COLUMN d INT")
    code, _, text = error_text(session, "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (id)")
    assert code == 1105 and f"while job {other} (add column test.u) has not ended" in text
    run(outsider, f"ADMIN COMPLETE DDL JOBS {other}")
    run(outsider, f"ADMIN WAIT DDL JOBS {other}")
    assert asked(session, "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (id)") == [job]
    run(outsider, "SET exuvia_ddl_hold = 'off'")
    (younger,) = asked(outsider, "ALTER TABLE u ADD COLUMN e INT")
    all_held(world)
    shown = f"SELECT comments FROM information_schema.ddl_jobs WHERE job_id = {younger}"
    until(lambda: f"waiting: job {job} (" in rows(world.session(), shown)[0][0])
    text = error_text(session, "ALTER TABLE u ADD COLUMN f INT")[2]
    assert f"would wait for its job {job}" in text
    complete(world, job, younger)


def test_what_would_wait_for_another_job_of_the_group_is_refused(world, session):
    first, second = asked(
        session, "ALTER TABLE t ADD COLUMN c INT", "ALTER TABLE u ADD COLUMN c INT"
    )
    text = error_text(session, "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (id)")[2]
    assert f"would wait for its job {second}" in text
    all_held(world, 2)
    complete(world, first, second)


def error_text(session, text):
    with pytest.raises(Exception) as found:
        session.execute(text)
    return found.value.code, found.value.state, found.value.message


def test_the_cancel_of_the_group_undoes_all_of_it(world, session):
    before = shape(world, "t")
    (job, _) = asked(session, "ALTER TABLE t ADD INDEX i (a)", "ALTER TABLE t ADD COLUMN c INT")
    all_held(world)
    asked(session, "ALTER TABLE t DROP COLUMN b, ADD INDEX j (id, a)")
    assert rows(session, "ADMIN CANCEL DDL GROUP g") == [[str(job), "successful"]]
    ((_, state, _),) = rows(session, f"ADMIN WAIT DDL JOBS {job}")
    assert state == "rollback done" and shape(world, "t") == before
    assert rows(world.session(), STATES) == []


def test_a_part_that_fails_takes_the_job_and_breaks_the_group(world, session):
    run(world.session(), "SET GLOBAL exuvia_preflight_rows = 0")
    run(world.session(), "UPDATE t SET a = 1")
    before = shape(world, "t")
    (job,) = asked(session, "ALTER TABLE t ADD COLUMN c INT")
    all_held(world)
    asked(session, "ALTER TABLE t ADD UNIQUE INDEX i (a)")
    until(lambda: rows(world.session(), STATES)[0] == ["broken", job, "rollback done"])
    ((_, _, told),) = rows(session, f"ADMIN WAIT DDL JOBS {job}")
    assert "Duplicate entry '1'" in told and shape(world, "t") == before


def test_a_group_that_is_being_completed_takes_nothing_in(world, session):
    blocker = world.session()
    run(blocker, "BEGIN")
    run(blocker, "UPDATE t SET a = 7 WHERE id = 1")
    asked(session, "ALTER TABLE t ADD INDEX i (a)")
    run(session, "ADMIN COMPLETE DDL GROUP g")
    assert "being completed" in error_text(session, "ALTER TABLE t ADD COLUMN c INT")[2]
    run(blocker, "COMMIT")
    until(lambda: rows(world.session(), STATES) == [])


def test_the_waits_that_the_first_statement_asked_for_stand(world, session):
    run(session, "SET exuvia_ddl_wait_timeout_s = 60")
    asked(session, "ALTER TABLE t ADD INDEX i (a)")
    assert rows(session, "SHOW WARNINGS") == []
    run(session, "SET exuvia_ddl_wait_timeout_s = 5")
    (job,) = asked(session, "ALTER TABLE t ADD COLUMN c INT")
    ((level, code, text),) = rows(session, "SHOW WARNINGS")
    assert (level, code) == ("Warning", 1105)
    assert text == f"joined job {job}, which keeps its own exuvia_ddl_wait_timeout_s"


def test_explain_shows_the_job_that_it_would_be(world, session):
    asked(session, "ALTER TABLE t ADD COLUMN c INT")
    all_held(world)
    told = [row[4] for row in rows(session, "EXPLAIN ALTER TABLE t ADD INDEX i (c)")]
    assert any("add column: none -> delete only" in each for each in told), told
    assert any("add index: write reorganization -> public" in each for each in told), told
    assert "ALTER TABLE t ADD COLUMN c INT" in told
    assert not any("refuse" in each for each in told)


# -- its owner -------------------------------------------------------------------------------------


def test_a_job_that_begins_to_fill_is_taken_by_a_worker_that_can():
    cluster = SmallCluster(pools=Pools(1, 1))
    cluster.run(requests.create_table(cluster.database(), abc("t")))
    txn = cluster.store.begin()
    groups.create(txn, "g", "root@%")
    txn.commit()

    def ask(make, *arguments):
        job = make(cluster.database(), cluster.table("t").info, *arguments)
        return cluster.submitter.submit_to_group(job, "g").id

    for at in range(12):  # while a general worker walks it, and when it is held
        job_id = ask(requests.add_column, column(f"c{at}", default="7"))
        cluster.step(at)
        assert ask(requests.add_index, index(f"i{at}", "a")) == job_id
        for _ in range(200):
            if cluster.job(job_id).exuvia_held:
                break
            cluster.step()
        assert cluster.job(job_id).exuvia_held, cluster.job(job_id).exuvia_wait
        txn = cluster.store.begin()
        groups.ask_to_complete(txn, "g")
        txn.commit()
        assert cluster.finish(job_id).state == JobState.SYNCED
        txn = cluster.store.begin()
        groups.create(txn, "g", "root@%")
        txn.commit()
