"""What two sessions may do to each other: each test is named after the anomaly it is about.

Row locks (test_row_locks.py) make the second wait. Here the first is optimistic where both meet: it
locks nothing, and its commit is refused. The store refuses it with locks too, where the other is a
session of another front.
"""

import threading
import time
from typing import Any

import pytest

from exuvia.base.errors import Refused
from exuvia.cluster.versions import READ_HOLD_S
from exuvia.sql.session.session import Session
from support.world import Later, World, error, rows, run


@pytest.fixture(autouse=True)
def accounts(session: Session) -> None:
    """Two accounts."""
    run(session, "CREATE TABLE account (id int PRIMARY KEY, amount int, owner varchar(9) UNIQUE)")
    run(session, "INSERT INTO account VALUES (1, 100, 'a'), (2, 100, 'b')")


def test_dirty_read_is_prevented(session: Session, another: Session) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    assert rows(another, "SELECT amount FROM account WHERE id = 1") == [[100]]
    run(session, "ROLLBACK")


def test_non_repeatable_read_is_prevented(session: Session, another: Session) -> None:
    run(session, "BEGIN")
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[100]]
    run(another, "UPDATE account SET amount = 5 WHERE id = 1")
    run(another, "INSERT INTO account VALUES (3, 1, 'c')")
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[100]]
    assert rows(session, "SELECT COUNT(*) FROM account") == [[2]]
    run(session, "COMMIT")
    assert rows(session, "SELECT COUNT(*) FROM account") == [[3]]


def test_lost_update_is_refused_with_1213(session: Session, another: Session) -> None:
    run(session, "BEGIN OPTIMISTIC")
    run(session, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    run(another, "UPDATE account SET amount = amount + 10 WHERE id = 1")
    assert error(session, "COMMIT") == (1213, "40001")
    assert session.current is None
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[110]]


def test_write_skew_is_prevented_by_for_update_alone(session: Session, another: Session) -> None:
    for lock, refused in (("", False), (" FOR UPDATE", True)):
        run(session, "UPDATE account SET amount = 100")
        run(session, "BEGIN OPTIMISTIC")
        assert rows(session, f"SELECT amount FROM account WHERE id = 2{lock}") == [[100]]
        run(session, "UPDATE account SET amount = 0 WHERE id = 1")
        run(another, "UPDATE account SET amount = 0 WHERE id = 2")
        if refused:
            assert error(session, "COMMIT") == (1213, "40001")
        else:
            run(session, "COMMIT")


def test_for_update_of_a_missing_row_is_kept_missing(session: Session, another: Session) -> None:
    run(session, "BEGIN OPTIMISTIC")
    assert rows(session, "SELECT * FROM account WHERE id = 9 FOR UPDATE") == []
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    run(another, "INSERT INTO account VALUES (9, 9, 'z')")
    assert error(session, "COMMIT") == (1213, "40001")


def test_for_update_of_a_range_holds_every_row_it_found(session: Session, another: Session) -> None:
    for query in ("id > 1", "owner >= 'b'", "amount = 100"):
        run(session, "UPDATE account SET amount = 100")
        run(session, "BEGIN OPTIMISTIC")
        assert [2, 100, "b"] in rows(session, f"SELECT * FROM account WHERE {query} FOR UPDATE")
        run(session, "INSERT INTO account VALUES (8, 8, 'h')")
        run(another, "UPDATE account SET amount = 1 WHERE id = 2")
        assert error(session, "COMMIT") == (1213, "40001"), query


@pytest.mark.parametrize(
    "rooms", ["WHERE id = 1", "WHERE owner = 'a'", "WHERE id = 9", "WHERE owner = 'z'"]
)
@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ("FOR UPDATE", "FOR UPDATE", True),
        ("FOR UPDATE", "FOR SHARE", True),
        ("FOR SHARE", "FOR UPDATE", True),
        ("FOR SHARE", "FOR SHARE", False),
        ("FOR UPDATE", "", False),
    ],
)
def test_a_double_booking_is_prevented_by_locks_of_the_room(
    session: Session, another: Session, rooms: str, first: str, second: str, refused: bool
) -> None:
    """Both look whether it is free and write elsewhere. The room may be a row that is not there."""
    run(session, "CREATE TABLE booking (id int AUTO_INCREMENT PRIMARY KEY, who int)")
    for who, lock in ((session, first), (another, second)):
        run(who, "BEGIN OPTIMISTIC")
        rows(who, f"SELECT * FROM account {rooms} {lock}")
        assert rows(who, "SELECT COUNT(*) FROM booking") == [[0]]
        run(who, "INSERT INTO booking (who) VALUES (7)")
    run(session, "COMMIT")
    if refused:
        assert error(another, "COMMIT") == (1213, "40001")
    else:
        run(another, "COMMIT")
    assert rows(session, "SELECT COUNT(*) FROM booking") == [[1 if refused else 2]]


