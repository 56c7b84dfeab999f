"""A finished DROP INDEX, DROP COLUMN, MODIFY or TRUNCATE is taken back while it is kept, and what
was written meanwhile stays; when its time is over nothing of it is left."""

import random
import threading

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import meta, reader
from exuvia.catalog.model import SchemaState, evolve
from exuvia.ddl import admin, delete_ranges, kept, queue, requests
from exuvia.ddl.actions.undo import element_can_no_longer_be_retained
from exuvia.ddl.job import ActionCode, JobState
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.kv import keys
from exuvia.kv.packet import is_live
from exuvia.node.assemble import JUDGE
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.sql.access.partitions import MOVER
from support.script_actions import (
    MOST_KEPT,
    OF_COLUMNS_KEPT,
    OF_UNDO,
    UNDO_S,
    changed_back,
    kept_for_undo,
)
from support.scripts import Traffic
from support.small_cluster import SmallCluster
from support.tables import abc, entries_of, index
from support.world import World, error, rows, run

KEPT = (
    "SELECT MAX(job_id) FROM information_schema.exuvia_undo WHERE name = '{}' HAVING COUNT(*) > 0"
)


@pytest.fixture(scope="module")
def world():
    with World() as found:
        yield found


@pytest.fixture
def session(world):
    found = world.session()
    run(found, "DROP TABLE IF EXISTS t, t2, u")
    run(found, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9), c INT, KEY ia (a))")
    run(found, "INSERT INTO t VALUES (1, 1, 'one', 1), (2, 2, 'two', 2), (3, 3, 'three', 3)")
    run(found, "SET exuvia_undo_s = 600")
    return found


def dropped(session, change, name):
    """The number of the job that did it."""
    run(session, change)
    ((job_id,),) = rows(session, KEPT.format(name))
    return job_id


def said(session, statement):
    with pytest.raises(Refused) as caught:
        session.execute(statement)
    return caught.value.code, caught.value.message


# -- what clients see ------------------------------------------------------------------------------


def test_an_index_comes_back_with_what_was_written_meanwhile(session):
    job_id = dropped(session, "ALTER TABLE t DROP INDEX ia", "ia")
    assert not rows(session, "SHOW INDEX FROM t WHERE key_name <> 'PRIMARY'")
    assert "_exuvia" not in rows(session, "SHOW CREATE TABLE t")[0][1]
    run(session, "INSERT INTO t VALUES (4, 4, 'four', 4)")
    run(session, "UPDATE t SET a = 20 WHERE id = 2")
    run(session, "UPDATE t SET id = 9 WHERE id = 3")
    run(session, "DELETE FROM t WHERE id = 1")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT a, id FROM t FORCE INDEX (ia) WHERE a > 0 ORDER BY a") == [
        [3, 9],
        [4, 4],
        [20, 2],
    ]
    assert not rows(session, "SELECT * FROM information_schema.exuvia_undo")
    assert said(session, f"ADMIN UNDO DDL JOB {job_id}") == (
        1105,
        f"ddl job {job_id} cannot be undone: its time is over, or it has been undone",
    )


def test_a_column_comes_back_with_what_rows_held_in_it(session):
    job_id = dropped(session, "ALTER TABLE t DROP COLUMN b", "b")
    assert error(session, "SELECT b FROM t")[0] == 1054
    run(session, "UPDATE t SET a = 10 WHERE id = 1")
    run(session, "UPDATE t SET id = 20 WHERE id = 2")
    run(session, "INSERT INTO t VALUES (3, 0, 0) ON DUPLICATE KEY UPDATE c = 33")
    run(session, "INSERT INTO t VALUES (4, 4, 4)")
    run(session, "ALTER TABLE t ADD COLUMN d INT DEFAULT 5 AFTER a")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "ADMIN CHECK TABLE t")
    assert [each[0] for each in rows(session, "SHOW COLUMNS FROM t")] == ["id", "a", "b", "d", "c"]
    assert rows(session, "SELECT * FROM t ORDER BY id") == [
        [1, 10, "one", 5, 1],
        [3, 3, "three", 5, 33],
        [4, 4, None, 5, 4],
        [20, 2, "two", 5, 2],
    ]
    run(session, "UPDATE t SET b = 'now' WHERE id = 4")
    assert rows(session, "SELECT b FROM t WHERE id = 4") == [["now"]]


def test_what_inserted_rows_have_in_a_column_that_nobody_saw(session):
    run(session, "ALTER TABLE t ADD COLUMN n INT NOT NULL, ADD COLUMN k INT NOT NULL DEFAULT 8")
    run(session, "ALTER TABLE t MODIFY n INT NOT NULL")
    first = dropped(session, "ALTER TABLE t DROP COLUMN n", "n")
    second = dropped(session, "ALTER TABLE t DROP COLUMN k", "k")
    run(session, "INSERT INTO t VALUES (4, 4, 'four', 4)")
    run(session, f"ADMIN UNDO DDL JOB {second}")
    run(session, f"ADMIN UNDO DDL JOB {first}")
    assert rows(session, "SELECT n, k FROM t WHERE id = 4") == [[0, 8]]


def test_a_column_takes_its_indexes_along_and_back(session):
    job_id = dropped(session, "ALTER TABLE t DROP COLUMN a", "a")
    run(session, "INSERT INTO t (id) VALUES (4)")
    run(session, "DELETE FROM t WHERE id = 2")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT a FROM t FORCE INDEX (ia) WHERE a > 0 ORDER BY a") == [[1], [3]]


def test_the_name_is_free_at_once_and_another_is_taken_if_it_is_not(session):
    by_a = dropped(session, "ALTER TABLE t DROP INDEX ia", "ia")
    run(session, "ALTER TABLE t ADD INDEX ia (c)")
    code, text = said(session, f"ADMIN UNDO DDL JOB {by_a}")
    assert code == 1061 and f"ADMIN UNDO DDL JOB {by_a} AS" in text
    run(session, f"ADMIN UNDO DDL JOB {by_a} AS former")
    b = dropped(session, "ALTER TABLE t DROP COLUMN b", "b")
    run(session, "ALTER TABLE t ADD COLUMN b INT DEFAULT 1")
    assert said(session, f"ADMIN UNDO DDL JOB {b}")[0] == 1060
    run(session, f"ADMIN UNDO DDL JOB {b} AS b_before")
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT b, b_before FROM t WHERE id = 1") == [[1, "one"]]
    names = {each[2] for each in rows(session, "SHOW INDEX FROM t")}
    assert names == {"PRIMARY", "ia", "former"}


def test_a_unique_index_refuses_nobody_meanwhile_and_is_built_anew(session):
    run(session, "ALTER TABLE t ADD UNIQUE uc (c)")
    job_id = dropped(session, "ALTER TABLE t DROP INDEX uc", "uc")
    run(session, "INSERT INTO t VALUES (4, 4, 'four', 3)")
    run(session, "ALTER TABLE t RENAME COLUMN c TO e")
    assert said(session, f"ADMIN UNDO DDL JOB {job_id}") == (
        1062,
        "Duplicate entry '3' for key 't.uc' (1 duplicate: '3' of id 3 and id 4)",
    )
    assert rows(session, "SELECT COUNT(*) FROM t") == [[4]]
    run(session, "UPDATE t SET e = 4 WHERE id = 4")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    assert error(session, "INSERT INTO t VALUES (5, 5, 'five', 4)")[0] == 1062
    assert "again" in said(session, f"ADMIN UNDO DDL JOB {job_id}")[1]
    assert not rows(session, KEPT.format("uc"))


def test_a_unique_index_whose_column_went_does_not_come_back_on_another(session):
    run(session, "ALTER TABLE t ADD UNIQUE uc (c)")
    job_id = dropped(session, "ALTER TABLE t DROP INDEX uc", "uc")
    run(session, "SET exuvia_undo_s = 0")
    run(session, "ALTER TABLE t DROP COLUMN c")
    run(session, "ALTER TABLE t ADD COLUMN c INT")
    assert "a column of its index" in said(session, f"ADMIN UNDO DDL JOB {job_id}")[1]


@pytest.fixture
def arrays(session):
    """t with documents, and indexes of their elements: one unique, one with an expression."""
    run(session, "ALTER TABLE t ADD COLUMN j JSON, ADD COLUMN `k``k` JSON")
    run(
        session,
        """UPDATE t SET j = JSON_OBJECT('n', JSON_ARRAY(id, id + 1, 9)), `k``k` = '["x"]'""",
    )
    run(session, "ALTER TABLE t ADD INDEX im ((a + 1), (CAST(j->'$.n' AS UNSIGNED ARRAY)))")
    run(session, "ALTER TABLE t ADD UNIQUE um ((CAST(JSON_ARRAY(id, c) AS SIGNED ARRAY)), a)")
    run(session, "ALTER TABLE t ADD INDEX ik ((CAST(`k``k` AS CHAR(2) ARRAY)))")
    return session


