"""A heap whose elements are found, changed and removed by key. The greatest rank is on top.

    add, update, add_if_absent, pop             O(log n)        peek, get, get_key, len     O(1)
    delete, delete_key, discard_key             O(log n)        items, keys, bulk_add       O(n)
    close, is_closed

    entries   {key: entry}                        the truth; (-rank, arrival, element)
    heap      entries, some no longer true        heapq's list

An entry that was replaced or removed stays in the list until it comes to the top, or until such
entries are as many as true ones: then the list is built anew. So every change is one push in C, and
memory stays within twice the elements. The top is kept true, so looking at it costs nothing.

Equal ranks leave in the order they came. Thread-safe. After `close` every operation but `is_closed`
and another `close` raises Closed.
"""

import heapq
import threading
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import Any, Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_SPARE = 64


class Closed(Exception):
    """The heap was closed: nobody may use it any more."""


class Empty(LookupError):
    """There is no element."""


class _Entry(msgspec.Struct, order=True, gc=False):
    """Compared by rank and arrival; no two have the same. Not for the collector to walk through:
    millions of them, none of which is reached from its element."""

    rank: float
    arrival: int
    element: Any


class Heap(Generic[K, T]):
    """See the module. `key_of` and `rank_of` say key and rank of an element; ranks are numbers."""

    def __init__(self, key_of: Callable[[T], K], rank_of: Callable[[T], float]) -> None:
        self._key_of = key_of
        self._rank_of = rank_of
        self._entries: dict[K, _Entry] = {}
        self._heap: list[_Entry] = []
        self._arrivals = count(1)
        self._lock = threading.RLock()
        self._closed = False

    # -- adding ------------------------------------------------------------------------------------

    def add(self, element: T) -> None:
        """Put an element; one that has its key is replaced."""
        with self._lock:
            self._require_open()
            entry = self._entry(element)
            self._entries[self._key_of(element)] = entry
            heapq.heappush(self._heap, entry)
            self._tidy()

    update = add

    def bulk_add(self, elements: Iterable[T]) -> None:
        """Put many at once: one pass, however many."""
        with self._lock:
            self._require_open()
            entries, key_of, rank_of = self._entries, self._key_of, self._rank_of
            for element, arrival in zip(elements, self._arrivals, strict=False):
                entries[key_of(element)] = _Entry(-rank_of(element), arrival, element)
            self._rebuild()

    def add_if_absent(self, element: T) -> bool:
        """Put an element unless one has its key; whether it was put."""
        with self._lock:
            self._require_open()
            if self._key_of(element) in self._entries:
                return False
            self.add(element)
            return True

    # -- removing ----------------------------------------------------------------------------------

    def delete(self, element: T) -> None:
        """Remove what has the element's key. Raises KeyError."""
        self.delete_key(self._key_of(element))

    def delete_key(self, key: K) -> None:
        """Remove what has the key. Raises KeyError."""
        with self._lock:
            self._require_open()
            del self._entries[key]
            self._tidy()

    def discard_key(self, key: K) -> None:
        """Remove what has the key, if there is one."""
        with self._lock:
            self._require_open()
            if self._entries.pop(key, None) is not None:
                self._tidy()

    def pop(self) -> T:
        """Remove the top; the element. Raises Empty."""
        with self._lock:
            element = self.peek()
            del self._entries[self._key_of(element)]
            self._tidy()
            return element

    # -- looking -----------------------------------------------------------------------------------

    def peek(self) -> T:
        """The top. Raises Empty."""
        with self._lock:
            self._require_open()
            if not self._heap:
                raise Empty("the heap has no element")
            top: T = self._heap[0].element
            return top

    def get(self, element: T) -> T | None:
        """What has the element's key, or None."""
        return self.get_key(self._key_of(element))

    def get_key(self, key: K) -> T | None:
        """What has the key, or None."""
        with self._lock:
            self._require_open()
            entry = self._entries.get(key)
            return None if entry is None else entry.element

    def items(self) -> list[T]:
        """Every element, in no order."""
        with self._lock:
            self._require_open()
            return [entry.element for entry in self._entries.values()]

    def keys(self) -> list[K]:
        """Every key, in no order."""
        with self._lock:
            self._require_open()
            return list(self._entries)

    def __len__(self) -> int:
        with self._lock:
            self._require_open()
            return len(self._entries)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Let everything go; nobody may use it any more."""
        with self._lock:
            self._closed = True
            self._entries.clear()
            self._heap.clear()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    # -- inside ------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise Closed("the heap is closed")

    def _entry(self, element: T) -> _Entry:
        return _Entry(-self._rank_of(element), next(self._arrivals), element)

    def _tidy(self) -> None:
        """A true top, and a list not longer than twice the truth."""
        heap, entries, key_of = self._heap, self._entries, self._key_of
        if len(heap) > 2 * len(entries) + _SPARE:
            self._rebuild()
            return
        while heap and entries.get(key_of(heap[0].element)) is not heap[0]:
            heapq.heappop(heap)

    def _rebuild(self) -> None:
        self._heap = list(self._entries.values())
        heapq.heapify(self._heap)
