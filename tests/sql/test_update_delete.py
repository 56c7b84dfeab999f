"""UPDATE and DELETE do the same whether a filter of one table or a query finds the rows."""

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.session.session import Session
from support.world import rows, run

BY_QUERY = " AND id IN (SELECT id FROM ids)"
WRITES = (
    "UPDATE t SET v = v + 1 WHERE v < 30",
    "UPDATE t SET v = 20 WHERE v > 5",
    "UPDATE t SET v = v WHERE v > 5",
    "UPDATE t SET s = CONCAT(s, v), v = DEFAULT WHERE v IS NOT NULL",
    "UPDATE t SET u = 7 WHERE v = 10",
    "UPDATE t SET u = 1 WHERE v >= 10",
    "UPDATE IGNORE t SET u = 1 WHERE v >= 10",
    "UPDATE IGNORE t SET v = NULL, s = 'far too long a text' WHERE v >= 10",
    "UPDATE t SET id = id + 10 WHERE v < 30",
    "UPDATE t SET p = (v > 10) WHERE v < 40",
    "DELETE FROM t WHERE v >= 20",
    "DELETE FROM t WHERE v = 11",
    "DELETE IGNORE FROM t WHERE v > 0",
)


@pytest.fixture
def table(session: Session) -> Session:
    for text in (
        "CREATE TABLE ids (id int PRIMARY KEY)",
        "INSERT INTO ids VALUES (1), (2), (3), (4), (5)",
        "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, v int NOT NULL DEFAULT 3,"
        " s varchar(8), p int CHECK (p < 9))",
        "CREATE TABLE child (id int PRIMARY KEY, t int, FOREIGN KEY (t) REFERENCES t (id))",
    ):
        run(session, text)
    return session


def filled(session: Session) -> None:
    run(session, "DELETE FROM child")
    run(session, "DELETE FROM t")
    run(session, "INSERT INTO t VALUES (1, 1, 10, 'a', 1), (2, 2, 20, 'b', 2)")
    run(session, "INSERT INTO t VALUES (3, 3, 20, 'c', NULL), (4, NULL, 30, NULL, 4)")
    run(session, "INSERT INTO child VALUES (1, 4)")


def outcome(session: Session, text: str) -> object:
    """Rows, counts and warnings; or the error's code, and the rows."""
    filled(session)
    try:
        result = run(session, text)
        said: object = result.affected, result.info, [note.code for note in session.warnings]
    except Refused as error:
        said = error.code
    return said, rows(session, "SELECT * FROM t ORDER BY id")


@pytest.mark.parametrize("text", WRITES)
def test_both_ways_write_the_same(table: Session, text: str) -> None:
    for mode in ("STRICT_TRANS_TABLES", ""):
        run(table, f"SET sql_mode = '{mode}'")
        assert outcome(table, text) == outcome(table, text + BY_QUERY), mode


@pytest.mark.parametrize("more", ["", BY_QUERY], ids=["filter", "query"])
def test_a_row_that_stays_unchanged_is_locked(table: Session, another: Session, more: str) -> None:
    filled(table)
    run(table, "BEGIN")
    assert run(table, "UPDATE t SET v = v WHERE v = 20" + more).affected == 0
    for key, is_locked in ((1, False), (2, True), (3, True)):
        lock = f"SELECT id FROM t WHERE id = {key} FOR UPDATE NOWAIT"
        if not is_locked:
            assert rows(another, lock) == [[key]]
            continue
        with pytest.raises(Refused) as refused:
            run(another, lock)
        assert refused.value.code == 3572
    run(table, "ROLLBACK")
