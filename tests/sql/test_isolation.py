"""What each isolation level prevents and admits, anomaly by anomaly: docs/isolation.md is this file
in words, and its last test holds the two together.

The histories are those of Hermitage (Adya's names): rows (1, 10) and (2, 20), two or three sessions
of one front. A pessimistic session waits where an optimistic one is refused at its commit.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.session.session import Session
from support.world import Later, World, error, rows, run

ROOT = Path(__file__).parents[2]
COMMITTED, REPEATABLE, OPTIMISTIC = "READ COMMITTED", "REPEATABLE READ", "OPTIMISTIC"
LEVELS = (COMMITTED, REPEATABLE, OPTIMISTIC)
ADMITTED: dict[str, set[str]] = {
    "test_g0_dirty_write": set(),
    "test_g1a_aborted_read": set(),
    "test_g1b_intermediate_read": set(),
    "test_g1c_circular_information_flow": set(),
    "test_otv_observed_transaction_vanishes": set(),
    "test_pmp_predicate_many_preceders": {COMMITTED},
    "test_pmp_for_a_write_predicate": {COMMITTED, REPEATABLE},
    "test_p4_lost_update_in_the_statement": set(),
    "test_p4_lost_update_by_the_client": {COMMITTED, REPEATABLE},
    "test_p4_lost_update_with_for_update": set(),
    "test_g_single_read_skew": {COMMITTED},
    "test_g_single_by_predicate": {COMMITTED},
    "test_g2_item_write_skew": set(LEVELS),
    "test_g2_item_write_skew_with_for_update": set(),
    "test_g2_write_skew_by_predicate": set(LEVELS),
    "test_g2_write_skew_by_predicate_with_for_update": set(LEVELS),
    "test_phantom_of_a_plain_read": {COMMITTED},
    "test_phantom_of_a_range_read_for_update": set(LEVELS),
}

pytestmark = pytest.mark.filterwarnings("error")
every_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def third(world: World, session: Session) -> Iterator[Session]:
    """One more session, which only looks."""
    found = world.session(session.database)
    yield found
    found.close()


@pytest.fixture(autouse=True)
def two_rows(session: Session) -> None:
    run(session, "CREATE TABLE test (id int PRIMARY KEY, value int, KEY (value))")
    run(session, "INSERT INTO test VALUES (1, 10), (2, 20)")


def begin(level: str, *sessions: Session) -> None:
    for each in sessions:
        if level == OPTIMISTIC:
            run(each, "BEGIN OPTIMISTIC")
        else:
            run(each, f"SET TRANSACTION ISOLATION LEVEL {level}")
            run(each, "BEGIN PESSIMISTIC")


def value(session: Session, number: int) -> object:
    return rows(session, f"SELECT value FROM test WHERE id = {number}")[0][0]


def committed(*sessions: Session) -> bool:
    """Whether all of them could commit; 1213 is how one is refused."""
    found = True
    for each in sessions:
        try:
            run(each, "COMMIT")
        except Refused as refusal:
            assert refusal.code == 1213
            found = False
    return found


def update(session: Session, number: int, new: int) -> None:
    run(session, f"UPDATE test SET value = {new} WHERE id = {number}")


def judge(name: str, level: str, seen: bool) -> None:
    assert seen == (level in ADMITTED[name]), "what docs/isolation.md says is no longer so"


@every_level
def test_g0_dirty_write(session: Session, another: Session, level: str) -> None:
    begin(level, session, another)
    update(session, 1, 11)
    second = Later(another, "UPDATE test SET value = 12 WHERE id = 1")
    assert second.waits() == (level != OPTIMISTIC)
    update(session, 2, 21)
    assert committed(session)
    second.answer()
    update(another, 2, 22)
    whole = (12, 22) if committed(another) else (11, 21)
    judge("test_g0_dirty_write", level, (value(session, 1), value(session, 2)) != whole)


@every_level
def test_g1a_aborted_read(session: Session, another: Session, level: str) -> None:
    begin(level, session, another)
    update(session, 1, 101)
    before = value(another, 1)
    run(session, "ROLLBACK")
    seen = 101 in (before, value(another, 1))
    assert committed(another)
    judge("test_g1a_aborted_read", level, seen)


@every_level
def test_g1b_intermediate_read(session: Session, another: Session, level: str) -> None:
    begin(level, session, another)
    update(session, 1, 101)
    before = value(another, 1)
    update(session, 1, 11)
    assert committed(session)
    after = value(another, 1)
    assert committed(another)
    assert after == (11 if level == COMMITTED else 10)
    judge("test_g1b_intermediate_read", level, 101 in (before, after))


@every_level
def test_g1c_circular_information_flow(session: Session, another: Session, level: str) -> None:
    begin(level, session, another)
    update(session, 1, 11)
    update(another, 2, 22)
    seen = (value(session, 2), value(another, 1)) == (22, 11)
    assert committed(session, another)
    judge("test_g1c_circular_information_flow", level, seen)


@every_level
def test_otv_observed_transaction_vanishes(
    session: Session, another: Session, third: Session, level: str
) -> None:
    begin(level, session, another, third)
    update(session, 1, 11)
    update(session, 2, 19)
    second = Later(another, "UPDATE test SET value = 12 WHERE id = 1")
    assert committed(session)
    seen = [value(third, 1)]
    second.answer()
    update(another, 2, 18)
    seen.append(value(third, 2))
    committed(another)
    seen += [value(third, 2), value(third, 1)]
    assert committed(third)
    expected = [11, 19, 18, 12] if level == COMMITTED else [11, 19, 19, 11]  # from its first read
    judge("test_otv_observed_transaction_vanishes", level, seen != expected)


@every_level
def test_pmp_predicate_many_preceders(session: Session, another: Session, level: str) -> None:
    begin(level, session)
    assert rows(session, "SELECT * FROM test WHERE value = 30") == []
    run(another, "INSERT INTO test VALUES (3, 30)")
    seen = rows(session, "SELECT id FROM test WHERE value % 3 = 0") == [[3]]
    assert committed(session)
    judge("test_pmp_predicate_many_preceders", level, seen)


@every_level
def test_pmp_for_a_write_predicate(session: Session, another: Session, level: str) -> None:
    """The second deletes what its condition finds when it is its turn: not the row it has seen."""
    begin(level, session, another)
    run(session, "UPDATE test SET value = value + 10")
    assert rows(another, "SELECT id FROM test WHERE value = 20") == [[2]]
    second = Later(another, "DELETE FROM test WHERE value = 20")
    assert committed(session)
    second.answer()
    if committed(another):
        assert rows(session, "SELECT id, value FROM test") == [[2, 30]]
        seen = True
    else:
        assert rows(session, "SELECT id, value FROM test") == [[1, 20], [2, 30]]
        seen = False
    judge("test_pmp_for_a_write_predicate", level, seen)


@every_level
def test_p4_lost_update_in_the_statement(session: Session, another: Session, level: str) -> None:
    begin(level, session, another)
    assert value(session, 1) == value(another, 1) == 10
    run(session, "UPDATE test SET value = value + 1 WHERE id = 1")
    second = Later(another, "UPDATE test SET value = value + 1 WHERE id = 1")
    assert committed(session)
    second.answer()
    both = committed(another)
    judge("test_p4_lost_update_in_the_statement", level, both and value(session, 1) != 12)


def p4_by_the_client(session: Session, another: Session, level: str, lock: str) -> bool:
    """The client computes the new value from what it read."""
    begin(level, session, another)
    assert rows(session, f"SELECT value FROM test WHERE id = 1{lock}") == [[10]]
    reading = Later(another, f"SELECT value FROM test WHERE id = 1{lock}")
    update(session, 1, 11)
    writing = Later(another, "UPDATE test SET value = 11 WHERE id = 1") if not lock else None
    assert committed(session)
    [[read]] = reading.rows()
    if writing is None:
        update(another, 1, int(read) + 1)
    else:
        writing.answer()
    both = committed(another)
    return both and value(session, 1) != 12


@every_level
def test_p4_lost_update_by_the_client(session: Session, another: Session, level: str) -> None:
    judge("test_p4_lost_update_by_the_client", level, p4_by_the_client(session, another, level, ""))


@every_level
def test_p4_lost_update_with_for_update(session: Session, another: Session, level: str) -> None:
    judge(
        "test_p4_lost_update_with_for_update",
        level,
        p4_by_the_client(session, another, level, " FOR UPDATE"),
    )


@every_level
def test_g_single_read_skew(session: Session, another: Session, level: str) -> None:
    begin(level, session)
    assert value(session, 1) == 10
    run(another, "UPDATE test SET value = value - 2")
    seen = value(session, 2) == 18
    assert committed(session)
    judge("test_g_single_read_skew", level, seen)


@every_level
def test_g_single_by_predicate(session: Session, another: Session, level: str) -> None:
    begin(level, session)
    assert rows(session, "SELECT id FROM test WHERE value % 5 = 0 ORDER BY id") == [[1], [2]]
    run(another, "UPDATE test SET value = 12 WHERE value = 10")
    seen = rows(session, "SELECT id FROM test WHERE value % 3 = 0") == [[1]]
    assert committed(session)
    judge("test_g_single_by_predicate", level, seen)


def g2_item(session: Session, another: Session, level: str, lock: str) -> bool:
    begin(level, session, another)
    query = f"SELECT value FROM test WHERE id IN (1, 2){lock}"
    rows(session, query)
    second = Later(another, query)
    waits = second.waits()
    assert waits == bool(lock and level != OPTIMISTIC)
    update(session, 1, 11)
    if waits:
        assert committed(session)
        seen = second.rows() == [[10], [20]]
        update(another, 2, 21)
        assert committed(another)
    else:
        second.rows()
        update(another, 2, 21)
        seen = committed(session, another)
    return seen


@every_level
def test_g2_item_write_skew(session: Session, another: Session, level: str) -> None:
    judge("test_g2_item_write_skew", level, g2_item(session, another, level, ""))


@every_level
def test_g2_item_write_skew_with_for_update(session: Session, another: Session, level: str) -> None:
    judge(
        "test_g2_item_write_skew_with_for_update",
        level,
        g2_item(session, another, level, " FOR UPDATE"),
    )


def g2_by_predicate(session: Session, another: Session, level: str, lock: str) -> bool:
    """Both look for what is not there, and both put it there: gaps are not locked."""
    begin(level, session, another)
    for each in (session, another):
        assert rows(each, f"SELECT * FROM test WHERE value % 3 = 0{lock}") == []
    run(session, "INSERT INTO test VALUES (3, 30)")
    run(another, "INSERT INTO test VALUES (4, 42)")
    return committed(session, another)


@every_level
def test_g2_write_skew_by_predicate(session: Session, another: Session, level: str) -> None:
    judge("test_g2_write_skew_by_predicate", level, g2_by_predicate(session, another, level, ""))


@every_level
def test_g2_write_skew_by_predicate_with_for_update(
    session: Session, another: Session, level: str
) -> None:
    judge(
        "test_g2_write_skew_by_predicate_with_for_update",
        level,
        g2_by_predicate(session, another, level, " FOR UPDATE"),
    )


def phantom(session: Session, another: Session, level: str, lock: str) -> bool:
    begin(level, session)
    query = f"SELECT id FROM test WHERE value >= 20{lock}"
    assert rows(session, query) == [[2]]
    run(another, "INSERT INTO test VALUES (3, 30)")
    again = rows(session, query)
    run(session, "UPDATE test SET value = 0 WHERE id = 1")
    return committed(session) and (bool(lock) or again != [[2]])


@every_level
def test_phantom_of_a_plain_read(session: Session, another: Session, level: str) -> None:
    judge("test_phantom_of_a_plain_read", level, phantom(session, another, level, ""))


@every_level
def test_phantom_of_a_range_read_for_update(session: Session, another: Session, level: str) -> None:
    judge(
        "test_phantom_of_a_range_read_for_update",
        level,
        phantom(session, another, level, " FOR UPDATE"),
    )


# -- which level a transaction has -----------------------------------------------------------------

SETTERS = (
    "SET TRANSACTION ISOLATION LEVEL {words}",
    "SET SESSION TRANSACTION ISOLATION LEVEL {words}",
    "SET LOCAL TRANSACTION ISOLATION LEVEL {words}, READ WRITE",
    "SET GLOBAL TRANSACTION READ WRITE, ISOLATION LEVEL {words}",
    "SET tx_isolation = '{name}'",
    "SET transaction_isolation = '{name}'",
    "SET @@session.tx_isolation = '{name}'",
    "SET @@global.transaction_isolation = '{name}'",
    "SET GLOBAL tx_isolation = '{name}'",
    "SET PERSIST transaction_isolation = '{name}'",
)


@pytest.mark.parametrize("words", ["SERIALIZABLE", "READ UNCOMMITTED"])
@pytest.mark.parametrize("setter", SETTERS)
def test_a_level_that_is_not_delivered_is_8048(session: Session, setter: str, words: str) -> None:
    name = words.replace(" ", "-")
    text = setter.format(words=words, name=name.lower())
    shown = "SELECT @@transaction_isolation, @@global.tx_isolation"
    if words == "SERIALIZABLE":
        with pytest.raises(Refused, match=f"The isolation level '{name}' is not supp") as refusal:
            session.execute(text)
        assert (refusal.value.code, refusal.value.state) == (8048, "HY000")
        assert rows(session, shown) == [["REPEATABLE-READ"] * 2]
    else:
        [warning] = run(session, text).warnings
        assert (warning.code, warning.message) == (
            8048,
            f"The isolation level '{name}' is not supported; transactions are REPEATABLE READ",
        )
        run(session, "SET GLOBAL transaction_isolation = DEFAULT")
        run(session, "SET SESSION transaction_isolation = DEFAULT")
    run(session, "SET tidb_skip_isolation_level_check = ON")
    try:
        assert [note.code for note in run(session, text).warnings] == [8048]
        expected = ["REPEATABLE-READ"] * 2
        if "TRANSACTION ISOLATION" not in text or text.split()[1] != "TRANSACTION":
            place = 1 if "global" in text.lower() or "PERSIST" in text else 0
            expected[place] = name
        assert rows(session, shown) == [expected]
    finally:
        run(session, "SET GLOBAL transaction_isolation = DEFAULT")


def test_a_level_that_is_skipped_is_a_snapshot(session: Session, another: Session) -> None:
    for level in ("READ UNCOMMITTED", "SERIALIZABLE"):
        if level == "SERIALIZABLE":
            run(session, "SET tidb_skip_isolation_level_check = ON")
        run(session, f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        run(session, "BEGIN")
        before = value(session, 1)
        run(another, "UPDATE test SET value = value + 1")
        assert value(session, 1) == before
        run(session, "COMMIT")


def test_a_hint_that_asks_for_such_a_level_is_warned_of(session: Session) -> None:
    hinted = "SELECT /*+ SET_VAR(transaction_isolation='SERIALIZABLE') */ @@transaction_isolation"
    found = run(session, hinted)
    assert found.rows == [["REPEATABLE-READ"]]
    assert [note.code for note in found.warnings] == [8048]


@pytest.mark.parametrize(
    "text",
    [
        "SET TRANSACTION ISOLATION LEVEL SNAPSHOT",
        "SET TRANSACTION ISOLATION LEVEL",
        "SET TRANSACTION",
        "SET SESSION TRANSACTION READ",
        "SET TRANSACTION READ ONLY AS OF TIMESTAMP NOW()",
    ],
)
def test_a_level_that_nobody_knows_is_1064(session: Session, text: str) -> None:
    assert error(session, text) == (1064, "42000")


# -- the document ----------------------------------------------------------------------------------


def test_the_document_says_what_these_tests_show() -> None:
    """Its table is ADMITTED, and every test it names exists."""
    text = (ROOT / "docs" / "isolation.md").read_text()
    said = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        named = re.fullmatch(r"`(test_\w+)`", cells[-1])
        if len(cells) == 2 + len(LEVELS) and named is not None:
            verdicts = cells[1:-1]
            assert set(verdicts) <= {"prevented", "**admitted**"}, line
            said[named[1]] = {
                level
                for level, verdict in zip(LEVELS, verdicts, strict=True)
                if "admitted" in verdict
            }
    assert said == ADMITTED
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert set(re.findall(r"`(test_\w+)`", text)) <= defined
