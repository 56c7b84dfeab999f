"""Row locks: every wait ends, also those that nobody can grant."""

import threading
from random import Random

import pytest

from exuvia.base.errors import Refused, WouldWait
from exuvia.cluster.row_locks import STALE, Locker, RowLocks
from exuvia.sql.select.read import FEW_ROWS
from exuvia.sql.session.session import Session
from exuvia.sql.statement.locks import StatementLocks
from support.world import Later, World, error, rows, run


@pytest.fixture(autouse=True)
def accounts(world: World, session: Session) -> None:
    """Two accounts."""
    assert len(world.services.row_locks) == 0
    run(session, "CREATE TABLE account (id int PRIMARY KEY, amount int, owner varchar(9) UNIQUE)")
    run(session, "INSERT INTO account VALUES (1, 100, 'a'), (2, 100, 'b')")


def amount(session: Session, account: int = 1) -> object:
    return rows(session, f"SELECT amount FROM account WHERE id = {account}")[0][0]


# -- not waiting -----------------------------------------------------------------------------------


def test_nowait_wait_n_and_skip_locked(session: Session, another: Session) -> None:
    run(session, "BEGIN")
    rows(session, "SELECT * FROM account WHERE id = 1 FOR UPDATE")
    run(another, "BEGIN")
    run(another, "INSERT INTO account VALUES (3, 3, 'c')")
    for text in ("WHERE id = 1 FOR UPDATE NOWAIT", "FOR UPDATE NOWAIT"):
        assert error(another, f"SELECT * FROM account {text}") == (3572, "HY000")
    with pytest.raises(Refused, match=r"^Statement aborted because lock\(s\) could not be acqui"):
        another.execute("SELECT id FROM account FOR UPDATE NOWAIT")
    assert error(another, "SELECT * FROM account FOR UPDATE WAIT 1") == (1205, "HY000")
    assert rows(another, "SELECT id FROM account LIMIT 1 FOR UPDATE SKIP LOCKED") == [[2]]
    assert rows(another, "SELECT id FROM account WHERE id = 1 FOR UPDATE SKIP LOCKED") == []
    assert error(session, "SELECT id FROM account WHERE id = 2 FOR UPDATE NOWAIT")[0] == 3572
    run(session, "COMMIT")
    run(another, "COMMIT")
    assert rows(session, "SELECT COUNT(*) FROM account") == [[3]]


def test_a_wait_that_takes_too_long_undoes_the_statement_alone(
    session: Session, another: Session
) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    run(another, "SET innodb_lock_wait_timeout = 1")
    run(another, "BEGIN")
    run(another, "UPDATE account SET amount = 9 WHERE id = 2")
    with pytest.raises(Refused, match=r"^Lock wait timeout exceeded; try restarting transaction$"):
        another.execute("UPDATE account SET amount = amount + 1")
    assert another.current is not None
    run(session, "COMMIT")
    run(another, "COMMIT")
    assert rows(session, "SELECT amount FROM account") == [[0], [9]]


def test_a_deadlock_is_1213_for_the_one_that_closes_the_circle(
    session: Session, another: Session
) -> None:
    run(session, "BEGIN")
    run(another, "BEGIN")
    run(session, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    run(another, "UPDATE account SET amount = amount + 10 WHERE id = 2")
    first = Later(session, "UPDATE account SET amount = amount + 1 WHERE id = 2")
    assert first.waits()
    assert error(another, "UPDATE account SET amount = amount + 10 WHERE id = 1") == (
        1213, "40001",
    )  # fmt: skip
    assert another.current is None
    assert first.answer()
    run(session, "COMMIT")
    assert rows(session, "SELECT amount FROM account") == [[101], [101]]


def test_a_killed_wait_is_1317_and_the_transaction_lives(
    session: Session, another: Session
) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    run(another, "BEGIN")
    run(another, "UPDATE account SET amount = 9 WHERE id = 2")
    waits = Later(another, "UPDATE account SET amount = 1 WHERE id = 1")
    assert waits.waits()
    another.interrupt()
    assert waits.answer() == 1317
    run(another, "COMMIT")
    run(session, "ROLLBACK")
    assert rows(session, "SELECT amount FROM account") == [[100], [9]]


def test_a_kill_lasts_until_its_command_has_ended(session: Session) -> None:
    session.begin_command()
    session.interrupt()  # before the statement begins
    assert error(session, "SELECT SLEEP(0), COUNT(*) FROM account") == (1317, "70100")
    assert error(session, "SELECT SLEEP(0), COUNT(*) FROM account") == (1317, "70100")
    session.begin_command()
    assert rows(session, "SELECT COUNT(*) FROM account") == [[2]]


def test_a_client_that_vanishes_lets_go(session: Session, another: Session) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    waits = Later(another, "UPDATE account SET amount = 1 WHERE id = 1")
    assert waits.waits()
    session.close()
    assert waits.answer()


def test_a_thread_that_must_not_wait_does_not(
    world: World, session: Session, another: Session
) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    locks = world.services.row_locks
    locks.unwaiting = threading.get_ident()
    try:
        run(another, "BEGIN")
        with pytest.raises(WouldWait):
            another.execute("UPDATE account SET amount = amount + 10 WHERE id = 1")
    finally:
        locks.unwaiting = 0
    assert another.current is not None and not another.current.writes
    again = Later(another, "UPDATE account SET amount = amount + 10 WHERE id = 1")
    assert again.waits()
    run(session, "COMMIT")
    assert again.answer()
    run(another, "COMMIT")
    assert amount(session) == 111


# -- schema changes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "ADD COLUMN note varchar(9) DEFAULT 'n'",
        "DROP COLUMN amount",
        "ADD INDEX ia (amount)",
        "DROP INDEX owner",
    ],
)
def test_law_1_a_writer_goes_on_while_a_change_waits_for_it(
    session: Session, another: Session, change: str
) -> None:
    """Its current reads plan one step ahead of its snapshot, and both read its rows."""
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 7 WHERE id = 1")
    waits = Later(another, f"ALTER TABLE account {change}")
    assert waits.waits(), "the change waits for the open transaction"
    run(session, "UPDATE account SET owner = 'bb' WHERE id = 2")
    run(session, "INSERT INTO account (id, owner) VALUES (3, 'c')")
    seen = [[row[0], row[-1]] for row in rows(session, "SELECT id, owner FROM account")]
    assert seen == [[1, "a"], [2, "bb"], [3, "c"]]
    assert rows(session, "SELECT id FROM account WHERE owner = 'bb'") == [[2]]
    assert rows(session, "SELECT COUNT(DISTINCT owner), MAX(id) FROM account") == [[3, 3]]
    run(session, "COMMIT")
    assert waits.answer()
    run(session, "ADMIN CHECK TABLE account")


