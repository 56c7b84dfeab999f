"""A short write runs on the thread that serves, and steps aside while its commit is made.

Serving        the thread's loop: what comes back waits in a queue until `go_on`
begun(work)    work of a session, begun as the wire begins it
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from exuvia.base import interruption
from exuvia.base.aside import stepping_aside
from exuvia.base.errors import Unavailable, WouldWait
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.store import open_store
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Course
from support.node_processes import until
from support.serving import WAIT_S, Serving
from support.world import World, error, rows, run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    opened = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store"))
    yield opened
    opened.close()


@pytest.fixture
def world(store: LmdbStore) -> Iterator[World]:
    with World(store) as found:
        session = found.session("")
        run(session, "CREATE DATABASE d")
        run(session, "USE d")
        run(session, "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, a int UNIQUE)")
        run(session, "INSERT INTO t (a) VALUES (1)")
        found.services.row_locks.unwaiting = threading.get_ident()
        yield found
        found.services.row_locks.unwaiting = 0


def sessions(world: World, number: int) -> list[Session]:
    found = [world.session("d") for _ in range(number)]
    for each in found:
        run(each, "SELECT 1")
    return found


def planned(session: Session, *texts: str) -> None:
    """Plans are kept from the second time on."""
    for text in texts:
        run(session, text)


INSERT = "INSERT INTO t (a) VALUES ({})"


def test_commits_that_step_aside_share_one_transaction_and_hold_up_nobody(
    world: World, store: LmdbStore
) -> None:
    *writers, reader = sessions(world, 6)
    planned(reader, INSERT.format(2))
    serving = Serving()
    before = cast(int, store.environment.lmdb.info()["last_txnid"])
    with store.environment.write():  # the store's writer is another's
        for number, writer in enumerate(writers):
            text = INSERT.format(100 + number)
            assert writer.course(text) is Course.ASIDE
            assert serving.begin(lambda writer=writer, text=text: run(writer, text))
        assert rows(reader, "SELECT COUNT(*) FROM t") == [[2]]
        until(lambda: store.committer.waiting >= 4)  # a loop of the world may be among them
    serving.go_on(5)
    assert [each.affected for each in serving.outcomes] == [1] * 5
    assert cast(int, store.environment.lmdb.info()["last_txnid"]) - before in (1, 2)
    assert rows(reader, "SELECT a FROM t WHERE a >= 100 ORDER BY a") == [
        [n] for n in range(100, 105)
    ]
    assert len({writer.last_insert_id for writer in writers}) == 5


def test_an_explicit_transaction_steps_aside_at_its_commit(world: World, store: LmdbStore) -> None:
    writer, reader = sessions(world, 2)
    planned(reader, INSERT.format(2))
    serving = Serving()
    assert not serving.begin(lambda: run(writer, "BEGIN"))
    assert writer.course(INSERT.format(7)) is Course.ASIDE
    assert not serving.begin(lambda: run(writer, INSERT.format(7)))  # nothing to wait for
    assert writer.course("COMMIT") is Course.ASIDE
    with store.environment.write():
        assert serving.begin(lambda: run(writer, "COMMIT"))
        assert rows(reader, "SELECT a FROM t WHERE a = 7") == []
    serving.go_on(3)
    assert rows(reader, "SELECT a FROM t WHERE a = 7") == [[7]]
    assert writer.current is None


def test_an_optimistic_transaction_commits_in_the_pool(world: World) -> None:
    (writer,) = sessions(world, 1)
    planned(writer, INSERT.format(2))
    run(writer, "BEGIN OPTIMISTIC")
    run(writer, INSERT.format(3))
    assert writer.course("COMMIT") is Course.POOL
    run(writer, "COMMIT")


def test_what_the_commit_refuses_is_the_client_s_as_ever(world: World, store: LmdbStore) -> None:
    first, second, other = sessions(world, 3)
    planned(other, INSERT.format(2))
    serving = Serving()
    with store.environment.write():
        for writer in (first, second):
            serving.begin(lambda writer=writer: run(writer, INSERT.format(9)))
    serving.go_on(2)
    refused = [each for each in serving.outcomes if isinstance(each, Exception)]
    assert len(refused) == 1  # it waits for the other's row, or meets it
    assert isinstance(refused[0], WouldWait) or getattr(refused[0], "code", 0) == 1062
    assert rows(other, "SELECT COUNT(*) FROM t WHERE a = 9") == [[1]]
    world.services.row_locks.unwaiting = 0
    assert error(second if second.row_count != 1 else first, INSERT.format(9)) == (1062, "23000")


def test_who_has_to_take_ids_from_the_store_is_run_again_by_another(world: World) -> None:
    (writer,) = sessions(world, 1)
    planned(writer, INSERT.format(2))
    serving = Serving()
    high = "INSERT INTO t (id, a) VALUES (1000000, 5)"
    planned(writer, "INSERT INTO t (id, a) VALUES (50, 4)")
    assert writer.course(high) is Course.ASIDE
    assert not serving.begin(lambda: run(writer, high))  # an id behind its block
    assert isinstance(serving.outcomes[0], WouldWait)
    assert rows(writer, "SELECT COUNT(*) FROM t WHERE a = 5") == [[0]]
    assert run(writer, high).affected == 1  # outside of it: waits as any other
    assert rows(writer, "SELECT id FROM t WHERE a = 5") == [[1000000]]


def test_the_statement_of_the_thread_is_each_one_s_own(world: World, store: LmdbStore) -> None:
    first, second = sessions(world, 2)
    planned(first, INSERT.format(2))
    serving = Serving()
    alone = interruption.current()
    with store.environment.write():
        serving.begin(lambda: run(first, INSERT.format(11)))
        assert interruption.current() is alone
        serving.begin(lambda: run(second, INSERT.format(12)))
        assert interruption.current() is alone
        first.interrupt()  # its commit is under way: it is done
    serving.go_on(2)
    assert interruption.current() is alone
    assert rows(second, "SELECT a FROM t WHERE a > 10 ORDER BY a") == [[11], [12]]


def test_a_store_that_closes_answers_who_stepped_aside(store: LmdbStore) -> None:
    serving = Serving()

    def commit() -> int:
        txn = store.begin()
        txn.put(b"t", b"x")
        with stepping_aside():
            return txn.commit()

    closing = threading.Thread(target=store.committer.close, args=("closed",))
    with store.environment.write():
        assert serving.begin(commit)
        closing.start()
    serving.go_on(1)  # done, or refused: whoever came first
    closing.join(WAIT_S)
    assert not closing.is_alive()
    until(lambda: "commits" not in threads())
    assert not serving.begin(commit)
    assert isinstance(serving.outcomes[1], Unavailable)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate()]
