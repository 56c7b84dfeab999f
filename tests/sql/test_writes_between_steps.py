"""Transactions that first write a table while a change of it is halfway through its steps."""

import threading
from collections.abc import Callable, Iterator

import pytest

from exuvia.catalog import meta
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.world import World, error, rows, run

CHANGES = [
    "ADD INDEX by_amount (amount)",
    "ADD COLUMN note int NOT NULL DEFAULT 7",
    "MODIFY amount bigint NOT NULL",  # has a step that spends no version
    "MODIFY amount varchar(9)",
]


@pytest.fixture(autouse=True)
def accounts(session: Session) -> None:
    """Two accounts, and a table beside them."""
    run(session, "CREATE TABLE account (id int PRIMARY KEY, amount int)")
    run(session, "CREATE TABLE beside (id int PRIMARY KEY)")
    run(session, "INSERT INTO account VALUES (1, 100), (2, 100)")


@pytest.fixture
def blocker(world: World, session: Session) -> Iterator[Session]:
    """It has written the table: a change waits for it before its second step."""
    found = world.session(session.database)
    run(found, "BEGIN")
    run(found, "UPDATE account SET amount = 1 WHERE id = 1")
    yield found
    found.close()


@pytest.fixture
def revision(world: World, session: Session) -> Callable[[], int]:
    """The revision of the table now."""
    table = world.services.schemas.table(world.store.begin(), session.database, "account")

    def found() -> int:
        txn = world.store.begin()
        try:
            return meta.revision(txn, table.info.id)
        finally:
            txn.rollback()

    return found


LOCKING = [
    "SELECT * FROM account WHERE id = 1 FOR UPDATE",
    "SELECT * FROM account JOIN beside USING (id) FOR UPDATE",
]


@pytest.mark.parametrize("read", LOCKING)
def test_who_read_for_update_can_write_though_a_change_has_begun(
    session: Session, another: Session, revision: Callable[[], int], read: str
) -> None:
    before = revision()
    run(another, "BEGIN")
    rows(another, read)
    change = threading.Thread(
        target=run, args=(session, f"ALTER TABLE account {CHANGES[0]}"), daemon=True
    )
    change.start()
    until(lambda: revision() == before + 1)
    change.join(0.3)
    assert change.is_alive() and revision() == before + 1
    run(another, "UPDATE account SET amount = 7 WHERE id = 1")
    run(another, "COMMIT")
    change.join(20)
    assert not change.is_alive()
    assert rows(session, "SELECT id FROM account FORCE INDEX (by_amount) WHERE amount = 7") == [[1]]


def test_nothing_is_read_for_update_in_a_read_only_transaction(session: Session) -> None:
    run(session, "START TRANSACTION READ ONLY")
    for read in LOCKING:
        assert error(session, read) == (1792, "25006")


@pytest.mark.parametrize("change", CHANGES)
def test_a_writer_that_stays_lives_through_every_step_of_a_change(
    session: Session, another: Session, blocker: Session, revision: Callable[[], int], change: str
) -> None:
    before = revision()
    text = f"ALTER TABLE account {change}"
    changing = threading.Thread(target=run, args=(session, text), daemon=True)
    changing.start()
    until(lambda: revision() == before + 1)
    run(another, "BEGIN")
    run(another, "UPDATE account SET amount = amount + 1 WHERE id = 2")
    run(blocker, "COMMIT")
    until(lambda: revision() == before + 2)
    changing.join(0.3)
    assert changing.is_alive(), "the change waits for the writer"
    assert revision() == before + 2, "the writer would be two revisions behind"
    run(another, "UPDATE account SET amount = amount + 1 WHERE id = 2")
    run(another, "COMMIT")
    changing.join(20)
    assert not changing.is_alive()
    assert rows(session, "SELECT id FROM account WHERE amount = 102") == [[2]]
    run(session, "ADMIN CHECK TABLE account")


@pytest.mark.parametrize("read", ["", "SELECT * FROM beside", "SELECT amount FROM account"])
def test_a_writer_that_comes_between_two_steps_lives_through_the_change(
    session: Session,
    another: Session,
    blocker: Session,
    revision: Callable[[], int],
    read: str,
) -> None:
    before = revision()
    run(another, "BEGIN")
    if read:
        rows(another, read)
    change = threading.Thread(
        target=run, args=(session, f"ALTER TABLE account {CHANGES[0]}"), daemon=True
    )
    change.start()
    until(lambda: revision() == before + 1)
    run(another, "INSERT INTO account VALUES (3, 3)")
    run(blocker, "COMMIT")
    if not read:
        until(lambda: revision() == before + 2)
    else:
        change.join(0.3)
        assert revision() == before + 1, "it would leave the snapshot behind that a client has read"
    run(another, "UPDATE account SET amount = amount + 1 WHERE id > 1")
    assert [3, 4] in rows(another, "SELECT * FROM account")
    assert change.is_alive(), "the change waits for the writer"
    run(another, "COMMIT")
    change.join(20)
    assert not change.is_alive()
    assert rows(session, "SELECT id FROM account FORCE INDEX (by_amount) WHERE amount = 4") == [[3]]
    run(session, "ADMIN CHECK TABLE account")