def by_elements(session, index, where, order="id"):
    """Which rows are found by the index, and that they are those found without it."""
    text = f"SELECT id FROM t {{}} WHERE {where} ORDER BY {order}"
    plan = rows(session, "EXPLAIN " + text.format(f"USE INDEX ({index})"))
    assert any(f"index:{index}(" in line[3] for line in plan), plan
    found = rows(session, text.format(f"USE INDEX ({index})"))
    assert found == rows(session, text.format("USE INDEX ()"))
    return [each for (each,) in found]


def test_a_multi_valued_index_refuses_nobody_meanwhile_and_is_built_anew(arrays):
    run(arrays, "ALTER TABLE t RENAME INDEX im TO by_n")
    job_id = dropped(arrays, "ALTER TABLE t DROP INDEX by_n", "by_n")
    kept_line = "SELECT kind, state, cost FROM information_schema.exuvia_undo"
    cost = "none; UNDO backfills the index again"
    assert rows(arrays, kept_line) == [["index", "definition", cost]]
    for n, array in enumerate(('["x"]', "[-1]", "[18446744073709551616]", '{"o": 1}', "[3, 7]")):
        run(
            arrays,
            f"INSERT INTO t (id, a, c, j) VALUES ({10 + n}, 1, {100 + n}, '{{\"n\": {array}}}')",
        )
    for refused, mended in ((3903, 10), (3752, 11), (3903, 12), (1235, 13)):
        assert said(arrays, f"ADMIN UNDO DDL JOB {job_id}")[0] == refused
        assert not rows(arrays, "SHOW INDEX FROM t WHERE key_name = 'by_n'")
        run(arrays, f"UPDATE t SET j = '{{\"n\": [{mended}]}}' WHERE id = {mended}")
    run(arrays, "DELETE FROM t WHERE id = 2")
    run(arrays, f"ADMIN UNDO DDL JOB {job_id}")
    run(arrays, "ADMIN CHECK TABLE t")
    assert by_elements(arrays, "by_n", "a + 1 = 2 AND 7 MEMBER OF (j->'$.n')") == [14]
    assert error(arrays, "UPDATE t SET j = '{\"n\": [-1]}'") == (3752, "22003")
    code, text = said(arrays, f"ADMIN UNDO DDL JOB {job_id}")
    assert code == 1105 and "exists again" in text
    assert not rows(arrays, kept_line)


def test_a_multi_valued_index_comes_back_by_the_names_of_now(arrays):
    um = dropped(arrays, "ALTER TABLE t DROP INDEX um", "um")
    ik = dropped(arrays, "ALTER TABLE t DROP INDEX ik", "ik")
    run(arrays, "ALTER TABLE t RENAME COLUMN c TO `s``c`")
    run(arrays, "ALTER TABLE t RENAME COLUMN `k``k` TO K")
    run(arrays, "ALTER TABLE t ADD COLUMN c INT, ADD INDEX um (b)")
    run(arrays, "INSERT INTO t VALUES (4, 3, 'four', 3, NULL, '[]', 0)")
    assert said(arrays, f"ADMIN UNDO DDL JOB {um}")[0] == 1061
    code, text = said(arrays, f"ADMIN UNDO DDL JOB {um} AS again")
    assert code == 1062
    assert text == ("Duplicate entry '3-3' for key 't.again' (1 duplicate: '3-3' of id 3 and id 4)")
    run(arrays, "UPDATE t SET a = 4 WHERE id = 4")
    run(arrays, f"ADMIN UNDO DDL JOB {um} AS again")
    run(arrays, f"ADMIN UNDO DDL JOB {ik}")
    run(arrays, "ADMIN CHECK TABLE t")
    shown = rows(arrays, "SHOW CREATE TABLE t")[0][1]
    assert "UNIQUE KEY `again` ((cast(json_array(`id`, `s``c`) as signed array)),`a`)" in shown
    assert "KEY `ik` ((cast(`K` as char(2) array)))" in shown
    assert by_elements(arrays, "ik", "'x' MEMBER OF (K)") == [1, 2, 3]
    assert error(arrays, "INSERT INTO t (id, a, `s``c`) VALUES (5, 4, 3)")[0] == 1062
    assert "exists again" in said(arrays, f"ADMIN UNDO DDL JOB {um} AS third")[1]
    run(arrays, "ALTER TABLE t RENAME INDEX ik TO im2, RENAME INDEX again TO again2")
    assert "exists again" in said(arrays, f"ADMIN UNDO DDL JOB {ik}")[1]


def test_a_multi_valued_index_whose_column_went_does_not_come_back_on_another(arrays):
    job_id = dropped(arrays, "ALTER TABLE t DROP INDEX ik", "ik")
    run(arrays, "ALTER TABLE t DROP COLUMN `k``k`, ADD COLUMN k JSON")
    run(arrays, "ALTER TABLE t RENAME COLUMN k TO `k``k`")
    assert "a column of its index" in said(arrays, f"ADMIN UNDO DDL JOB {job_id}")[1]


def test_a_unique_index_that_partitions_would_need_global_is_not_brought_back(arrays):
    run(arrays, "ALTER TABLE t ADD UNIQUE uc (c)")
    uc = dropped(arrays, "ALTER TABLE t DROP INDEX uc", "uc")
    um = dropped(arrays, "ALTER TABLE t DROP INDEX um", "um")
    run(arrays, "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2")
    for job_id in (uc, um):
        assert said(arrays, f"ADMIN UNDO DDL JOB {job_id}")[0] == 8264


def test_an_index_of_elements_that_took_the_name_meanwhile_is_not_hidden(world, arrays):
    """The statement saw a plain index; hidden, this one would refuse writers."""
    txn = world.store.begin()
    table = world.services.schemas.table(txn, arrays.database, "t")
    txn.rollback()
    for name, fits in (("ia", True), ("im", False), ("um", False)):
        job = requests.drop_index(table.database, table.info, name)
        refused = element_can_no_longer_be_retained(job, CatalogSnapshot(table=table.info))
        assert (refused is None) == fits, name


@pytest.mark.parametrize("cut", ["", "PARTITION BY HASH (id) PARTITIONS 3"])
def test_a_multi_valued_index_comes_back_beside_writers(world, arrays, cut):
    """Who writes what is no element is refused once the index is coming back, and not before."""
    run(arrays, "ALTER TABLE t DROP INDEX um")
    run(arrays, f"ALTER TABLE t {cut}" if cut else "DO 0")
    job_id = dropped(arrays, "ALTER TABLE t DROP INDEX im", "im")
    many = (f"({n}, {n % 5}, 'w', 0, '{{\"n\": [{n}, {n % 7}]}}')" for n in range(10, 400))
    run(arrays, f"INSERT INTO t (id, a, b, c, j) VALUES {', '.join(many)}")
    stop, failed, refused, done = threading.Event(), [], [], []

    def writes(seed):
        chance, writer = random.Random(seed), world.session()
        try:
            while not stop.is_set():
                n = chance.randrange(10, 400)
                array = [chance.randrange(9) for _ in range(chance.randrange(4))]
                try:
                    run(writer, f"UPDATE t SET j = '{{\"n\": {array}}}' WHERE id = {n}")
                    run(writer, f"DELETE FROM t WHERE id = {chance.randrange(10, 400)}")
                    run(writer, f"UPDATE t SET a = a + 1 WHERE id = {chance.randrange(10, 400)}")
                    done.append(n)
                    run(writer, f'INSERT INTO t (id, j) VALUES ({n + 900}, \'{{"n": "x"}}\')')
                    run(writer, f"DELETE FROM t WHERE id = {n + 900}")
                except Refused as error:
                    refused.append(error.code)
                    assert error.code in (1062, 1213, 3903, 8028), error
        except BaseException as error:
            failed.append(error)
        finally:
            writer.close()

    threads = [threading.Thread(target=writes, args=(seed,), daemon=True) for seed in range(2)]
    for each in threads:
        each.start()
    while len(done) < 20 and not failed:
        threads[0].join(0.01)
    assert 3903 not in refused
    for _ in range(100):  # a fill that meets such a row is refused; it goes within the statement
        try:
            run(arrays, f"ADMIN UNDO DDL JOB {job_id}")
            break
        except Refused as error:
            assert error.code == 3903, error
    seen = len(done)
    while len(done) < seen + 20 and not failed:
        threads[0].join(0.01)
    stop.set()
    for each in threads:
        each.join(20)
    assert not failed, failed
    assert 3903 in refused
    run(arrays, "ADMIN CHECK TABLE t")
    by_elements(arrays, "im", "a + 1 = 3 AND 5 MEMBER OF (j->'$.n')")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("DROP COLUMN g", "it is generated"),
        ("DROP COLUMN u", "unique index"),
        ("DROP COLUMN k", "CHECK"),
        ("DROP INDEX ie", "on expressions"),
        ("DROP INDEX ip", "unique and partial"),
        ("DROP COLUMN c, DROP INDEX ia", "several changes"),
    ],
)
def test_what_is_not_kept_is_dropped_as_ever_and_says_so(session, change, why):
    run(session, "ALTER TABLE t ADD COLUMN g INT AS (a + 1), ADD COLUMN u INT, ADD COLUMN k INT")
    run(session, "ALTER TABLE t ADD UNIQUE (u), ADD CONSTRAINT kk CHECK (k > 0)")
    run(session, "ALTER TABLE t ADD INDEX ie ((a + 1))")
    run(session, "ALTER TABLE t ADD UNIQUE INDEX ip (a) WHERE b > 'a'")
    warned = run(session, f"ALTER TABLE t {change}").warnings
    assert any(why in each.message for each in warned)
    ((job_id,),) = rows(session, "SELECT MAX(job_id) FROM information_schema.ddl_jobs")
    assert not rows(session, "SELECT * FROM information_schema.exuvia_undo")
    assert "nothing was retained" in said(session, f"ADMIN UNDO DDL JOB {job_id}")[1]


