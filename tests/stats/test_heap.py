"""Every operation of the heap against a sorted list; from four threads: test_heap_threads.py."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from exuvia.stats.queue import SPARE_SHARE, Closed, Empty, Heap
from support.stats_owners import Element, heap, of

KEYS = st.integers(0, 12)
RANKS = st.integers(-5, 5)


class Against:
    """A heap and its model, a list sorted at every check.

    Every operation runs on both; the drawn number decides the operation and its arguments."""

    def __init__(self, queue: Heap[int, Element]) -> None:
        self.heap, self.model = queue, dict[int, Element]()

    def sorted(self) -> list[Element]:
        return sorted(self.model.values())

    def add(self, key: int, rank: float) -> None:
        self.heap.add(of(key, rank))
        self.model[key] = of(key, rank)

    def update(self, key: int, rank: float) -> None:
        self.heap.update(of(key, rank))
        self.model[key] = of(key, rank)

    def bulk_add(self, elements: list[Element]) -> None:
        self.heap.bulk_add(elements)
        self.model.update({element.key: element for element in elements})

    def add_if_absent(self, key: int, rank: float) -> None:
        assert self.heap.add_if_absent(of(key, rank)) == (key not in self.model)
        self.model.setdefault(key, of(key, rank))

    def delete(self, key: int, by_key: bool) -> None:
        remove = self.heap.delete_key if by_key else lambda key: self.heap.delete(of(key, 0))
        if self.model.pop(key, None) is not None:
            remove(key)
        else:
            with pytest.raises(KeyError):
                remove(key)

    def discard(self, key: int) -> None:
        self.heap.discard_key(key)
        self.model.pop(key, None)

    def revalue(self, factor: int) -> None:
        def anew(elements: list[Element]) -> list[Element]:
            return [of(element.key, factor * element.minus_rank) for element in elements]

        self.heap.revalue(anew)
        self.model = {element.key: element for element in anew([*self.model.values()])}

    def pop(self) -> None:
        if self.model:
            first = self.sorted()[0]
            assert self.heap.peek() == first and self.heap.pop() == first
            del self.model[first.key]
        for look in () if self.model else (self.heap.peek, self.heap.pop):
            with pytest.raises(Empty):
                look()

    def look(self, key: int) -> None:
        assert self.heap.get_key(key) == self.heap.get(of(key, 0)) == self.model.get(key)

    def same(self) -> None:
        assert sorted(self.heap.items()) == self.sorted()
        assert sorted(self.heap.keys()) == sorted(self.model)
        assert len(self.heap) == len(self.model) and not self.heap.is_closed


class AgainstAList(RuleBasedStateMachine):
    """In one thread, everything is compared after every operation."""

    def __init__(self) -> None:
        super().__init__()
        self.both = Against(heap())

    @rule(key=KEYS, rank=RANKS)
    def add(self, key, rank):
        self.both.add(key, rank)

    @rule(key=KEYS, rank=RANKS)
    def update(self, key, rank):
        self.both.update(key, rank)

    @rule(elements=st.lists(st.builds(of, KEYS, RANKS), max_size=20))
    def bulk_add(self, elements):
        self.both.bulk_add(elements)

    @rule(key=KEYS, rank=RANKS)
    def add_if_absent(self, key, rank):
        self.both.add_if_absent(key, rank)

    @rule(key=KEYS, by_key=st.booleans())
    def delete(self, key, by_key):
        self.both.delete(key, by_key)

    @rule(key=KEYS)
    def discard(self, key):
        self.both.discard(key)

    @rule(factor=st.sampled_from((-1, 2)))
    def revalue(self, factor):
        self.both.revalue(factor)

    @rule()
    def pop(self):
        self.both.pop()

    @invariant()
    def same(self):
        self.both.same()
        for key in range(13):
            self.both.look(key)

    def teardown(self):
        self.both.heap.close()
        assert self.both.heap.is_closed


TestAgainstAList = AgainstAList.TestCase
TestAgainstAList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_revalued_elements_are_popped_in_their_new_order():
    queue = heap()
    queue.bulk_add(of(n, n) for n in range(5000))
    queue.revalue(lambda few: [of(element.key, -element.key) for element in few])
    assert [queue.pop().key for _ in range(5000)] == list(range(5000))


def test_equal_ranks_are_popped_by_key():
    queue = heap()
    for key in (5, 1, 9):
        queue.add(of(key, 1.0))
    assert [queue.pop().key for _ in range(3)] == [1, 5, 9]


def test_the_list_has_few_obsolete_elements():
    queue = heap()
    for n in range(20_000):
        queue.add(of(n % 1000, float(n)))
    assert len(queue._heap) <= 1000 + 1000 // SPARE_SHARE + 64


def test_a_closed_heap_refuses_operations():
    queue = heap()
    queue.add(of(1, 1.0))
    queue.close()
    queue.close()
    assert queue.is_closed
    uses = [
        lambda: queue.add(of(1, 1.0)),
        lambda: queue.update(of(1, 1.0)),
        lambda: queue.bulk_add([]),
        lambda: queue.add_if_absent(of(1, 1.0)),
        lambda: queue.delete(of(1, 1.0)),
        lambda: queue.delete_key(1),
        lambda: queue.discard_key(1),
        lambda: queue.revalue(list),
        queue.peek,
        queue.pop,
        queue.items,
        queue.keys,
        lambda: queue.get(of(1, 1.0)),
        lambda: queue.get_key(1),
        lambda: len(queue),
    ]
    for use in uses:
        with pytest.raises(Closed):
            use()
