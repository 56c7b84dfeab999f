"""The change log: what each commit changed, missed by no reader and in order."""

import random
import threading

import pytest

from exuvia.base.errors import Conflict
from exuvia.kv import change_log, keys
from exuvia.kv.packet import View
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

ROWS, LOG = keys.row_prefix(7), keys.log_prefix(7, 1)


def key(n: int) -> bytes:
    return ROWS + keys.i64(n)


def put(txn: Transaction, n: int, value: bytes | None) -> None:
    txn.log(LOG, key(n))
    if value is None:
        txn.delete(key(n))
    else:
        txn.put(key(n), value)


def state(store: Store) -> tuple[View, dict[bytes, bytes]]:
    """All rows, and the view that shows them."""
    with store.read() as txn:
        txn.open()
        found = {k[keys.HANDLE_AT :]: v for k, v in txn.scan(keys.span_of(ROWS))}
        return txn.snapshot.view, found


def changes(store: Store, known: View | None) -> tuple[View, list[tuple]]:
    """(handle, before, after) in order since the view, and the view they lead to."""
    with store.read() as txn:
        txn.open()
        found = change_log.in_order(txn.snapshot, LOG, ROWS, known)
        return txn.snapshot.view, [(c.handle, c.before, after) for c, after in found]


def test_a_commit_leaves_one_record_of_each_row_that_it_changes(store: Store) -> None:
    store.transact(lambda txn: [put(txn, n, b"old") for n in (1, 2, 3)])
    known, _ = state(store)

    def work(txn: Transaction) -> None:
        put(txn, 1, b"new")
        put(txn, 1, b"newer")  # twice: one record
        put(txn, 2, b"new")
        put(txn, 2, b"old")  # back again: none
        mark = txn.mark()
        put(txn, 3, b"new")
        txn.back_to(mark)  # undone: none
        put(txn, 4, b"new")
        put(txn, 5, b"new")
        put(txn, 5, None)  # came and went: none
        assert txn.put_new([key(6), key(7)], [b"six", b"seven"], [], LOG)

    store.transact(work)
    store.transact(lambda txn: put(txn, 4, None))
    _, found = changes(store, known)
    assert found == [
        (keys.i64(1), b"old", b"newer"),
        (keys.i64(4), None, b"new"),
        (keys.i64(6), None, b"six"),
        (keys.i64(7), None, b"seven"),
        (keys.i64(4), b"new", None),
    ]
    with store.read() as txn:
        folded = change_log.rows_changed(txn.snapshot, LOG, ROWS, known)
    assert [(each.handle, each.before, each.after) for each in folded] == [
        (keys.i64(1), b"old", b"newer"),
        (keys.i64(6), None, b"six"),
        (keys.i64(7), None, b"seven"),
    ]


def test_a_refused_commit_leaves_no_record(store: Store) -> None:
    store.transact(lambda txn: put(txn, 1, b"old"))
    known, _ = state(store)
    late = store.begin()
    put(late, 1, b"late")
    store.transact(lambda txn: put(txn, 1, b"first"))
    with pytest.raises(Conflict):
        late.commit()
    assert changes(store, known)[1] == [(keys.i64(1), b"old", b"first")]


def test_what_is_read_again_after_a_rollback_is_what_the_record_says(store: Store) -> None:
    """A statement is undone with what it required, the next one reads a newer row."""
    store.transact(lambda txn: put(txn, 1, b"old"))
    known, _ = state(store)
    txn = store.begin()
    mark, expecting = txn.mark(), txn.expecting()
    put(txn, 1, b"mine")
    store.transact(lambda other: put(other, 1, b"theirs"))
    txn.back_to(mark)
    txn.forget_expected(expecting)
    with store.read() as fresh:
        fresh.open()
        former = txn.read_from(fresh.snapshot)
        put(txn, 1, b"mine")
        txn.commit()
    former.close()
    assert changes(store, known)[1] == [
        (keys.i64(1), b"old", b"theirs"),
        (keys.i64(1), b"theirs", b"mine"),
    ]


@pytest.mark.parametrize("many", [5, 400])
def test_a_large_commit_has_its_records_too(store: Store, many: int) -> None:
    store.transact(lambda txn: [put(txn, n, b"old") for n in range(many)])
    known, before = state(store)
    store.transact(lambda txn: [put(txn, n, None if n % 2 else b"new") for n in range(many)])
    _, found = changes(store, known)
    assert len(found) == many
    assert replayed(before, found) == state(store)[1]


def replayed(rows: dict[bytes, bytes], found: list[tuple]) -> dict[bytes, bytes]:
    """The rows after those changes; each must fit what stood there."""
    rows = dict(rows)
    for handle, before, after in found:
        assert rows.get(handle) == before, handle
        if after is None:
            rows.pop(handle, None)
        else:
            rows[handle] = after
    return rows


def test_readers_beside_writers_see_each_change_once_and_in_order(store: Store) -> None:
    """Few rows, many writers, inserts and deletes: replayed from any moment they lead to now."""
    known, followed = state(store)
    begun, start = known, dict(followed)
    done = threading.Event()
    broken: list[BaseException] = []

    def write(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for turn in range(60):
                rows = chance.sample(range(6), chance.randint(1, 3))

                def work(txn: Transaction, rows=rows, turn=turn) -> None:
                    for n in rows:
                        there = txn.get(key(n)) is not None
                        put(
                            txn,
                            n,
                            None if there and chance.random() < 0.5 else b"%d.%d" % (seed, turn),
                        )

                store.transact(work)
        except BaseException as error:
            broken.append(error)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for each in writers:
        each.start()

    def ended() -> None:
        for each in writers:
            each.join()
        done.set()

    waiting = threading.Thread(target=ended)
    waiting.start()
    while not done.is_set():
        known, found = changes(store, known)
        followed = replayed(followed, found)
    waiting.join()
    assert not broken
    known, found = changes(store, known)
    followed = replayed(followed, found)
    at_once = replayed(start, changes(store, begun)[1])
    assert followed == at_once == state(store)[1]