def test_a_partial_index_comes_back_with_the_rows_that_it_holds_now(session):
    run(session, "ALTER TABLE t ADD INDEX ip (a) WHERE c > 1")
    job_id = dropped(session, "ALTER TABLE t DROP INDEX ip", "ip")
    assert said(session, "ALTER TABLE t DROP COLUMN c")[0] == 8200
    run(session, "UPDATE t SET c = 0 WHERE id = 2")
    run(session, "UPDATE t SET c = 9 WHERE id = 1")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "ADMIN CHECK TABLE t")
    found = rows(session, "SELECT id FROM t FORCE INDEX (ip) WHERE c > 1 AND a > 0 ORDER BY id")
    assert found == [[1], [3]]


def test_nothing_is_kept_unless_it_is_asked_for(world, session):
    fresh = world.session()
    assert rows(fresh, "SELECT @@exuvia_undo_s") == [[0]]
    run(fresh, "ALTER TABLE t DROP INDEX ia")
    assert not rows(fresh, "SELECT * FROM information_schema.exuvia_undo")


def test_without_verification_nothing_is_read(session):
    job_id = dropped(session, "ALTER TABLE t DROP INDEX ia", "ia")
    run(session, "SET GLOBAL exuvia_ddl_verify = 'off'")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "SET GLOBAL exuvia_ddl_verify = 'full'")
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT a FROM t FORCE INDEX (ia) WHERE a = 2") == [[2]]


def test_explain_says_what_it_costs(session):
    told = rows(session, "EXPLAIN ALTER TABLE t DROP INDEX ia")
    (cost,) = [each[4] for each in told if "Keeps" in each[0]]
    assert "about 39 bytes an entry, 117 in all" in cost and "UNDO reads 3 row(s)" in cost
    told = rows(session, "EXPLAIN ALTER TABLE t DROP COLUMN b")
    (cost,) = [each[4] for each in told if "Keeps" in each[0]]
    assert cost.endswith("UNDO touches no row")


@pytest.mark.parametrize("job", ["create", "truncate", "drop", "none"])
def test_a_job_that_left_nothing_says_why(session, job):
    run(session, "CREATE TABLE u (a INT)")
    said_of = {"create": "UNDO does not support create table", "none": "was not found"}
    if job == "truncate":
        run(session, "SET exuvia_undo_s = 0")
        run(session, "TRUNCATE TABLE u")
        said_of[job] = "FLASHBACK TABLE"
    elif job == "drop":
        run(session, "DROP TABLE u")
        said_of[job] = "RECOVER TABLE"
    ((job_id,),) = rows(session, "SELECT MAX(job_id) FROM information_schema.ddl_jobs")
    job_id += 1000 if job == "none" else 0
    code, text = said(session, f"ADMIN UNDO DDL JOB {job_id}")
    assert code == (8224 if job == "none" else 1105)
    assert job == "none" or said_of[job] in text


# -- truncate --------------------------------------------------------------------------------------


def truncated(session):
    """The number of the job that did it."""
    run(session, "TRUNCATE TABLE t")
    ((job_id,),) = rows(session, "SELECT MAX(job_id) FROM information_schema.exuvia_undo")
    return job_id


def test_rows_come_back_beside_those_written_since(session):
    run(session, "ALTER TABLE t ADD UNIQUE uc (c)")
    job_id = truncated(session)
    assert rows(session, "SELECT COUNT(*) FROM t") == [[0]]
    run(session, "INSERT INTO t VALUES (4, 4, 'four', 4), (5, 5, 'five', 5), (6, 6, 'six', 6)")
    run(session, "UPDATE t SET id = 9 WHERE id = 5")
    run(session, "DELETE FROM t WHERE id = 6")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT id, b FROM t FORCE INDEX (ia) WHERE a > 0 ORDER BY id") == [
        [1, "one"],
        [2, "two"],
        [3, "three"],
        [4, "four"],
        [9, "five"],
    ]
    assert error(session, "INSERT INTO t VALUES (7, 0, '', 2)")[0] == 1062
    run(session, "UPDATE t SET b = 'now' WHERE id = 2")
    run(session, "INSERT INTO t VALUES (7, 7, 'seven', 7)")
    run(session, "DELETE FROM t WHERE id = 1")
    assert rows(session, "SELECT b FROM t ORDER BY id") == [
        [each] for each in ("now", "three", "four", "seven", "five")
    ]
    assert said(session, f"ADMIN UNDO DDL JOB {job_id}")[0] == 1105
    assert error(session, f"RECOVER TABLE BY JOB {job_id}")[0] in (1050, 8055)


@pytest.mark.parametrize(
    ("row", "key"),
    [("(2, 9, 'x', 9)", "'2' for key 't.PRIMARY'"), ("(9, 9, 'x', 3)", "'3' for key 't.uc'")],
)
def test_a_row_that_would_meet_one_of_before_is_named_and_nothing_changes(session, row, key):
    run(session, "ALTER TABLE t ADD UNIQUE uc (c)")
    job_id = truncated(session)
    run(session, f"INSERT INTO t VALUES {row}")
    code, text = said(session, f"ADMIN UNDO DDL JOB {job_id}")
    assert code == 1062 and f"Duplicate entry {key}" in text
    assert rows(session, "SELECT COUNT(*) FROM t") == [[1]]
    run(session, "DELETE FROM t")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT id FROM t ORDER BY id") == [[1], [2], [3]]


def test_ids_go_on_so_that_rows_do_not_meet(session):
    run(session, "CREATE TABLE u (id INT PRIMARY KEY AUTO_INCREMENT, a INT)")
    run(session, "INSERT INTO u (a) VALUES (1), (2)")
    (note,) = run(session, "TRUNCATE TABLE u").warnings
    assert "AUTO_INCREMENT continues" in note.message
    run(session, "INSERT INTO u (a) VALUES (3)")
    ((job_id,),) = rows(session, "SELECT MAX(job_id) FROM information_schema.exuvia_undo")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "INSERT INTO u (a) VALUES (4)")
    assert rows(session, "SELECT a FROM u ORDER BY id") == [[1], [2], [3], [4]]
    run(session, "DROP TABLE u")
    run(session, "CREATE TABLE u (a INT)")  # its rows have hidden ids
    run(session, "INSERT INTO u VALUES (1), (2)")
    run(session, "TRUNCATE TABLE u")
    run(session, "INSERT INTO u VALUES (3), (4)")
    ((job_id,),) = rows(session, "SELECT MAX(job_id) FROM information_schema.exuvia_undo")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    assert rows(session, "SELECT a FROM u ORDER BY a") == [[1], [2], [3], [4]]


def test_partitions_and_layouts_come_back(session):
    run(
        session,
        "CREATE TABLE u (a INT, b INT, KEY ib (b)) PARTITION BY RANGE (a) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
    )
    run(session, "INSERT INTO u VALUES (1, 1), (11, 2)")
    run(session, "ALTER TABLE u ADD COLUMN c INT DEFAULT 7")
    run(session, "TRUNCATE TABLE u")
    ((job_id,),) = rows(session, "SELECT MAX(job_id) FROM information_schema.exuvia_undo")
    run(session, "INSERT INTO u VALUES (2, 3, 8), (12, 4, 9)")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "ADMIN CHECK TABLE u")
    wanted = [[1, 1, 7], [2, 3, 8], [11, 2, 7], [12, 4, 9]]
    assert rows(session, "SELECT * FROM u ORDER BY a") == wanted
    assert rows(session, "SELECT a FROM u PARTITION (p1) ORDER BY a") == [[11], [12]]


