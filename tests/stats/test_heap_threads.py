"""The heap used by four threads at once: every operation against a sorted list, no element lost."""

import random
import sys
import threading
from itertools import count

import pytest

from exuvia.stats.queue import Empty, Heap
from support.node_processes import until
from support.stats_owners import Element, heap, of

THREADS, STEPS = 4, 4000


class Shared:
    """One of four threads, with its own keys and a model of them; no thread waits for another.

    Only `pop` affects keys of other threads, and adds the popped element to `popped_by_others`.
    Each of its own keys therefore has the thread's last element, or was popped."""

    def __init__(
        self, queue: Heap[int, Element], number: int, popped_by_others: set[Element]
    ) -> None:
        self.heap, self.number, self.popped_by_others = queue, number, popped_by_others
        self.model = dict[int, Element]()
        self.chance = random.Random(repr((id(queue), number)))
        self.ranks = count()

    def element(self, key: int) -> Element:
        """An element that equals no other."""
        return of(key, self.chance.randrange(-5, 6) + next(self.ranks) / 10_000)

    def forget(self, key: int) -> None:
        """The element is missing: another thread popped it and records it now or in a moment."""
        expected = self.model.pop(key, None)
        if expected is not None:
            until(
                lambda: expected in self.popped_by_others, about=f"{expected} is lost", every_s=0.0
            )

    def look(self, key: int) -> None:
        self.agree(key, self.heap.get_key(key))
        self.agree(key, self.heap.get(of(key, 0)))

    def agree(self, key: int, actual: Element | None) -> None:
        if actual is None:
            self.forget(key)
        else:
            assert actual == self.model[key]

    def same(self, key: int = 0) -> None:
        actual = {item.key: item for item in self.heap.items()}
        keys = set(self.heap.keys())
        for key_ in [*self.model]:
            if key_ not in keys or key_ not in actual:
                self.forget(key_)
            else:
                assert actual[key_] == self.model[key_]
        assert self.model.keys() >= {key_ for key_ in keys if key_ % THREADS == self.number}

    def put(self, key: int) -> None:
        element = self.element(key)
        self.chance.choice((self.heap.add, self.heap.update))(element)
        self.model[key] = element

    def bulk_add(self, key: int) -> None:
        elements = [self.element(element) for element in (key, key + THREADS, key + 2 * THREADS)]
        self.heap.bulk_add(elements)
        self.model.update({element.key: element for element in elements})

    def add_if_absent(self, key: int) -> None:
        element = self.element(key)
        if self.heap.add_if_absent(element):
            self.forget(key)
            self.model[key] = element
        else:
            assert key in self.model

    def delete(self, key: int) -> None:
        try:
            if self.chance.random() < 0.5:
                self.heap.delete_key(key)
            else:
                self.heap.delete(of(key, 0))
            del self.model[key]
        except KeyError:
            self.forget(key)

    def discard(self, key: int) -> None:
        self.heap.discard_key(key)
        self.model.pop(key, None)

    def revalue(self, key: int) -> None:
        self.heap.revalue(list)  # the same elements: the others' models stay true

    def pop(self, key: int) -> None:
        try:
            self.heap.peek()
            self.popped_by_others.add(self.heap.pop())
        except Empty:
            assert len(self.heap) <= THREADS * 14

    def run(self) -> None:
        works = (self.look, self.same, self.put, self.bulk_add, self.add_if_absent)
        works += (self.delete, self.discard, self.revalue, self.pop)
        for _ in range(STEPS):
            self.chance.choice(works)(self.chance.randrange(12) * THREADS + self.number)
        self.same()


@pytest.mark.parametrize("round_", range(5))
def test_every_operation_from_four_threads_at_once_against_a_sorted_list(round_, switching):
    queue, popped_elements = heap(), set[Element]()
    threads = [Shared(queue, number, popped_elements) for number in range(THREADS)]
    failures: list[BaseException] = []

    def guarded(own: Shared) -> None:
        try:
            own.run()
        except BaseException as error:
            failures.append(error)

    run_all([threading.Thread(target=guarded, args=(own,)) for own in threads])
    assert failures == []
    model = {element for own in threads for element in own.model.values()} - popped_elements
    assert [queue.pop() for _ in range(len(queue))] == sorted(model)


@pytest.fixture
def switching():
    """Switches threads every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_four_threads_lose_and_duplicate_no_element():
    queue, popped = heap(), []
    lock = threading.Lock()

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for n in range(3000):
            key = seed * 10_000 + n
            queue.add(of(key, chance.random()))
            queue.update(of(-1 - n % 5, chance.random()))  # shared by all four
            if n % 500 == 0:
                queue.revalue(lambda few: [of(element.key, -element.minus_rank) for element in few])
            if n % 3 == 0:
                got = queue.pop()
                with lock:
                    popped.append(got.key)
            elif n % 7 == 0 and queue.get_key(key) is not None:
                try:
                    queue.delete_key(key)
                except KeyError:
                    continue  # another thread popped it
                with lock:
                    popped.append(key)

    run_all([threading.Thread(target=work, args=(seed,)) for seed in range(4)])
    remaining = [queue.pop() for _ in range(len(queue))]
    assert remaining == sorted(remaining)
    own = [key for key in [*(element.key for element in remaining), *popped] if key >= 0]
    assert sorted(own) == sorted(seed * 10_000 + n for seed in range(4) for n in range(3000))
