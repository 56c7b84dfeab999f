"""EXCHANGE PARTITION holds rows to the CHECKs of where they go while it runs, not only before."""

import pytest

from exuvia.base.errors import Refused
from support.world import Later, World, error, rows, run

EXCHANGE = "ALTER TABLE p EXCHANGE PARTITION p1 WITH TABLE n"
MISFIT = (1737, "HY000")


@pytest.fixture
def world():
    with World() as found:
        session = found.session()
        run(session, "SET GLOBAL tidb_enable_check_constraint = ON")
        run(session, "CREATE TABLE n (a int PRIMARY KEY, b int, c int AS (b + 1), CHECK (c > 50))")
        parts = "PARTITION p0 VALUES LESS THAN (50), PARTITION p1 VALUES LESS THAN (100)"
        columns = "a int PRIMARY KEY, b int, c int AS (b + 1), CHECK (b < 75)"
        run(session, f"CREATE TABLE p ({columns}) PARTITION BY RANGE (a) ({parts})")
        run(session, "INSERT INTO n (a, b) VALUES (60, 60)")
        run(session, "INSERT INTO p (a, b) VALUES (1, 1), (70, 70)")
        yield found


@pytest.mark.parametrize("late", ["INSERT INTO n (a, b) VALUES (61, 80)", "UPDATE n SET b = 80"])
def test_a_row_that_was_not_committed_when_it_was_asked_for_is_found(world, late):
    writing = world.session()
    run(writing, "BEGIN")
    run(writing, late)
    exchanging = Later(world.session(), EXCHANGE)
    assert exchanging.waits()
    run(writing, "COMMIT")
    assert exchanging.answer() == MISFIT[0]
    assert rows(writing, "SELECT a FROM p") == [[1], [70]]
    run(writing, "INSERT INTO n (a, b) VALUES (62, 80)")
    run(writing, "INSERT INTO p (a, b) VALUES (62, 10)")


def test_a_row_of_the_partition_is_found_as_well(world):
    writing = world.session()
    run(writing, "BEGIN")
    run(writing, "UPDATE p SET b = 10 WHERE a = 70")
    exchanging = Later(world.session(), EXCHANGE)
    assert exchanging.waits()
    run(writing, "COMMIT")
    assert exchanging.answer() == MISFIT[0]


def until_it_has_begun(world):
    seen = world.store.counter("version")
    for _ in range(100):
        txn = world.store.begin()
        info = world.services.schemas.table(txn, "test", "n").info
        txn.rollback()
        if info.exuvia_exchange is not None:
            return
        world.store.wait("version", seen, 0.05)
    raise AssertionError("it does not begin")


def test_who_writes_either_side_meanwhile_obeys_the_other(world):
    holding, writing = world.session(), world.session()
    run(holding, "BEGIN")
    run(holding, "INSERT INTO p (a, b) VALUES (2, 2)")
    exchanging = Later(world.session(), EXCHANGE)
    assert exchanging.waits()
    until_it_has_begun(world)
    assert error(writing, "INSERT INTO n (a, b) VALUES (61, 80)") == MISFIT
    assert error(writing, "UPDATE n SET b = 80") == MISFIT
    assert error(writing, "INSERT INTO p (a, b) VALUES (61, 10)") == MISFIT
    assert error(writing, "UPDATE p SET b = 10 WHERE a = 70") == MISFIT
    assert error(writing, "UPDATE p SET a = 71 WHERE a = 1") == MISFIT
    run(writing, "INSERT INTO n (a, b) VALUES (61, 61)")
    run(writing, "INSERT INTO p (a, b) VALUES (3, 3), (71, 71)")
    run(holding, "COMMIT")
    assert exchanging.rows() == []
    assert rows(writing, "SELECT a FROM p ORDER BY a") == [[1], [2], [3], [60], [61]]
    assert rows(writing, "SELECT a FROM n ORDER BY a") == [[70], [71]]
    run(writing, "INSERT INTO n (a, b) VALUES (1, 80)")
    run(writing, "INSERT INTO p (a, b) VALUES (62, 10)")


def test_all_rows_that_do_not_fit_are_counted(world):
    session = world.session()
    run(session, "INSERT INTO n (a, b) VALUES (61, 80), (62, 81)")
    with pytest.raises(Refused, match=r"partition \(2 rows: a 61, a 62\)"):
        session.execute(EXCHANGE)
    run(session, f"{EXCHANGE} WITHOUT VALIDATION")
    assert rows(session, "SELECT a FROM p ORDER BY a") == [[1], [60], [61], [62]]


@pytest.mark.parametrize(
    ("changes", "code", "told"),
    [
        (["DROP COLUMN d", "ADD COLUMN d int"], 1731, "column: d"),
        (["DROP INDEX i", "ADD INDEX i (b)"], 1731, "index: i"),
        (["DROP INDEX i", "ADD INDEX j (b)"], 1736, "different definitions"),
        (["DROP COLUMN d", "ADD COLUMN d varchar(3)"], 1736, "different definitions"),
        (["DROP INDEX i"], 1736, "different definitions"),
        (["ADD INDEX j (b)"], 1736, "different definitions"),
    ],
)
def test_what_is_in_the_way_is_named_where_it_is_an_id(changes, code, told):
    with World() as world:
        session = world.session()
        columns = "a int PRIMARY KEY, b int, d int, KEY i (b)"
        parts = "PARTITION p0 VALUES LESS THAN (50), PARTITION p1 VALUES LESS THAN (100)"
        run(session, f"CREATE TABLE p ({columns}) PARTITION BY RANGE (a) ({parts})")
        run(session, f"CREATE TABLE n ({columns})")
        for change in changes:
            run(session, f"ALTER TABLE n {change}")
        with pytest.raises(Refused) as refusal:
            run(session, EXCHANGE)
        assert refusal.value.code == code
        assert told in str(refusal.value)
