"""The change log: the rows before each commit; readers see every change once and in order."""

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
    """All rows, and the view in which they were read."""
    with store.read() as txn:
        txn.open()
        rows = {k[keys.HANDLE_AT :]: v for k, v in txn.scan(keys.span_of(ROWS))}
        return txn.snapshot.view, rows


def changes(store: Store, view: View | None) -> tuple[View, list[tuple]]:
    """(handle, before, after) in order since the view, and the view of the last change."""
    with store.read() as txn:
        txn.open()
        records = change_log.in_order(txn.snapshot, LOG, ROWS, view)
        return txn.snapshot.view, [(c.handle, c.before, after) for c, after in records]


def test_a_commit_leaves_one_record_of_each_row_that_it_changes(store: Store) -> None:
    store.transact(lambda txn: [put(txn, n, b"old") for n in (1, 2, 3)])
    view, _ = state(store)

    def work(txn: Transaction) -> None:
        put(txn, 1, b"new")
        put(txn, 1, b"newer")  # written twice: one record
        put(txn, 2, b"new")
        put(txn, 2, b"old")  # the same payload again: no record
        mark = txn.mark()
        put(txn, 3, b"new")
        txn.back_to(mark)  # undone: no record
        put(txn, 4, b"new")
        put(txn, 5, b"new")
        put(txn, 5, None)  # inserted and removed: no record
        assert txn.put_new([key(6), key(7)], [b"six", b"seven"], [], LOG)

    store.transact(work)
    store.transact(lambda txn: put(txn, 4, None))
    _, changes_seen = changes(store, view)
    assert changes_seen == [
        (keys.i64(1), b"old", b"newer"),
        (keys.i64(4), None, b"new"),
        (keys.i64(6), None, b"six"),
        (keys.i64(7), None, b"seven"),
        (keys.i64(4), b"new", None),
    ]
    with store.read() as txn:
        folded = change_log.rows_changed(txn.snapshot, LOG, ROWS, view)
    assert [(row.handle, row.before, row.after) for row in folded] == [
        (keys.i64(1), b"old", b"newer"),
        (keys.i64(6), None, b"six"),
        (keys.i64(7), None, b"seven"),
    ]


def test_a_refused_commit_leaves_no_record(store: Store) -> None:
    store.transact(lambda txn: put(txn, 1, b"old"))
    view, _ = state(store)
    late = store.begin()
    put(late, 1, b"late")
    store.transact(lambda txn: put(txn, 1, b"first"))
    with pytest.raises(Conflict):
        late.commit()
    assert changes(store, view)[1] == [(keys.i64(1), b"old", b"first")]


def test_after_a_statement_rollback_the_record_has_the_row_read_later(store: Store) -> None:
    """A statement is undone together with its requirements; the next one reads a newer row."""
    store.transact(lambda txn: put(txn, 1, b"old"))
    view, _ = state(store)
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
    assert changes(store, view)[1] == [
        (keys.i64(1), b"old", b"theirs"),
        (keys.i64(1), b"theirs", b"mine"),
    ]


@pytest.mark.parametrize("many", [5, 400])
def test_a_large_commit_writes_records(store: Store, many: int) -> None:
    store.transact(lambda txn: [put(txn, n, b"old") for n in range(many)])
    view, before = state(store)
    store.transact(lambda txn: [put(txn, n, None if n % 2 else b"new") for n in range(many)])
    _, changes_seen = changes(store, view)
    assert len(changes_seen) == many
    assert replayed(before, changes_seen) == state(store)[1]


def replayed(rows: dict[bytes, bytes], changes_made: list[tuple]) -> dict[bytes, bytes]:
    """The rows after these changes. Each change must match the row before it."""
    rows = dict(rows)
    for handle, before, after in changes_made:
        assert rows.get(handle) == before, handle
        if after is None:
            rows.pop(handle, None)
        else:
            rows[handle] = after
    return rows


def test_readers_see_each_change_once_and_in_order_under_concurrent_writes(store: Store) -> None:
    """Few rows, many writers, inserts and deletes; replays from any view give the present rows."""
    view, followed = state(store)
    first_view, start = view, dict(followed)
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
    for writer in writers:
        writer.start()

    def ended() -> None:
        for writer in writers:
            writer.join()
        done.set()

    waiting = threading.Thread(target=ended)
    waiting.start()
    while not done.is_set():
        view, changes_seen = changes(store, view)
        followed = replayed(followed, changes_seen)
    waiting.join()
    assert not broken
    view, changes_seen = changes(store, view)
    followed = replayed(followed, changes_seen)
    at_once = replayed(start, changes(store, first_view)[1])
    assert followed == at_once == state(store)[1]
