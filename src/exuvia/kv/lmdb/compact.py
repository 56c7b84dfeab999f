"""The store's file made small again: as a copy, or in its place.

`copy`   an online copy of what is committed, without free pages. The store itself stays as it is.
`Swap`   the same copy takes the file's place, while all processes go on running:

    1  gate taken                  writers of all processes wait; readers read on
    2  copied, synced, compared    data.mdb.compact, beside the file
    3  DOOR taken, number odd      nobody opens the store; who sees the odd number ends its
                                   snapshots, closes the file and waits
    4  all have closed             the kernel tells: nobody has a lock on lock.mdb
    5  renamed, folder synced      the one step that counts
    6  number even, all given back who wants to read or write opens the file anew

The number (`swap`, 8 bytes that every process has mapped) is looked at before each transaction. It
has to be so strict because a reader of the old file would not see what is committed to the new one,
and because LMDB's shared table of readers and transactions belongs to one file.

A crash at any point: the kernel gives gate, DOOR and SWAPPER back. An odd number whose swapper is
gone means that it is over, as a rename happened or did not: whoever sees it syncs the folder and
opens what is there. Before step 5 that is the old file, and some may never have closed it; after it
everybody had. A process that does not close in time (stopped, in a debugger) ends the swap at step
4, with its pid; nothing was changed.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import lmdb

from exuvia.base import private_files
from exuvia.base.errors import Broken, Unavailable
from exuvia.kv.lmdb.environment import SEQUENCE_KEY, Environment
from exuvia.kv.lmdb.gate import DOOR, SWAPPER, LockFile
from exuvia.kv.lmdb.pages import pages_of

DRAFT = "data.mdb.compact"
CLOSE_WAIT_S = 15.0
PAUSE_S = 0.02
MOVES_EVERY_S = 0.5
PROBE_BYTES = 32 << 20

At = Callable[[str], None]


def copy(opened: lmdb.Environment, folder: str) -> int:
    """Write a compact copy, a whole store's data file, into an empty folder; its bytes."""
    private_files.make_folder(folder)
    if os.listdir(folder):
        raise Unavailable(f"{folder} is not empty: a copy needs a folder of its own")
    path = os.path.join(folder, "data.mdb")
    _write_copy(opened, path)
    sync_folder(folder)
    return os.path.getsize(path)


def _write_copy(opened: lmdb.Environment, path: str) -> None:
    file = private_files.opened(path, os.O_EXCL)
    try:
        opened.copyfd(file, compact=True)
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(folder: str) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def estimate_s(environment: Environment) -> float:
    """How long writers will wait for a swap: the data at the speed of a probe on this disk."""
    pages = pages_of(environment.lmdb)
    path = environment.file(DRAFT + ".probe")
    began = time.monotonic()
    with open(path, "wb", opener=private_files.opener) as file:
        file.writelines(os.urandom(1 << 20) for _ in range(PROBE_BYTES >> 20))
        file.flush()
        os.fsync(file.fileno())
    os.unlink(path)
    took_s = time.monotonic() - began
    return 1.0 + took_s * pages.used * pages.size / PROBE_BYTES


class Swap:
    """One swap by this process, which has the store open. `at` is told each step: tests kill there.

    Raises Unavailable where it cannot be done now; then nothing has changed."""

    def __init__(self, environment: Environment, at: At = lambda step: None) -> None:
        self._environment = environment
        self._at = at
        self._draft = environment.file(DRAFT)
        self._pause = threading.Event()

    def run(self) -> tuple[int, int]:
        """(bytes before, bytes after). The environment is closed for good afterwards."""
        environment = self._environment
        gate, locks = environment.gate, environment.locks
        if not locks.try_take(SWAPPER):
            raise Unavailable(f"process {locks.holder(SWAPPER)} compacts this store already")
        gate.enter()
        done = threading.Event()
        moves = threading.Thread(target=self._move, args=(done,), daemon=True)
        moves.start()
        try:
            return self._run()
        finally:
            done.set()
            moves.join()
            with suppress(FileNotFoundError):
                os.unlink(self._draft)
            gate.leave()
            locks.release(SWAPPER)

    def _move(self, done: threading.Event) -> None:
        """Waiting writers must not take this long tenure for a hanging one."""
        while not done.wait(MOVES_EVERY_S):
            self._environment.gate.progress()

    def _run(self) -> tuple[int, int]:
        environment = self._environment
        environment.look()
        with suppress(FileNotFoundError):
            os.unlink(self._draft)
        self._at("writers stopped")
        environment.lmdb.begin(write=True).abort()
        environment.gate.begun()
        _write_copy(environment.lmdb, self._draft)
        # The copy opens, and has as many entries and the same sequence
        copied = lmdb.open(self._draft, subdir=False, readonly=True, lock=False)
        try:
            with copied.begin() as new, environment.lmdb.begin() as old:
                same = new.stat()["entries"] == old.stat()["entries"]
                if not same or new.get(SEQUENCE_KEY) != old.get(SEQUENCE_KEY):
                    raise Broken("the copy is not the store: nothing was changed")
        finally:
            copied.close()
        self._at("copied")
        before = os.path.getsize(environment.data_path)
        if not self._take_door():
            raise Unavailable("another process has been opening the store for too long")
        try:
            self._exchange()
        finally:
            environment.locks.release(DOOR)
        return before, os.path.getsize(environment.data_path)

    def _take_door(self) -> bool:
        deadline = time.monotonic() + CLOSE_WAIT_S
        while not self._environment.locks.try_take(DOOR):
            if time.monotonic() > deadline:
                return False
            self._pause.wait(PAUSE_S)
        return True

    def _exchange(self) -> None:
        environment = self._environment
        environment.swap.begin()
        self._at("all were asked to close")
        environment.shut()
        try:
            lock_file = LockFile(environment.file("lock.mdb"))
            try:
                deadline = time.monotonic() + CLOSE_WAIT_S
                while (held := lock_file.holder(0, 0)) is not None:
                    if time.monotonic() > deadline:
                        raise Unavailable(
                            f"process {held[0]} does not let the store's file go (is it stopped?): "
                            "nothing was changed"
                        )
                    self._pause.wait(PAUSE_S)
            finally:
                lock_file.close()
            self._at("all have closed")
            os.replace(self._draft, environment.data_path)
            self._at("renamed")
            sync_folder(environment.path)
        finally:
            environment.swap.end()
        self._at("over")
