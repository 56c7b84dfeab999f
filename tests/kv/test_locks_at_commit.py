"""The check of locks at commit (decision 039): two transactions that held one key do not both
commit.

A, B     transactions that begin together; each uses key r, then writes another key
marks    traces of locks of absent keys and of shared locks; removed after a time, with detection
"""

from collections.abc import Callable
from itertools import product

import pytest

from exuvia.base.errors import Conflict
from exuvia.kv import keys as k
from exuvia.kv.lmdb import committer
from exuvia.kv.packet import LIVE, Unchanged, WriteKind
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

TABLE = 7
ROW = k.row_prefix(TABLE) + k.i64(1)
ENTRY = k.index_prefix(TABLE, 1) + b"mail"

Hold = Callable[[Transaction], None]


def lock(txn: Transaction) -> None:
    txn.lock(ROW)


def share(txn: Transaction) -> None:
    txn.lock(ROW, exclusive=False)


def write(txn: Transaction) -> None:
    txn.put(ROW, b"new")


def remove(txn: Transaction) -> None:
    txn.delete(ROW)


def write_and_undo(txn: Transaction) -> None:
    mark = txn.mark()
    txn.put(ROW, b"new")
    txn.back_to(mark, keep_locks=True)


def nothing(txn: Transaction) -> None:
    assert txn.get(ROW) in (None, b"old")


def put(store: Store, key: bytes, payload: bytes) -> None:
    txn = store.begin()
    txn.put(key, payload)
    txn.commit()


def elsewhere(txn: Transaction, name: bytes) -> Transaction:
    txn.put(k.row_prefix(TABLE + 1) + name, b"booked")
    return txn


HOLDS: tuple[Hold, ...] = (lock, share, write, remove, write_and_undo, nothing)


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize(("first", "second"), list(product(HOLDS, HOLDS)))
def test_two_that_hold_one_key_do_not_both_commit(
    store: Store, first: Hold, second: Hold, present: bool
) -> None:
    if present:
        put(store, ROW, b"old")
    one, two = store.begin(), store.begin()
    first(one)
    second(two)
    elsewhere(one, b"one").commit()
    together = nothing in (first, second) or (first is share and second is share)
    if not present and first is remove:
        together = True  # known gap: removing an absent row leaves no trace (decision 007)
    if together:
        elsewhere(two, b"two").commit()
    else:
        with pytest.raises(Conflict):
            elsewhere(two, b"two").commit()


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize(("first", "second"), [(lock, lock), (lock, share), (share, lock)])
def test_large_packets_follow_the_same_rule(
    store: Store, first: Hold, second: Hold, present: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "SMALL", 0)
    test_two_that_hold_one_key_do_not_both_commit(store, first, second, present)


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize("hold", [lock, share])
def test_transactions_that_only_lock_are_validated(store: Store, hold: Hold, present: bool) -> None:
    if present:
        put(store, ROW, b"old")
    one, two, three = store.begin(), store.begin(), store.begin()
    lock(one)
    hold(two)
    write(three)
    one.commit()
    for late in (two, three):
        with pytest.raises(Conflict):
            late.commit()
    reader = store.begin()
    assert reader.get(ROW) == (b"old" if present else None), "a lock changes nothing"
    reader.rollback()


@pytest.mark.parametrize("first", [lock, share])
def test_a_transaction_that_begins_after_a_locker_s_commit_does_not_conflict(
    store: Store, first: Hold
) -> None:
    for hold in HOLDS:
        one = store.begin()
        first(one)
        one.commit()
        two = store.begin()
        hold(two)
        elsewhere(two, b"two").commit()


@pytest.mark.parametrize("hold", [write, lock, share])
def test_a_current_read_counts_from_its_own_snapshot(store: Store, hold: Hold) -> None:
    one = store.begin()
    one.put(k.row_prefix(TABLE) + k.i64(9), b"before")
    other = store.begin()
    lock(other)
    other.commit()
    first = one.read_from(newest := store.snapshot())
    hold(one)
    one.read_from(first)
    newest.close()
    one.commit()