def test_a_table_that_was_truncated_twice_has_all_rows_again(session):
    first = truncated(session)
    run(session, "INSERT INTO t VALUES (4, 4, 'four', 4)")
    second = truncated(session)
    run(session, "INSERT INTO t VALUES (5, 5, 'five', 5)")
    run(session, f"ADMIN UNDO DDL JOB {first}")
    assert rows(session, "SELECT id FROM t ORDER BY id") == [[1], [2], [3], [5]]
    run(session, f"ADMIN UNDO DDL JOB {second}")
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT id FROM t ORDER BY id") == [[1], [2], [3], [4], [5]]
    third = truncated(session)
    run(session, f"ADMIN UNDO DDL JOB {third}")
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT id FROM t ORDER BY id") == [[1], [2], [3], [4], [5]]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("ADD COLUMN x INT", "columns or indexes"),
        ("ADD INDEX ix (c)", "columns or indexes"),
        ("DROP INDEX ia", "columns or indexes"),
        ("MODIFY c BIGINT", "columns or indexes"),
        ("RENAME COLUMN c TO e", "columns or indexes"),
        ("PARTITION BY HASH (id) PARTITIONS 2", "partitions"),
        ("ADD CONSTRAINT k CHECK (c > 0)", "CHECKs"),
        ("EXUVIA_CHANGE_LOG = ON", "change log"),
        ("CACHE", "cached"),
        ("ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id)", "foreign keys"),
    ],
)
def test_a_table_that_was_changed_says_so_and_flashback_goes_on(session, change, why):
    run(session, "CREATE TABLE u (id INT PRIMARY KEY)")
    job_id = truncated(session)
    run(session, "SET exuvia_undo_s = 0")
    run(session, f"ALTER TABLE t {change}")
    code, text = said(session, f"ADMIN UNDO DDL JOB {job_id}")
    assert code == 1105 and why in text and "FLASHBACK TABLE t TO" in text
    run(session, "FLASHBACK TABLE t TO t2")
    assert rows(session, "SELECT COUNT(*) FROM t2") == [[3]]
    assert not rows(session, "SELECT * FROM information_schema.exuvia_undo WHERE table_name = 't'")
    if change == "CACHE":
        run(session, "ALTER TABLE t NOCACHE")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        ("ALTER TABLE t ADD INDEX ip (a) WHERE c > 1", "partial index"),
        ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id)", "foreign keys"),
    ],
)
def test_a_table_whose_rows_could_not_come_back_says_so_at_once(session, make, why):
    run(session, "CREATE TABLE u (id INT PRIMARY KEY)")
    run(session, "INSERT INTO u VALUES (1), (2), (3)")
    run(session, make)
    (warned,) = run(session, "TRUNCATE TABLE t").warnings
    assert "is not kept for UNDO" in warned.message and why in warned.message
    assert not rows(session, "SELECT * FROM information_schema.exuvia_undo")


def test_rows_that_are_kept_are_listed_and_can_be_given_up(session):
    told = rows(session, "EXPLAIN TRUNCATE TABLE t")
    (cost,) = [each[4] for each in told if "Keeps" in each[0]]
    assert cost.startswith("3 row(s) and their index entries stay until")
    job_id = truncated(session)
    ((kind, name, state),) = rows(
        session, "SELECT kind, name, state FROM information_schema.exuvia_undo"
    )
    assert (kind, name, state) == ("table", "t", "rows")
    assert said(session, f"ADMIN UNDO DDL JOB {job_id} AS other")[0] == 1105
    run(session, f"ADMIN END UNDO DDL JOB {job_id}")
    assert "its time is over" in said(session, f"ADMIN UNDO DDL JOB {job_id}")[1]


# -- modify ----------------------------------------------------------------------------------------


@pytest.fixture
def prices(session):
    run(
        session,
        "CREATE TABLE u (id INT PRIMARY KEY, p DECIMAL(10,2) NOT NULL DEFAULT 1.25, d DATETIME, "
        "n VARCHAR(9), KEY ip (p), UNIQUE KEY up (p, id))",
    )
    run(
        session,
        "INSERT INTO u VALUES (1, 1.50, '2026-01-02 03:04:05', 'one'), (2, 2.25, NULL, 'two'), "
        "(3, 3.75, '2026-05-06 07:08:09', 'three'), (4, 4.99, '2026-07-08 09:10:11', 'four')",
    )
    return session


def test_values_that_a_modify_lost_come_back_beside_those_written_since(prices):
    before = rows(prices, "SHOW CREATE TABLE u")
    job_id = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    assert rows(prices, "SELECT p FROM u ORDER BY id") == [[2], [2], [4], [5]]
    assert "_exuvia" not in rows(prices, "SHOW CREATE TABLE u")[0][1]
    assert len(rows(prices, "SHOW COLUMNS FROM u")) == 4
    run(prices, "UPDATE u SET n = 'uno' WHERE id = 1")
    run(prices, "UPDATE u SET p = 7 WHERE id = 2")
    run(prices, "UPDATE u SET p = 9 WHERE id = 3")
    run(prices, "UPDATE u SET p = 4 WHERE id = 3")  # as it was, and yet written since
    run(prices, "UPDATE u SET id = 40 WHERE id = 4")
    run(prices, "INSERT INTO u (id, p) VALUES (5, 6)")
    run(prices, "REPLACE INTO u (id, p) VALUES (6, 8)")
    run(prices, "INSERT INTO u (id, p) VALUES (6, 1) ON DUPLICATE KEY UPDATE p = 10")
    run(prices, "ADMIN CHECK TABLE u")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    run(prices, "ADMIN CHECK TABLE u")
    wanted = [(1, "1.50"), (2, "7.00"), (3, "4.00"), (5, "6.00"), (6, "10.00"), (40, "4.99")]
    assert [(a, str(p)) for a, p in rows(prices, "SELECT id, p FROM u ORDER BY id")] == wanted
    found = rows(prices, "SELECT id, p FROM u FORCE INDEX (ip) WHERE p > 0 ORDER BY p")
    assert {(a, str(p)) for a, p in found} == set(wanted) and len(found) == len(wanted)
    assert rows(prices, "SHOW CREATE TABLE u") == before
    assert not rows(prices, "SELECT * FROM information_schema.exuvia_undo")
    assert said(prices, f"ADMIN UNDO DDL JOB {job_id}")[0] == 1105
    run(prices, "INSERT INTO u (id) VALUES (7)")
    assert str(rows(prices, "SELECT p FROM u WHERE id = 7")[0][0]) == "1.25"
    assert error(prices, "UPDATE u SET p = NULL WHERE id = 7")[0] == 1048


def test_a_null_of_before_and_one_of_since_are_null(prices):
    job_id = dropped(prices, "ALTER TABLE u CHANGE d day DATE FIRST", "d")
    run(prices, "UPDATE u SET day = '2026-12-31' WHERE id = 2")
    run(prices, "UPDATE u SET day = NULL WHERE id = 3")
    run(prices, "UPDATE u SET n = 'vier' WHERE id = 4")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    assert [each[0] for each in rows(prices, "SHOW COLUMNS FROM u")] == ["id", "p", "d", "n"]
    shown = rows(prices, "SELECT CAST(d AS CHAR) FROM u ORDER BY id")
    assert shown == [
        ["2026-01-02 03:04:05"],
        ["2026-12-31 00:00:00"],
        [None],
        ["2026-07-08 09:10:11"],
    ]
    run(prices, "ADMIN CHECK TABLE u")


@pytest.mark.parametrize("looked_at", [0, 10_000])
def test_a_value_that_cannot_be_changed_back_is_named_and_nothing_changes(prices, looked_at):
    job_id = dropped(prices, "ALTER TABLE u MODIFY d VARCHAR(30)", "d")
    run(prices, "UPDATE u SET d = 'tomorrow' WHERE id = 3")
    before = rows(prices, "SHOW CREATE TABLE u"), rows(prices, "SELECT * FROM u ORDER BY id")
    run(prices, f"SET GLOBAL exuvia_preflight_rows = {looked_at}")
    code, text = said(prices, f"ADMIN UNDO DDL JOB {job_id}")
    run(prices, "SET GLOBAL exuvia_preflight_rows = DEFAULT")
    assert (code, text) == (1292, "Incorrect datetime value: 'tomorrow'")
    assert before == (
        rows(prices, "SHOW CREATE TABLE u"),
        rows(prices, "SELECT * FROM u ORDER BY id"),
    )
    run(prices, "UPDATE u SET d = '2026-02-03' WHERE id = 3")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    shown = rows(prices, "SELECT CAST(d AS CHAR) FROM u ORDER BY id")
    assert shown[2:] == [["2026-02-03 00:00:00"], ["2026-07-08 09:10:11"]]


