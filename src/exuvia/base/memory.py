"""Memory of a statement. It is claimed before it is used, so that a quota holds.

    Tracker.passing    values that exist while an expression is evaluated
    Tracker.kept       rows, constants and vectors; a session's user variables (`base`)

A function claims the length of a long text before it makes the text. When an expression has its
value, it releases the claims of its arguments (sql/evaluate/compile.py), so `passing` counts live
values only. Code that collects rows adds their size to `kept`. A value shorter than LONG is counted
only as part of its row.

A claim beyond the quota (tidb_mem_quota_query) raises 8175. A claim also raises what ends the
statement, so KILL ends a row of many long values between two of them.

Units: bytes, as `sys.getsizeof` measures them.
"""

import ctypes
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from sys import getsizeof
from typing import Any, Protocol

from exuvia.base.mysql_errors import ErrMemoryExceedForQuery

LONG = 1 << 14
"""Shorter values are not claimed one by one."""
ROW_BYTES, VALUE_BYTES = 72, 40
"""The size of a row's list, and of a value other than text, as measured in CPython 3.11."""
_NODE_BYTES = 64  # the size of one part of a JSON document in Python
_UNLIMITED = sys.maxsize


class Ends(Protocol):
    """A statement; `reason` is the error that ends it, None while nothing does."""

    reason: Exception | None


class Tracker:
    """Memory of one session's statement. Only the thread that runs the statement writes here."""

    __slots__ = (
        "_statement",
        "base",
        "connection_id",
        "kept",
        "limit",
        "memories",
        "passing",
        "peak",
        "quota",
    )

    def __init__(self, statement: Ends) -> None:
        self._statement = statement
        self.quota: Callable[[], int] = int  # bytes; 0: no limit
        self.connection_id = 0
        self.base = 0
        self.passing = 0
        self.kept = 0
        self.peak = 0
        self.memories: list[dict[Any, Any]] = []  # values computed once for the statement
        self.limit = 0  # read from the quota by the first claim

    def start(self) -> None:
        """A statement begins."""
        self.passing = self.limit = self.peak = 0
        self.kept = self.base

    def end(self) -> None:
        """The statement is over. Its constants are dropped, though garbage may refer to them until
        it is collected; its rows are not: they are still to be sent."""
        self.passing = 0
        for memory in self.memories:
            memory.clear()
        self.memories.clear()

    def rest(self) -> bool:
        """Its rows have been sent. Whether the process had better `give_back` what they took."""
        was_large = self.peak > _GIVEN_BACK
        self.passing, self.kept, self.peak = 0, self.base, 0
        return was_large

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self.passing + self.kept

    @property
    def left(self) -> int:
        """Bytes that may still be claimed."""
        if not self.limit:
            self.limit = self.quota() or _UNLIMITED
        return max(0, self.limit - self.used)

    def claim(self, size: int) -> None:
        """Claim bytes for a value. Raises 8175, and what ends the statement."""
        self.passing += size
        self._check()

    def keep(self, size: int) -> None:
        """Claim bytes that stay claimed while other values come and go. Raises as `claim`."""
        self.kept += size
        self._check()

    def _check(self) -> None:
        if self._statement.reason is not None:
            raise self._statement.reason
        used = self.passing + self.kept
        if used > self.limit:
            if not self.limit:
                self.limit = self.quota() or _UNLIMITED
            if used > self.limit:
                raise self.exceeded()
        if used > self.peak:
            self.peak = used

    def exceeded(self) -> Exception:
        """The error of a statement that needs more than its quota (8175)."""
        return ErrMemoryExceedForQuery(self.connection_id)


_GIVEN_BACK = 32 << 20
_libc: Any = None


def give_back() -> None:
    """Return free memory of this process to the system. Takes milliseconds, without the
    interpreter's lock."""
    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None)
    with suppress(AttributeError):  # a C library other than glibc
        _libc.malloc_trim(0)


def release_frames(error: BaseException) -> None:
    """Drop the values of the calls that an error ended, and of those that ended its causes. They
    refer to each other, so a statement's rows would stay until garbage is collected."""
    visited: set[int] = set()
    causes: list[BaseException | None] = [error]
    for cause in causes:
        if cause is not None and id(cause) not in visited:
            visited.add(id(cause))
            traceback.clear_frames(cause.__traceback__)
            causes += (cause.__cause__, cause.__context__)


def quota_of(variable: Callable[[str], str]) -> int:
    """Bytes that a query may use (tidb_mem_quota_query), 0 without a limit; `variable` gives the
    text of a system variable. tidb_mem_oom_action = 'LOG' lets every query go on."""
    if variable("tidb_mem_oom_action").upper() == "LOG":
        return 0
    return max(0, int(variable("tidb_mem_quota_query")))


def size_of(value: Any) -> int:
    """Bytes of a long text or of long bytes; 0 for any other value."""
    if (value.__class__ is str or value.__class__ is bytes) and len(value) > LONG:
        return getsizeof(value)
    return 0


def size_of_document(text: Any) -> int:
    """Bytes of the document that a long JSON text is read into, with the text made of it again."""
    if text.__class__ is not str or len(text) <= LONG:
        return 0
    parts = text.count(",") + text.count("[") + text.count("{")
    return 2 * getsizeof(text) + parts * _NODE_BYTES


def size_of_rows(rows: Sequence[Sequence[Any]], texts: Iterable[int]) -> int:
    """Bytes of rows; `texts`: the positions of values whose length differs."""
    if not rows:
        return 0
    total = len(rows) * (ROW_BYTES + VALUE_BYTES * len(rows[0]))
    for position in texts:
        total += sum([getsizeof(row[position]) for row in rows])
    return total
