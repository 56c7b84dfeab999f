"""Row locks between two nodes on one store: they wait for each other as sessions of one node do.

On one host, and on two that share a store on PostgreSQL.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import cycle
from random import Random
from typing import Any

import pytest

from exuvia.base.errors import Deposed, Refused
from exuvia.cluster import member as members
from exuvia.kv.lock_table import AT_ONCE
from exuvia.kv.memory import MemoryStore
from exuvia.kv.store import open_store
from exuvia.sql.session.session import Session
from exuvia.sql.statement.locks import StatementLocks
from support.postgres import own_server
from support.world import Later, World, error, rows, run

SERVER = ("max_locks_per_transaction=512", "deadlock_timeout=50ms", "fsync=off")


@pytest.fixture(scope="module", params=["memory", "postgresql"])
def joined(request: pytest.FixtureRequest) -> Iterator[Callable[[bool], World]]:
    """Makes nodes of the module's cluster; `owns`: of those that own the jobs."""
    with ExitStack() as stack:
        if request.param == "memory":
            store = stack.enter_context(closing(MemoryStore()))
            yield lambda owns: stack.enter_context(World(store, owns))
            return
        server = stack.enter_context(own_server(*SERVER))
        url = server.new_url()

        def join(owns: bool) -> World:
            store = stack.enter_context(closing(open_store(url)))
            return stack.enter_context(World(store, owns))

        yield join


@pytest.fixture(scope="module")
def owner(joined: Callable[[bool], World]) -> World:
    """The node that owns the jobs."""
    return joined(True)


@pytest.fixture(scope="module")
def elsewhere(joined: Callable[[bool], World], owner: World) -> World:
    """Another node."""
    return joined(False)


@pytest.fixture(autouse=True)
def accounts(session: Session) -> None:
    """Two accounts."""
    run(session, "CREATE TABLE account (id int PRIMARY KEY, amount int, owner varchar(9) UNIQUE)")
    run(session, "INSERT INTO account VALUES (1, 100, 'a'), (2, 100, 'b')")


@pytest.fixture
def other(elsewhere: World, session: Session) -> Iterator[Session]:
    """A session of the other node in the same database."""
    second = elsewhere.session(session.database)
    yield second
    second.close()


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_write_waits_for_the_other_node_and_sees_its_value(
    session: Session, other: Session, end: str
) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 7 WHERE id = 1")
    second = Later(other, "UPDATE account SET amount = amount + 10 WHERE id = 1")
    assert second.waits()
    run(session, end)
    assert second.answer()
    expected = 17 if end == "COMMIT" else 110
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[expected]]


@pytest.mark.parametrize("lock", ["FOR UPDATE", "FOR SHARE"])
@pytest.mark.parametrize("room", ["id = 1", "id = 9", "owner = 'a'", "owner = 'z'"])
def test_a_double_booking_waits_and_then_sees_the_booking(
    session: Session, other: Session, room: str, lock: str
) -> None:
    run(session, "CREATE TABLE booking (id int AUTO_INCREMENT PRIMARY KEY, who int)")
    run(session, "BEGIN")
    run(other, "BEGIN")
    rows(session, f"SELECT * FROM account WHERE {room} FOR UPDATE")
    run(session, "INSERT INTO booking (who) VALUES (1)")
    second = Later(other, f"SELECT * FROM account WHERE {room} {lock}")
    assert second.waits()
    run(session, "COMMIT")
    assert second.answer()
    assert rows(other, "SELECT COUNT(*) FROM booking FOR UPDATE") == [[1]]
    run(other, "COMMIT")


def test_who_locked_first_sees_in_plain_reads_what_the_former_holder_committed(
    session: Session, another: Session, other: Session
) -> None:
    run(session, "CREATE TABLE booking (id int AUTO_INCREMENT PRIMARY KEY, who int)")
    for n, second in enumerate((another, other), start=1):
        run(session, "BEGIN")
        run(second, "BEGIN")
        rows(session, "SELECT * FROM account WHERE id = 1 FOR UPDATE")
        run(session, "INSERT INTO booking (who) VALUES (1)")
        waits = Later(second, "SELECT * FROM account WHERE id = 1 FOR UPDATE")
        assert waits.waits()
        run(session, "COMMIT")
        assert waits.answer()
        assert rows(second, "SELECT COUNT(*) FROM booking") == [[n]]
        run(session, "INSERT INTO account VALUES (3, 3, 'c') ON DUPLICATE KEY UPDATE amount = 4")
        assert rows(second, "SELECT COUNT(*) FROM account WHERE id = 3") == [[n - 1]], (
            "one snapshot"
        )
        run(second, "UPDATE account SET amount = amount + 1 WHERE id = 1")
        run(second, "COMMIT")


