"""A heap whose elements are found, changed and removed by key. The least element is on top.

    add, update, add_if_absent, pop             O(log n)        peek, get, get_key, len     O(1)
    delete, delete_key, discard_key             O(log n)        items, keys                 O(n)
    close, is_closed                                            bulk_add, revalue           O(n)

    elements  {key: element}                      the truth
    heap      elements, some no longer true       heapq's list

Elements order themselves, so nothing is kept beside them. One that was replaced or removed stays in
the list until it comes to the top, or until there is one such for every SPARE_SHARE true ones: then
the list is built anew. So every change is one push in C. The top is kept true, so looking at it
costs nothing.

Thread-safe. After `close` every operation but `is_closed` and another `close` raises Closed.
"""

import heapq
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar


class Ordered(Protocol):
    """What has an order."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether it leaves before the other."""


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Ordered)

SPARE_SHARE = 8  # of as many true elements one more that is not true may be in the list
_SPARE = 64
_AT_ONCE = 2000  # elements revalued together


class Closed(Exception):
    """The heap was closed: nobody may use it any more."""


class Empty(LookupError):
    """There is no element."""


class Heap(Generic[K, T]):
    """See the module. `key_of` says the key of an element."""

    def __init__(self, key_of: Callable[[T], K]) -> None:
        self._key_of = key_of
        self._elements: dict[K, T] = {}
        self._heap: list[T] = []
        self._lock = threading.RLock()
        self._closed = False

    # -- adding ------------------------------------------------------------------------------------

    def add(self, element: T) -> None:
        """Put an element; one that has its key is replaced."""
        with self._lock:
            self._require_open()
            self._elements[self._key_of(element)] = element
            heapq.heappush(self._heap, element)
            self._tidy()

    update = add

    def bulk_add(self, elements: Iterable[T]) -> None:
        """Put many at once: one pass, however many."""
        with self._lock:
            self._require_open()
            known, key_of = self._elements, self._key_of
            for element in elements:
                known[key_of(element)] = element
            self._rebuild()

    def add_if_absent(self, element: T) -> bool:
        """Put an element unless one has its key; whether it was put."""
        with self._lock:
            self._require_open()
            if self._key_of(element) in self._elements:
                return False
            self.add(element)
            return True

    def revalue(self, anew: Callable[[list[T]], Iterable[T]]) -> None:
        """Every element as `anew` makes it of it, with its key; not all of them are there twice."""
        with self._lock:
            self._require_open()
            self._heap.clear()
            keys = list(self._elements)
            try:
                for first in range(0, len(keys), _AT_ONCE):
                    few = keys[first : first + _AT_ONCE]
                    made = anew([self._elements[key] for key in few])
                    self._elements.update(zip(few, made, strict=True))
            finally:
                self._rebuild()

    # -- removing ----------------------------------------------------------------------------------

    def delete(self, element: T) -> None:
        """Remove what has the element's key. Raises KeyError."""
        self.delete_key(self._key_of(element))

    def delete_key(self, key: K) -> None:
        """Remove what has the key. Raises KeyError."""
        with self._lock:
            self._require_open()
            del self._elements[key]
            self._tidy()

    def discard_key(self, key: K) -> None:
        """Remove what has the key, if there is one."""
        with self._lock:
            self._require_open()
            if self._elements.pop(key, None) is not None:
                self._tidy()

    def pop(self) -> T:
        """Remove the top; the element. Raises Empty."""
        with self._lock:
            element = self.peek()
            del self._elements[self._key_of(element)]
            self._tidy()
            return element

    # -- looking -----------------------------------------------------------------------------------

    def peek(self) -> T:
        """The top. Raises Empty."""
        with self._lock:
            self._require_open()
            if not self._heap:
                raise Empty("the heap has no element")
            return self._heap[0]

    def get(self, element: T) -> T | None:
        """What has the element's key, or None."""
        return self.get_key(self._key_of(element))

    def get_key(self, key: K) -> T | None:
        """What has the key, or None."""
        with self._lock:
            self._require_open()
            return self._elements.get(key)

    def items(self) -> list[T]:
        """Every element, in no order."""
        with self._lock:
            self._require_open()
            return list(self._elements.values())

    def keys(self) -> list[K]:
        """Every key, in no order."""
        with self._lock:
            self._require_open()
            return list(self._elements)

    def __len__(self) -> int:
        with self._lock:
            self._require_open()
            return len(self._elements)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Let everything go; nobody may use it any more."""
        with self._lock:
            self._closed = True
            self._elements.clear()
            self._heap.clear()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    # -- inside ------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise Closed("the heap is closed")

    def _tidy(self) -> None:
        """A true top, and a list not much longer than the truth."""
        heap, elements, key_of = self._heap, self._elements, self._key_of
        if len(heap) > len(elements) + len(elements) // SPARE_SHARE + _SPARE:
            self._rebuild()
            return
        while heap and elements.get(key_of(heap[0])) is not heap[0]:
            heapq.heappop(heap)

    def _rebuild(self) -> None:
        self._heap = list(self._elements.values())
        heapq.heapify(self._heap)
