"""A key that is there in a snapshot is found in it, whatever is committed while it is read."""

from collections.abc import Iterator

import pytest

from exuvia.kv.memory import MemoryStore

KEY = b"t/k"


class ShortenedMeanwhile(list[tuple[int, bytes | None]]):
    """A key's versions; those that nobody needs any more are dropped once a read has begun."""

    def __reversed__(self) -> Iterator[tuple[int, bytes | None]]:
        found = super().__reversed__()
        del self[:2]
        return found


def put(store: MemoryStore, payload: bytes) -> None:
    txn = store.begin()
    txn.put(KEY, payload)
    txn.commit()


@pytest.mark.parametrize("later", [0, 1])
def test_versions_that_are_dropped_while_a_key_is_read(later: int) -> None:
    store = MemoryStore()
    put(store, b"one")
    oldest = store.snapshot()
    put(store, b"two")
    put(store, b"three")
    view = store.snapshot()
    for _ in range(later):
        put(store, b"later")
    store._versions[KEY] = ShortenedMeanwhile(store._versions[KEY])
    found = view.get(KEY)
    assert found is not None
    assert found.endswith(b"three")
    oldest.close()
    view.close()