def test_own_rows_written_under_the_next_schema_are_read(world: World, session: Session) -> None:
    """The change moves while a transaction has read, not written: its write plans one step on."""
    from exuvia.catalog.model import TableInfo, evolve
    from exuvia.catalog.table import Table

    run(session, "BEGIN")
    assert amount(session) == 100
    current = session.current
    assert current is not None
    before = world.services.schemas.table(current.txn, session.database, "account")
    last = before.info.exuvia_layouts[-1]
    later: TableInfo = evolve(
        before.info, exuvia_layouts=(evolve(last, id=last.id + 1), *before.info.exuvia_layouts[:-1])
    )
    newer = Table(later, before.revision + 1, before.database, before.database_revision)
    current.writing(before, False)
    current._tables[before.info.id] = newer
    current.txn.put(
        before.row_prefix + b"\x80" + bytes(6) + b"\x09", newer.encoder.encode([9, 9, "i"])
    )
    assert rows(session, "SELECT id FROM account WHERE id = 9") == [[9]]
    assert rows(session, "SELECT COUNT(*) FROM account") == [[3]]
    run(session, "ROLLBACK")


# -- many ------------------------------------------------------------------------------------------


def test_transfers_between_few_rows_keep_the_sum(
    world: World, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    run(session, "INSERT INTO account VALUES (3, 100, 'c'), (4, 100, 'd')")
    codes: list[tuple[int, str]] = []
    done: list[int] = []

    def transfer(seed: int) -> None:
        mine, random = world.session(session.database), Random(seed)
        for _ in range(60):
            one, two = random.sample((1, 2, 3, 4), 2)
            texts = ["BEGIN", f"UPDATE account SET amount = amount - 1 WHERE id = {one}"]
            if random.random() < 0.3:
                texts.append(f"SELECT amount FROM account WHERE id = {two} FOR UPDATE")
            texts.append(f"UPDATE account SET amount = amount + 1 WHERE id = {two}")
            texts.append(random.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))
            try:
                for text in texts:
                    run(mine, text)
                done.append(seed)
            except Refused as refusal:
                codes.append((refusal.code, text))
        mine.close()

    clock = world.services.clock
    began = clock.monotonic()
    threads = [threading.Thread(target=transfer, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a wake-up was lost"
    rate = len(done) / (clock.monotonic() - began)
    locks = world.services.row_locks
    with capsys.disabled():
        print(f"\ntransfers: {rate:.0f}/s, {len(codes)} deadlocks, {locks.waits} waits")
    assert {code for code, _ in codes} <= {1213, 1205}
    assert "COMMIT" not in {text for _, text in codes}, "locks leave no conflict for the commit"
    assert rows(session, "SELECT SUM(amount) FROM account") == [[400]]
    assert len(locks) == 0 and not locks.waiting
    assert len(done) > 100


def test_a_lock_too_many_is_not_taken() -> None:
    locks, one, two = RowLocks(most=2), Locker(), Locker()
    assert locks.take(one, [b"a", b"b", b"c"], locks.now) is None
    assert len(locks) == 2
    assert locks.take(two, [b"c"], locks.now) is None, "the commit decides"
    assert locks.take(two, [b"c", b"b"], locks.now) == b"b"
    locks.release(one, committed=True)
    assert locks.take(two, [b"b"], 0) == STALE
    locks.release(two)
    assert len(locks) == 0


# -- beside others ---------------------------------------------------------------------------------


def test_a_bulk_write_is_not_run_again_for_commits_to_another_table(
    world: World, session: Session, another: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 rows beside 40 one-row commits a second took half a minute, or ended in 1213."""
    count, commits = 4_000, 200
    run(session, "CREATE TABLE many (id int PRIMARY KEY, n int)")
    run(session, "INSERT INTO many VALUES " + ",".join(f"({n}, 0)" for n in range(count)))
    looked: list[StatementLocks] = []
    look = StatementLocks.look

    def counted(self: StatementLocks) -> None:
        look(self)
        if threading.get_ident() == bulk:
            looked.append(self)
            for n in range(commits):
                keys.take(one := Locker(), [b"another table, row %d" % n], keys.now)
                keys.release(one, committed=True)

    bulk, keys = threading.get_ident(), world.services.row_locks
    monkeypatch.setattr(StatementLocks, "look", counted)
    for _ in range(3):
        run(session, "UPDATE many SET n = n + 1")
    assert len(looked) == 3
    run(session, "BEGIN")
    run(session, "UPDATE many SET n = n + 1")
    assert len(looked) == 4
    run(session, "COMMIT")
    assert rows(another, "SELECT SUM(n) FROM many") == [[4 * count]]


def test_a_bulk_write_ends_beside_writers_of_its_own_rows(session: Session, world: World) -> None:
    """Each run newly takes what the one before it missed: no more runs than there are reasons."""
    count = 1_500
    run(session, "CREATE TABLE many (id int PRIMARY KEY, n int)")
    run(session, "INSERT INTO many VALUES " + ",".join(f"({n}, 0)" for n in range(count)))
    stop, written = threading.Event(), [0]

    def write() -> None:
        mine, random = world.session(session.database), Random(1)
        while not stop.is_set():
            run(mine, f"UPDATE many SET n = n + 1 WHERE id = {random.randrange(count)}")
            written[0] += 1
        mine.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            run(session, "UPDATE many SET n = n + 1000")
    finally:
        stop.set()
        writer.join(20)
    assert rows(session, "SELECT SUM(n) FROM many") == [[3 * 1000 * count + written[0]]]


def test_only_keys_newly_taken_are_judged() -> None:
    locks, one, other = RowLocks(), Locker(), Locker()
    held = [b"%d" % n for n in range(20_000)]
    seen = locks.now
    locks.take(other, held[:1], seen)
    locks.release(other, committed=True)
    assert locks.take(one, held, seen) == STALE, "one of them was let go meanwhile"
    assert locks.take(one, held, seen) is None, "all were held"
    for n in range(5_000):
        locks.take(other, [b"other %d" % n], locks.now)
        locks.release(other, committed=True)
    assert locks.take(one, [*held, b"new"], seen) is None
    assert locks.take(one, [b"other 4999"], seen) == STALE
    locks.release(one)
    assert len(locks) == 0


def test_what_changed_is_remembered_in_bounded_room_and_never_wrongly() -> None:
    locks, one, other = RowLocks(remembered=100), Locker(), Locker()
    seen = locks.now
    for n in range(1_000):
        before = locks.now
        locks.take(other, [b"%d" % n], locks.now)
        locks.release(other, committed=True)
        assert locks.take(one, [b"%d" % n], before) == STALE
        assert locks.take(one, [b"never %d" % n], before) is None
        locks.release(one)
    assert len(locks._changed) + len(locks._changed_before) <= 200
    assert locks.take(one, [b"0"], seen) == STALE, "forgotten: it may have changed"
    assert locks.take(one, [b"never"], locks.now) is None


def test_a_range_is_read_on_the_wires_thread_while_it_has_few_rows(
    world: World, session: Session
) -> None:
    run(session, "CREATE TABLE many (id int PRIMARY KEY, c varchar(20))")
    values = ", ".join(f"({n}, 'c{n}')" for n in range(2 * FEW_ROWS))
    run(session, f"INSERT INTO many VALUES {values}")
    few = "SELECT c FROM many WHERE id BETWEEN 5 AND 8"
    long = f"SELECT c FROM many WHERE id BETWEEN 1 AND {FEW_ROWS + 1}"
    assert not session.course(few)  # not yet planned
    expected = [["c5"], ["c6"], ["c7"], ["c8"]]
    assert rows(session, few) == expected
    locks = world.services.row_locks
    locks.unwaiting = threading.get_ident()
    try:
        assert session.course(few)
        assert rows(session, few) == expected
        run(session, "BEGIN")
        run(session, "UPDATE many SET c = 'own' WHERE id = 6")
        assert rows(session, few)[1] == ["own"]
        with pytest.raises(WouldWait):
            session.execute(long)
        assert not session.course(few)  # a shape that has met many rows goes elsewhere
        run(session, "ROLLBACK")
    finally:
        locks.unwaiting = 0
    assert rows(session, long) == [[f"c{n}"] for n in range(1, FEW_ROWS + 2)]
    wide = "SELECT c FROM many WHERE id > 5"
    rows(session, wide)
    assert not session.course(wide)
