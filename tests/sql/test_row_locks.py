"""Row locks: who writes or reads FOR UPDATE waits for who did it before, and sees what it left.

Sessions of one front; `Later` runs a statement in a thread, because it waits.
"""

import pytest

from exuvia.base.errors import WouldWait
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from support.serving import served
from support.world import Later, World, error, rows, run


@pytest.fixture(autouse=True)
def accounts(world: World, session: Session) -> None:
    """Two accounts."""
    assert len(world.services.row_locks) == 0
    run(session, "CREATE TABLE account (id int PRIMARY KEY, amount int, owner varchar(9) UNIQUE)")
    run(session, "INSERT INTO account VALUES (1, 100, 'a'), (2, 100, 'b')")


def amount(session: Session, account: int = 1) -> object:
    return rows(session, f"SELECT amount FROM account WHERE id = {account}")[0][0]


# -- waiting ---------------------------------------------------------------------------------------


def test_lost_update_is_waited_for_in_transactions(session: Session, another: Session) -> None:
    run(session, "BEGIN")
    run(another, "BEGIN")
    assert amount(another) == 100
    run(session, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    second = Later(another, "UPDATE account SET amount = amount + 10 WHERE id = 1")
    assert second.waits()
    run(session, "COMMIT")
    assert second.answer()
    run(another, "COMMIT")
    assert amount(session) == 111


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_statement_alone_waits_and_sees_the_new_value(
    session: Session, another: Session, end: str
) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 7 WHERE id = 1")
    second = Later(another, "UPDATE account SET amount = amount + 10 WHERE id = 1")
    assert second.waits()
    run(session, end)
    assert second.answer()
    assert amount(session) == (17 if end == "COMMIT" else 110)


def test_a_statement_finds_its_rows_again_after_waiting(session: Session, another: Session) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    run(session, "INSERT INTO account VALUES (3, 100, 'c')")
    second = Later(another, "DELETE FROM account WHERE amount = 100")
    assert second.waits()
    run(session, "COMMIT")
    assert second.answer()
    assert rows(session, "SELECT id FROM account") == [[1]]


def test_a_unique_key_taken_meanwhile_is_waited_for(session: Session, another: Session) -> None:
    for end, code in (("ROLLBACK", 0), ("COMMIT", 1062)):
        run(session, "BEGIN")
        run(session, "INSERT INTO account VALUES (4, 4, 'same')")
        second = Later(another, "INSERT INTO account VALUES (5, 5, 'same')")
        assert second.waits()
        run(session, end)
        found = second.answer()
        assert (found if isinstance(found, int) else 0) == code
        run(session, "DELETE FROM account WHERE owner = 'same'")


def test_a_key_that_is_being_removed_is_no_duplicate_yet(
    session: Session, another: Session
) -> None:
    for insert in ("(1, 5, 'x')", "(9, 5, 'a')"):
        run(session, "BEGIN")
        run(session, "DELETE FROM account WHERE id = 1")
        second = Later(another, f"INSERT INTO account VALUES {insert}")
        assert second.waits()
        run(session, "COMMIT")
        assert isinstance(second.answer(), Result)
        run(session, "DELETE FROM account")
        run(session, "INSERT INTO account VALUES (1, 100, 'a'), (2, 100, 'b')")


def test_an_unchanged_row_is_locked_too(session: Session, another: Session) -> None:
    run(session, "BEGIN")
    assert run(session, "UPDATE account SET amount = amount WHERE id = 1").affected == 0
    second = Later(another, "UPDATE account SET amount = 1 WHERE id = 1")
    assert second.waits()
    run(session, "ROLLBACK")
    assert second.answer()


def test_waiters_are_served_in_their_order(world: World, session: Session) -> None:
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    run(session, "BEGIN")
    rows(session, "SELECT * FROM account WHERE id = 1 FOR UPDATE")
    waiters = [
        Later(
            world.session(session.database),
            f"UPDATE account SET amount = amount * 10 + {n} WHERE id = 1",
        )
        for n in (1, 2, 3)
    ]
    assert all(each.waits() for each in waiters)
    run(session, "COMMIT")
    for each in waiters:
        assert each.answer()
    assert amount(session) == 123


def test_an_optimistic_commit_lets_holders_finish(session: Session, another: Session) -> None:
    run(session, "BEGIN OPTIMISTIC")
    run(session, "UPDATE account SET amount = 1 WHERE id = 1")
    run(another, "BEGIN PESSIMISTIC")
    run(another, "UPDATE account SET amount = 2 WHERE id = 1")
    commit = Later(session, "COMMIT")
    assert commit.waits()
    run(another, "COMMIT")
    assert commit.answer() == 1213
    assert amount(session) == 2


# -- what a transaction reads ----------------------------------------------------------------------


def test_plain_reads_keep_the_snapshot_and_locking_reads_do_not(
    session: Session, another: Session
) -> None:
    run(session, "BEGIN")
    assert amount(session) == 100
    run(another, "UPDATE account SET amount = 5")
    assert amount(session) == 100
    assert rows(session, "SELECT amount FROM account WHERE id = 1 FOR UPDATE") == [[5]]
    assert amount(session) == 100
    run(session, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    assert (amount(session, 1), amount(session, 2)) == (6, 100)
    assert rows(session, "SELECT SUM(amount) FROM account") == [[106]]
    run(session, "COMMIT")
    assert rows(session, "SELECT SUM(amount) FROM account") == [[11]]


@pytest.mark.parametrize("scope", ["SESSION", ""])
def test_read_committed_reads_what_is_newest(
    session: Session, another: Session, scope: str
) -> None:
    run(session, f"SET {scope} TRANSACTION ISOLATION LEVEL READ COMMITTED")
    run(session, "BEGIN")
    assert amount(session) == 100
    run(another, "UPDATE account SET amount = 5")
    run(session, "UPDATE account SET amount = amount + 1 WHERE id = 2")
    assert rows(session, "SELECT SUM(amount) FROM account") == [[11]]
    assert (amount(session, 1), amount(another, 2)) == (5, 5)
    run(session, "COMMIT")
    run(session, "BEGIN OPTIMISTIC")
    assert amount(session) == 5
    run(another, "UPDATE account SET amount = 7")
    assert amount(session) == 5
    run(session, "ROLLBACK")


def test_a_refused_statement_leaves_nothing_and_locks_nothing(
    session: Session, another: Session
) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 1 WHERE id = 2")
    assert error(session, "INSERT INTO account VALUES (7, 7, 'g'), (1, 1, 'z')") == (1062, "23000")
    run(another, "INSERT INTO account VALUES (7, 8, 'g')")
    run(session, "COMMIT")
    assert rows(session, "SELECT id, amount FROM account") == [[1, 100], [2, 1], [7, 8]]


def test_savepoints_keep_their_locks(session: Session, another: Session) -> None:
    run(session, "BEGIN")
    run(session, "SAVEPOINT early")
    run(session, "UPDATE account SET amount = 1 WHERE id = 1")
    run(session, "ROLLBACK TO early")
    second = Later(another, "UPDATE account SET amount = 2 WHERE id = 1")
    assert second.waits()
    run(session, "UPDATE account SET amount = amount + 5 WHERE id = 1")
    run(session, "COMMIT")
    assert second.answer()
    assert amount(session) == 2


def test_user_variables_are_set_once_by_a_statement_that_ran_twice(
    session: Session, another: Session
) -> None:
    run(another, "SET @n = 0")
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 1 WHERE id = 1")
    second = Later(another, "UPDATE account SET amount = (@n := @n + 1) WHERE id = 1")
    assert second.waits()
    run(session, "COMMIT")
    assert second.answer()
    assert rows(another, "SELECT @n") == [[1]]


# -- several tables --------------------------------------------------------------------------------


def test_for_update_of_a_join_locks_what_it_finds(session: Session, another: Session) -> None:
    run(session, "CREATE TABLE note (id int PRIMARY KEY, account int, text varchar(9))")
    run(session, "INSERT INTO note VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'z')")
    join = "FROM account a JOIN note n ON n.account = a.id WHERE a.id = 1"
    for text, locked, free in (
        (f"SELECT n.text, a.amount {join} ORDER BY n.id FOR UPDATE", "11", "3"),
        (f"SELECT n.text, a.amount {join} ORDER BY n.id LIMIT 1 FOR UPDATE", "11", "23"),
        (f"SELECT a.id, COUNT(*) {join} GROUP BY a.id FOR UPDATE OF a", "1", "123"),
        ("SELECT (SELECT MAX(id) FROM note), id FROM account WHERE id < 2 FOR UPDATE", "1", "123"),
    ):
        run(session, "BEGIN")
        assert len(rows(session, text)) == (1 if "LIMIT" in text or "n.text" not in text else 2)
        key = "SELECT id FROM {} WHERE id = {} FOR UPDATE NOWAIT"
        assert error(another, key.format("account", 1))[0] == 3572, text
        assert rows(another, key.format("account", 2)) == [[2]]
        if len(locked) > 1:
            assert error(another, key.format("note", 1))[0] == 3572, text
        for note in free:
            assert rows(another, key.format("note", note)) == [[int(note)]], text
        run(session, "COMMIT")
    assert error(session, f"SELECT 1 {join} FOR UPDATE SKIP LOCKED") == (1235, "42000")


def test_children_of_one_parent_do_not_wait_for_each_other(
    session: Session, another: Session
) -> None:
    run(
        session,
        "CREATE TABLE note (id int PRIMARY KEY, a int, FOREIGN KEY (a) REFERENCES account (id))",
    )
    run(session, "BEGIN")
    run(another, "BEGIN")
    run(session, "INSERT INTO note VALUES (1, 1)")
    run(another, "INSERT INTO note VALUES (2, 1)")
    run(session, "COMMIT")
    run(another, "COMMIT")
    run(session, "DELETE FROM note")
    run(session, "BEGIN")
    run(session, "DELETE FROM account WHERE id = 1")
    child = Later(another, "INSERT INTO note VALUES (3, 1)")
    assert child.waits()
    run(session, "COMMIT")
    assert child.answer() == 1452


# -- ids that were just given ----------------------------------------------------------------------


def test_a_row_under_an_id_just_given_to_a_statement_alone_takes_no_lock(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(session, "CREATE TABLE given (id int AUTO_INCREMENT PRIMARY KEY, u int UNIQUE, v int)")
    run(session, "INSERT INTO given (v) VALUES (1)")
    locks, taken = world.services.row_locks, []
    honest = locks.take
    monkeypatch.setattr(locks, "take", lambda *some: taken.append(len(some[1])) or honest(*some))
    run(session, "INSERT INTO given (v) VALUES (2)")
    run(session, "INSERT INTO given (v) VALUES (3), (4)")
    assert taken == [0, 0]
    run(session, "INSERT INTO given (u, v) VALUES (1, 5)")
    assert taken.pop() == 1, "the entry of a unique index is anybody's"
    run(session, "INSERT INTO given (id, v) VALUES (20, 6)")
    assert taken.pop() == 1, "an id of its own choice"
    run(session, "REPLACE INTO given (v) VALUES (7)")
    assert taken.pop() == 1
    run(session, "BEGIN")
    run(session, "INSERT INTO given (v) VALUES (8)")
    assert taken.pop() == 1, "one that is not alone has it for long"
    run(session, "COMMIT")
    assert rows(session, "SELECT COUNT(*), MAX(id) FROM given") == [[8, 22]]


def test_an_id_just_given_that_another_has_locked_is_waited_for(
    session: Session, another: Session
) -> None:
    run(session, "CREATE TABLE given (id int AUTO_INCREMENT PRIMARY KEY, v int)")
    run(session, "INSERT INTO given (v) VALUES (1)")
    run(another, "BEGIN")
    assert rows(another, "SELECT * FROM given WHERE id = 2 FOR UPDATE") == []
    waits = Later(session, "INSERT INTO given (v) VALUES (2)")
    assert waits.waits()
    run(another, "INSERT INTO given VALUES (2, 20)")
    run(another, "COMMIT")
    assert waits.answer(), "it is run again, under another id"
    assert rows(session, "SELECT * FROM given") == [[1, 1], [2, 20], [3, 2]]


def test_ids_are_given_on_the_wires_thread_while_there_are_any(session: Session) -> None:
    """What the statement evaluated before it was sent away is evaluated once."""
    run(session, "CREATE TABLE given (id int AUTO_INCREMENT PRIMARY KEY, v int)")
    put = "INSERT INTO given (v) VALUES (@n := @n + 1)"
    run(session, "SET @n = 0")
    run(session, put)
    run(session, "ALTER TABLE given AUTO_INCREMENT = 100000")
    run(session, "BEGIN")
    far = "INSERT INTO given (id, v) VALUES (300000, @n := @n + 1)"
    with pytest.raises(WouldWait):
        served(lambda: session.execute(far))
    assert rows(session, "SELECT @n") == [[1]]
    run(session, put)
    served(lambda: run(session, put))
    run(session, "COMMIT")
    with pytest.raises(WouldWait):
        served(lambda: session.execute(far))
    assert rows(session, "SELECT @n, v FROM given") == [[3, 1], [3, 2], [3, 3]]