def test_a_null_of_since_does_not_fit_what_was_not_null(prices):
    job_id = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    run(prices, "INSERT INTO u (id) VALUES (5)")
    assert said(prices, f"ADMIN UNDO DDL JOB {job_id}")[0] in (1048, 1265)
    run(prices, "DELETE FROM u WHERE id = 5")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    assert str(rows(prices, "SELECT p FROM u WHERE id = 4")[0][0]) == "4.99"


def test_indexes_that_came_and_went_meanwhile_are_as_they_are(prices):
    job_id = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    run(prices, "ALTER TABLE u ADD INDEX ipn (p, n)")
    run(prices, "SET exuvia_undo_s = 0")
    run(prices, "ALTER TABLE u DROP INDEX ip")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    run(prices, "ADMIN CHECK TABLE u")
    names = {each[2] for each in rows(prices, "SHOW INDEX FROM u")}
    assert names == {"PRIMARY", "up", "ipn"}
    found = rows(prices, "SELECT p FROM u FORCE INDEX (ipn) WHERE p > 3 ORDER BY p")
    assert [str(p) for (p,) in found] == ["3.75", "4.99"]


def test_its_name_is_taken_and_another_is_given(prices):
    job_id = dropped(prices, "ALTER TABLE u CHANGE p q INT", "p")
    run(prices, "ALTER TABLE u ADD COLUMN p INT DEFAULT 3")
    assert said(prices, f"ADMIN UNDO DDL JOB {job_id}")[0] == 1060
    run(prices, f"ADMIN UNDO DDL JOB {job_id} AS price")
    assert str(rows(prices, "SELECT price, p FROM u WHERE id = 1")[0][0]) == "1.50"


@pytest.mark.parametrize(
    ("change", "back"),
    [
        ("MODIFY p BIGINT UNSIGNED", "decimal(10,2)"),
        ("MODIFY n VARCHAR(40)", "varchar(9)"),
        ("MODIFY n CHAR(9) DEFAULT 'x'", "varchar(9)"),
        ("CHANGE n m VARCHAR(9) NOT NULL", "varchar(9)"),
        ("MODIFY d DATETIME(3) AFTER n", "datetime"),
        ("RENAME COLUMN id TO number", "int"),
    ],
)
def test_every_kind_of_modify_is_taken_back(prices, change, back):
    before = rows(prices, "SHOW CREATE TABLE u"), rows(prices, "SELECT * FROM u ORDER BY 1")
    run(prices, f"ALTER TABLE u {change}")
    assert rows(prices, "SHOW CREATE TABLE u") != before[0]
    ((job_id, kind),) = rows(prices, "SELECT job_id, kind FROM information_schema.exuvia_undo")
    assert kind == "modify"
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    assert before == (
        rows(prices, "SHOW CREATE TABLE u"),
        rows(prices, "SELECT * FROM u ORDER BY 1"),
    )
    assert f" {back}" in before[0][0][1]
    assert not rows(prices, "SELECT * FROM information_schema.exuvia_undo")
    run(prices, "ADMIN CHECK TABLE u")


def test_a_change_that_wrote_nothing_is_held_to_the_rows_written_since(prices):
    job_id = dropped(prices, "ALTER TABLE u MODIFY n VARCHAR(40)", "n")
    assert rows(prices, "SELECT state FROM information_schema.exuvia_undo") == [["definition"]]
    assert "nothing to discard" in said(prices, f"ADMIN END UNDO DDL JOB {job_id}")[1]
    run(prices, "UPDATE u SET n = 'longer than nine' WHERE id = 2")
    assert said(prices, f"ADMIN UNDO DDL JOB {job_id}")[0] in (1265, 1406)
    run(prices, "UPDATE u SET n = 'short' WHERE id = 2")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    assert error(prices, "UPDATE u SET n = 'longer than nine' WHERE id = 2")[0] == 1406


def test_changes_of_one_column_are_taken_back_one_after_the_other(prices):
    first = dropped(prices, "ALTER TABLE u MODIFY n VARCHAR(40)", "n")
    second = dropped(prices, "ALTER TABLE u MODIFY n ENUM('one', 'two', 'three', 'four')", "n")
    assert "changed since" in said(prices, f"ADMIN UNDO DDL JOB {first}")[1]
    run(prices, f"ADMIN UNDO DDL JOB {second}")
    run(prices, f"ADMIN UNDO DDL JOB {first}")
    assert "`n` varchar(9)" in rows(prices, "SHOW CREATE TABLE u")[0][1]
    assert rows(prices, "SELECT n FROM u WHERE id = 3") == [["three"]]


@pytest.mark.parametrize("undo_s", [0, 600])
def test_another_column_of_its_name_is_not_taken_for_it(prices, undo_s):
    job_id = dropped(prices, "ALTER TABLE u MODIFY n VARCHAR(40)", "n")
    run(prices, f"SET exuvia_undo_s = {undo_s}")
    run(prices, "ALTER TABLE u DROP COLUMN n")
    run(prices, "ALTER TABLE u ADD COLUMN n VARCHAR(40)")
    before = rows(prices, "SHOW CREATE TABLE u")
    assert "dropped or changed since" in said(prices, f"ADMIN UNDO DDL JOB {job_id}")[1]
    assert rows(prices, "SHOW CREATE TABLE u") == before


@pytest.mark.parametrize(
    ("was", "change", "since", "code"),
    [
        ("INT", "VARCHAR(9)", "'01'", 1062),  # 1 is there already
        ("TINYINT", "VARCHAR(9)", "'300'", 1690),
        ("TINYINT", "INT", "300", 1690),
        ("VARCHAR(2)", "VARCHAR(9)", "'abc'", 1265),
        ("INT", "VARCHAR(9)", "'one'", 1292),
        ("ENUM('1', '2')", "VARCHAR(9)", "'3'", 1265),
    ],
)
def test_what_is_in_the_way_back_has_the_error_of_modify(session, was, change, since, code):
    run(session, f"CREATE TABLE u (id INT PRIMARY KEY, p {was} NOT NULL, UNIQUE KEY up (p))")
    run(session, "INSERT INTO u VALUES (1, '1'), (2, '2')")
    job_id = dropped(session, f"ALTER TABLE u MODIFY p {change}", "p")
    run(session, f"INSERT INTO u VALUES (3, {since})")
    before = rows(session, "SHOW CREATE TABLE u"), rows(session, "SELECT * FROM u ORDER BY id")
    as_modify = said(session, f"ALTER TABLE u MODIFY p {was} NOT NULL")
    assert said(session, f"ADMIN UNDO DDL JOB {job_id}")[0] == code
    assert as_modify[0] in (code, 8200)  # 8200: beside what is kept
    after = rows(session, "SHOW CREATE TABLE u"), rows(session, "SELECT * FROM u ORDER BY id")
    assert before == after
    run(session, "ADMIN CHECK TABLE u")
    run(session, "DELETE FROM u WHERE id = 3")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "ADMIN CHECK TABLE u")
    assert [str(p) for (p,) in rows(session, "SELECT p FROM u ORDER BY id")] == ["1", "2"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("ADD COLUMN g INT AS (p + 1)", 8200),
        ("ADD INDEX e ((p + 1))", 8200),
        ("ADD INDEX part (n) WHERE p > 2", 8272),
    ],
)
def test_what_is_computed_from_it_since_is_in_the_way(prices, change, code):
    job_id = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    run(prices, f"ALTER TABLE u {change}")
    assert said(prices, f"ADMIN UNDO DDL JOB {job_id}")[0] == code
    assert [each[0] for each in rows(prices, "SELECT p FROM u ORDER BY id")] == [2, 2, 4, 5]
    _, kind, name, *_ = change.split()
    run(prices, f"ALTER TABLE u DROP {kind} {name}")
    if code == 8272:  # it is kept
        code, text = said(prices, f"ADMIN UNDO DDL JOB {job_id}")
        assert code == 8200 and "retains data for UNDO of DDL job" in text
        run(prices, f"ADMIN END UNDO DDL JOB {text.split()[-3]}")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    assert str(rows(prices, "SELECT p FROM u WHERE id = 4")[0][0]) == "4.99"


