"""Errors and behaviour of a store whose disk fails, also for the next commits."""

import errno
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from exuvia.base.errors import Broken, OutOfSpace, StorageFailed, Unavailable
from exuvia.kv import keys as k
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.store import open_store
from support.kv_children import hear, start, stop
from support.store_faults import Faults

APPLIED_IS_KNOWN = "nothing was applied"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    opened = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store"))
    yield opened
    opened.close()


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path)


def put(store: LmdbStore, key: bytes = b"tk", payload: bytes = b"1") -> None:
    txn = store.begin()
    txn.put(key, payload)
    txn.commit()


def get(store: LmdbStore, key: bytes = b"tk") -> bytes | None:
    txn = store.begin()
    try:
        return txn.get(key)
    finally:
        txn.rollback()


def remove(folder: str) -> None:
    """Remove the folder in one step: a process with the open store may create files in it."""
    os.rename(folder, f"{folder}.removed")
    shutil.rmtree(f"{folder}.removed", ignore_errors=True)


# -- errors of writes and syncs ------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_an_error_at_any_call_of_a_commit_is_reported_and_the_next_commit_works(
    tmp_path: Path, faults: Faults, error: int
) -> None:
    """The calls of a commit write the pages, sync them and write the meta page."""
    with faults.preloaded():
        child = start("commit_under_faults", f"lmdb://{tmp_path}/store", error)
    output = [line.split(" | ") for line in iter(lambda: hear(child), "end")]
    stop(child)
    assert len(output) >= 3
    kind, code = {
        errno.EIO: ("StorageFailed", "errno: 5 - Input/output error"),
        errno.ENOSPC: ("OutOfSpace", "Disk full"),
    }[error]
    for number, raised, text, applied, afterwards in output:
        assert raised == kind, number
        assert code in text
        assert APPLIED_IS_KNOWN in text
        assert "retry" not in text
        assert (applied, afterwards) == ("absent", "written"), number


def test_while_the_disk_fails_the_outcome_is_unknown_and_later_the_store_opens(
    tmp_path: Path, faults: Faults
) -> None:
    with faults.preloaded():
        child = start("commit_and_stay_failed", f"lmdb://{tmp_path}/store", errno.EIO)
    raised, text = hear(child).split(" | ")
    assert raised == "OutcomeUnknown"
    assert "its outcome is unknown; read the data to see whether it was applied" in text
    assert "retry" not in text
    assert hear(child).startswith("StorageFailed | Error writing file")
    assert hear(child) == "healed: absent, written"
    stop(child)


def test_after_a_disk_error_earlier_snapshots_are_not_readable(
    tmp_path: Path, faults: Faults
) -> None:
    with faults.preloaded():
        child = start("read_across_a_failure", f"lmdb://{tmp_path}/store")
    assert re.match("Unavailable . the store was opened again: Error writing file", hear(child))
    assert hear(child) == "fresh: before"
    stop(child)


def test_all_callers_of_a_group_get_the_same_disk_error_without_a_retry(
    tmp_path: Path, faults: Faults
) -> None:
    with faults.preloaded():
        child = start("commit_together_under_faults", f"lmdb://{tmp_path}/store")
    assert hear(child) == "StorageFailed StorageFailed StorageFailed StorageFailed"
    assert hear(child) == "0"
    stop(child)


# -- files that were removed ---------------------------------------------------------------------


def test_after_the_folder_is_removed_nothing_is_acknowledged(store: LmdbStore) -> None:
    put(store)
    reader = store.begin()
    remove(store.environment.path)
    with pytest.raises(Broken, match=r"data\.mdb was removed while it was open.*stops"):
        put(store)
    with pytest.raises(Broken, match="was removed"):
        get(store)
    with pytest.raises(Unavailable, match="was removed"):
        reader.get(b"tk")
    with pytest.raises(Broken, match="was removed"):
        store.counter("job")


@pytest.mark.parametrize("how", ["replaced", "moved", "cut"])
def test_the_caretaker_detects_replaced_files(store: LmdbStore, tmp_path: Path, how: str) -> None:
    put(store)
    store.environment.look()
    noticed = threading.Event()
    store.environment.before_closing = lambda why: noticed.set()
    data = Path(store.environment.data_path)
    if how == "replaced":
        shutil.copy(data, tmp_path / "copy")
        os.replace(tmp_path / "copy", data)
    elif how == "moved":
        data.parent.rename(tmp_path / "elsewhere")
    else:
        os.truncate(data, 4096 * 2)
    assert noticed.wait(10)
    with pytest.raises(Broken, match=r"data\.mdb was (replaced|removed|cut)"):
        put(store)


def test_a_path_whose_removed_store_is_still_open_is_refused(
    store: LmdbStore,
) -> None:
    path = store.environment.path
    remove(path)
    child = start("open_there", f"lmdb://{path}")
    output = hear(child)
    stop(child)
    assert output.startswith("Unavailable: ")
    assert f"process {os.getpid()} still has the former files of {path} open" in output
    store.close()
    child = start("open_there", f"lmdb://{path}")
    assert hear(child) == "opened"
    stop(child)


# -- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("pages", [(0,), (1,), (0, 1)])
def test_a_zeroed_meta_page_is_reported_with_instructions(
    tmp_path: Path, pages: tuple[int, ...]
) -> None:
    store = open_store(f"lmdb://{tmp_path}/store")
    store.close()
    data = tmp_path / "store" / "data.mdb"
    with data.open("r+b") as file:
        for page in pages:
            file.seek(4096 * page)
            file.write(bytes(4096))
    with pytest.raises(Unavailable, match=r"data\.mdb is damaged .*stop all nodes.*restore"):
        open_store(f"lmdb://{tmp_path}/store")


@pytest.mark.parametrize("harm", ["zeroed", "flipped"])
def test_a_damaged_data_page_is_reported_or_ends_the_process_without_a_traceback(
    tmp_path: Path, harm: str
) -> None:
    url = f"lmdb://{tmp_path}/store"
    opened = cast(LmdbStore, open_store(url))
    opened.bulk([b"t" + k.number(n) for n in range(4000)], b"x" * 100)
    opened.close()
    data = tmp_path / "store" / "data.mdb"
    whole = data.read_bytes()
    output = []
    for page in range(2, len(whole) // 4096, 23):
        harmed = bytearray(whole)
        for at in range(4096 * page, 4096 * page + (4096 if harm == "zeroed" else 40)):
            harmed[at] = 0 if harm == "zeroed" else harmed[at] ^ 0xFF
        data.write_bytes(harmed)
        child = start("read_all", url)
        line = hear(child)
        output.append(line or f"ended by signal {-child.wait(20)}")
        stop(child)
    assert len(output) >= 5
    damaged = re.compile(r"Broken . the store's file \S+data\.mdb is damaged \(.*stop all nodes")
    endings = {"whole", *(f"ended by signal {n}" for n in (signal.SIGABRT, signal.SIGBUS))}
    assert all(line in endings or damaged.match(line) for line in output), output


def test_out_of_space_and_storage_failed_can_be_pickled() -> None:
    import pickle

    for error in (OutOfSpace("full", 1114), StorageFailed("bad")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert getattr(again, "code", 0) == getattr(error, "code", 0)
