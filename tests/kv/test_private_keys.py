"""Private keys: visible to their transaction only, and in no packet."""

from itertools import pairwise

import pytest

from exuvia.base.errors import Duplicate, Refused
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, WriteKind
from exuvia.kv.transaction import BEGINNING, UNBOUNDED, Transaction

PREFIX = keys.row_prefix(7)[:9]
ROW, ENTRY, OTHER = keys.row_prefix(7) + b"1", PREFIX + b"i1", keys.row_prefix(8) + b"1"


def transaction(store: MemoryStore, room: int = UNBOUNDED) -> Transaction:
    txn = store.begin()
    txn.private(PREFIX, "t", room)
    return txn


def test_two_transactions_with_the_same_private_key_both_commit() -> None:
    store = MemoryStore()
    both = [transaction(store) for _ in range(2)]
    for n, txn in enumerate(both):
        txn.put(ROW, b"own%d" % n)
        txn.lock(ROW)
        txn.lock(ROW + b"0")  # an absent key: the lock would leave a mark
        txn.write(WriteKind.CLAIM, ENTRY, LIVE + b"1")
        txn.put(keys.row_prefix(8) + b"%d" % n, b"common")
        assert [key for key in txn.touched_since(0, BEGINNING) if key.startswith(PREFIX)] == []
    for n, txn in enumerate(both):
        assert txn.get(ROW) == b"own%d" % n
        assert dict(txn.scan(keys.table_span(7))) == {ROW: b"own%d" % n, ENTRY: LIVE + b"1"}
        assert [write.key[:9] for write in txn.packet().writes] == [OTHER[:9]]
        txn.commit()
    with store.read() as after:
        assert list(after.scan(keys.table_span(7))) == []
        assert len(list(after.scan(keys.table_span(8)))) == 2


def test_private_writes_alone_make_no_commit() -> None:
    store = MemoryStore()
    txn = transaction(store)
    txn.put(ROW, b"x")
    txn.back_to(0, keep_locks=True)
    txn.put(ROW, b"y")
    assert not txn.has_writes
    sequence = store.snapshot().sequence
    txn.commit()
    assert store.snapshot().sequence == sequence


def test_an_entry_of_another_row_is_a_duplicate() -> None:
    txn = transaction(MemoryStore())
    txn.write(WriteKind.CLAIM, ENTRY, LIVE + b"1")
    with pytest.raises(Duplicate):
        txn.write(WriteKind.CLAIM, ENTRY, LIVE + b"2")
    assert not txn.put_new([ROW], [b"x"], []), "what is private is written one by one"


def test_undone_writes_do_not_count_against_the_room() -> None:
    txn = transaction(MemoryStore(), room=100)
    marks = []
    for n in range(4):
        marks.append(txn.mark())
        txn.put(ROW + b"%d" % n, b"x" * 12)  # 24 bytes with its key
    with pytest.raises(Refused, match="The table 't' is full") as refused:
        txn.put(ROW + b"9", b"x" * 12)
    assert refused.value.code == 1114
    txn.put(OTHER, b"x" * 1000)
    for later, earlier in pairwise(reversed(marks)):
        txn.back_to(later)
        txn.put(ROW, b"x" * 12)
        txn.back_to(earlier)
    txn.private(PREFIX, "t", 24)  # all writes were undone: there is room for exactly one
    txn.put(ROW + b"0", b"x" * 12)
    with pytest.raises(Refused):
        txn.put(ROW + b"9", b"x")
    txn.delete(ROW + b"0")