def test_a_change_log_that_was_turned_on_since_is_in_the_way(prices):
    job_id = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    run(prices, "ALTER TABLE u EXUVIA_CHANGE_LOG = ON")
    code, text = said(prices, f"ADMIN UNDO DDL JOB {job_id}")
    assert code == 8200 and "change log" in text
    run(prices, "ALTER TABLE u EXUVIA_CHANGE_LOG = OFF")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")


def test_checks_are_obeyed_while_it_is_kept_and_none_is_added(prices):
    run(prices, "ALTER TABLE u ADD CONSTRAINT few CHECK (p < 5.4)")
    job_id = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    assert said(prices, "ALTER TABLE u ADD CHECK (p > 0)")[0] == 8200
    assert said(prices, "ALTER TABLE u ADD COLUMN x INT, MODIFY p BIGINT")[0] == 8200
    assert error(prices, "UPDATE u SET p = 6 WHERE id = 1")[0] == 3819
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    assert error(prices, "UPDATE u SET p = 5.5 WHERE id = 1")[0] == 3819
    assert str(rows(prices, "SELECT p FROM u WHERE id = 4")[0][0]) == "4.99"


def test_it_is_seen_with_the_others_of_a_group(prices):
    first = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    second = dropped(prices, "ALTER TABLE u MODIFY d DATE", "d")
    run(prices, "ADMIN CREATE DDL GROUP g")
    run(prices, "SET exuvia_ddl_async = ON")
    run(prices, "SET exuvia_ddl_group = g")
    jobs = [rows(prices, f"ADMIN UNDO DDL JOB {first}")[0][0]]
    for change in (f"ADMIN UNDO DDL JOB {second}", "ALTER TABLE u ADD COLUMN x INT"):
        assert said(prices, change)[0] == 8200
    jobs.append(rows(prices, "ALTER TABLE t ADD COLUMN x INT")[0][0])
    run(prices, "SET exuvia_ddl_async = OFF")
    run(prices, "SET exuvia_ddl_group = ''")
    run(prices, "ADMIN COMPLETE DDL GROUP g")
    run(prices, f"ADMIN WAIT DDL JOBS {jobs[0]}, {jobs[1]}")
    assert str(rows(prices, "SELECT p FROM u WHERE id = 4")[0][0]) == "4.99"
    assert rows(prices, "SELECT x FROM t WHERE id = 1") == [[None]]
    run(prices, f"ADMIN UNDO DDL JOB {second}")
    assert not rows(prices, "SELECT * FROM information_schema.exuvia_undo")
    run(prices, "ADMIN CHECK TABLE u")


def test_a_modify_of_a_group_is_kept(prices):
    run(prices, "ADMIN CREATE DDL GROUP g")
    run(prices, "SET exuvia_ddl_async = ON")
    run(prices, "SET exuvia_ddl_group = g")
    ((job_id, *_),) = rows(prices, "ALTER TABLE u MODIFY p INT")
    run(prices, "SET exuvia_ddl_async = OFF")
    run(prices, "SET exuvia_ddl_group = ''")
    run(prices, "ADMIN COMPLETE DDL GROUP g")
    run(prices, f"ADMIN WAIT DDL JOBS {job_id}")
    run(prices, "UPDATE u SET p = 7 WHERE id = 1")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    shown = rows(prices, "SELECT CAST(p AS CHAR) FROM u ORDER BY id")
    assert shown == [["7.00"], ["2.25"], ["3.75"], ["4.99"]]


def test_former_values_are_not_in_a_copy(prices):
    dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    run(prices, "INSERT INTO u (id, p) VALUES (5, 6)")
    run(prices, "CREATE TABLE t2 LIKE u")
    run(prices, "INSERT INTO t2 SELECT * FROM u")
    assert rows(prices, "SELECT id, p FROM t2") == rows(prices, "SELECT id, p FROM u")
    listed = rows(
        prices, "SELECT column_name FROM information_schema.columns WHERE table_name = 'u'"
    )
    assert {each[0] for each in listed} == {"id", "p", "d", "n"}


def test_two_columns_are_kept_at_once_and_come_back_in_either_order(prices):
    first = dropped(prices, "ALTER TABLE u MODIFY p INT FIRST", "p")
    second = dropped(prices, "ALTER TABLE u MODIFY d DATE", "d")
    run(prices, "UPDATE u SET p = 70 WHERE id = 1")
    run(prices, "UPDATE u SET d = '2027-01-01' WHERE id = 3")
    run(prices, f"ADMIN UNDO DDL JOB {first}")
    run(prices, f"ADMIN UNDO DDL JOB {second}")
    shown = rows(prices, "SELECT CAST(p AS CHAR), CAST(d AS CHAR) FROM u ORDER BY id")
    assert shown == [
        ["70.00", "2026-01-02 03:04:05"],
        ["2.25", None],
        ["3.75", "2027-01-01 00:00:00"],
        ["4.99", "2026-07-08 09:10:11"],
    ]
    assert [each[0] for each in rows(prices, "SHOW COLUMNS FROM u")] == ["id", "p", "d", "n"]
    run(prices, "ADMIN CHECK TABLE u")


@pytest.mark.parametrize(
    "change",
    [
        "MODIFY p BIGINT",
        "RENAME COLUMN p TO q",
        "DROP COLUMN p",
        "PARTITION BY HASH (id) PARTITIONS 2",
    ],
)
def test_a_change_of_the_same_column_names_the_job(prices, change):
    run(prices, "ALTER TABLE u DROP INDEX ip, DROP INDEX up")
    job_id = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    code, text = said(prices, f"ALTER TABLE u {change}")
    assert code == 8200 and f"ADMIN END UNDO DDL JOB {job_id} discards it" in text
    run(prices, f"ADMIN END UNDO DDL JOB {job_id}")
    assert not rows(prices, "SELECT * FROM information_schema.exuvia_undo")
    run(prices, "SET exuvia_undo_s = 0")
    run(prices, f"ALTER TABLE u {change}")
    assert said(prices, f"ADMIN UNDO DDL JOB {job_id}")[0] == 1105


def test_an_index_on_it_that_is_kept_comes_back_first(prices):
    job_id = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    index_job = dropped(prices, "ALTER TABLE u DROP INDEX ip", "ip")
    code, text = said(prices, f"ADMIN UNDO DDL JOB {job_id}")
    assert code == 8200 and f"ADMIN UNDO DDL JOB {index_job} restores it" in text
    run(prices, f"ADMIN UNDO DDL JOB {index_job}")
    run(prices, f"ADMIN UNDO DDL JOB {job_id}")
    run(prices, "ADMIN CHECK TABLE u")
    found = rows(prices, "SELECT p FROM u FORCE INDEX (ip) WHERE p > 3 ORDER BY p")
    assert [str(p) for (p,) in found] == ["3.75", "4.99"]


def test_former_values_of_rows_in_partitions_come_back(session):
    run(
        session,
        "CREATE TABLE u (id INT PRIMARY KEY, p DECIMAL(5,2), KEY ip (p)) "
        "PARTITION BY HASH (id) PARTITIONS 3",
    )
    run(session, "INSERT INTO u VALUES (1, 1.5), (2, 2.5), (3, 3.5), (4, 4.5)")
    job_id = dropped(session, "ALTER TABLE u MODIFY p INT", "p")
    run(session, "UPDATE u SET id = 8 WHERE id = 4")  # to another partition
    run(session, "UPDATE u SET p = 0 WHERE id = 2")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    run(session, "ADMIN CHECK TABLE u")
    found = rows(session, "SELECT id, CAST(p AS CHAR) FROM u ORDER BY id")
    assert found == [[1, "1.50"], [2, "0.00"], [3, "3.50"], [8, "4.50"]]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("MODIFY s TIMESTAMP NOT NULL", "a former NULL becomes a moment"),
        ("MODIFY f DECIMAL(20,6)", "could not be changed back"),
        ("MODIFY id BIGINT", "primary key flag"),
        ("MODIFY p INT, MODIFY d DATE", "several changes"),
    ],
)
def test_a_modify_that_is_not_kept_says_so(prices, change, why):
    run(prices, "ALTER TABLE u ADD COLUMN s DATETIME, ADD COLUMN f DATETIME")
    warned = run(prices, f"ALTER TABLE u {change}").warnings
    assert any(why in each.message for each in warned)
    ((job_id,),) = rows(prices, "SELECT MAX(job_id) FROM information_schema.ddl_jobs")
    assert not rows(prices, "SELECT * FROM information_schema.exuvia_undo")
    assert "nothing was retained" in said(prices, f"ADMIN UNDO DDL JOB {job_id}")[1]