def test_nowait_wait_n_and_skip_locked(session: Session, other: Session) -> None:
    run(session, "BEGIN")
    rows(session, "SELECT * FROM account WHERE id = 1 FOR UPDATE")
    run(other, "BEGIN")
    assert error(other, "SELECT * FROM account FOR UPDATE NOWAIT") == (3572, "HY000")
    assert error(other, "SELECT * FROM account FOR UPDATE WAIT 1") == (1205, "HY000")
    assert rows(other, "SELECT id FROM account FOR UPDATE SKIP LOCKED") == [[2]]
    run(session, "COMMIT")
    assert rows(other, "SELECT id FROM account FOR UPDATE NOWAIT") == [[1], [2]]
    run(other, "COMMIT")


def test_a_deadlock_over_two_nodes_is_1213_at_once(session: Session, other: Session) -> None:
    run(session, "BEGIN")
    run(other, "BEGIN")
    run(session, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    run(other, "UPDATE account SET amount = amount + 10 WHERE id = 2")
    first = Later(session, "UPDATE account SET amount = amount + 1 WHERE id = 2")
    assert first.waits()
    clock = session.services.clock
    began = clock.monotonic()
    second = Later(other, "UPDATE account SET amount = amount + 10 WHERE id = 1")
    answers = [first.answer(), second.answer()]
    assert clock.monotonic() - began < 5  # and not when somebody's wait is up, after 50 s
    assert answers.count(1213) == 1
    run(session, "COMMIT")
    run(other, "COMMIT")
    amount = 101 if answers[1] == 1213 else 110
    assert rows(session, "SELECT amount FROM account") == [[amount], [amount]]


def test_a_circle_of_three_sessions_on_two_nodes_is_1213(
    session: Session, another: Session, other: Session
) -> None:
    refused: list[Session] = []
    run(session, "INSERT INTO account VALUES (3, 100, 'c')")
    update = "UPDATE account SET amount = amount + 1 WHERE id = {}"
    for who, mine in ((session, 1), (other, 2), (another, 3)):
        run(who, "BEGIN")
        run(who, update.format(mine))
    waits = {who: Later(who, update.format(n)) for who, n in ((session, 2), (other, 3))}
    assert all(each.waits() for each in waits.values())
    waits[another] = Later(another, update.format(1))
    while waits:  # one of them is refused, or has been given what it waits for
        who = next(who for who in cycle(list(waits)) if not waits[who].waits())
        if waits.pop(who).answer() == 1213:
            refused.append(who)
        run(who, "COMMIT")
    assert len(refused) == 1


def test_waiters_of_both_nodes_are_served_in_their_order(
    world: World, elsewhere: World, session: Session
) -> None:
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    run(session, "BEGIN")
    rows(session, "SELECT * FROM account WHERE id = 1 FOR UPDATE")
    waiters = [
        Later(
            node.session(session.database),
            f"UPDATE account SET amount = amount * 10 + {n} WHERE id = 1",
        )
        for n, node in ((1, elsewhere), (2, world), (3, elsewhere))
    ]
    assert all(each.waits() for each in waiters)
    run(session, "COMMIT")
    for each in waiters:
        assert each.answer()
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[123]]


def test_a_killed_wait_is_1317(session: Session, other: Session) -> None:
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 0 WHERE id = 1")
    waits = Later(other, "UPDATE account SET amount = 1 WHERE id = 1")
    assert waits.waits()
    other.interrupt()
    assert waits.answer() == 1317
    run(session, "ROLLBACK")
    run(other, "UPDATE account SET amount = 3 WHERE id = 1")


def test_named_locks_are_the_clusters(session: Session, other: Session) -> None:
    assert rows(session, "SELECT GET_LOCK('job', 0)") == [[1]]
    assert rows(other, "SELECT GET_LOCK('job', 0), IS_FREE_LOCK('job')") == [[0, 0]]
    assert rows(other, "SELECT IS_USED_LOCK('job')") == [[session.connection_id]]
    waits = Later(other, "SELECT GET_LOCK('JOB', 20)")
    assert waits.waits()
    assert rows(session, "SELECT RELEASE_LOCK('job')") == [[1]]
    assert waits.rows() == [[1]]
    assert rows(session, "SELECT GET_LOCK('job', 0)") == [[0]]
    other.close()
    assert rows(session, "SELECT GET_LOCK('job', 0)") == [[1]]
    assert rows(session, "SELECT RELEASE_ALL_LOCKS()") == [[1]]