def test_a_statement_that_is_undone_holds_nothing(store: Store) -> None:
    txn = store.begin()
    mark, expecting = txn.mark(), txn.expecting()
    lock(txn)
    txn.back_to(mark)
    txn.forget_expected(expecting)
    assert not txn.has_writes
    put(store, ROW, b"new")
    elsewhere(txn, b"one").commit()


def test_a_lock_after_an_own_write_adds_nothing(store: Store) -> None:
    txn = store.begin()
    txn.put(ROW, b"own")
    lock(txn)
    share(txn)
    assert len(txn.packet().writes) == 1
    txn.commit()
    again = store.begin()
    again.delete(ROW)
    lock(again)
    assert len(again.packet().writes) == 1
    again.commit()


def test_a_statement_alone_leaves_no_trace(store: Store) -> None:
    put(store, ROW, b"old")
    txn = store.begin()
    txn.locks = False
    lock(txn)
    assert not txn.has_writes
    assert Unchanged in {type(requirement) for requirement in txn.packet().requirements}
    txn.rollback()


@pytest.mark.parametrize("stands", [None, LIVE + b"7", b"\x01"])
@pytest.mark.parametrize("hold", [lock, share])
def test_a_locked_absent_value_cannot_be_claimed(
    store: Store, hold: Hold, stands: bytes | None
) -> None:
    """A unique value that is absent, another row's, or a tombstone's."""
    if stands is not None:
        put(store, ENTRY, stands)
    one, two = store.begin(), store.begin()
    one.lock(ENTRY, exclusive=hold is lock)
    if stands is not None and stands[:1] == LIVE:
        one.commit()
        two.rollback()
        return
    two.write(WriteKind.CLAIM, ENTRY, LIVE + b"9")
    one.commit()
    with pytest.raises(Conflict):
        two.commit()


def test_a_key_as_long_as_keys_may_be_has_a_mark(store: Store) -> None:
    prefix = k.row_prefix(TABLE)
    keys = [prefix + bytes([n]) * (1978 - len(prefix)) for n in (1, 2)]
    keys.append(keys[0][:-1] + b"\x07")
    for key in keys:
        one, two = store.begin(), store.begin()
        one.lock(key)
        two.put(key, b"new")
        for other in keys:
            if other != key:
                two.put(other, b"other")
        one.commit()
        with pytest.raises(Conflict) as conflict:
            two.commit()
        assert conflict.value.key == key


def test_without_lock_marks_a_commit_reads_one_key_per_table(store: Store) -> None:
    from exuvia.kv.validate import check

    txn = store.begin()
    for n in range(100):
        txn.put(k.row_prefix(TABLE) + k.i64(n), b"x")
    looked: list[bytes] = []

    def read(key: bytes) -> None:
        looked.append(key)

    for requirement in txn.packet().requirements:
        if not isinstance(requirement, Unchanged):
            check(requirement, read)
    assert looked == [k.lock_header(ROW)]
    txn.rollback()


def test_marks_may_be_removed_and_older_transactions_notice(store: Store) -> None:
    old = store.begin()
    write(old)
    locker = store.begin()
    lock(locker)
    floor = locker.commit()
    young = store.begin()
    write(young)
    sweep = store.begin()
    sweep.delete(k.lock_mark(k.UPDATE, ROW))
    sweep.put(k.LOCK_FLOOR, k.number(floor))
    sweep.commit()
    with pytest.raises(Conflict, match="removed"):
        old.commit()
    young.commit()


def test_known_gap_a_key_inserted_and_removed_meanwhile_is_not_detected(store: Store) -> None:
    """Decision 007: absence has no version. Locks held across nodes prevent this case."""
    one = store.begin()
    lock(one)
    put(store, ROW, b"came")
    went = store.begin()
    went.delete(ROW)
    went.commit()
    elsewhere(one, b"one").commit()
