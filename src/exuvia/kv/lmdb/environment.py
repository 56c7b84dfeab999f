"""The opened store: files, locks, LMDB's environment, and the only way to a write transaction.

    take DOOR -> any other member? no: record place / yes: compare -> become member -> release DOOR

New stores use LMDB's engine 1.0: its keys may have 1,978 bytes, those of the older engine 511, and
an index on a VARCHAR(255) needs a thousand. The store is opened once per process; a forked child
opens it again.

    open --disk error in a commit--> snapshots ended, closed, opened again, synced -> open
      |                                             ^                            | the disk fails
      |                                             `---- at the next use -------'
      |--another process exchanges the file (compact)--> closed --over--> opened again -> open
      `--data.mdb was removed, replaced or cut--> lost: every use raises Broken, for ever

Lost: this process has files that no other process sees, so its commits would be lost with it. It
stops at the next commit, or at the next check of the caretaker.

Settings are in the URL: `lmdb:///path?stall_s=5&map_bytes=1073741824`.
"""

import ctypes
import logging
import mmap
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import cast
from urllib.parse import parse_qsl

import lmdb

from exuvia.base import private_files
from exuvia.base.clock import Clock
from exuvia.base.errors import (
    Broken,
    ExuviaError,
    OutcomeUnknown,
    OutOfSpace,
    StorageFailed,
    Unavailable,
)
from exuvia.base.limits import DEFAULT_LEASE_S, SNAPSHOT_IDLE_S, SNAPSHOT_QUERY_S
from exuvia.kv.lmdb import process
from exuvia.kv.lmdb.gate import DOOR, HOSTS, MEMBERS, SWAPPER, Gate, LockFile
from exuvia.kv.lmdb.leaves import DataFile
from exuvia.kv.lmdb.native import (
    Reading,
    Writing,
    code_of,
    damaged,
    failed,
    is_closed,
    is_out_of_space,
    translate,
)


@dataclass(frozen=True)
class LmdbSettings:
    """Settings of a store. Times in seconds.

    `map_bytes`: limit of the data file (sparse: unused bytes cost nothing). The first process to
    open a store sets it for all, as long as one has it open.
    `stall_s`: a process whose write transaction makes no progress for this time is ended.
    `idle_s`, `query_s`: maximum time of a snapshot without use, and in total.
    `fallback_s`: interval of checks of a waiter without a wake-up.
    `readers`: maximum number of open snapshots in all processes: LMDB's reader table, 64 bytes
    each. The first process to open the store sets it for all.
    `sync=0`: for tests and temporary data; commits are not durable.
    `reserve_bytes`: free disk space that a backfill leaves for other work.
    `kept_bytes`: replaced data that a snapshot may retain in the file before it is ended.
    `id`: open only the store with this id, and create none.
    """

    map_bytes: int = 1 << 40
    stall_s: float = DEFAULT_LEASE_S
    idle_s: float = SNAPSHOT_IDLE_S
    query_s: float = SNAPSHOT_QUERY_S
    fallback_s: float = 1.0
    readers: int = 16_384
    sync: bool = True
    reserve_bytes: int = 64 << 20
    kept_bytes: int = 1 << 30
    id: str = ""

    @property
    def tick_s(self) -> float:
        """Interval of the caretaker. Unit: s."""
        return max(0.01, min(1.0, self.stall_s / 8, self.idle_s / 4, self.query_s / 4))


