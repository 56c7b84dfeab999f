"""A key of a snapshot is found although commits drop old versions during the read."""

from collections.abc import Callable, Iterator

import pytest

from exuvia.kv.memory import MemoryStore

KEY = b"t/k"


class ShortenedMeanwhile(tuple[tuple[int, bytes | None], ...]):
    """A key's versions; during a read a commit drops those that no snapshot needs."""

    drop: Callable[[], None]

    def __reversed__(self) -> Iterator[tuple[int, bytes | None]]:
        type(self).drop()
        return iter(self[::-1])


def put(store: MemoryStore, payload: bytes) -> None:
    txn = store.begin()
    txn.put(KEY, payload)
    txn.commit()


@pytest.mark.parametrize("later", [0, 1])
def test_versions_dropped_while_a_key_is_read_do_not_change_the_result(later: int) -> None:
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
    versions_before = len(store._versions[KEY])
    store._versions[KEY] = ShortenedMeanwhile(store._versions[KEY])
    raw = view.get(KEY)
    assert raw is not None
    assert raw.endswith(b"three")
    if later:
        assert len(store._versions[KEY]) < versions_before + 1, "no version was dropped"
    view.close()
