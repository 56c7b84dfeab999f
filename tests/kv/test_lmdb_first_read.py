"""A new snapshot is begun again if its first read meets a page that is being overwritten."""

from pathlib import Path

import lmdb
import pytest

from exuvia.base.errors import Broken
from exuvia.kv.store import open_store


class Overwritten:
    """A read transaction whose root is no longer valid."""

    ended = 0

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
    honest, bad_reads = environment.read, [Overwritten() for _ in range(bad)]
    monkeypatch.setattr(Overwritten, "ended", 0)
    monkeypatch.setattr(environment, "read", lambda: bad_reads.pop() if bad_reads else honest())
    txn = store.begin()
    assert txn.get(b"k") == b"v"
    txn.rollback()
    assert Overwritten.ended == bad, "each was ended: none stays a reader"
    store.close()


def test_a_root_that_stays_wrong_raises_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    with monkeypatch.context() as patch:
        patch.setattr(store.environment, "read", Overwritten)
        with pytest.raises(Broken):
            store.begin()
    store.close()