def client_share(readers: int, processes: int) -> int:
    """The number of snapshots that clients of one process may hold, for this number of processes.

    A quarter of the table is in no share, and processes without clients do not use theirs. These
    places are for the loops of all processes (heartbeats, schema changes, Spark's tasks), however
    many clients there are. Shares shrink when a process opens the store; a process keeps snapshots
    above its new share until they end."""
    return max(1, readers * 3 // 4 // processes)


def from_query(query: str) -> LmdbSettings:
    """Settings from a URL's query part. Raises Unavailable for an unknown name or wrong value."""
    types = {field.name: field.type for field in fields(LmdbSettings)}
    chosen: dict[str, int | float | bool | str] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in types:
            raise Unavailable(
                f"unknown setting {name!r} of the store; use one of {', '.join(types)}"
            )
        if types[name] in (str, "str"):
            chosen[name] = text
            continue
        try:
            chosen[name] = float(text) if types[name] in (float, "float") else int(text)
        except ValueError as error:
            raise Unavailable(f"the store's setting {name} is no number: {text!r}") from error
    return LmdbSettings(**chosen)  # type: ignore[arg-type]


# -- environment -----------------------------------------------------------------------------------

ENGINE = 1
OPEN_WAIT_S, OPEN_PAUSE_S = 10.0, 0.001
SWAP_WAIT_S = 30.0
READER_BYTES = 64
SEQUENCE_KEY = b"\x00sequence"
"""The key of the last commit sequence: 8 bytes, little-endian.

Keys below b"\\x01" are the engine's own."""

SMALL_BYTES = 1 << 20
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of linux/falloc.h
UNKNOWN = "its outcome is unknown; read the data to see whether it was applied"

_OWN_FILES = (
    *(".", "data.mdb", "lock.mdb", "locks", "notes", "swap", process.RECORD, "readers.json"),
    *("presence", "wake", "rowlocks", "rowlocks.wake"),
)
_opened: set[str] = set()
_parents: "list[Environment]" = []
"""Environments of the process that forked this one: they must not be closed here."""

log = logging.getLogger(__name__)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate64.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class SwapNumber:
    """The number of file exchanges; odd during one. Mapped by every process."""

    def __init__(self, path: str) -> None:
        file = private_files.opened(path)
        try:
            os.posix_fallocate(file, 0, 8)
            self._shared = mmap.mmap(file, 8)
        finally:
            os.close(file)

    def read(self) -> bytes:
        """The number as 8 bytes, little-endian."""
        return self._shared[:]

    def begin(self) -> None:
        """Set the next odd number."""
        now = int.from_bytes(self.read(), "little")
        self._shared[:] = (now + 1 + now % 2).to_bytes(8, "little")

    def end(self) -> None:
        """Set the even number after it."""
        self._shared[:] = (int.from_bytes(self.read(), "little") + 1).to_bytes(8, "little")


class _Turn:
    """One write transaction with its tenure of the gate; see Environment.write.

    A class, because each client commit enters one, and a generator takes twice as long."""

    __slots__ = ("_environment", "_transaction")

    def __init__(self, environment: "Environment") -> None:
        self._environment = environment

    def __enter__(self) -> Writing:
        environment = self._environment
        try:
            environment.gate.enter()
            self._transaction = environment.begin_write()
            environment.gate.has_begun()
        except BaseException as error:
            self._leave()
            if isinstance(error, lmdb.Error):
                raise translate(error, environment.data_path) from error
            raise
        return self._transaction

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        environment = self._environment
        try:
            if error is None:
                environment.commit(self._transaction)
                return
            self._transaction.abort()
            if isinstance(error, lmdb.Error):
                raise translate(error, environment.data_path) from error
        except lmdb.Error as failure:
            raise translate(failure, environment.data_path) from failure
        finally:
            self._leave()

    def _leave(self) -> None:
        gate = self._environment.gate
        if gate.inside:
            gate.leave()


class Environment:
    """The opened store of this process. Raises Unavailable with the reason if that fails.

    `embedded`: this process is a user's program, which others end only inside the gate."""

    def __init__(
        self, path: str, settings: LmdbSettings, clock: Clock, embedded: bool = False
    ) -> None:
        self.path = os.path.realpath(path)
        self.data_path = self.file("data.mdb")
        if settings.id:
            process.require_id(self.path, self.file(process.RECORD), settings.id)
        private_files.make_folder(self.path)
        self.settings = settings
        self._clock = clock
        self._is_open = False
        self.before_closing: Callable[[str], None] = lambda why: None
        self.lost = ""
        self.pages: DataFile | None = None
        """Reads whole pages of the open file (leaves.py)."""
        self._closed = False
        self._room_end = 0
        self._opening = threading.RLock()
        if self.path in _opened:
            raise Unavailable(f"the store {self.path} is already open in this process")
        process.require_local(self.path)
        self._tighten()
        self.locks = LockFile(self.file("locks"))
        try:
            with self._door():
                self.alone = self.locks.holder(MEMBERS, 1 << 32) is None
                map_bytes = self._agree()
                if not self.locks.try_take(MEMBERS + os.getpid()):
                    raise Unavailable(
                        f"the store {self.path} is open in another pid namespace (container)"
                    )
                if embedded:
                    self.locks.try_take(HOSTS + os.getpid())
                self.gate = Gate(self.locks, self.file("notes"), clock.monotonic)
                process.require_same_file(self.path, self._file())
                self._map_bytes = map_bytes
                self.swap = SwapNumber(self.file("swap"))
                self._swap_seen = self.swap.read()
                self.lmdb = self._open(may_make=True)
        except BaseException:
            self.locks.close()
            raise
        _opened.add(self.path)

    def file(self, name: str) -> str:
        """A path inside the store's folder."""
        return os.path.join(self.path, name)

    def _tighten(self) -> None:
        """Restrict files of a store of a release before 0.5.0, which other accounts could read."""
        is_older = os.path.exists(self.data_path)
        changed = private_files.tighten(map(self.file, _OWN_FILES))
        if changed and is_older:
            fields = {"store": self.path, "changed": [os.path.basename(path) for path in changed]}
            log.warning(
                "other accounts could read the store's files; their mode was restricted",
                extra=fields,
            )

    @contextmanager
    def _door(self) -> Iterator[None]:
        """Exclusive permission to open or exchange the store's file."""
        deadline, pause = self._clock.monotonic() + OPEN_WAIT_S, threading.Event()
        while not self.locks.try_take(DOOR):
            holder = self.locks.holder(DOOR)
            if holder and self._clock.monotonic() > deadline:
                raise Unavailable(f"process {holder[0]} has been opening {self.path} for too long")
            pause.wait(OPEN_PAUSE_S)
        try:
            yield
        finally:
            self.locks.release(DOOR)

    def _agree(self) -> int:
        """Record our place, or compare it with that of other members. Returns the map's size."""
        record = self.file(process.RECORD)
        recorded = process.read_place(record)
        fresh = recorded is None or not recorded.id or self._file() is None
        self.id = uuid.uuid4().hex if recorded is None or fresh else recorded.id
        ours = process.here(self.settings.map_bytes, self.id)
        if recorded is not None and recorded.format != ours.format:
            raise Unavailable(
                f"the store {self.path} has format {recorded.format}, not {ours.format}"
            )
        if not self.alone and recorded is not None:
            process.compare(self.path, recorded, ours)
            self.id = recorded.id
            return recorded.map_bytes
        if recorded != ours:
            process.record_place(record, ours)
        # Give the reader table real blocks, so that a full disk does not cause a bus error when it
        # is used
        file = private_files.opened(self.file("lock.mdb"))
        try:
            os.posix_fallocate(file, 0, (self.settings.readers + 8) * READER_BYTES)
        except OSError as error:
            raise Unavailable(f"no room to open the store {self.path}: {error}") from error
        finally:
            os.close(file)
        return ours.map_bytes

    def _open(self, may_make: bool = False) -> lmdb.Environment:
        data = self.data_path
        fresh = not os.path.exists(data) or os.path.getsize(data) == 0
        if fresh and not may_make:
            self._lose(f"{data} was removed while it was in use: this process stops; put it back")
        try:
            opened = lmdb.open(
                self.path,
                map_size=self._map_bytes,
                max_readers=self.settings.readers,
                max_spare_txns=1,
                mode=private_files.FILE,
                sync=self.settings.sync,
                metasync=self.settings.sync,
                lib_version=cast(int, ENGINE if fresh else None),
            )
        except (lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError) as error:
            raise Unavailable(damaged(data, str(error))) from error
        except (lmdb.Error, OSError) as error:
            raise Unavailable(f"cannot open the store {self.path}: {error}") from error
        status = os.stat(data)
        self._files = (status.st_dev, status.st_ino)
        self._bytes = status.st_size
        self._is_open = True
        self._sign = process.hang_sign(self.path, self._files)
        with suppress(OSError):
            page_bytes = opened.stat()["psize"]
            self.pages = DataFile(data, self._files, page_bytes, opened.info()["map_size"])
        return opened

    def _file(self) -> tuple[int, int] | None:
        """Device and inode of the data file, or None."""
        try:
            status = os.stat(self.data_path)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def shut(self) -> None:
        """End all snapshots and close the file; the next use opens it again."""
        with self._opening:
            if self._is_open:
                self.before_closing("the store's file is being exchanged; repeat the transaction")
                self._shut(self.lmdb)

    def _shut(self, opened: lmdb.Environment) -> None:
        self._is_open = False
        self.pages = None
        opened.close()
        self._sign.close()

    def orphan(self) -> None:
        """Abandon the environment in a forked child, because the files are the parent's.

        They stay open: closing one would release the locks that the child takes on the same file
        when it opens the store itself. Without a reference, py-lmdb frees an environment of another
        process without touching it; then the files can be opened again."""
        self._sign.close()
        self._is_open = False
        del self.lmdb
        _parents.append(self)
        _opened.discard(self.path)

    # -- checking the files ----------------------------------------------------------------------

    def look(self) -> None:
        """Raises Broken if the data file was removed, replaced or cut."""
        if self.lost:
            raise Broken(self.lost)
        if self._is_open and not self.is_swapped():  # else no file can be lost
            self._check_files()

    def _check_files(self) -> None:
        known_bytes = self._bytes  # read before the stat: another thread may see a larger file
        try:
            status = os.stat(self.data_path)
            file = (status.st_dev, status.st_ino)
        except FileNotFoundError:
            status, file = None, None
        if file != self._files:
            what = "was removed" if file is None else "was replaced by another file"
            self._lose(
                f"{self.data_path} {what} while it was open: this process has only the old file, "
                "where nothing would last, and stops; put the right file there and start it again"
            )
        elif status is not None and status.st_size < known_bytes:
            self._lose(
                f"{self.data_path} was cut from {known_bytes} to {status.st_size} bytes while it "
                "was open: this process stops; restore the last good copy"
            )
        elif status is not None:
            self._bytes = status.st_size

    def _lose(self, why: str) -> None:
        self.lost = why
        log.critical("the store's file is lost", extra={"reason": why})
        self.before_closing(why)
        raise Broken(why)

    # -- exchanging the file (see compact) --------------------------------------------------------

    def is_swapped(self) -> bool:
        """Whether the open file is, or may be, no longer the store's."""
        return self.swap.read() != self._swap_seen

    def _swap_is_under_way(self) -> bool:
        return bool(self.swap.read()[0] & 1) and self.locks.holder(SWAPPER) is not None

    def yield_to_swap(self) -> bool:
        """Close the file if another process waits for that. Returns whether it exchanges it."""
        if not self.is_swapped() or not self._swap_is_under_way():
            return False
        self.shut()
        return True

    def follow_swap(self) -> None:
        """Wait for the end of the exchange and open the new file. Raises Unavailable."""
        if not self.is_swapped():
            return
        deadline, pause = self._clock.monotonic() + SWAP_WAIT_S, threading.Event()
        with self._opening:
            while self.yield_to_swap():
                if self._clock.monotonic() > deadline:
                    raise Unavailable("the store's file is being exchanged; try again later")
                pause.wait(OPEN_PAUSE_S)
            if not self.is_swapped():
                return
            self.shut()
            with self._door():  # prevents an exchange while it is opened
                number = self.swap.read()
                folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(folder)  # the exchanging process may have been killed before that
                finally:
                    os.close(folder)
                self.lmdb = self._open()
                self._swap_seen = number
            self._room_end = 0

    # -- room ------------------------------------------------------------------------------------

    def keep_room(self) -> None:
        """Reserve blocks after the last page for small commits (heartbeats, notes of jobs).

        They then work even if other files have filled the disk."""
        end = (self.lmdb.info()["last_pgno"] + 1) * self.lmdb.stat()["psize"]
        if not self.settings.sync or self._room_end - end > SMALL_BYTES // 2:
            return
        file = os.open(self.data_path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if _libc.fallocate64(file, _KEEP_SIZE, end, SMALL_BYTES) == 0:
                self._room_end = end + SMALL_BYTES
        finally:
            os.close(file)

    def free_bytes(self) -> int:
        """Free bytes of the file's disk that ordinary users may fill."""
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def require_room(self) -> None:
        """Raises OutOfSpace if the disk has less than the reserve for small writes."""
        free, reserve = self.free_bytes(), self.settings.reserve_bytes
        if free < reserve:
            raise OutOfSpace(
                f"Disk full ({self.path}: {free} bytes are free; large writes leave {reserve} to "
                "clients); nothing was applied; free some space"
            )

    # -- opening again ---------------------------------------------------------------------------

    def reopen(self, failed_environment: lmdb.Environment, why: str) -> None:
        """Open the failed environment again, unless another thread did; all snapshots end.

        Raises Unavailable if it cannot be opened and synced; the next use tries again."""
        with self._opening:
            self.follow_swap()
            if self.lmdb is not failed_environment:
                return
            if self._closed:
                raise Unavailable("the store is closed")
            if self.lost:
                raise Broken(self.lost)
            log.warning("the store is opened again", extra={"reason": why})
            self.before_closing(f"the store was opened again: {why}")
            if self._is_open:
                self._shut(failed_environment)
            self._check_files()
            with self._door():
                opened = self._open()
            try:
                opened.sync(True)  # LMDB restored the old meta page after the failed write
            except lmdb.Error as error:
                self._shut(opened)
                raise StorageFailed(failed(self.data_path, code_of(error))) from error
            self.lmdb = opened

    # -- transactions ----------------------------------------------------------------------------

    @property
    def readers(self) -> int:
        """Maximum number of open read transactions in all processes, set by the first of them."""
        return int(self.lmdb.info()["max_readers"])

    def read(self) -> Reading:
        """A read transaction, to be ended by the caller. Raises Unavailable at the limit."""
        if self.lost or self.swap.read() != self._swap_seen:
            return self._begin(write=False)
        try:
            transaction: Reading = self.lmdb.begin()  # type: ignore[assignment]
            return transaction
        except lmdb.Error:
            return self._begin(write=False)

    def _begin(self, write: bool) -> Reading | Writing:
        """A transaction; if the environment has failed, it is opened again first."""
        if self.lost:
            raise Broken(self.lost)
        for last in (False, True):
            if self.is_swapped():
                self.follow_swap()
            opened = self.lmdb
            try:
                return cast(Writing, opened.begin(write=write))
            except lmdb.ReadersFullError as error:
                if last:
                    raise translate(error, self.data_path) from error
                opened.reader_check()
            except lmdb.Error as error:
                again = is_closed(error) or isinstance(error, lmdb.PanicError)
                if last or not again:
                    raise translate(error, self.data_path) from error
                self.reopen(opened, str(error))
        raise Unavailable("the store does not open")

    def write(self) -> "_Turn":
        """A context: a transaction through the gate, committed at its end, aborted by an error.

        Only one thread of a process may enter at a time (see committer)."""
        return _Turn(self)

    def begin_write(self) -> Writing:
        """The write transaction, if the file is still the store's; the caller has the gate."""
        if self.swap.read() != self._swap_seen:
            self.follow_swap()
        self.look()
        try:
            transaction: Writing = self.lmdb.begin(write=True)  # type: ignore[assignment]
            return transaction
        except lmdb.Error:
            return cast(Writing, self._begin(write=True))

    def commit(self, transaction: Writing) -> None:
        """Commit durably. After a failure, raises an error that states the outcome."""
        opened, number = self.lmdb, transaction.id()
        try:
            transaction.commit()
        except lmdb.Error as error:
            raise self._judge(error, opened, number) from error

    def _judge(self, error: lmdb.Error, opened: lmdb.Environment, number: int) -> ExuviaError:
        """The outcome of transaction `number` after an error of its commit."""
        if is_out_of_space(error) and not _gave_up(opened):
            return translate(error, self.data_path)
        reason = failed(self.data_path, code_of(error))
        try:
            self.reopen(opened, reason)
            applied = self.lmdb.info()["last_txnid"] >= number
        except (ExuviaError, lmdb.Error, OSError) as second:
            log.error("the store does not open again", extra={"reason": str(second)})
            return OutcomeUnknown(f"{reason}; {UNKNOWN}")
        if applied:
            return OutcomeUnknown(f"{reason}; {UNKNOWN}")
        if is_out_of_space(error):
            return OutOfSpace(f"Disk full ({reason}); nothing was applied; free some space")
        return StorageFailed(f"{reason}; nothing was applied")

    def close(self) -> None:
        """Leave the store. No transaction may be open; new ones are refused."""
        with self._opening:
            self._closed = True
            if self._is_open:
                self._shut(self.lmdb)
        self.locks.close()
        _opened.discard(self.path)


def _gave_up(opened: lmdb.Environment) -> bool:
    """Whether LMDB refuses all work in this environment."""
    try:
        opened.begin().abort()
    except lmdb.Error:
        return True
    return False
