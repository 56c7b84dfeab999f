"""The heap used by four threads at once: every operation against a sorted list, nothing lost."""

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
    """One of four threads. Each has keys of its own and a model of them, and nothing holds the
    others back; what anyone may do to anyone's keys is `pop`, which puts what it got into `gone`.
    So of its own keys a thread finds what it did last, or that it is gone."""

    def __init__(self, queue: Heap[int, Element], number: int, gone: set[Element]) -> None:
        self.heap, self.number, self.gone = queue, number, gone
        self.model = dict[int, Element]()
        self.chance = random.Random(repr((id(queue), number)))
        self.ranks = count()

    def element(self, key: int) -> Element:
        """No two are equal."""
        return of(key, self.chance.randrange(-5, 6) + next(self.ranks) / 10_000)

    def forget(self, key: int) -> None:
        """What was there is gone: somebody has it, or will have told of it in a moment."""
        expected = self.model.pop(key, None)
        if expected is not None:
            until(lambda: expected in self.gone, about=f"{expected} is lost", every_s=0.0)

    def look(self, key: int) -> None:
        self.agree(key, self.heap.get_key(key))
        self.agree(key, self.heap.get(of(key, 0)))

    def agree(self, key: int, found: Element | None) -> None:
        if found is None:
            self.forget(key)
        else:
            assert found == self.model[key]

    def same(self, key: int = 0) -> None:
        found = {item.key: item for item in self.heap.items()}
        keys = set(self.heap.keys())
        for each in [*self.model]:
            if each not in keys or each not in found:
                self.forget(each)
            else:
                assert found[each] == self.model[each]
        assert self.model.keys() >= {each for each in keys if each % THREADS == self.number}

    def put(self, key: int) -> None:
        element = self.element(key)
        self.chance.choice((self.heap.add, self.heap.update))(element)
        self.model[key] = element

    def bulk_add(self, key: int) -> None:
        elements = [self.element(each) for each in (key, key + THREADS, key + 2 * THREADS)]
        self.heap.bulk_add(elements)
        self.model.update({each.key: each for each in elements})

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
            self.gone.add(self.heap.pop())
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
    queue, gone = heap(), set[Element]()
    threads = [Shared(queue, number, gone) for number in range(THREADS)]
    failures: list[BaseException] = []

    def guarded(own: Shared) -> None:
        try:
            own.run()
        except BaseException as error:
            failures.append(error)

    run_all([threading.Thread(target=guarded, args=(own,)) for own in threads])
    assert failures == []
    model = {element for own in threads for element in own.model.values()} - gone
    assert [queue.pop() for _ in range(len(queue))] == sorted(model)


@pytest.fixture
def switching():
    """Threads that take turns after every few instructions."""
    kept = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(kept)


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_four_threads_at_once_lose_and_double_nothing():
    queue, popped = heap(), []
    lock = threading.Lock()

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for n in range(3000):
            key = seed * 10_000 + n
            queue.add(of(key, chance.random()))
            queue.update(of(-1 - n % 5, chance.random()))  # shared by all four
            if n % 500 == 0:
                queue.revalue(lambda few: [of(each.key, -each.minus_rank) for each in few])
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
    left = [queue.pop() for _ in range(len(queue))]
    assert left == sorted(left)
    own = [key for key in [*(each.key for each in left), *popped] if key >= 0]
    assert sorted(own) == sorted(seed * 10_000 + n for seed in range(4) for n in range(3000))
