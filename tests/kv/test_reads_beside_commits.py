"""A key that is there in a snapshot is found in it, whatever is committed while it is read."""

from collections.abc import Callable, Iterator

import pytest

from exuvia.kv.memory import MemoryStore

KEY = b"t/k"


class ShortenedMeanwhile(tuple[tuple[int, bytes | None], ...]):
    """A key's versions; while they are read a commit drops those that nobody needs any more."""

    drop: Callable[[], None]

    def __reversed__(self) -> Iterator[tuple[int, bytes | None]]:
        type(self).drop()
        return iter(self[::-1])


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

    def drop() -> None:
        oldest.close()
        put(store, b"meanwhile")

    ShortenedMeanwhile.drop = staticmethod(drop)
    held = len(store._versions[KEY])
    store._versions[KEY] = ShortenedMeanwhile(store._versions[KEY])
    found = view.get(KEY)
    assert found is not None
    assert found.endswith(b"three")
    if later:
        assert len(store._versions[KEY]) < held + 1, "nothing was dropped while it was read"
    view.close()