@pytest.mark.parametrize("lock", ["FOR UPDATE", "FOR SHARE"])
@pytest.mark.parametrize(
    ("rooms", "write"),
    [
        ("WHERE id = 1", "UPDATE account SET amount = 1 WHERE id = 1"),
        ("WHERE id = 1", "DELETE FROM account WHERE id = 1"),
        ("WHERE owner = 'a'", "UPDATE account SET amount = 1 WHERE id = 1"),
        ("WHERE id = 9", "INSERT INTO account VALUES (9, 1, 'n')"),
        ("WHERE owner = 'n'", "INSERT INTO account VALUES (9, 1, 'n')"),
        ("WHERE owner = 'n'", "UPDATE account SET owner = 'n' WHERE id = 2"),
    ],
)
@pytest.mark.parametrize("writer_first", [True, False])
def test_who_locks_a_row_and_who_writes_it_exclude_each_other(
    session: Session, another: Session, lock: str, rooms: str, write: str, writer_first: bool
) -> None:
    run(session, "BEGIN OPTIMISTIC")
    run(another, "BEGIN OPTIMISTIC")
    rows(session, f"SELECT * FROM account {rooms} {lock}")
    run(another, write)
    one, two = (another, session) if writer_first else (session, another)
    run(one, "COMMIT")
    assert error(two, "COMMIT") == (1213, "40001")


def test_a_transaction_that_only_locked_is_validated(session: Session, another: Session) -> None:
    for who in (session, another):
        run(who, "BEGIN OPTIMISTIC")
        rows(who, "SELECT * FROM account FOR UPDATE")
    run(session, "COMMIT")
    assert error(another, "COMMIT") == (1213, "40001")
    run(another, "SELECT * FROM account FOR UPDATE")
    assert rows(session, "SELECT * FROM account") == [[1, 100, "a"], [2, 100, "b"]]
    run(session, "ADMIN CHECK TABLE account")


def test_what_was_locked_before_a_savepoint_was_undone_stays_locked(
    session: Session, another: Session
) -> None:
    run(session, "BEGIN OPTIMISTIC")
    run(another, "BEGIN OPTIMISTIC")
    run(session, "SAVEPOINT one")
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    run(session, "ROLLBACK TO one")
    run(another, "UPDATE account SET amount = 7 WHERE id = 1")
    run(session, "COMMIT")
    assert error(another, "COMMIT") == (1213, "40001")


def test_an_update_that_changes_nothing_locks(session: Session, another: Session) -> None:
    run(session, "BEGIN")
    run(another, "BEGIN OPTIMISTIC")
    rows(another, "SELECT * FROM account WHERE id = 1 FOR UPDATE")
    run(session, "UPDATE account SET amount = amount WHERE id = 1")
    run(session, "COMMIT")
    assert error(another, "COMMIT") == (1213, "40001")


def test_a_phantom_is_not_prevented(session: Session, another: Session) -> None:
    """Known gap: a range read FOR UPDATE does not hold back rows that are not there."""
    run(session, "BEGIN")
    run(session, "SELECT * FROM account WHERE id > 1 FOR UPDATE")
    run(session, "UPDATE account SET amount = 1 WHERE id = 2")
    run(another, "INSERT INTO account VALUES (7, 7, 'p')")
    run(session, "COMMIT")
    assert rows(session, "SELECT COUNT(*) FROM account") == [[3]]


def test_a_unique_key_taken_meanwhile_is_1062_at_commit(session: Session, another: Session) -> None:
    run(session, "SET tidb_txn_mode = 'optimistic'")
    run(session, "BEGIN")
    run(session, "INSERT INTO account VALUES (4, 4, 'same')")
    run(another, "INSERT INTO account VALUES (5, 5, 'same')")
    with pytest.raises(
        Refused, match=r"Duplicate entry 'same' for key 'account\.owner'"
    ) as refusal:
        session.execute("COMMIT")
    assert (refusal.value.code, refusal.value.state) == (1062, "23000")
    assert rows(session, "SELECT id FROM account WHERE owner = 'same'") == [[5]]


