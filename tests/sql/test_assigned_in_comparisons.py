"""A comparison may assign what it compares with: `c = @v := 1`; the value ends before the next
comparison, AND, OR, as in TiDB."""

import pytest

from support.world import World, error, rows, run


@pytest.fixture(scope="module")
def session():
    with World() as world:
        found = world.session()
        for text in ("CREATE DATABASE d", "USE d", "CREATE TABLE t (c INT, d INT)"):
            run(found, text)
        run(found, "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
        yield found


CASES = {
    "SELECT c FROM t WHERE c = @v := 1": ([[1]], 1),
    "SELECT c FROM t WHERE c > @v := 1 AND d < 30 ORDER BY c": ([[2]], 1),
    "SELECT c FROM t WHERE c >= @v := 1 + 1 OR d = 10 ORDER BY c": ([[1], [2], [3]], 2),
    "SELECT c FROM t WHERE c <=> @v := LEFT('23', 1) GROUP BY c": ([[2]], "2"),
    "SELECT c = @v := 2 x, d FROM t ORDER BY d LIMIT 1": ([[0, 10]], 2),
    "SELECT (c = @v := 3) FROM t ORDER BY c": ([[0], [0], [1]], 3),
    "SELECT c FROM t WHERE c = @`v` := 1 BETWEEN 0 AND 2 AND d = 10": ([[1]], 1),
    "SELECT c FROM t WHERE 1 = @v := c = 1": ([[1]], 3),
    "SELECT '2020-01-02' = @v := '2020-01-01' + INTERVAL 1 DAY d": ([[1]], "2020-01-02"),
    "SELECT @v := 5 = 5": ([[1]], 1),
}


@pytest.mark.parametrize("text", CASES)
def test_what_is_assigned(session, text):
    run(session, "SET @v = NULL")
    found, assigned = CASES[text]
    assert rows(session, text) == found
    assert rows(session, "SELECT @v") == [[assigned]]


def test_the_value_of_an_update_is_all_that_follows(session):
    run(session, "CREATE TABLE u (a INT, b INT)")
    run(session, "INSERT INTO u SET a = @v := 2 AND 0, b = 1")
    assert rows(session, "SELECT a, b, @v FROM u") == [[0, 1, 0]]
    run(session, "UPDATE u SET a = @v := 3 AND 1, b = 2 WHERE b = @w := 1")
    assert rows(session, "SELECT a, b, @v, @w FROM u") == [[1, 2, 1, 1]]


def test_what_is_no_comparison(session):
    assert error(session, "SELECT c FROM t WHERE c + @v := 1")[0] == 1064
    assert error(session, "SELECT c FROM t WHERE c = @v :=")[0] == 1064
