"""Elements for a heap: the greatest rank leaves first, of equal ones the least key."""

from typing import NamedTuple

from exuvia.stats.queue import Heap


class Element(NamedTuple):
    minus_rank: float
    key: int


def of(key: int, rank: float) -> Element:
    return Element(-rank, key)


def heap() -> Heap[int, Element]:
    return Heap(lambda element: element.key)