def test_a_member_that_was_fenced_holds_nothing(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process lives; its epoch is gone, so what it holds can never be committed."""
    with World(world.store, owns=False) as node:
        holder = node.session(session.database)
        run(holder, "BEGIN")
        run(holder, "UPDATE account SET amount = 0 WHERE id = 1")
        waits = Later(session, "UPDATE account SET amount = amount + 1 WHERE id = 1")
        assert waits.waits()
        txn = world.store.begin()
        members.fence(txn, node.member.id)
        txn.commit()
        assert waits.answer()
        with pytest.raises(Deposed):
            holder.execute("COMMIT")
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[101]]


def test_what_the_other_node_committed_since_the_snapshot_is_read_again(
    session: Session, other: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is let go between the statement's snapshot and its lock: no conflict at COMMIT."""
    take, done = StatementLocks.take, []

    def late(self: StatementLocks, *given: Any) -> bytes | None:
        if not done:
            done.append(1)
            run(other, "UPDATE account SET amount = amount + 10 WHERE id = 1")
        return take(self, *given)

    monkeypatch.setattr(StatementLocks, "take", late)
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    monkeypatch.undo()
    run(session, "COMMIT")
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[111]]


def test_a_bulk_write_locks_every_row_against_the_other_node(
    world: World, elsewhere: World, session: Session, other: Session
) -> None:
    count = 3 * AT_ONCE
    run(session, "CREATE TABLE many (id int PRIMARY KEY, n int)")
    run(session, "INSERT INTO many VALUES " + ",".join(f"({n}, 0)" for n in range(count)))
    run(session, "BEGIN")
    run(session, "UPDATE many SET n = n + 1")
    assert rows(other, "SELECT COUNT(*) FROM many FOR UPDATE SKIP LOCKED") == [[0]]
    run(session, "COMMIT")
    assert rows(other, "SELECT COUNT(*) FROM many FOR UPDATE SKIP LOCKED") == [[count]]
    assert len(world.services.row_locks) == len(elsewhere.services.row_locks) == 0


