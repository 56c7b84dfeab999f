"""The opened store: files, locks, LMDB's environment, and the one way to a write transaction.

    DOOR taken -> am I alone? yes: record where we are / no: compare -> a member -> DOOR given back

LMDB's engine 1.0 is chosen for new stores: its keys may be 1,978 bytes long, the older one's 511,
and an index on a VARCHAR(255) needs a thousand. Opened once per process; a forked child opens it
anew.

    open --a commit met an error of the disk--> snapshots ended, closed, opened anew, synced -> open
      |                                             ^                            | the disk fails
      |                                             `---- at the next use -------'
      |--another process exchanges the file (compact)--> closed --over--> opened anew -> open
      `--data.mdb is not at its path any more, or was cut--> lost: every use is Broken, for ever

Lost: whoever removed or replaced the files left this process with files that nobody else sees. What
it acknowledged there would be gone with it, so it stops at the first commit, or look of the
caretaker, after that.

Settings stand in the URL: `lmdb:///path?stall_s=5&map_bytes=1073741824`.
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
    """All times in seconds.

    `map_bytes` bounds the data file (sparse: it costs nothing until used); the first process to
    open a store sets it for all, as long as one has it open. `stall_s` is how long one write
    transaction of another process may last before that process is ended. `idle_s` and `query_s`
    are how long a snapshot lives unused, and at all. `fallback_s` is how often a waiter looks
    although nobody woke it. `readers` is how many snapshots all processes together can have open:
    LMDB's table of readers, 64 bytes each, which whoever opens the store first makes for all.
    `sync=0` is for tests and throw-away data: commits are not durable.
    `reserve_bytes`: what a fill leaves free on the disk, for everything else.
    `kept_bytes`: how much replaced data a snapshot may keep in the file before it is ended.
    `id`: only the store that was made under it is opened, and none is made.
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
        """How often the caretaker looks around."""
        return max(0.01, min(1.0, self.stall_s / 8, self.idle_s / 4, self.query_s / 4))


