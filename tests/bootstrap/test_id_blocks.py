"""AUTO_INCREMENT and hidden row ids: unique over all nodes, ascending on each."""

import threading

import pytest

from exuvia.base.errors import Refused, SchemaChanged, WouldWait
from exuvia.catalog.autoid import BLOCK, LAST_ID, IdAllocator
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from support.serving import served


@pytest.fixture
def store():
    """Table 55 exists."""
    made = MemoryStore()
    txn = made.begin()
    txn.put(keys.revision(55), keys.number(1))
    txn.commit()
    return made


def sequence(store):
    txn = store.begin()
    txn.rollback()
    return txn.sequence


def test_one_node_gives_consecutive_ids_in_few_transactions(store):
    ids, before = IdAllocator(store), sequence(store)
    assert [ids.next(55) for _ in range(20_000)] == list(range(1, 20_001))
    assert sequence(store) - before < 20


def test_row_ids_and_auto_increment_are_counted_apart(store):
    ids = IdAllocator(store)
    assert [ids.next(55, "rowid"), ids.next(55, "auto"), ids.next(55, "rowid")] == [1, 1, 2]


def test_several_ids_are_consecutive_even_beyond_a_block(store):
    ids = IdAllocator(store)
    assert ids.next(55, count=10) == 1
    assert ids.next(55, count=2 * BLOCK) == 11
    assert ids.next(55) == 11 + 2 * BLOCK


def test_nodes_and_threads_never_give_the_same_id(store):
    nodes, given = [IdAllocator(store), IdAllocator(store)], []

    def inserts(node):
        given.append([node.next(55) for _ in range(2000)])

    threads = [threading.Thread(target=inserts, args=(nodes[n % 2],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each for some in given for each in some}) == 8000
    assert all(some == sorted(some) for some in given)


@pytest.mark.parametrize("value", [5, 16, 17, 500, 10**9])
def test_an_explicit_value_is_never_given_again(store, value):
    here, there = IdAllocator(store), IdAllocator(store)
    assert here.next(55) == 1
    here.rebase(55, value)
    assert here.next(55) == value + 1
    assert there.next(55) > value + 1


def test_an_explicit_value_below_changes_nothing(store):
    ids = IdAllocator(store)
    ids.next(55, count=10)
    before = sequence(store)
    for value in (-5, 0, 1, 10):
        ids.rebase(55, value)
    assert ids.next(55) == 11
    assert sequence(store) == before


def test_a_block_of_a_dropped_table_is_refused(store):
    ids = IdAllocator(store)
    with pytest.raises(SchemaChanged):
        ids.next(56)


def test_the_last_id_is_the_last(store):
    ids = IdAllocator(store)
    ids.rebase(55, (1 << 64) - 1)
    with pytest.raises(Refused) as refused:
        ids.next(55)
    assert refused.value.code == 1467
    txn = store.begin()
    assert ids.peek(txn, 55) == LAST_ID + 1
    txn.rollback()


def test_a_thread_that_must_not_wait_takes_ids_in_hand_and_no_others(store):
    ids = IdAllocator(store)
    with pytest.raises(WouldWait):
        served(lambda: ids.next(55))
    with pytest.raises(WouldWait):
        served(lambda: ids.rebase(55, 7))
    ids.rebase(55, 7)
    before = sequence(store)
    assert served(lambda: [ids.next(55), ids.next(55)]) == [8, 9]
    served(lambda: ids.rebase(55, 100))
    assert served(lambda: ids.next(55)) == 101
    with pytest.raises(WouldWait):
        served(lambda: ids.rebase(55, 2 * BLOCK))
    assert served(lambda: ids.next(55)) == 102
    assert sequence(store) == before


def test_a_thread_that_must_not_wait_does_not_wait_for_who_takes_a_block(store, monkeypatch):
    ids = IdAllocator(store)
    ids.next(55)
    asked, may_go, honest = threading.Event(), threading.Event(), store.transact

    def slow(*some):
        asked.set()
        assert may_go.wait(10)
        return honest(*some)

    monkeypatch.setattr(store, "transact", slow)
    other = threading.Thread(target=lambda: ids.rebase(55, 2 * BLOCK))
    other.start()
    assert asked.wait(10)
    with pytest.raises(WouldWait):
        served(lambda: ids.next(55))
    may_go.set()
    other.join()
    assert ids.next(55) == 2 * BLOCK + 1