def test_explain_says_what_a_kept_modify_costs(prices):
    told = rows(prices, "EXPLAIN ALTER TABLE u MODIFY p INT")
    (cost,) = [each[4] for each in told if "Keeps" in each[0]]
    assert "also keeps the former value" in cost and "UNDO writes 4 row(s)" in cost
    told = rows(prices, "EXPLAIN ALTER TABLE u MODIFY n VARCHAR(40)")
    (cost,) = [each[4] for each in told if "Keeps" in each[0]]
    assert cost.startswith("no extra write meanwhile")


def test_a_table_that_comes_back_has_no_former_values(prices):
    job_id = dropped(prices, "ALTER TABLE u MODIFY p INT", "p")
    run(prices, "DROP TABLE u")
    run(prices, "RECOVER TABLE u")
    assert said(prices, f"ADMIN UNDO DDL JOB {job_id}")[0] == 1105
    run(prices, "UPDATE u SET p = p + 1")
    assert rows(prices, "SELECT p FROM u ORDER BY id") == [[3], [3], [5], [6]]


# -- other changes meanwhile -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ADD INDEX ic (c)",
        "ALTER TABLE t ADD UNIQUE uc (c)",
        "ALTER TABLE t ADD COLUMN x INT DEFAULT 3 FIRST",
        "ALTER TABLE t DROP COLUMN c",
        "ALTER TABLE t MODIFY c BIGINT",
        "ALTER TABLE t MODIFY c VARCHAR(20)",
        "ALTER TABLE t RENAME COLUMN c TO e",
        "ALTER TABLE t ALTER COLUMN c SET DEFAULT 4",
        "ALTER TABLE t COMMENT 'said'",
        "ALTER TABLE t AUTO_INCREMENT = 50",
        "ALTER TABLE t EXUVIA_CHANGE_LOG = ON",
        "ALTER TABLE t ADD COLUMN x INT, ADD INDEX ix (x)",
    ],
)
def test_a_change_that_goes_on_beside_what_is_kept(session, change):
    index_job = dropped(session, "ALTER TABLE t DROP INDEX ia", "ia")
    column_job = dropped(session, "ALTER TABLE t DROP COLUMN b", "b")
    run(session, change)
    run(session, "UPDATE t SET a = a + 1")
    run(session, f"ADMIN UNDO DDL JOB {column_job}")
    run(session, f"ADMIN UNDO DDL JOB {index_job}")
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, "SELECT b FROM t FORCE INDEX (ia) WHERE a = 3") == [["two"]]


def test_a_table_that_is_renamed_takes_it_along(session):
    job_id = dropped(session, "ALTER TABLE t DROP INDEX ia", "ia")
    run(session, "CREATE DATABASE IF NOT EXISTS elsewhere")
    run(session, "RENAME TABLE t TO elsewhere.t2")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")
    assert rows(session, "SHOW INDEX FROM elsewhere.t2 WHERE key_name = 'ia'")
    run(session, "DROP DATABASE elsewhere")


@pytest.mark.parametrize(
    "change",
    [
        "TRUNCATE TABLE t",
        "ALTER TABLE t MODIFY a BIGINT",
        "ALTER TABLE t MODIFY a VARCHAR(20)",
        "ALTER TABLE t RENAME COLUMN a TO e",
        "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2",
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (c) REFERENCES t (id)",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t DROP COLUMN c, ADD COLUMN x INT, DROP COLUMN a",
    ],
)
def test_a_change_that_cannot_go_on_beside_it_names_the_job(session, change):
    job_id = dropped(session, "ALTER TABLE t DROP INDEX ia", "ia")
    code, text = said(session, change)
    assert code == 8200 and f"ADMIN END UNDO DDL JOB {job_id} discards it" in text
    run(session, f"ADMIN END UNDO DDL JOB {job_id}")
    run(session, change)
    assert said(session, f"ADMIN UNDO DDL JOB {job_id}")[0] == 1105


def test_a_table_that_comes_back_has_nothing_hidden(session):
    job_id = dropped(session, "ALTER TABLE t DROP COLUMN a", "a")
    run(session, "DROP TABLE t")
    assert error(session, f"ADMIN UNDO DDL JOB {job_id}")[0] == 1146
    run(session, "RECOVER TABLE t")
    assert rows(session, "SELECT b FROM t WHERE id = 2") == [["two"]]
    assert said(session, f"ADMIN UNDO DDL JOB {job_id}")[0] == 1105
    run(session, "ALTER TABLE t MODIFY c BIGINT")
    run(session, "INSERT INTO t VALUES (4, 'four', 4)")
    run(session, "ADMIN CHECK TABLE t")


def test_a_table_that_is_locked_loses_what_is_hidden_in_time_all_the_same():
    window = Window("drop index, kept", 0)
    dropped = window.run(window.drop(window.cluster))
    database, t = window.cluster.database(), window.cluster.table("t").info
    locked = requests.change_option(ActionCode.EXUVIA_SCHEMA_LOCKED, database, t, True)
    window.run(locked)
    window.cluster.clock.advance(UNDO_S + 1)
    window.rounds(100)
    assert window.kept(dropped) is None
    window.check(["ub"])


def test_an_index_that_lacks_an_entry_does_not_come_back():
    window = Window("drop index, kept", 0)
    dropped = window.run(window.drop(window.cluster))
    t = window.cluster.table("t")
    (hidden,) = [each for each in t.info.indexes if each.state != SchemaState.PUBLIC]
    txn = window.cluster.store.begin()
    key, _ = next(iter(txn.scan(t.index_span(hidden))))
    txn.delete(key)
    txn.commit()
    found = window.kept(dropped)
    job = window.cluster.run(requests.undo(window.cluster.database(), t.info, found, found.name))
    assert job.state == JobState.ROLLBACK_DONE and job.err is not None
    assert window.kept(dropped) == found
    window.check(["ub"])


def test_a_locked_table_is_not_undone_until_the_lock_is_off(session):
    job_id = dropped(session, "ALTER TABLE t DROP INDEX ia", "ia")
    run(session, "ALTER TABLE t EXUVIA_SCHEMA_LOCKED = ON")
    assert "locked" in said(session, f"ADMIN UNDO DDL JOB {job_id}")[1]
    run(session, "ALTER TABLE t EXUVIA_SCHEMA_LOCKED = OFF")
    run(session, f"ADMIN UNDO DDL JOB {job_id}")


# -- every moment, by the model --------------------------------------------------------------------


def _real(store):
    return lambda *asked: PhaseRunner(store, *asked, None, JUDGE)


class Window:
    """t(id, a, b) with writers; what each commit made of it is in the model."""

    def __init__(self, label, seed):
        self.chance = random.Random(f"{label} {seed}")
        self.cluster = SmallCluster(reorgs=_real)
        prepare, self.drop = (OF_UNDO | OF_COLUMNS_KEPT)[label]
        prepare(self.cluster)
        if label == "drop column, kept":
            database, t = self.cluster.database(), self.cluster.table("t").info
            self.cluster.run(requests.set_default(database, t, evolve(t.column("b"), default="7")))
        self.traffic = Traffic(self.cluster.store, "t", self.chance)
        self.traffic.fill(6)
        self.traffic.partly = label in OF_COLUMNS_KEPT

    def rounds(self, number):
        for _ in range(number):
            self.traffic.step()
            self.cluster.step()

    def run(self, job, crash_at=-1):
        """To its end, with a crash of the owner once it has taken so many steps."""
        job_id = self.cluster.submit(job)
        steps, seen = 0, None
        for _ in range(2000):
            found = self.cluster.job(job_id)
            steps += found.schema_state != seen
            seen = found.schema_state
            if steps > crash_at >= 0:
                crash_at = -1
                self.cluster.crash_owner()
            if found.in_history:
                return found
            self.rounds(1)
        raise AssertionError(found.describe())

    def kept(self, job):
        return self.cluster.read(lambda txn: kept.get(txn, job.id))

    def undo(self, job, **how):
        database, t = self.cluster.database(), self.cluster.table("t").info
        found = self.kept(job)
        if found.kind == "modify":
            return self.run(changed_back(self.cluster), **how)
        return self.run(requests.undo(database, t, found, found.name), **how)

    def check(self, indexes, most=None):
        self.traffic.stop()
        self.cluster.step(60)
        t = self.cluster.table("t")
        txn = self.cluster.store.begin()
        stored = dict(reader.scan(txn, t))
        shown = {
            keys.read_i64(handle): {
                each.name.L: row[n]
                for n, each in enumerate(t.info.cols)
                if each.state == SchemaState.PUBLIC
            }
            for handle, row in stored.items()
        }
        names = [each.name.L for each in t.info.public_columns]
        model = {
            row_id: {name: cells.get(name, 7) for name in names}
            for row_id, cells in self.traffic.rows.items()
        }
        for cells in model.values() if most else ():
            cells["b"] = min(cells["b"], most)
        assert shown == model
        public = {i.idx_name.L: i for i in t.info.indexes if i.state == SchemaState.PUBLIC}
        assert set(public) == set(indexes)
        for each in public.values():
            live = {key for key, raw in txn.scan(t.index_span(each)) if is_live(raw)}
            assert live == set(entries_of(t, each, stored))
        txn.rollback()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("crash_at", [-1, 0, 1, 2])
