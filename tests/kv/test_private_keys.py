"""What is written below a private prefix is the transaction's alone, and no packet has it."""

from itertools import pairwise

import pytest

from exuvia.base.errors import Duplicate, Refused
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, WriteKind
from exuvia.kv.transaction import BEGINNING, UNBOUNDED, Transaction

PREFIX = keys.row_prefix(7)[:9]
ROW, ENTRY, OTHER = keys.row_prefix(7) + b"1", PREFIX + b"i1", keys.row_prefix(8) + b"1"


def begun(store: MemoryStore, room: int = UNBOUNDED) -> Transaction:
    txn = store.begin()
    txn.private(PREFIX, "t", room)
    return txn


def test_two_transactions_have_the_same_key_and_both_commit() -> None:
    store = MemoryStore()
    both = [begun(store) for _ in range(2)]
    for n, txn in enumerate(both):
        txn.put(ROW, b"own%d" % n)
        txn.lock(ROW)
        txn.lock(ROW + b"0")  # nothing stands there: it would leave a mark
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


def test_alone_it_is_nothing_to_commit() -> None:
    store = MemoryStore()
    txn = begun(store)
    txn.put(ROW, b"x")
    txn.back_to(0, keep_locks=True)
    txn.put(ROW, b"y")
    assert not txn.has_writes
    seen = store.snapshot().sequence
    txn.commit()
    assert store.snapshot().sequence == seen


def test_an_entry_of_another_row_is_a_duplicate() -> None:
    txn = begun(MemoryStore())
    txn.write(WriteKind.CLAIM, ENTRY, LIVE + b"1")
    with pytest.raises(Duplicate):
        txn.write(WriteKind.CLAIM, ENTRY, LIVE + b"2")
    assert not txn.put_new([ROW], [b"x"], []), "what is private is written one by one"


def test_room_is_what_is_written_and_not_undone() -> None:
    txn = begun(MemoryStore(), room=100)
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
    txn.private(PREFIX, "t", 24)  # all is undone: there is just room for one
    txn.put(ROW + b"0", b"x" * 12)
    with pytest.raises(Refused):
        txn.put(ROW + b"9", b"x")
    txn.delete(ROW + b"0")