def test_transfers_on_two_nodes_keep_the_sum_and_never_fail_at_commit(
    world: World, elsewhere: World, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    run(session, "INSERT INTO account VALUES (3, 100, 'c'), (4, 100, 'd')")
    codes: list[tuple[int, str]] = []
    done: list[int] = []

    def transfer(seed: int) -> None:
        node, random = (world, elsewhere)[seed % 2], Random(seed)
        mine = node.session(session.database)
        for _ in range(40):
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

    threads = [threading.Thread(target=transfer, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a wake-up was lost"
    with capsys.disabled():
        waits = world.services.row_locks.waits + elsewhere.services.row_locks.waits
        print(f"\ntransfers on two nodes: {len(done)}, {len(codes)} deadlocks, {waits} waits")
    assert {code for code, _ in codes} <= {1213, 1205}
    assert "COMMIT" not in {text for _, text in codes}, "locks leave no conflict for the commit"
    assert rows(session, "SELECT SUM(amount) FROM account") == [[400]]
    for node in (world, elsewhere):
        assert len(node.services.row_locks) == 0
    assert len(done) > 100


# -- shared ----------------------------------------------------------------------------------------


@pytest.fixture(params=["another", "other"])
def second(request: pytest.FixtureRequest) -> Session:
    """A session of the same node, then of the other one."""
    found: Session = request.getfixturevalue(request.param)
    return found


SHARE = "SELECT amount FROM account WHERE {} FOR SHARE"


@pytest.mark.parametrize("room", ["id = 1", "id = 9", "owner = 'a'", "owner = 'z'"])
def test_two_share_a_row_and_who_wants_it_alone_waits_for_both(
    session: Session, second: Session, elsewhere: World, room: str
) -> None:
    third = elsewhere.session(session.database)
    for who in (session, second):
        run(who, "BEGIN")
        rows(who, SHARE.format(room))
        rows(who, SHARE.format(room))
    alone = Later(third, f"SELECT amount FROM account WHERE {room} FOR UPDATE")
    assert alone.waits()
    run(session, "COMMIT")
    assert alone.waits()
    run(second, "COMMIT")
    assert alone.answer()
    third.close()


def test_who_writes_a_shared_row_waits_and_who_shared_it_commits(
    session: Session, second: Session
) -> None:
    run(session, "BEGIN")
    rows(session, SHARE.format("id = 1"))
    write = Later(second, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    assert write.waits()
    run(session, "INSERT INTO account VALUES (3, 3, 'c')")
    run(session, "COMMIT")
    assert write.answer()
    assert rows(session, "SELECT amount FROM account WHERE id = 1") == [[101]]


def test_a_writer_who_waits_is_not_overtaken_by_those_who_share(
    session: Session, second: Session, elsewhere: World, another: Session
) -> None:
    late = elsewhere.session(session.database)
    run(session, "BEGIN")
    rows(session, SHARE.format("id = 1"))
    write = Later(second, "UPDATE account SET amount = 5 WHERE id = 1")
    assert write.waits()
    run(late, "BEGIN")
    assert error(late, SHARE.format("id = 1") + " NOWAIT") == (3572, "HY000")
    share = Later(late, SHARE.format("id = 1"))
    assert share.waits()
    run(session, "COMMIT")
    assert write.answer() and share.answer()
    assert rows(late, SHARE.format("id = 1")) == [[5]], "behind the writer"
    run(late, "COMMIT")
    late.close()


def test_nowait_and_skip_locked_of_those_who_share(session: Session, second: Session) -> None:
    run(session, "BEGIN")
    rows(session, SHARE.format("id = 1"))
    run(second, "BEGIN")
    assert rows(second, "SELECT id FROM account FOR SHARE NOWAIT") == [[1], [2]]
    assert rows(second, "SELECT id FROM account FOR SHARE SKIP LOCKED") == [[1], [2]]
    assert error(second, "SELECT id FROM account FOR UPDATE NOWAIT") == (3572, "HY000")
    assert rows(second, "SELECT id FROM account FOR UPDATE SKIP LOCKED") == [[2]]
    run(second, "COMMIT")
    run(session, "UPDATE account SET amount = 1 WHERE id = 1")
    run(session, "COMMIT")
    run(session, "BEGIN")
    run(session, "UPDATE account SET amount = 2 WHERE id = 1")
    assert error(second, "SELECT id FROM account FOR SHARE NOWAIT") == (3572, "HY000")
    assert rows(second, "SELECT id FROM account FOR SHARE SKIP LOCKED") == [[2]]
    run(session, "COMMIT")


@pytest.mark.parametrize(
    "alone",
    [
        "SELECT amount FROM account WHERE id = 1 FOR UPDATE",
        "UPDATE account SET amount = amount + 1 WHERE id = 1",
    ],
)
def test_who_shares_a_row_and_wants_it_alone_waits_and_a_second_one_is_1213(
    session: Session, second: Session, alone: str
) -> None:
    """And what the first then commits is not refused for the locks that were shared with it."""
    for who in (session, second):
        run(who, "BEGIN")
        rows(who, SHARE.format("id = 1"))
    first = Later(session, alone)
    assert first.waits()
    last = Later(second, alone)
    both = [first.answer(), last.answer()]
    assert both.count(1213) == 1
    goes_on = second if both[0] == 1213 else session
    run(goes_on, "UPDATE account SET amount = amount + 1 WHERE id = 1")
    run(session, "COMMIT")
    run(second, "COMMIT")
    for who in (session, second):
        run(who, "BEGIN")
        rows(who, SHARE.format("id = 1"))
    first = Later(session, alone)
    assert first.waits()
    run(second, "INSERT INTO account VALUES (4, 4, 'd')")
    run(second, "COMMIT")
    assert first.answer()
    run(session, "UPDATE account SET amount = 7 WHERE id = 2")
    run(session, "COMMIT")


def test_a_refused_wish_for_a_row_alone_leaves_it_shared(session: Session, second: Session) -> None:
    for who in (session, second):
        run(who, "BEGIN")
        rows(who, SHARE.format("id = 1"))
    assert error(session, "SELECT * FROM account WHERE id = 1 FOR UPDATE NOWAIT") == (
        3572,
        "HY000",
    )
    run(session, "UPDATE account SET amount = 3 WHERE id = 2")
    run(second, "INSERT INTO account VALUES (4, 4, 'd')")
    run(session, "COMMIT")
    run(second, "COMMIT")


def test_a_parent_that_a_child_counts_on_may_be_locked_later(
    session: Session, second: Session
) -> None:
    run(session, "CREATE TABLE note (id int, a int, FOREIGN KEY (a) REFERENCES account (id))")
    run(session, "BEGIN")
    run(session, "INSERT INTO note VALUES (1, 1)")
    rows(session, "SELECT * FROM account WHERE id = 1 FOR UPDATE")
    assert error(second, "SELECT * FROM account WHERE id = 1 FOR UPDATE NOWAIT") == (
        3572,
        "HY000",
    )
    run(session, "COMMIT")


def test_a_statement_alone_shares_too(session: Session, second: Session) -> None:
    run(session, "BEGIN")
    rows(session, SHARE.format("id = 1"))
    assert rows(second, SHARE.format("id = 1")) == [[100]]
    run(session, "UPDATE account SET amount = 1 WHERE id = 1")
    alone = Later(second, SHARE.format("id = 1"))
    assert alone.waits()
    run(session, "COMMIT")
    assert alone.answer()