def client_share(readers: int, processes: int) -> int:
    """How many snapshots the clients of one process may hold open, where so many have the store.

    A quarter of the table is nobody's share, and neither is what a process without clients leaves:
    the loops of every process live on it (heartbeats, schema changes, Spark's tasks), so they find
    a place however many clients there are. A share shrinks when a process comes; who has more then
    keeps it until it ends."""
    return max(1, readers * 3 // 4 // processes)


def from_query(query: str) -> LmdbSettings:
    """Settings from a URL's query part. Raises Unavailable for a name or value that is none."""
    known = {field.name: field.type for field in fields(LmdbSettings)}
    chosen: dict[str, int | float | bool | str] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise Unavailable(f"the store knows no setting {name!r}; it knows {', '.join(known)}")
        if known[name] in (str, "str"):
            chosen[name] = text
            continue
        try:
            chosen[name] = float(text) if known[name] in (float, "float") else int(text)
        except ValueError as error:
            raise Unavailable(f"the store's setting {name} is no number: {text!r}") from error
    return LmdbSettings(**chosen)  # type: ignore[arg-type]


# -- environment -----------------------------------------------------------------------------------

ENGINE = 1
OPEN_WAIT_S, OPEN_PAUSE_S = 10.0, 0.001
SWAP_WAIT_S = 30.0
READER_BYTES = 64
SEQUENCE_KEY = b"\x00sequence"
"""Where the last commit sequence stands:

8 bytes, little-endian. Keys below b"\\x01" are the engine's own."""

SMALL_BYTES = 1 << 20
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of linux/falloc.h
UNKNOWN = "nobody knows whether it was applied; read and see"

_OWN_FILES = (
    *(".", "data.mdb", "lock.mdb", "locks", "notes", "swap", process.RECORD, "readers.json"),
    *("presence", "wake", "rowlocks", "rowlocks.wake"),
)
_opened: set[str] = set()
_parents: "list[Environment]" = []
"""Those of the process that forked this one: never to be closed here."""

log = logging.getLogger(__name__)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate64.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class SwapNumber:
    """Counts exchanges of the data file; odd while one is under way. Mapped by every process."""

    def __init__(self, path: str) -> None:
        file = private_files.opened(path)
        try:
            os.posix_fallocate(file, 0, 8)
            self._shared = mmap.mmap(file, 8)
        finally:
            os.close(file)

    def read(self) -> bytes:
        """8 bytes, little-endian."""
        return self._shared[:]

    def begin(self) -> None:
        """The next odd number."""
        now = int.from_bytes(self.read(), "little")
        self._shared[:] = (now + 1 + now % 2).to_bytes(8, "little")

    def end(self) -> None:
        """The even number after it."""
        self._shared[:] = (int.from_bytes(self.read(), "little") + 1).to_bytes(8, "little")


class _Turn:
    """One write transaction with its tenure of the gate; see Environment.write.

    A class, since each commit of a client enters one: a generator takes twice as long."""

    __slots__ = ("_environment", "_transaction")

    def __init__(self, environment: "Environment") -> None:
        self._environment = environment

    def __enter__(self) -> Writing:
        environment = self._environment
        try:
            environment.gate.enter()
            self._transaction = environment.begin_write()
            environment.gate.begun()
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
    """Raises Unavailable where the store cannot be opened from here; the text says why.

    `embedded`: this process is somebody's program, which others end only inside the gate."""

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
        """What reads whole pages of the open file (leaves.py)."""
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
        """Be the only process that opens, or exchanges, the store's file."""
        deadline, pause = self._clock.monotonic() + OPEN_WAIT_S, threading.Event()
        while not self.locks.try_take(DOOR):
            held = self.locks.holder(DOOR)
            if held and self._clock.monotonic() > deadline:
                raise Unavailable(f"process {held[0]} has been opening {self.path} for too long")
            pause.wait(OPEN_PAUSE_S)
        try:
            yield
        finally:
            self.locks.release(DOOR)

    def _agree(self) -> int:
        """Record or compare where we are; the size of the map."""
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
        # Give the reader table real blocks: a full disk must not become a bus error when it is
        # touched
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
        """Device and inode of the data file; None if there is none."""
        try:
            status = os.stat(self.data_path)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def shut(self) -> None:
        """End all snapshots and close the file; the next use opens it anew."""
        with self._opening:
            if self._is_open:
                self.before_closing("the store's file is being exchanged; begin again")
                self._shut(self.lmdb)

    def _shut(self, opened: lmdb.Environment) -> None:
        self._is_open = False
        self.pages = None
        opened.close()
        self._sign.close()

    def orphan(self) -> None:
        """In a forked child: the files are the parent's. They stay open here, for closing one would
        give up the locks that the child takes on the same file when it opens the store itself.
        py-lmdb lets an environment of another process go without touching it, and opens the files
        once none is left."""
        self._sign.close()
        self._is_open = False
        del self.lmdb
        _parents.append(self)
        _opened.discard(self.path)

    # -- the files are still ours ----------------------------------------------------------------

    def look(self) -> None:
        """Raises Broken once the data file is not the one that was opened, or was cut."""
        if self.lost:
            raise Broken(self.lost)
        if self._is_open and not self.is_swapped():  # else there is nothing that could be lost
            self._check_files()

    def _check_files(self) -> None:
        known = self._bytes  # before the look: another thread may have seen it larger since
        try:
            status = os.stat(self.data_path)
            found = (status.st_dev, status.st_ino)
        except FileNotFoundError:
            status, found = None, None
        if found != self._files:
            what = "was removed" if found is None else "was replaced by another file"
            self._lose(
                f"{self.data_path} {what} while it was open: this process has only the old file, "
                "where nothing would last, and stops; put the right file there and start it again"
            )
        elif status is not None and status.st_size < known:
            self._lose(
                f"{self.data_path} was cut from {known} to {status.st_size} bytes while it "
                "was open: this process stops; restore the last good copy"
            )
        elif status is not None:
            self._bytes = status.st_size

    def _lose(self, why: str) -> None:
        self.lost = why
        log.critical("the store's file is lost", extra={"reason": why})
        self.before_closing(why)
        raise Broken(why)

    # -- the file is exchanged (see compact) ------------------------------------------------------

    def is_swapped(self) -> bool:
        """Whether the file that this process has open is, or may be, no longer the store's."""
        return self.swap.read() != self._swap_seen

    def _swap_is_under_way(self) -> bool:
        return bool(self.swap.read()[0] & 1) and self.locks.holder(SWAPPER) is not None

    def yield_to_swap(self) -> bool:
        """Close the file if another process waits for that. Whether an exchange is under way."""
        if not self.is_swapped() or not self._swap_is_under_way():
            return False
        self.shut()
        return True

    def follow_swap(self) -> None:
        """Wait for the exchange to be over, and open what is there. Raises Unavailable."""
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
            with self._door():  # no exchange begins while it is opened
                seen = self.swap.read()
                folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(folder)  # who exchanged it may have been killed before it did that
                finally:
                    os.close(folder)
                self.lmdb = self._open()
                self._swap_seen = seen
            self._room_end = 0

    # -- room ------------------------------------------------------------------------------------

    def keep_room(self) -> None:
        """Blocks behind the last page, so that small commits (heartbeats, the notes of jobs) go on
        when something else has filled the disk."""
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
        """Of the disk that the file is on, as far as ordinary users may fill it."""
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def require_room(self) -> None:
        """Raises OutOfSpace while the disk has less than what large writes leave to small ones."""
        free, kept = self.free_bytes(), self.settings.reserve_bytes
        if free < kept:
            raise OutOfSpace(
                f"Disk full ({self.path}: {free} bytes are free; large writes leave {kept} to "
                "clients); nothing was applied; free some space"
            )

    # -- opened anew -----------------------------------------------------------------------------

    def reopen(self, seen: lmdb.Environment, why: str) -> None:
        """Open anew what failed, unless another thread has done it; all snapshots end.

        Raises Unavailable while it cannot be opened and synced; the next use tries again."""
        with self._opening:
            self.follow_swap()
            if self.lmdb is not seen:
                return
            if self._closed:
                raise Unavailable("the store is closed")
            if self.lost:
                raise Broken(self.lost)
            log.warning("the store is opened anew", extra={"reason": why})
            self.before_closing(f"the store was opened anew: {why}")
            if self._is_open:
                self._shut(seen)
            self._check_files()
            with self._door():
                opened = self._open()
            try:
                opened.sync(True)  # LMDB put the old meta page back where writing it failed
            except lmdb.Error as error:
                self._shut(opened)
                raise StorageFailed(failed(self.data_path, code_of(error))) from error
            self.lmdb = opened

    # -- transactions ----------------------------------------------------------------------------

    @property
    def readers(self) -> int:
        """How many read transactions all processes can have open: as the first of them said."""
        return int(self.lmdb.info()["max_readers"])

    def read(self) -> Reading:
        """A read transaction. The caller ends it. Raises Unavailable when there are too many."""
        if self.lost or self.swap.read() != self._swap_seen:
            return self._begin(write=False)
        try:
            found: Reading = self.lmdb.begin()  # type: ignore[assignment]
            return found
        except lmdb.Error:
            return self._begin(write=False)

    def _begin(self, write: bool) -> Reading | Writing:
        """A transaction; where the environment has failed, of one that is opened anew."""
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

        Threads of one process exclude each other before they come here (see committer)."""
        return _Turn(self)

    def begin_write(self) -> Writing:
        """The write transaction, once the gate is ours and the file is seen to be the store's."""
        if self.swap.read() != self._swap_seen:
            self.follow_swap()
        self.look()
        try:
            found: Writing = self.lmdb.begin(write=True)  # type: ignore[assignment]
            return found
        except lmdb.Error:
            return cast(Writing, self._begin(write=True))

    def commit(self, transaction: Writing) -> None:
        """Durably. Raises what is known of it if that fails."""
        opened, number = self.lmdb, transaction.id()
        try:
            transaction.commit()
        except lmdb.Error as error:
            raise self._judge(error, opened, number) from error

    def _judge(self, error: lmdb.Error, opened: lmdb.Environment, number: int) -> ExuviaError:
        """What is known of transaction `number` after the error of its commit (see failures)."""
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
        """Leave the store. No transaction may be open; who begins one now is refused."""
        with self._opening:
            self._closed = True
            if self._is_open:
                self._shut(self.lmdb)
        self.locks.close()
        _opened.discard(self.path)


def _gave_up(opened: lmdb.Environment) -> bool:
    """Whether LMDB will do nothing more in this environment."""
    try:
        opened.begin().abort()
    except lmdb.Error:
        return True
    return False
