"""A read of few stored values goes straight: it answers what the general way answers, byte for byte
in both protocols, and hands over to it in every case that it does not know.

    asked(session, text)     run until a plan is kept, then by `few`, then by `run`: both answers
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exuvia.base.errors import Deposed, Unavailable, WouldWait
from exuvia.base.mysql_errors import ErrTableaccessDenied
from exuvia.base.types import Value
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.store import open_store
from exuvia.server.results import row_encoder
from exuvia.sql.result import Result
from exuvia.sql.select.read import FEW_ROWS, ReadRows
from exuvia.sql.session.session import Session
from exuvia.sql.session.transaction_runner import TransactionRunner
from exuvia.sql.statement.plan_cache import StatementShape
from support.world import World, error, rows, run

COLUMNS = {
    "ti": ("tinyint", "-128", "127"),
    "su": ("smallint unsigned", "65535", "0"),
    "mi": ("mediumint", "-8388608", "7"),
    "i": ("int", "-2147483648", "2147483647"),
    "bi": ("bigint", "-9223372036854775808", "12"),
    "bu": ("bigint unsigned", "18446744073709551615", "0"),
    "zf": ("int(6) zerofill", "42", "1234567"),
    "d": ("decimal(10,2)", "-12.50", "99999999.99"),
    "dw": ("decimal(60,10)", "1234567890123456789012345678901234567890.5", "-0.0000000001"),
    "f": ("float", "1.5", "-3.25e10"),
    "fm": ("float(7,3)", "12.5", "-1.125"),
    "db": ("double", "0.1", "-1e300"),
    "dt": ("date", "'2024-02-29'", "'1000-01-01'"),
    "dm": ("datetime(6)", "'2024-02-29 23:59:59.000001'", "'2001-01-01'"),
    "ts": ("timestamp(3) null", "'2024-06-30 10:11:12.125'", "'1999-12-31 23:00:00'"),
    "t": ("time(2)", "'-838:59:58.25'", "'00:00:00'"),
    "y": ("year", "2155", "1901"),
    "b": ("bit(10)", "b'1000000001'", "b'0'"),
    "e": ("enum('one', 'zwei', 'három')", "'három'", "'one'"),
    "s": ("set('a', 'b', 'c')", "'a,c'", "''"),
    "bn": ("binary(4)", "x'00ff'", "'abcd'"),
    "vb": ("varbinary(400)", "x'f0009f'", "repeat('z', 300)"),
    "c": ("char(20)", "'a b  c'", "'Ärger 🐞'"),
    "v": ("varchar(600)", "'ends in a space '", "repeat('é', 500)"),
    "vg": ("varchar(30) collate utf8mb4_general_ci", "'ÀB'", "'ab'"),
}
WIDE = {
    "j": ("json", """'{"a": [1, "é"]}'""", "'null'"),
    "bl": ("longblob", "x'00fe'", "repeat('b', 70000)"),
    "tx": ("longtext", "'text'", "repeat('é', 40000)"),
}
"""Name: its type, two values of it. WIDE ones are in no short range."""


def made(session: Session, table: str, columns: dict[str, tuple[str, str, str]]) -> None:
    """Rows with values, one of NULLs, mixed ones, and rows of an older layout."""
    names = list(columns)
    types = ", ".join(f"{each} {columns[each][0]}" for each in names)
    run(session, f"CREATE TABLE {table} (id int PRIMARY KEY, {types})")
    both = [[columns[each][which] for each in names] for which in (1, 2)]
    mixed = [value if n % 2 else "NULL" for n, value in enumerate(both[0])]
    found = [both[0], ["NULL"] * len(names), both[1], mixed]
    for number, values in enumerate(found, 1):
        run(session, f"INSERT INTO {table} VALUES ({number}, {', '.join(values)})")
    run(session, f"ALTER TABLE {table} ADD COLUMN later varchar(9) DEFAULT 'määh'")
    for number, values in enumerate(found, 11):
        run(session, f"INSERT INTO {table} VALUES ({number}, {', '.join(values)}, 'now')")


def plan_of(session: Session, text: str, *values: Value) -> ReadRows:
    """The plan that is kept for a prepared statement; it is run where there is none: new statistics
    may have come since."""
    for _ in range(5):
        for letters in ("i", "ii"):
            plan = session.services.plans.find(StatementShape(text, letters), session, values)
            if plan is not None:
                assert isinstance(plan, ReadRows)
                return plan
        run(session, text, values)
    raise AssertionError(text)


def asked(session: Session, text: str, *values: Value) -> tuple[Result, Result | None]:
    """The general answer, and the straight one where the plan reads few."""
    run(session, text, values)
    plan = plan_of(session, text, *values)
    straight = session.transactions.read_few(plan, values, "i" * len(values))
    before, plan.reads_few = plan.reads_few, False
    general = run(session, text, values)
    plan.reads_few = before
    return general, straight if before else None


def packets(result: Result, binary: bool, codec: str, many: bool) -> list[bytes]:
    encode = row_encoder(result.columns, codec, binary, many)
    return [encode(row) for row in result.rows]


def assert_alike(session: Session, text: str, *values: Value) -> None:
    general, straight = asked(session, text, *values)
    assert straight is not None, text
    assert straight.columns == general.columns
    assert [list(row) for row in straight.rows] == [list(row) for row in general.rows], text
    for binary in (False, True):
        for codec in ("utf8", "latin-1"):
            said = packets(general, binary, codec, many=False)
            assert packets(straight, binary, codec, many=True) == said, text


POINT = "SELECT {} FROM {} WHERE id = ?"
RANGE = "SELECT {} FROM {} WHERE id BETWEEN ? AND ?"


def test_every_type_of_a_row_found_by_its_key_is_alike(session: Session) -> None:
    made(session, "every", COLUMNS | WIDE)
    names = [*COLUMNS, *WIDE, "later", "id"]
    for what in (*names, "*", "id, v, i, c, ti, later", "v, v"):
        text = POINT.format(what, "every")
        for number in (1, 2, 3, 4, 11, 12, 13, 14, 99):
            assert_alike(session, text, number)


def test_every_type_of_a_short_range_is_alike(session: Session) -> None:
    made(session, "narrow", COLUMNS)
    for what in (*COLUMNS, "later", "*", "bu, id, su", "c, i"):
        text = RANGE.format(what, "narrow")
        for ends in ((1, 14), (2, 2), (5, 9), (9, 5)):
            assert_alike(session, text, *ends)


@pytest.mark.parametrize("column", [*COLUMNS, "later"])
def test_every_type_is_sorted_and_told_apart_alike(session: Session, column: str) -> None:
    made(session, "narrow", COLUMNS)
    table = "narrow"
    for what, rest in (
        (column, f" ORDER BY {column}"),
        (f"id, {column}", f" ORDER BY {column} DESC, id DESC"),
        (f"DISTINCT {column}", ""),
        (f"DISTINCT {column}", f" ORDER BY {column}"),
        (f"COUNT({column}), COUNT(*)", ""),
        (f"COUNT(DISTINCT {column})", ""),
        (f"MIN({column}), MAX({column})", ""),
    ):
        if what.startswith("MIN") and column in ("e", "s"):
            continue  # compared as texts, not as they are stored: the general way's
        assert_alike(session, RANGE.format(what, table) + rest, 1, 14)
        assert_alike(session, RANGE.format(what, table) + rest, 5, 9)


@pytest.mark.parametrize("column", ["ti", "bu", "d", "dw", "f", "db"])
def test_sums_are_alike(session: Session, column: str) -> None:
    made(session, "narrow", COLUMNS)
    what = f"SUM({column}), AVG({column}), SUM(i), COUNT(*)"
    assert_alike(session, RANGE.format(what, "narrow"), 1, 14)
    assert_alike(session, RANGE.format(what, "narrow"), 2, 2)
    assert_alike(session, RANGE.format(what, "narrow"), 5, 9)


def test_a_timestamp_is_read_and_sorted_in_the_session_s_zone(session: Session) -> None:
    run(session, "SET time_zone = '+00:00'")
    run(session, "CREATE TABLE z (id int PRIMARY KEY, ts timestamp, u timestamp)")
    run(session, "INSERT INTO z VALUES (1, '2024-10-27 00:30:00', '2024-10-27 00:30:00')")
    run(session, "INSERT INTO z VALUES (2, '2024-10-27 01:15:00', '2024-10-27 01:15:00')")
    by_id = "SELECT ts FROM z WHERE id=?"
    sorted_text = "SELECT id, ts FROM z WHERE id BETWEEN ? AND ? ORDER BY ts"
    assert_alike(session, by_id, 1)
    assert [row[0] for row in rows(session, sorted_text, (1, 2))] == [1, 2]
    utc = rows(session, by_id, (1,))
    run(session, "SET time_zone = 'Europe/Berlin'")  # an hour comes twice
    for _ in range(2):
        assert rows(session, by_id, (1,)) != utc
        assert [row[0] for row in rows(session, sorted_text, (1, 2))] == [1, 2]  # by their moments


@pytest.fixture
def n(session: Session) -> Session:
    """A table of 600 rows."""
    run(session, "CREATE TABLE n (id int PRIMARY KEY, a int, c varchar(20))")
    values = ", ".join(f"({n}, {n % 7}, 'c{n % 5}')" for n in range(1, 601))
    run(session, f"INSERT INTO n VALUES {values}")
    return session


SYSBENCH = {
    "SELECT c FROM n WHERE id=?": (5,),
    "SELECT c FROM n WHERE id BETWEEN ? AND ?": (5, 104),
    "SELECT SUM(a) FROM n WHERE id BETWEEN ? AND ?": (5, 104),
    "SELECT c FROM n WHERE id BETWEEN ? AND ? ORDER BY c": (5, 104),
    "SELECT DISTINCT c FROM n WHERE id BETWEEN ? AND ? ORDER BY c": (5, 104),
}


@pytest.mark.parametrize("explicit", [False, True])
def test_what_sysbench_reads_goes_straight(
    n: Session, explicit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, values in SYSBENCH.items():
        run(n, text, values)
    expected = [rows(n, text, values) for text, values in SYSBENCH.items()]
    if explicit:
        run(n, "BEGIN")

    def never(*_: object, **__: object) -> Any:
        raise AssertionError("the general way")

    monkeypatch.setattr(TransactionRunner, "run", never)
    assert [rows(n, text, values) for text, values in SYSBENCH.items()] == expected
    shaped = "SELECT c FROM n WHERE id={}"  # as text: the same plan by its shape
    monkeypatch.undo()
    rows(n, shaped.format(5))
    monkeypatch.setattr(TransactionRunner, "run", never)
    assert rows(n, shaped.format(6)) == [["c1"]]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a + 1 FROM n WHERE id=?",
        "SELECT a FROM n WHERE id=? AND a > 0",
        "SELECT a FROM n WHERE id=? LIMIT 1",
        "SELECT DISTINCT a FROM n WHERE id=? LIMIT 1",
        "SELECT a FROM n WHERE id=? FOR UPDATE",
        "SELECT a FROM n WHERE a=?",
        "SELECT SUM(a + 1) FROM n WHERE id=?",
    ],
)
def test_what_is_more_than_few_stored_values_does_not(n: Session, text: str) -> None:
    run(n, text, (5,))
    assert not plan_of(n, text).reads_few


@pytest.mark.parametrize(
    "rest", ["ORDER BY a", "ORDER BY a + 1", "ORDER BY id DESC", "ORDER BY LENGTH(c), id"]
)
def test_an_order_by_what_is_not_read_is_the_general_way_s(n: Session, rest: str) -> None:
    general, straight = asked(n, f"SELECT c FROM n WHERE id BETWEEN ? AND ? {rest}", 5, 40)
    assert straight is None
    assert len(general.rows) == 36


def test_a_transaction_sees_its_own_writes(n: Session) -> None:
    point, between = "SELECT c FROM n WHERE id=?", "SELECT c FROM n WHERE id BETWEEN ? AND ?"
    for text, values in ((point, (5,)), (between, (4, 7))):
        run(n, text, values)
    run(n, "BEGIN")
    run(n, "UPDATE n SET c = 'own' WHERE id = 5")
    run(n, "DELETE FROM n WHERE id = 6")
    assert rows(n, point, (5,)) == [["own"]]
    assert rows(n, point, (6,)) == []
    assert rows(n, between, (4, 7)) == [["c4"], ["own"], ["c2"]]
    assert rows(n, between, (100, 102)) == [["c0"], ["c1"], ["c2"]]
    run(n, "ROLLBACK")
    assert rows(n, between, (4, 7)) == [["c4"], ["c0"], ["c1"], ["c2"]]


def test_a_transaction_reads_one_snapshot_and_is_answered(n: Session, another: Session) -> None:
    point = "SELECT c FROM n WHERE id=?"
    run(n, point, (5,))
    run(n, "BEGIN")
    assert rows(n, point, (5,)) == [["c0"]]
    assert n.current is not None
    assert n.current.answered
    run(another, "UPDATE n SET c = 'new' WHERE id = 5")
    assert rows(n, point, (5,)) == [["c0"]]
    run(n, "COMMIT")
    assert rows(n, point, (5,)) == [["new"]]
    run(n, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    run(n, "BEGIN")
    assert rows(n, point, (5,)) == [["new"]]
    run(another, "UPDATE n SET c = 'newer' WHERE id = 5")
    assert rows(n, point, (5,)) == [["newer"]]
    run(n, "COMMIT")


def test_without_autocommit_a_read_begins_a_transaction(n: Session) -> None:
    point = "SELECT c FROM n WHERE id=?"
    run(n, point, (5,))
    run(n, "SET autocommit = 0")
    assert rows(n, point, (5,)) == [["c0"]]
    assert n.current is not None


def test_a_table_that_changed_is_planned_anew(n: Session, another: Session) -> None:
    every = "SELECT * FROM n WHERE id=?"
    assert rows(n, every, (5,)) == [[5, 5, "c0"]]
    run(another, "ALTER TABLE n ADD COLUMN z int DEFAULT 3")
    assert rows(n, every, (5,)) == [[5, 5, "c0", 3]]
    run(another, "ALTER TABLE n DROP COLUMN a")
    assert rows(n, every, (5,)) == [[5, "c0", 3]]
    run(another, "RENAME TABLE n TO m")
    assert error(n, every, (5,)) == (1146, "42S02")
    run(another, "CREATE TABLE n (id int PRIMARY KEY, b int)")
    assert rows(n, every, (5,)) == []
    run(another, "DROP TABLE n")
    assert error(n, every, (5,)) == (1146, "42S02")


def test_a_temporary_table_hides_the_other(n: Session) -> None:
    point = "SELECT c FROM n WHERE id=?"
    between = "SELECT c FROM n WHERE id BETWEEN ? AND ?"
    run(n, point, (5,))
    run(n, "CREATE TEMPORARY TABLE n (id int PRIMARY KEY, c varchar(9))")
    run(n, "INSERT INTO n VALUES (5, 'mine'), (6, 'too')")
    for _ in range(2):  # planned, and kept
        assert rows(n, point, (5,)) == [["mine"]]
        assert rows(n, between, (1, 9)) == [["mine"], ["too"]]
    run(n, "DROP TEMPORARY TABLE n")
    assert rows(n, point, (5,)) == [["c0"]]


def test_a_fenced_member_answers_nothing(n: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    point = "SELECT c FROM n WHERE id=?"
    run(n, point, (5,))

    def fenced() -> Any:
        raise Deposed("fenced")

    monkeypatch.setattr(n.services.member, "guarding", fenced)
    assert error(n, point, (5,)) == (8027, "HY000")


def test_a_plan_of_others_does_not_answer_who_may_not_read(
    n: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = "SELECT c FROM n WHERE id=?"
    run(n, point, (5,))
    plan = plan_of(n, point)

    def refused(context: object) -> None:
        raise ErrTableaccessDenied("SELECT", "u", "h", "n")

    monkeypatch.setattr(plan, "check", refused)
    assert error(n, point, (5,)) == (1142, "42000")


def test_many_rows_are_the_pool_s_and_no_longer_asked_for_here(n: Session) -> None:
    between = "SELECT c FROM n WHERE id BETWEEN ? AND ?"
    run(n, between, (1, 5))
    plan = plan_of(n, between)
    assert plan.reads_few
    assert len(rows(n, between, (1, FEW_ROWS + 1))) == FEW_ROWS + 1
    locks = n.services.row_locks
    locks.unwaiting = threading.get_ident()
    try:
        assert len(rows(n, between, (1, FEW_ROWS))) == FEW_ROWS
        with pytest.raises(WouldWait):
            run(n, between, (1, FEW_ROWS + 1))
    finally:
        locks.unwaiting = 0
    assert not plan.reads_few
    assert not plan.short
    assert len(rows(n, between, (1, 600))) == 600


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    opened = open_store(f"lmdb://{tmp_path}/store")
    assert isinstance(opened, LmdbStore)
    yield opened
    opened.close()


def test_its_snapshot_is_given_back_whatever_happens(store: LmdbStore) -> None:
    point = "SELECT c FROM n WHERE id=?"
    with World(store) as world:
        session = world.session("")
        run(session, "CREATE DATABASE d")
        run(session, "USE d")
        run(session, "CREATE TABLE n (id int PRIMARY KEY, c varchar(9))")
        run(session, "INSERT INTO n VALUES (5, 'c')")
        for _ in range(3):
            assert rows(session, point, (5,)) == [["c"]]
        assert store.caretaker.client_views == 0
        run(session, "BEGIN")
        assert rows(session, point, (5,)) == [["c"]]
        assert store.caretaker.client_views == 1
        run(session, "COMMIT")
        run(session, "DROP TABLE n")
        assert error(session, point, (5,)) == (1146, "42S02")
        assert store.caretaker.client_views == 0


def test_a_transaction_whose_snapshot_has_ended_writes_no_more(store: LmdbStore) -> None:
    with World(store) as world:
        session = world.session("")
        run(session, "CREATE DATABASE d")
        run(session, "USE d")
        run(session, "CREATE TABLE n (id int PRIMARY KEY, c varchar(9))")
        run(session, "INSERT INTO n VALUES (5, 'c')")
        run(session, "BEGIN")
        assert rows(session, "SELECT c FROM n WHERE id=5") == [["c"]]
        for view in store.caretaker.views():
            view.end("its time is over")
        with pytest.raises(Unavailable, match="its time is over"):
            session.execute("UPDATE n SET c = 'new' WHERE id=5")
        assert session.current is None
        assert rows(session, "SELECT c FROM n WHERE id=5") == [["c"]]
