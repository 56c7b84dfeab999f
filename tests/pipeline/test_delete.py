"""Emptying a range and purging tombstones, in bounded transactions."""

import pytest

from exuvia.base.errors import Deposed
from exuvia.kv import keys as k
from exuvia.kv.entry import LIVE, TOMBSTONE
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Equal, Span
from exuvia.pipeline import delete


def entry(n: int) -> bytes:
    return k.index_prefix(7, 1) + k.u64(n)


def test_a_range_is_emptied_and_its_neighbours_stay() -> None:
    store = MemoryStore()
    store.bulk([b"a%05d" % n for n in range(5000)], b"x")
    removed = delete.empty(store, Span(b"a00010", b"a04990"))
    assert removed == 4980
    assert store.count(Span(b"a", b"b")) == 20


def test_no_transaction_removes_more_than_a_batch() -> None:
    store = MemoryStore()
    store.bulk([b"a%05d" % n for n in range(5000)], b"x")
    emptying = delete.Emptying(store, Span(b"a", b"b"))
    sizes = []
    done = False
    while not done:
        before = emptying.removed
        done = emptying.step()
        sizes.append(emptying.removed - before)
    assert max(sizes) == delete.BATCH_KEYS
    assert sum(sizes) == 5000


def test_a_deposed_owner_empties_nothing() -> None:
    store = MemoryStore()
    store.bulk([b"a", b"b"], b"x")
    with pytest.raises(Deposed):
        delete.empty(store, Span(b"a", b"c"), [Equal(b"epoch", b"1")])
    assert store.count(Span(b"a", b"c")) == 2


def test_tombstones_are_purged_and_live_entries_stay() -> None:
    store = MemoryStore()
    store.bulk([entry(n) for n in range(3000)], [TOMBSTONE if n % 3 else LIVE for n in range(3000)])
    assert delete.purge(store, 7, 1) == 2000
    assert store.count(k.span_of(k.index_prefix(7, 1))) == 1000


def test_an_entry_that_comes_alive_while_it_is_purged_stays() -> None:
    store = MemoryStore()
    store.bulk([entry(1), entry(2)], TOMBSTONE)
    commit = store.commit

    def late(packet):  # type: ignore[no-untyped-def]
        store.commit = commit  # type: ignore[method-assign]
        store.bulk([entry(1)], LIVE, overwrite=True)
        return commit(packet)

    store.commit = late  # type: ignore[method-assign]
    assert delete.purge(store, 7, 1) == 1
    assert store.begin().get(entry(1)) == LIVE
    assert store.begin().get(entry(2)) is None
