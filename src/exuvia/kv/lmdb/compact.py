"""Compacting the store's file: as a copy, or in its place.

`copy`   an online copy of the committed state, without free pages. The store does not change.
`Swap`   such a copy replaces the file, while all processes continue to run:

    1  gate taken                  writers of all processes wait; readers continue
    2  copied, synced, compared    data.mdb.compact, next to the file
    3  DOOR taken, number odd      no process opens the store; each one that sees the odd number
                                   ends its snapshots, closes the file and waits
    4  all have closed             the kernel shows no lock on lock.mdb
    5  renamed, folder synced      the decisive step
    6  number even, all released   the next use opens the new file

The number (`swap`, 8 bytes that every process has mapped) is checked before each transaction. This
must be strict: a reader of the old file would not see commits to the new one. LMDB's shared table
of readers and transactions also belongs to one file.

After a crash the kernel releases gate, DOOR and SWAPPER. An odd number without a swapper means that
the swap is over, with or without the rename. A process that sees this syncs the folder and opens
the present file. Before step 5 that is the old file, which some may never have closed; after it
all had closed. A process that does not close in time (stopped, in a debugger) ends the swap at step
4 with its pid; then nothing has changed.
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
    """Write a compact copy, a complete data file, into an empty folder. Returns its bytes."""
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
    """The expected wait of writers for a swap: the data at this disk's probed speed. Unit: s."""
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
    """A swap by this process, which has the store open. `at` is called at each step: for tests.

    Raises Unavailable if it is not possible now; then nothing has changed."""

    def __init__(self, environment: Environment, at: At = lambda step: None) -> None:
        self._environment = environment
        self._at = at
        self._draft = environment.file(DRAFT)
        self._pause = threading.Event()

    def run(self) -> tuple[int, int]:
        """Returns (bytes before, bytes after). Afterwards the environment stays closed."""
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
        """Show progress, so that waiting writers do not take this long tenure for a hanging one."""
        while not done.wait(MOVES_EVERY_S):
            self._environment.gate.progress()

    def _run(self) -> tuple[int, int]:
        environment = self._environment
        environment.look()
        with suppress(FileNotFoundError):
            os.unlink(self._draft)
        self._at("writers stopped")
        environment.lmdb.begin(write=True).abort()
        environment.gate.has_begun()
        _write_copy(environment.lmdb, self._draft)
        # Check that the copy opens, and has the same number of entries and the same sequence
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
                while (holder := lock_file.holder(0, 0)) is not None:
                    if time.monotonic() > deadline:
                        raise Unavailable(
                            f"process {holder[0]} does not close the store's file (is it stopped?)"
                            ": nothing was changed"
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
