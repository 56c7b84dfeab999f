"""LMDB's transactions and cursors as used here: in bytes mode, on the one unnamed database.

(A memoryview a row is six times slower than bytes; py-lmdb's own types allow for both.)
"""

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, overload


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
        """Go to the first key at or after; False (and nowhere) if there is none."""

    def key(self) -> bytes: ...

    def prev(self) -> bool:
        """Go to the key before."""

    def last(self) -> bool:
        """Go to the last key."""

    @overload
    def iternext(self) -> Iterator[tuple[bytes, bytes]]: ...

    @overload
    def iternext(self, keys: bool, values: bool) -> Iterator[bytes]: ...

    def iterprev(self) -> Iterator[tuple[bytes, bytes]]: ...

    def getmulti(self, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """Those that are there."""

    def putmulti(
        self, items: Iterable[tuple[bytes, bytes]], overwrite: bool = True
    ) -> tuple[int, int]:
        """(items seen, items added)."""


class Reading(Protocol):
    """A read transaction."""

    def get(self, key: bytes) -> bytes | None:
        """The value at the key."""

    def cursor(self) -> Cursor:
        """A cursor that ends with the transaction."""

    def id(self) -> int:
        """LMDB's number of it: of a reader that of the last commit it sees."""

    def abort(self) -> None: ...


class Writing(Reading, Protocol):
    """The write transaction."""

    def commit(self) -> None: ...

    def delete(self, key: bytes) -> bool:
        """Remove a key if it is there."""
