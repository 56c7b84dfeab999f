"""Every operation of the heap against a sorted list, from one thread and from four."""

import random
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from exuvia.stats.heap import Closed, Empty, Heap

KEYS = st.integers(0, 12)
RANKS = st.integers(-5, 5)

Element = tuple[int, float]


def heap() -> Heap[int, Element]:
    return Heap(lambda element: element[0], lambda element: element[1])


class AgainstAList(RuleBasedStateMachine):
    """The model: elements in the order they came, the greatest rank first."""

    def __init__(self) -> None:
        super().__init__()
        self.heap, self.model = heap(), dict[int, Element]()

    def put(self, element: Element) -> None:
        self.model.pop(element[0], None)
        self.model[element[0]] = element

    def top(self) -> Element:
        return max(self.model.values(), key=lambda element: element[1])

    @rule(key=KEYS, rank=RANKS)
    def add(self, key, rank):
        self.heap.add((key, rank))
        self.put((key, rank))

    @rule(key=KEYS, rank=RANKS)
    def update(self, key, rank):
        self.heap.update((key, rank))
        self.put((key, rank))

    @rule(elements=st.lists(st.tuples(KEYS, RANKS), max_size=20))
    def bulk_add(self, elements):
        self.heap.bulk_add(elements)
        for element in elements:
            self.put(element)

    @rule(key=KEYS, rank=RANKS)
    def add_if_absent(self, key, rank):
        assert self.heap.add_if_absent((key, rank)) == (key not in self.model)
        self.model.setdefault(key, (key, rank))

    @rule(key=KEYS, by_key=st.booleans())
    def delete(self, key, by_key):
        remove = self.heap.delete_key if by_key else lambda key: self.heap.delete((key, 0))
        if key in self.model:
            remove(key)
            del self.model[key]
        else:
            with pytest.raises(KeyError):
                remove(key)

    @precondition(lambda self: self.model)
    @rule()
    def pop(self):
        top = self.top()
        assert self.heap.peek() == top
        assert self.heap.pop() == top
        del self.model[top[0]]

    @precondition(lambda self: not self.model)
    @rule()
    def nothing(self):
        for look in (self.heap.peek, self.heap.pop):
            with pytest.raises(Empty):
                look()

    @invariant()
    def same(self):
        assert sorted(self.heap.items()) == sorted(self.model.values())
        assert sorted(self.heap.keys()) == sorted(self.model)
        assert len(self.heap) == len(self.model)
        for key in range(13):
            expected = self.model.get(key)
            assert self.heap.get_key(key) == self.heap.get((key, 0)) == expected


TestAgainstAList = AgainstAList.TestCase
TestAgainstAList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_equal_ranks_leave_in_the_order_they_came():
    queue = heap()
    for key in (5, 1, 9):
        queue.add((key, 1.0))
    assert [queue.pop()[0] for _ in range(3)] == [5, 1, 9]


def test_four_threads():
    queue, popped = heap(), []
    lock = threading.Lock()

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for n in range(3000):
            key = seed * 10_000 + n
            queue.add((key, chance.random()))
            queue.update((-1 - n % 5, chance.random()))  # shared by all four
            if n % 3 == 0:
                got = queue.pop()
                with lock:
                    popped.append(got[0])
            elif n % 7 == 0 and queue.get_key(key) is not None:
                try:
                    queue.delete_key(key)
                except KeyError:
                    continue  # another thread popped it
                with lock:
                    popped.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = [queue.pop() for _ in range(len(queue))]
    assert [rank for _, rank in left] == sorted((rank for _, rank in left), reverse=True)
    own = [key for key in [*(key for key, _ in left), *popped] if key >= 0]
    assert sorted(own) == sorted(seed * 10_000 + n for seed in range(4) for n in range(3000))


def test_the_list_stays_within_twice_the_elements():
    queue = heap()
    for n in range(20_000):
        queue.add((n % 100, float(n)))
    assert len(queue._heap) <= 2 * 100 + 64


def test_nobody_uses_a_closed_heap():
    queue = heap()
    queue.add((1, 1.0))
    queue.close()
    queue.close()
    assert queue.is_closed
    uses = [
        lambda: queue.add((1, 1.0)),
        lambda: queue.update((1, 1.0)),
        lambda: queue.bulk_add([]),
        lambda: queue.add_if_absent((1, 1.0)),
        lambda: queue.delete((1, 1.0)),
        lambda: queue.delete_key(1),
        queue.peek,
        queue.pop,
        queue.items,
        queue.keys,
        lambda: queue.get((1, 1.0)),
        lambda: queue.get_key(1),
        lambda: len(queue),
    ]
    for use in uses:
        with pytest.raises(Closed):
            use()
