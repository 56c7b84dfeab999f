"""LMDB's transactions and cursors as used here: in bytes mode, on the one unnamed database.

(A memoryview per row is six times slower than bytes; py-lmdb's own types allow for both.)

The translation of LMDB's errors, by the known state of their transaction:

    where                        state                                error raised
    in the transaction           LMDB drops it: nothing applied       OutOfSpace, StorageFailed
    commit: pages, fdatasync     the meta page still names the        OutOfSpace, StorageFailed
                                 former state: nothing applied
    commit: meta page            LMDB gives its environment up        StorageFailed if the file,
                                 (PANIC); the disk has the old        opened again and synced, has
                                 meta page, the new, or a torn one    the former state, else
                                                                      OutcomeUnknown

A failed fdatasync drops dirty pages and reports that once (Linux; fsync(2)), so later commits must
not use the same environment. It is opened again and synced; its content then is the true state
(environment.py). Lack of space is an exception: it is common, and it occurs while pages are
written. LMDB never refers to pages of a failed transaction, so readers can continue.

A damaged page that LMDB's own checks find raises Broken, with instructions. A page that the disk
cannot read, or a file that is cut while it is mapped, causes a bus error and ends the process.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, overload

import lmdb

from exuvia.base.errors import Broken, ExuviaError, OutOfSpace, StorageFailed, Unavailable
from exuvia.base.mysql_errors import ErrRecordFileFull


class Cursor(Protocol):
    """A position; see py-lmdb's Cursor."""

    def __enter__(self) -> "Cursor": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def set_range(self, key: bytes) -> bool:
        """Go to the first key at or after `key`. Without such a key: False, and no position."""

    def key(self) -> bytes: ...

    def prev(self) -> bool:
        """Go to the previous key."""

    def last(self) -> bool:
        """Go to the last key."""

    @overload
    def iternext(self) -> Iterator[tuple[bytes, bytes]]: ...

    @overload
    def iternext(self, keys: bool, values: bool) -> Iterator[bytes]: ...

    def iterprev(self) -> Iterator[tuple[bytes, bytes]]: ...

    def getmulti(self, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """The pairs of the keys that exist."""

    def putmulti(
        self, items: Iterable[tuple[bytes, bytes]], overwrite: bool = True
    ) -> tuple[int, int]:
        """Returns (items seen, items added)."""


class Reading(Protocol):
    """A read transaction."""

    def get(self, key: bytes) -> bytes | None:
        """The value of the key, or None."""

    def cursor(self) -> Cursor:
        """A cursor that ends with the transaction."""

    def id(self) -> int:
        """LMDB's number of the transaction; for a reader, that of the last commit it sees."""

    def abort(self) -> None: ...


class Writing(Reading, Protocol):
    """The write transaction."""

    def commit(self) -> None: ...

    def delete(self, key: bytes) -> bool:
        """Remove the key if it is present."""


# -- failures --------------------------------------------------------------------------------------

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SHORT_WRITE = -30772  # LMDB's own code: it has no class in py-lmdb
_DAMAGED = (
    lmdb.CorruptedError,
    lmdb.CursorFullError,
    lmdb.InvalidError,
    lmdb.PageFullError,
    lmdb.PageNotFoundError,
    lmdb.ProblemError,
)
_MISUSED = (lmdb.BadTxnError, lmdb.BadValsizeError)


def code_of(error: lmdb.Error) -> int:
    """The system's errno (positive) or LMDB's own code (negative); 0 without a code."""
    return int(getattr(error, "code", 0) or 0)


def is_closed(error: lmdb.Error) -> bool:
    """Whether another thread closed the transaction or its environment."""
    return type(error) is lmdb.Error and "closed/deleted/dropped" in str(error)


def is_out_of_space(error: lmdb.Error) -> bool:
    """Whether room was missing: on the disk, in the map, or for one more dirty page."""
    full = isinstance(error, lmdb.MapFullError | lmdb.TxnFullError)
    return full or code_of(error) in (*NO_ROOM, SHORT_WRITE)


def translate(error: lmdb.Error, path: str) -> ExuviaError:
    """The error to raise instead of LMDB's, which is its cause. `path`: the data file."""
    code = code_of(error)
    if isinstance(error, lmdb.MapFullError | lmdb.TxnFullError):
        text = f"the store {path} has reached its bound: raise map_bytes, or remove data"
        return OutOfSpace(text, ErrRecordFileFull.code)
    if is_out_of_space(error):
        reason = os.strerror(code) if code > 0 else "fewer bytes were written than asked for"
        text = f"Disk full ({path}: {reason}); nothing was applied; free some space"
        return OutOfSpace(text)
    if isinstance(error, lmdb.ReadersFullError):
        return Unavailable("too many snapshots are open in the store at once")
    if is_closed(error):
        return Unavailable("the store was opened again; repeat the transaction")
    if isinstance(error, _DAMAGED):
        return Broken(damaged(path, str(error)))
    if isinstance(error, _MISUSED):
        return Broken(f"the store {path} was used wrongly: {error}")
    if code > 0:
        return StorageFailed(failed(path, code) + "; nothing was applied")
    return Unavailable(f"the store {path} does not answer: {error}")


def failed(path: str, code: int) -> str:
    """The system's error for the file, in the form of MySQL's 1026."""
    return f"Error writing file '{path}' (errno: {code} - {os.strerror(code)})"


def damaged(path: str, problem: str) -> str:
    """The error text for a damaged file, with instructions."""
    return (
        f"the store's file {path} is damaged ({problem}): stop all nodes, keep this file, check "
        "the disk, and restore the last good copy; tables that do not touch the damaged pages can "
        "still be read and dumped"
    )
