"""A fresh snapshot whose first read meets a page that is being overwritten is taken again."""

from pathlib import Path

import lmdb
import pytest

from exuvia.base.errors import Broken
from exuvia.kv.store import open_store


class Overwritten:
    """A read transaction on a root that is none any more."""

    ended = 0

    def id(self) -> int:
        """A number that no reader had before."""
        return -1

    def get(self, key: bytes) -> bytes:
        raise lmdb.CorruptedError("Located page was wrong type")

    def abort(self) -> None:
        Overwritten.ended += 1


@pytest.mark.parametrize("bad", [1, 3])
def test_the_next_snapshot_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int):
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    txn = store.begin()
    txn.put(b"k", b"v")
    txn.commit()
    environment = store.environment
    honest, left = environment.read, [Overwritten() for _ in range(bad)]
    monkeypatch.setattr(Overwritten, "ended", 0)
    monkeypatch.setattr(environment, "read", lambda: left.pop() if left else honest())
    txn = store.begin()
    assert txn.get(b"k") == b"v"
    txn.rollback()
    assert Overwritten.ended == bad, "each was ended: none stays a reader"
    store.close()


def test_a_file_that_stays_wrong_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    with monkeypatch.context() as patch:
        patch.setattr(store.environment, "read", Overwritten)
        with pytest.raises(Broken):
            store.begin()
    store.close()
