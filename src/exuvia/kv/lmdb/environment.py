"""The opened store: files, locks, LMDB's environment, and the one way to a write transaction.

    DOOR taken -> am I alone? yes: record where we are / no: compare -> a member -> DOOR given back

LMDB's engine 1.0 is chosen for new stores: its keys may be 1,978 bytes long, the older one's 511,
and an index on a VARCHAR(255) needs a thousand. Opened once per process, never across fork."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import lmdb

from exuvia.base.clock import Clock
from exuvia.base.errors import Unavailable
from exuvia.kv.lmdb import locality
from exuvia.kv.lmdb.failures import translate
from exuvia.kv.lmdb.gate import Gate
from exuvia.kv.lmdb.locks import DOOR, MEMBERS, LockFile
from exuvia.kv.lmdb.native import Reading, Writing
from exuvia.kv.lmdb.settings import LmdbSettings

ENGINE = 1
OPEN_WAIT_S, OPEN_PAUSE_S = 10.0, 0.001
READER_BYTES = 64
SEQUENCE_KEY = b"\x00sequence"
"""Where the last commit sequence stands:

8 bytes, little-endian. Keys below b"\\x01" are the engine's own."""

_opened: set[str] = set()


class Environment:
    """Raises Unavailable where the store cannot be opened from here; the text says why."""

    def __init__(self, path: str, settings: LmdbSettings, clock: Clock) -> None:
        os.makedirs(path, exist_ok=True)
        self.path = os.path.realpath(path)
        self.settings = settings
        if self.path in _opened:
            raise Unavailable(
                f"the store {self.path} is already open in this process or its parent"
            )
        locality.require_local(self.path)
        self.locks = LockFile(self.file("locks"))
        try:
            self._enter(clock)
        except BaseException:
            self.locks.close()
            raise
        _opened.add(self.path)

    def file(self, name: str) -> str:
        """A path inside the store's folder."""
        return os.path.join(self.path, name)

    def _enter(self, clock: Clock) -> None:
        deadline, pause = clock.monotonic() + OPEN_WAIT_S, threading.Event()
        while not self.locks.try_take(DOOR):
            held = self.locks.holder(DOOR)
            if held and clock.monotonic() > deadline:
                raise Unavailable(f"process {held[0]} has been opening {self.path} for too long")
            pause.wait(OPEN_PAUSE_S)
        try:
            self.alone = self.locks.holder(MEMBERS, 1 << 32) is None
            map_bytes = self._agree()
            if not self.locks.try_take(MEMBERS + os.getpid()):
                raise Unavailable(
                    f"the store {self.path} is open in another pid namespace (container)"
                )
            self.gate = Gate(self.locks, self.file("notes"))
            self.lmdb = self._open(map_bytes)
        finally:
            self.locks.release(DOOR)

    def _agree(self) -> int:
        """Record or compare where we are; the size of the map."""
        record = self.file("environment.json")
        recorded = locality.read_place(record)
        ours = locality.here(self.settings.map_bytes)
        if recorded is not None and recorded.format != ours.format:
            raise Unavailable(
                f"the store {self.path} has format {recorded.format}, not {ours.format}"
            )
        if not self.alone and recorded is not None:
            locality.compare(self.path, recorded, ours)
            return recorded.map_bytes
        if recorded != ours:
            locality.record_place(record, ours)
        self._reserve_readers()
        return ours.map_bytes

    def _reserve_readers(self) -> None:
        """Give the reader table real blocks:

        a full disk must not become a bus error when it is touched."""
        file = os.open(self.file("lock.mdb"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(file, 0, (self.settings.readers + 8) * READER_BYTES)
        except OSError as error:
            raise Unavailable(f"no room to open the store {self.path}: {error}") from error
        finally:
            os.close(file)

    def _open(self, map_bytes: int) -> lmdb.Environment:
        data = self.file("data.mdb")
        fresh = not os.path.exists(data) or os.path.getsize(data) == 0
        try:
            return lmdb.open(
                self.path,
                map_size=map_bytes,
                max_readers=self.settings.readers,
                max_spare_txns=1,
                sync=self.settings.sync,
                metasync=self.settings.sync,
                lib_version=cast(int, ENGINE if fresh else None),
            )
        except (lmdb.Error, OSError) as error:
            raise Unavailable(f"cannot open the store {self.path}: {error}") from error

    def read(self) -> Reading:
        """A read transaction. The caller ends it. Raises Unavailable when there are too many."""
        try:
            return cast(Reading, self.lmdb.begin())
        except lmdb.ReadersFullError:
            self.lmdb.reader_check()
        except lmdb.Error as error:
            raise translate(error) from error
        try:
            return cast(Reading, self.lmdb.begin())
        except lmdb.Error as error:
            raise translate(error) from error

    @contextmanager
    def write(self) -> Iterator[Writing]:
        """The write transaction, through the gate; committed at the end, aborted by an error.

        Threads of one process exclude each other before they come here (see committer)."""
        self.gate.enter()
        try:
            with self.lmdb.begin(write=True) as transaction:
                yield cast(Writing, transaction)
        except lmdb.Error as error:
            raise translate(error) from error
        finally:
            self.gate.leave()

    def close(self) -> None:
        """Leave the store. No transaction may be open."""
        self.lmdb.close()
        self.gate.close()
        self.locks.close()
        _opened.discard(self.path)