def test_a_key_taken_meanwhile_is_told_as_the_row_has_it(
    session: Session, another: Session
) -> None:
    text = "varchar(9) COLLATE utf8mb4_unicode_ci"
    cut = "PARTITION BY KEY (id) PARTITIONS 3"
    run(session, f"CREATE TABLE one (id int PRIMARY KEY, a {text} UNIQUE)")
    run(session, f"CREATE TABLE cut (id int PRIMARY KEY, a {text}, UNIQUE (a) GLOBAL) {cut}")
    for table in ("one", "cut"):
        run(session, "BEGIN OPTIMISTIC")
        run(session, f"INSERT INTO {table} VALUES (1, 'émile')")
        run(another, f"INSERT INTO {table} VALUES (2, 'Emile')")
        with pytest.raises(Refused, match=f"Duplicate entry 'émile' for key '{table}[.]a'"):
            session.execute("COMMIT")


def test_statements_alone_never_lose_an_update(world: World, session: Session) -> None:
    failures: list[Exception] = []

    def add() -> None:
        mine = world.session(session.database)
        try:
            for _ in range(25):
                run(mine, "UPDATE account SET amount = amount + 1 WHERE id = 1")
        except Refused as refusal:
            failures.append(refusal)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[200]]


def test_auto_increment_never_gives_an_id_twice(world: World, session: Session) -> None:
    run(session, "CREATE TABLE ids (id int AUTO_INCREMENT PRIMARY KEY, who int)")

    def insert(who: int) -> None:
        mine = world.session(session.database)
        for _ in range(20):
            run(mine, f"INSERT INTO ids (who) VALUES ({who}), ({who})")

    threads = [threading.Thread(target=insert, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(session, "SELECT COUNT(*), COUNT(DISTINCT id) FROM ids") == [[160, 160]]


def test_an_idle_reader_blocks_no_schema_change(session: Session, another: Session) -> None:
    run(another, "BEGIN")
    assert rows(another, "SELECT COUNT(*) FROM account") == [[2]]
    run(session, "ALTER TABLE account ADD COLUMN note varchar(9) DEFAULT 'new'")
    assert len(rows(another, "SELECT * FROM account WHERE id = 1")[0]) == 3
    run(another, "COMMIT")
    assert rows(another, "SELECT * FROM account WHERE id = 1") == [[1, 100, "a", "new"]]


@pytest.mark.parametrize("begin", ["BEGIN OPTIMISTIC", "BEGIN PESSIMISTIC"])
@pytest.mark.parametrize(
    "change", ["ADD COLUMN note int", "ADD INDEX (amount)", "DROP COLUMN owner"]
)
def test_what_a_short_transaction_has_read_it_can_write_while_the_table_changes(
    session: Session, another: Session, begin: str, change: str
) -> None:
    run(another, begin)
    assert rows(another, "SELECT SUM(amount) FROM account") == [[200]]
    later = Later(session, f"ALTER TABLE account {change}")
    later.join(0.2)
    assert later.waits(), "a change of a table that was just read waits a little"
    run(another, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    run(another, "COMMIT")
    assert not isinstance(later.answer(), int)
    assert rows(session, "SELECT SUM(amount) FROM account") == [[201]]
    run(session, "ADMIN CHECK TABLE account")


def test_readers_of_other_tables_and_those_that_only_read_keep_no_change_waiting(
    session: Session, another: Session
) -> None:
    run(session, "CREATE TABLE other (id int PRIMARY KEY)")
    began = time.monotonic()
    for begin, name in (("BEGIN", "other"), ("START TRANSACTION READ ONLY", "account")):
        run(another, begin)
        rows(another, f"SELECT COUNT(*) FROM {name}")
        run(session, f"ALTER TABLE account ADD COLUMN {name} int")
        run(another, "COMMIT")
    assert time.monotonic() - began < READ_HOLD_S


def test_law_1_an_overtaken_snapshot_cannot_begin_to_write_8028(
    session: Session, another: Session
) -> None:
    run(another, "BEGIN")
    rows(another, "SELECT COUNT(*) FROM account")
    run(session, "ALTER TABLE account ADD COLUMN note varchar(9)")  # waits for its first second
    assert error(another, "UPDATE account SET amount = 0 WHERE id = 1") == (8028, "HY000")
    run(another, "ROLLBACK")
    run(another, "UPDATE account SET amount = 0 WHERE id = 1")


def test_a_transaction_that_nobody_has_read_begins_after_the_change(
    session: Session, another: Session
) -> None:
    run(another, "BEGIN")
    run(another, "SAVEPOINT one")
    run(session, "ALTER TABLE account ADD COLUMN note varchar(9)")
    run(another, "UPDATE account SET amount = 0, note = 'seen' WHERE id = 1")
    run(another, "ROLLBACK TO one")
    run(another, "UPDATE account SET note = 'kept' WHERE id = 1")
    run(another, "COMMIT")
    assert rows(session, "SELECT amount, note FROM account WHERE id = 1") == [[100, "kept"]]
    run(another, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    run(session, "ALTER TABLE account DROP COLUMN note")
    assert error(another, "UPDATE account SET amount = 0 WHERE id = 1") == (8028, "HY000")


@pytest.mark.parametrize("optimistic", [True, False])
@pytest.mark.parametrize("read_first", [True, False])
@pytest.mark.parametrize("change", ["ADD COLUMN note int", "ADD INDEX (amount)", "COMMENT 'x'"])
def test_a_change_between_the_plan_and_its_metadata_lock_is_planned_anew(
    world: World,
    session: Session,
    another: Session,
    monkeypatch: pytest.MonkeyPatch,
    optimistic: bool,
    read_first: bool,
    change: str,
) -> None:
    locks = world.services.locks
    hold, changed = locks.hold, []

    def late(*what: Any, reads: bool = False, **more: Any) -> None:
        if not changed and not reads:
            changed.append(run(session, f"ALTER TABLE account {change}"))
        hold(*what, reads=reads, **more)

    monkeypatch.setattr(locks, "hold", late)
    run(another, f"BEGIN {'OPTIMISTIC' if optimistic else 'PESSIMISTIC'}")
    if read_first:
        assert rows(another, "SELECT COUNT(*) FROM account") == [[2]]
    late_for_its_snapshot = read_first and change != "COMMENT 'x'"
    if late_for_its_snapshot:
        assert error(another, "UPDATE account SET amount = 0 WHERE id = 1") == (8028, "HY000")
    else:
        run(another, "UPDATE account SET amount = 0 WHERE id = 1")
    run(another, "COMMIT")
    assert changed
    [account] = world.services.schemas.tables(world.store.begin(), session.database)
    assert locks.blockers(account.id, 1000) == [], "an ended transaction holds nothing"
    left = 100 if late_for_its_snapshot else 0
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[left]]


def test_law_1_without_the_metadata_lock_a_writer_meets_8028(
    session: Session, another: Session
) -> None:
    another.settings.metadata_lock = False
    run(another, "BEGIN")
    run(another, "UPDATE account SET amount = 0 WHERE id = 1")
    run(session, "ALTER TABLE account ADD COLUMN note varchar(9)")
    assert error(another, "COMMIT") == (8028, "HY000")


def test_the_metadata_lock_lets_a_writer_live_through_a_change(
    session: Session, another: Session
) -> None:
    run(another, "BEGIN")
    run(another, "UPDATE account SET amount = 0 WHERE id = 1")
    change = threading.Thread(
        target=run, args=(session, "ALTER TABLE account ADD INDEX ia (amount)")
    )
    change.start()
    change.join(0.3)
    assert change.is_alive(), "the change waits for the open transaction"
    run(another, "UPDATE account SET amount = 7 WHERE id = 2")
    run(another, "COMMIT")
    change.join(20)
    assert not change.is_alive()
    assert rows(session, "SELECT id FROM account FORCE INDEX (ia) WHERE amount = 7") == [[2]]
    run(session, "ADMIN CHECK TABLE account")


def test_law_8_without_a_lease_no_statement_and_no_commit(
    session: Session, another: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    member = session.services.member
    monkeypatch.setattr(type(member), "serving", lambda self, now: False)
    assert error(another, "SELECT 1") == (8027, "HY000")
    assert error(session, "COMMIT") == (8027, "HY000")
    monkeypatch.undo()
    session.rollback()
    assert rows(another, "SELECT amount FROM account WHERE id = 1") == [[100]]


def test_an_idle_transaction_is_ended_and_says_so(session: Session) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    now = session.services.clock.monotonic()
    assert not session.reap(now, 60)
    assert session.reap(now + 61, 60)
    assert error(session, "SELECT 1") == (8055, "HY000")
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[100]]


def test_a_killed_statement_ends_with_1317(session: Session) -> None:
    table = "account"
    for n in range(3, 40):
        run(session, f"INSERT INTO {table} VALUES ({n}, {n}, 'n{n}')")
    begin = session._begin_statement

    def begin_and_interrupt(text: str) -> None:
        begin(text)
        session.interrupt()

    session._begin_statement = begin_and_interrupt  # type: ignore[method-assign]
    assert error(session, "SELECT SUM(amount) FROM account WHERE owner <> 'x'") == (1317, "70100")
