"""Emptying a range and purging tombstones, a batch a transaction, in the caller's."""

import pytest

from exuvia.base.errors import Conflict
from exuvia.ddl import gc_worker
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, TOMBSTONE, Span


def entry(n: int) -> bytes:
    return k.index_prefix(7, 1) + k.u64(n)


def batches(store, work, span: Span, most: int) -> list[int]:  # type: ignore[no-untyped-def]
    """Run to the end; how many keys each transaction removed."""
    sizes, start = [], span.start
    while start is not None:
        txn = store.begin()
        start = work(txn, Span(start, span.end), most)
        sizes.append(len(txn.packet().writes))
        txn.commit()
    return sizes


def filled(count: int = 5000) -> MemoryStore:
    store = MemoryStore()
    store.bulk([b"a%05d" % n for n in range(count)], b"x")
    return store


def test_a_range_is_emptied_and_its_neighbours_stay() -> None:
    store = filled()
    assert sum(batches(store, gc_worker.empty_range, Span(b"a00010", b"a04990"), 1000)) == 4980
    assert store.count(Span(b"a", b"b")) == 20


@pytest.mark.parametrize("most", [1, 999, 1000, 2500, 5000, 9999])
def test_no_transaction_removes_more_than_a_batch(most: int) -> None:
    store = filled(5000 if most > 1 else 30)
    sizes = batches(store, gc_worker.empty_range, Span(b"a", b"b"), most)
    assert max(sizes) <= most and store.count(Span(b"a", b"b")) == 0


def test_emptying_goes_on_at_the_key_it_had_come_to() -> None:
    store = filled(10)
    txn = store.begin()
    assert gc_worker.empty_range(txn, Span(b"a", b"b"), 4) == b"a00003\0"
    txn.commit()
    assert store.count(Span(b"a", b"b")) == 6


def test_tombstones_are_purged_and_live_entries_stay() -> None:
    store = MemoryStore()
    store.bulk([entry(n) for n in range(3000)], [TOMBSTONE if n % 3 else LIVE for n in range(3000)])
    sizes = batches(store, gc_worker.purge_tombstones, k.span_of(k.index_prefix(7, 1)), 500)
    assert sum(sizes) == 2000 and max(sizes) <= 500
    assert store.count(k.span_of(k.index_prefix(7, 1))) == 1000


def test_a_purge_looks_at_a_bounded_number_of_live_entries() -> None:
    store = MemoryStore()
    store.bulk([entry(n) for n in range(3000)], LIVE)
    txn = store.begin()
    reached = gc_worker.purge_tombstones(txn, k.span_of(k.index_prefix(7, 1)), 10)
    assert reached == entry(gc_worker.SCAN_BATCHES * 10 - 1) + b"\0"


def test_an_entry_that_comes_alive_while_it_is_purged_stays() -> None:
    store = MemoryStore()
    store.bulk([entry(1), entry(2)], TOMBSTONE)
    txn = store.begin()
    gc_worker.purge_tombstones(txn, k.span_of(k.index_prefix(7, 1)))
    store.bulk([entry(1)], LIVE, overwrite=True)
    with pytest.raises(Conflict):
        txn.commit()
    assert store.begin().get(entry(1)) == LIVE