@pytest.mark.parametrize(
    ("label", "indexes"),
    [
        ("drop index, kept", ["ia", "ub"]),
        ("drop column, kept", ["ia", "ib"]),
        ("modify column, kept", ["ia", "iba"]),
    ],
)
def test_nothing_that_was_written_meanwhile_is_lost(label, indexes, crash_at, seed):
    window = Window(label, seed)
    window.rounds(5)
    dropped = window.run(window.drop(window.cluster), crash_at)
    assert dropped.state == JobState.SYNCED
    window.rounds(6)  # few: a row that is removed and comes back shows nothing
    ended = window.undo(dropped, crash_at=crash_at)
    assert ended.state == JobState.SYNCED, ended.describe()
    assert window.kept(dropped) is None
    window.check(indexes)
    assert window.cluster.read(delete_ranges.pending_ranges) == []
    assert window.traffic.committed > 15


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("label", ["drop index, kept", "drop column, kept", "modify column, kept"])
def test_an_undo_that_is_cancelled_leaves_it_hidden_and_may_be_asked_again(label, at):
    window = Window(label, 1)
    dropped = window.run(window.drop(window.cluster))
    window.rounds(10)
    database, t = window.cluster.database(), window.cluster.table("t").info
    found = window.kept(dropped)
    undo = requests.undo(database, t, found, found.name)
    asked = changed_back(window.cluster) if found.kind == "modify" else undo
    job_id = window.cluster.submit(asked)
    window.rounds(at)
    ((_, refused),) = admin.command_now(window.cluster.store, "cancel", [job_id])
    assert refused is None
    assert window.cluster.finish(job_id).state in (JobState.CANCELLED, JobState.ROLLBACK_DONE)
    assert window.kept(dropped) is not None
    window.rounds(10)
    assert window.undo(dropped).state == JobState.SYNCED
    names = {"index": ["ia", "ub"], "modify": ["ia", "iba"], "column": ["ia", "ib"]}
    window.check(names[found.kind])


@pytest.mark.parametrize("crash_at", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("label", ["drop index, kept", "drop column, kept", "modify column, kept"])
def test_when_its_time_is_over_nothing_of_it_is_left(label, crash_at):
    window = Window(label, 0)
    dropped = window.run(window.drop(window.cluster))
    window.rounds(10)
    before = window.cluster.table("t")
    window.cluster.clock.advance(UNDO_S - 5)
    window.rounds(10)
    assert window.kept(dropped) is not None
    window.cluster.clock.advance(10)
    window.cluster.step(1)
    for n in range(60):
        if n == crash_at:
            window.cluster.crash_owner()
        window.rounds(1)
    window.cluster.clock.advance(2)
    window.rounds(60)
    assert window.kept(dropped) is None
    if label in OF_COLUMNS_KEPT:
        window.check(["ia", "iba"], MOST_KEPT)
    else:
        window.check(["ub"] if "index" in label else ["ia"])
    after = window.cluster.table("t").info
    assert all(each.state == SchemaState.PUBLIC for each in (*after.cols, *after.indexes))
    for each in before.info.indexes:
        if after.index_by_id(each.id) is None:
            span = keys.span_of(keys.index_prefix(after.id, each.id))
            assert window.cluster.store.count(span) == 0


def test_an_end_that_is_cancelled_is_asked_for_again():
    window = Window("drop index, kept", 0)
    dropped = window.run(window.drop(window.cluster))
    window.cluster.clock.advance(UNDO_S + 1)
    for _ in range(50):
        window.cluster.step()
        found = window.kept(dropped)
        if found.ended_by:
            break
    ((_, refused),) = admin.command_now(window.cluster.store, "cancel", [found.ended_by])
    assert refused is None
    window.cluster.clock.advance(2)
    window.cluster.step(200)
    assert window.kept(dropped) is None
    ends = [
        job.state
        for job in window.cluster.read(lambda txn: queue.history(txn, 9))
        if job.action_text == "exuvia end undo"
    ]
    assert ends == [JobState.SYNCED, JobState.CANCELLED]


def test_of_undo_and_the_end_the_older_one_wins():
    window = Window("drop index, kept", 0)
    dropped = window.run(window.drop(window.cluster))
    found = window.kept(dropped)
    database, t = window.cluster.database(), window.cluster.table("t").info
    end = window.cluster.submit(requests.end_undo(database, t, found))
    undo = window.cluster.submit(requests.undo(database, t, found, "ia"))
    assert window.cluster.finish(end).state == JobState.SYNCED
    late = window.cluster.finish(undo)
    assert late.state == JobState.CANCELLED and late.err.code == 1105
    window.check(["ub"])


def test_what_a_database_that_is_dropped_had_waits_for_it():
    cluster = SmallCluster()
    cluster.keep_dropped(10_000)
    database = cluster.database()
    cluster.run(requests.create_table(database, abc(indexes=(index("ia", "a"),))))
    t = cluster.table("t").info
    dropped = cluster.run(kept_for_undo(requests.drop_index(database, t, "ia")))
    gone = cluster.run(requests.drop_database(database))
    cluster.clock.advance(UNDO_S + 1)
    cluster.step(100)
    assert cluster.read(lambda txn: kept.get(txn, dropped.id)) is not None
    cluster.run(requests.flashback_database(gone.binlog.DBInfo, "test", gone.id))
    cluster.clock.advance(2)
    cluster.step(200)
    assert cluster.read(kept.every) == []
    assert cluster.table("t").info.indexes == ()


def test_the_record_of_a_table_that_is_gone_goes():
    cluster = SmallCluster()
    database = cluster.database()
    cluster.run(requests.create_table(database, abc(indexes=(index("ia", "a"),))))
    t = cluster.table("t").info
    cluster.run(kept_for_undo(requests.drop_index(database, t, "ia")))
    cluster.run(requests.drop_table(database, t))
    cluster.clock.advance(UNDO_S + 1)
    cluster.step(100)
    assert cluster.read(kept.every) == []
    assert cluster.read(lambda txn: meta.get_table(txn, t.id)) is None


# -- rows of a TRUNCATE ----------------------------------------------------------------------------


def _truncated_world():
    """t with rows, truncated and kept; nothing that is dropped is kept for RECOVER."""
    cluster = SmallCluster(reorgs=_real)
    cluster.keep_dropped(0)
    prepare, _ = OF_UNDO["exuvia undo, rows"]
    prepare(cluster)
    (found,) = cluster.read(kept.every)
    return cluster, found, keys.table_span(found.table.id)


def test_rows_are_not_emptied_while_they_are_kept_and_are_afterwards():
    cluster, _, span = _truncated_world()
    there = cluster.store.count(span)
    cluster.step(100)
    assert cluster.store.count(span) == there > 0
    cluster.run(requests.drop_table(cluster.database(), cluster.table("t").info))
    cluster.clock.advance(UNDO_S - 10)
    cluster.step(100)
    assert cluster.store.count(span) == there
    cluster.clock.advance(20)
    cluster.step(100)
    assert cluster.read(kept.every) == [] and cluster.store.count(span) == 0


@pytest.mark.parametrize("first", ["undo", "flashback"])
def test_of_undo_and_flashback_one_has_the_rows(first):
    cluster, found, _ = _truncated_world()
    database, t = cluster.database(), cluster.table("t").info
    undo = requests.undo(database, t, found, "t", MOVER)
    flashback = requests.recover_table(database, found.table, "t2", found.job_id)
    asked = (undo, flashback) if first == "undo" else (flashback, undo)
    ids = [cluster.submit(job) for job in asked]
    ended = [cluster.finish(each) for each in ids]
    assert sorted(job.state for job in ended) == sorted([JobState.SYNCED, JobState.CANCELLED])
    (late,) = [job for job in ended if job.state == JobState.CANCELLED]
    assert late.err.code in (1105, 8055)
    (holder,) = [
        info
        for info in cluster.read(lambda txn: list(meta.list_tables(txn, database.id)))
        if found.table.id in info.physical_ids
    ]
    assert cluster.store.count(keys.span_of(keys.row_prefix(found.table.id))) == 6
    assert cluster.read(kept.every) == []
    assert holder.partition is None
